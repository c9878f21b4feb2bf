//! The pool: its parts, what is left of it, and for whom.

use super::super::super::colour;
use super::super::super::panel::{Lines, Number, Panel, Shelf};
use super::super::super::query::of;
use crate::catalog::links::Panel as Place;
use crate::catalog::metrics::{
    CUDA_BLIND_BYTES, CUDA_FREE_BYTES, MEMORY_COMPACTIONS_TOTAL, POOL_AVAILABLE_BYTES,
    POOL_AVAILABLE_MIN_BYTES, POOL_COMFORT_BYTES, POOL_CONTIGUOUS_FREE_BYTES,
    POOL_EXHAUSTION_SECONDS, POOL_FALL_MAX_BYTES, POOL_FLUSHABLE_BYTES, POOL_FREE_BYTES,
    POOL_FREE_MIN_BYTES, POOL_HEADROOM_BYTES, POOL_IDLE_REMAINDER_BYTES, POOL_PINNED_BYTES,
    POOL_RESERVE_BYTES, POOL_SEGMENT_BYTES, POOL_SIZE_BYTES, POOL_UNACCOUNTED_BYTES,
    POOL_USED_BYTES, SWAP_FREE_BYTES, SWAP_SIZE_BYTES,
};
use crate::model::pool::{Reader, Segment, Window};
use crate::model::sharing::Holder;

/// The parts, those that are in use from the bottom up and what is free on top.
pub(in crate::grafana) fn parts() -> Panel {
    drawn(&[
        ("unaccounted (GPU)", &[Segment::Unaccounted]),
        ("programs", &[Segment::Anonymous]),
        ("shared", &[Segment::Shared]),
        ("huge pages", &[Segment::HugePages]),
        ("compressed swap", &[Segment::Compressed]),
        ("slab, kept", &[Segment::SlabUnreclaimable]),
        ("kernel", &[Segment::Kernel]),
        ("slab, reclaimable", &[Segment::SlabReclaimable]),
        ("page cache", &[Segment::PageCache]),
        ("free", &[Segment::Free]),
    ])
}

/// The same with what is seldom large in one part, for a legend that is read at a glance.
pub(in crate::grafana) fn main_parts() -> Panel {
    drawn(&[
        ("unaccounted (GPU)", &[Segment::Unaccounted]),
        ("programs", &[Segment::Anonymous]),
        ("shared", &[Segment::Shared]),
        (
            "kernel and others",
            &[
                Segment::Kernel,
                Segment::SlabUnreclaimable,
                Segment::SlabReclaimable,
                Segment::HugePages,
                Segment::Compressed,
            ],
        ),
        ("page cache", &[Segment::PageCache]),
        ("free", &[Segment::Free]),
    ])
}

/// Parts from the bottom up, each in the colour of its first segment.
fn drawn(parts: &[(&str, &[Segment])]) -> Panel {
    let lines = Lines { stacked: true, beside: true, ..Lines::default() };
    let mut panel = Panel::lines(Number::Linked(Place::PoolParts), "What holds the pool", lines)
        .says(
            "The pool in parts that add up to its size exactly. The GPU's memory is in no counter of the kernel \
             and shows as unaccounted. Page cache gives way to programs, but not to CUDA's free figure. Full is \
             normal; the part above the reserve line is what counts.",
        )
        .when_empty("the box does not answer")
        .wide(12)
        .digits(1);
    for (legend, segments) in parts {
        let names: Vec<&str> = segments.iter().map(|segment| segment.as_str()).collect();
        let part = match names.as_slice() {
            [only] => of(&POOL_SEGMENT_BYTES).is("segment", only),
            several => of(&POOL_SEGMENT_BYTES).matching("segment", &several.join("|")),
        };
        let colour = segments.first().map_or(colour::GREY, |first| colour::segment(*first));
        panel = panel.draws(part.sum(&[]), legend, colour);
    }
    let size = of(&POOL_SIZE_BYTES).sum(&[]);
    let reserve = of(&POOL_RESERVE_BYTES).sum(&[]);
    panel.compares(size.clone(), "size", colour::RATED).compares(
        size.less(&reserve),
        "reserve from here",
        colour::LIMIT,
    )
}

