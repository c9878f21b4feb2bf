//! The last quarter of an hour on one screen, for who was just paged.

use super::super::colour;
use super::super::panel::{Column, Dashboard, Lines, Number, Panel, Shelf};
use super::super::query::{INSTANCE, Query, alerts, of};
use super::one_box::{messages, parts, stalls, swap_and_reclaim};
use super::tiles;
use super::workloads::classes;
use crate::catalog::links::{Board, Panel as Place};
use crate::catalog::metrics::{
    BOARD_TEMPERATURE_CELSIUS, GPU_CLOCK_HERTZ, GPU_POWER_WATTS, GPU_TEMPERATURE_CELSIUS,
    POOL_AVAILABLE_BYTES, POOL_AVAILABLE_MIN_BYTES, POOL_FREE_BYTES, POOL_RESERVE_BYTES,
    POWER_THRESHOLD_WATTS, TEMPERATURE_THRESHOLD_CELSIUS, WORKLOAD_GPU_MEMORY_BYTES,
    WORKLOAD_RESIDENT_BYTES,
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
            Shelf::Panels(5, vec![tiles::verdicts(108, 16), firing()]),
            Shelf::Panels(8, vec![minutes(), parts().wide(10).own(115), holders()]),
            Shelf::Panels(6, vec![heat(), power(), swap_and_reclaim(6).own(112), stalls(6)]),
            Shelf::Panels(5, vec![messages(24).own(113)]),
        ],
    }
}

fn firing() -> Panel {
    let columns = vec![
        Column::label("alertname", "Alert"),
        Column::label("severity", "Severity"),
        Column::label(INSTANCE, "Box"),
    ];
    Panel::table(Number::Own(109), "Alerts that fire", columns)
        .says("Alerts of this project that fire now. None is normal. Each has a runbook: see Runbooks above.")
        .when_empty("none fires, or the rules are not loaded")
        .wide(8)
        .shows(alerts().max(&["alertname", "severity", INSTANCE]), "")
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
        .draws(of(&POOL_AVAILABLE_BYTES).min(&[]), "available", colour::AVAILABLE)
        .draws(least, "available, least of 1 min", colour::ORANGE)
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
    let sm = of(&GPU_CLOCK_HERTZ).gpu().is("clock", ClockKind::Sm.as_str()).max(&[]);
    Panel::lines(Number::Own(114), "Power and clock", Lines::default())
        .says("80 to 100 W at 2.0 to 2.5 GHz are normal under full load. Busy at a fraction of both is a supply that does not deliver.")
        .when_empty("no GPU, or it tells neither")
        .wide(6)
        .draws(of(&GPU_POWER_WATTS).gpu().max(&[]), "GPU power", colour::GPU)
        .compares(sustained.max(&[]), "sustained", colour::EXPECTED)
        .draws(sm, "SM clock", colour::BLUE)
}
