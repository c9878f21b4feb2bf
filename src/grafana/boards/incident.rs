//! The last quarter of an hour on one screen, for who was just paged.

use super::super::colour::{self, classes};
use super::super::panel::{Column, Dashboard, Leads, Lines, Number, Panel, Shelf};
use super::super::query::{INSTANCE, Query, Series, of};
use super::super::verdict::{alert_mappings, gravest_alert};
use super::one_box::{main_parts, messages, stalls, swap_and_reclaim};
use super::tiles;
use crate::catalog::links::{Board, Panel as Place};
use crate::catalog::metrics::{
    BOARD_TEMPERATURE_CELSIUS, GPU_CLOCK_HERTZ, GPU_CLOCK_MAX_HERTZ, GPU_POWER_WATTS,
    GPU_TEMPERATURE_CELSIUS, POOL_AVAILABLE_BYTES, POOL_AVAILABLE_MIN_BYTES, POOL_FREE_BYTES,
    POOL_RESERVE_BYTES, POOL_SIZE_BYTES, POWER_THRESHOLD_WATTS, TEMPERATURE_THRESHOLD_CELSIUS,
    WORKLOAD_GPU_MEMORY_BYTES, WORKLOAD_RESIDENT_BYTES,
};
use crate::model::gpu::ClockKind;
use crate::model::pool::Window;

pub(in crate::grafana) fn dashboard() -> Dashboard {
    let verdicts = vec![
        tiles::exporter(100),
        tiles::pool_verdict(101),
        tiles::throttle_verdict(102),
        tiles::contention_verdict(103),
        tiles::pressure_verdict(104),
        tiles::firing(105),
    ];
    Dashboard {
        board: Board::Incident,
        title: "GB10: Incident",
        about: "The last quarter of an hour of one box, for who was just paged. Choose the box of the alert. Lines are \
                as fine as the scrapes; figures within windows were taken every second.",
        span: "15m",
        refresh: "5s",
        shelves: vec![
            Shelf::Panels(3, verdicts),
            Shelf::Panels(5, vec![tiles::verdicts(108, 14), firing()]),
            Shelf::Panels(8, vec![minutes(), main_parts().wide(10).own(115), holders()]),
            Shelf::Panels(6, vec![messages(6).own(113), power(), clock(), heat()]),
            Shelf::Panels(6, vec![swap_and_reclaim(12).own(112), stalls(12)]),
        ],
    }
}

fn firing() -> Panel {
    let columns = vec![
        Column::values(0, "Severity").states(alert_mappings()).wide(85),
        Column::label("alertname", "Alert").leading_to(Leads::Runbook),
        Column::label(INSTANCE, "Box").wide(130),
    ];
    Panel::table(Number::Own(109), "Alerts that fire", columns)
        .says("Alerts of this project that fire now. None is normal. A click on an alert leads to its runbook: what to do first.")
        .when_empty("none fires, or the rules are not loaded")
        .wide(10)
        .shows(gravest_alert(&["alertname", INSTANCE]), "")
}

fn minutes() -> Panel {
    let minute = Window::OneMinute.as_str();
    let least = of(&POOL_AVAILABLE_MIN_BYTES).is("window", minute).min(&[]);
    Panel::lines(Number::Linked(Place::LastMinutes), "Memory to the last answer", Lines::default())
        .says(
            "What was left of the pool until the last answer. The least of the last minute was taken every second, \
             so the last point of a frozen box still shows how far it fell. Flat above the reserve is normal. Collapses here take 2 to 4 GiB a second: \
             from 20 GiB to nothing within ten seconds has been seen.",
        )
        .when_empty("no answer in this time: choose a longer one that ends before the silence")
        .wide(7)
        .digits(1)
        .draws(least, "available, least of 1 min", colour::ORANGE)
        .draws(of(&POOL_AVAILABLE_BYTES).min(&[]), "available", colour::AVAILABLE)
        .draws(of(&POOL_FREE_BYTES).min(&[]), "free (CUDA)", colour::FREE)
        .compares(of(&POOL_RESERVE_BYTES).min(&[]), "reserve", colour::LIMIT)
}

fn holders() -> Panel {
    let gpu = of(&WORKLOAD_GPU_MEMORY_BYTES).sum(&["workload", "unit"]);
    let resident = of(&WORKLOAD_RESIDENT_BYTES).sum(&["workload", "unit"]);
    // The sum, and of jobs that have only one of them that.
    let held = Query { text: format!("{} + {}", gpu.text, resident.text), ..gpu.clone() };
    let held = held.or(&gpu).or(&resident);
    let lines = Lines { stacked: true, ..Lines::default() };
    Panel::lines(Number::Own(110), "Who holds it", lines)
        .says(
            "GPU memory and resident memory of each job together. Flat is normal for servers that have \
             settled. What grew before the fall is what to stop.",
        )
        .when_empty("no job that is known by its class, or its processes cannot be seen")
        .wide(7)
        .digits(1)
        .coloured(classes())
        .shows(held, "{{workload}} {{unit}}")
        .compares(of(&POOL_SIZE_BYTES).sum(&[]), "pool", colour::RATED)
}

fn heat() -> Panel {
    let line = |scope: &str, threshold: &str| {
        of(&TEMPERATURE_THRESHOLD_CELSIUS).is("scope", scope).is("threshold", threshold).max(&[])
    };
    Panel::lines(Number::Own(111), "Temperature", Lines { floating: true, ..Lines::default() })
        .says("80 to 85 degrees for the GPU and 85 to 90 for the board are normal under full load. Boxes have cut their power from 93 on.")
        .when_empty("neither the GPU nor the board tells a temperature")
        .wide(6)
        .draws(of(&GPU_TEMPERATURE_CELSIUS).gpu().max(&[]), "GPU", colour::GPU)
        .draws(of(&BOARD_TEMPERATURE_CELSIUS).max(&[]), "board", colour::BOARD)
        .compares(line("board", "cutoff_from"), "cut-off", colour::LIMIT)
}

fn power() -> Panel {
    let sustained = of(&POWER_THRESHOLD_WATTS).is("scope", "gpu").is("threshold", "sustained");
    Panel::lines(Number::Own(114), "GPU power", Lines::default())
        .says("80 to 100 W are normal under full load. Busy at a fraction of it, and of the clock, is a supply that does not deliver.")
        .when_empty("no GPU, or it does not tell its power")
        .wide(6)
        .draws(of(&GPU_POWER_WATTS).gpu().max(&[]), "GPU", colour::GPU)
        .compares(sustained.max(&[]), "sustained", colour::EXPECTED)
}

fn clock() -> Panel {
    let sm = |series: Series| series.gpu().is("clock", ClockKind::Sm.as_str()).max(&[]);
    Panel::lines(Number::Own(116), "SM clock", Lines::default())
        .says("2.0 to 2.5 GHz are normal, busy or not. Half of it under load is heat, a supply that does not deliver, or a cap that somebody set.")
        .when_empty("no GPU, or it does not tell its clock")
        .wide(6)
        .draws(sm(of(&GPU_CLOCK_HERTZ)), "SM", colour::GPU)
        .compares(sm(of(&GPU_CLOCK_MAX_HERTZ)), "highest", colour::RATED)
}