/// What is left, and the least that was left between two scrapes.
pub(super) fn headroom() -> Panel {
    let of_reader = |reader: Reader| of(&POOL_HEADROOM_BYTES).is("reader", reader.as_str());
    let minute = Window::OneMinute.as_str();
    let least = of(&POOL_AVAILABLE_MIN_BYTES).is("window", minute).min(&[]);
    let reserve = of(&POOL_RESERVE_BYTES).min(&[]);
    let lines = Lines { floating: true, beside: true, ..Lines::default() };
    Panel::lines(Number::Linked(Place::Headroom), "Headroom above the reserve", lines)
        .says(
            "What is left above the reserve, by the figure that a reader goes by: available (newer vLLM, \
             llama.cpp) and free (CUDA itself). The least of the last minute shows falls between two scrapes. \
             Below 0 the reserve is broken into. Under the mark of comfort is normal on a full box.",
        )
        .when_empty("the box does not answer")
        .wide(12)
        .digits(1)
        .draws(least.less(&reserve), "available, least of 1 min", colour::ORANGE)
        .draws(of_reader(Reader::Available).min(&[]), "available", colour::AVAILABLE)
        .draws(of_reader(Reader::Free).min(&[]), "free (CUDA)", colour::FREE)
        .compares(of(&POOL_COMFORT_BYTES).min(&[]), "comfort", colour::RATED)
        .compares(reserve.clone().less(&reserve), "reserve", colour::LIMIT)
}

pub(super) fn shelves() -> Vec<Shelf> {
    vec![
        Shelf::Title("Pool"),
        Shelf::Panels(8, vec![free_and_available(), fragmentation(), falls()]),
        Shelf::Panels(8, vec![holders(), minima(), exhaustion()]),
    ]
}

fn free_and_available() -> Panel {
    let place = Number::Linked(Place::FreeAndAvailable);
    Panel::lines(place, "Free beside available", Lines::default())
        .says(
            "MemFree, which CUDA goes by, beside MemAvailable, which newer engines go by. The gap is room that \
             is there and that CUDA does not see, nearly all of it page cache: after a large file was read tens \
             of GiB are normal. A flush between two runs returns about the flushable part.",
        )
        .when_empty("the box does not answer")
        .wide(8)
        .draws(of(&POOL_AVAILABLE_BYTES).sum(&[]), "available", colour::AVAILABLE)
        .draws(of(&POOL_FREE_BYTES).sum(&[]), "free", colour::FREE)
        .draws(of(&CUDA_BLIND_BYTES).sum(&[]), "gap: CUDA does not see it", colour::ORANGE)
        .compares(of(&POOL_FLUSHABLE_BYTES).sum(&[]), "flushable", colour::CACHE)
        .compares(of(&CUDA_FREE_BYTES).sum(&[]), "CUDA free", colour::GPU)
        .compares(of(&POOL_USED_BYTES).sum(&[]), "used", colour::RATED)
}

fn fragmentation() -> Panel {
    let failed = of(&MEMORY_COMPACTIONS_TOTAL).is("result", "failure").rate().sum(&[]);
    Panel::lines(Number::Linked(Place::Fragmentation), "Free in large blocks", Lines::default())
        .says(
            "Free memory in contiguous blocks of at least each size. The driver needs large ones, so loads fail \
             with memory free when these are gone. Soon after boot they are nearly all of free; that they \
             shrink over days is normal while several GiB stay. A kernel with pages of 4 KiB has none above 4 MiB.",
        )
        .when_empty("the box does not answer, or the kernel tells no blocks")
        .wide(8)
        .coloured(vec![
            (r"/^2MiB/".to_owned(), colour::SKY),
            (r"/^4MiB/".to_owned(), colour::BLUE),
            (r"/^16MiB/".to_owned(), colour::ORANGE),
            (r"/^32MiB/".to_owned(), colour::YELLOW),
        ])
        .shows(of(&POOL_CONTIGUOUS_FREE_BYTES).sum(&["block"]), "{{block}} and more")
        .compares(of(&POOL_FREE_BYTES).sum(&[]), "free", colour::FREE)
        .marks(failed, "compactions that fail", colour::VERMILION)
}

fn falls() -> Panel {
    let fall = |window: Window| of(&POOL_FALL_MAX_BYTES).is("window", window.as_str()).max(&[]);
    Panel::lines(Number::Own(120), "Largest fall within 10 s", Lines::default())
        .says(
            "The largest fall of available memory within ten seconds, seen every second, by window. Loads make \
             falls of tens of GiB. In service a few hundred MiB are normal; what counts is whether one more of \
             the same size fits above the reserve.",
        )
        .when_empty("the box does not answer")
        .wide(8)
        .draws(fall(Window::FifteenMinutes), "15 min", colour::BLUE)
        .draws(fall(Window::FiveMinutes), "5 min", colour::SKY)
        .draws(fall(Window::OneMinute), "1 min", colour::ORANGE)
}

fn holders() -> Panel {
    let held = |holder: Holder| of(&POOL_UNACCOUNTED_BYTES).is("holder", holder.as_str()).sum(&[]);
    let lines = Lines { stacked: true, ..Lines::default() };
    Panel::lines(Number::Own(121), "Who holds the unaccounted part", lines)
        .says(
            "What no counter of the kernel claims, by who holds it: processes by the driver's own figures, the \
             driver's page pools (drivers from 590.44 on, only with evidence), nobody that is known. 1 to 3 GiB of unknown are normal on an idle box.",
        )
        .when_empty("no GPU that shares the pool, or its processes cannot be seen")
        .wide(8)
        .draws(held(Holder::GpuProcesses), "GPU processes", colour::GPU)
        .draws(held(Holder::PagePools), "page pools", colour::SKY)
        .draws(held(Holder::Unknown), "unknown", colour::GREY)
        .compares(of(&POOL_IDLE_REMAINDER_BYTES).sum(&[]), "unknown when idle", colour::BLUE)
}

fn minima() -> Panel {
    let available = |w: Window| of(&POOL_AVAILABLE_MIN_BYTES).is("window", w.as_str()).min(&[]);
    let free = |w: Window| of(&POOL_FREE_MIN_BYTES).is("window", w.as_str()).min(&[]);
    Panel::lines(Number::Own(122), "Least within windows", Lines::default())
        .says(
            "The least available and free memory of the last minutes, seen every second: a collapse of ten \
             seconds stays visible for a quarter of an hour. Close to the lines of now is normal.",
        )
        .when_empty("the box does not answer")
        .wide(8)
        .draws(available(Window::OneMinute), "available, 1 min", colour::AVAILABLE)
        .draws(available(Window::FiveMinutes), "available, 5 min", colour::SKY)
        .draws(available(Window::FifteenMinutes), "available, 15 min", colour::ORANGE)
        .draws(free(Window::FifteenMinutes), "free, 15 min", colour::FREE)
        .compares(of(&POOL_RESERVE_BYTES).min(&[]), "reserve", colour::LIMIT)
}

fn exhaustion() -> Panel {
    Panel::lines(Number::Own(123), "Time until the reserve is reached", Lines::default())
        .says(
            "Time until available memory reaches the reserve at the present slope. Told only while it falls and \
             less is left than pool.exhaustion_level; empty is normal. Below a minute act at once.",
        )
        .when_empty("memory is not running out")
        .wide(8)
        .draws(of(&POOL_EXHAUSTION_SECONDS).min(&[]), "to the reserve", colour::LIMIT)
}

/// What reclaim may not touch.
pub(super) fn pinned() -> Panel {
    let swapped = of(&SWAP_SIZE_BYTES).sum(&[]).less(&of(&SWAP_FREE_BYTES).sum(&[]));
    Panel::lines(Number::Own(124), "Pinned and swapped", Lines::default())
        .says(
            "Pages that reclaim may not touch, and what is in swap. The kinds overlap. Some ten MiB pinned and some hundred swapped are normal; more is a program \
             that locks memory, and memory that a driver pins for its device is not among it.",
        )
        .when_empty("the box does not answer")
        .wide(8)
        .coloured(vec![
            ("/^mlocked/".to_owned(), colour::ORANGE),
            ("/^unevictable/".to_owned(), colour::BLUE),
        ])
        .shows(of(&POOL_PINNED_BYTES).sum(&["kind"]), "{{kind}}")
        .draws(swapped, "in swap", colour::PURPLE)
}
