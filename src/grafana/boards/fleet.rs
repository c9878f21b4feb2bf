//! Every box as a row, the worst first. Lines show a few boxes however many there are.

use super::super::colour;
use super::super::panel::{Column, Dashboard, Leads, Lines, Number, Panel, Shelf, Tile};
use super::super::query::{INSTANCE, Query, of, up};
use super::super::verdict::{
    Rank, alert_mappings, contention, every_mapping, gravest_alert_of_each_box, pressure, throttle,
    worst,
};
use super::tiles::{self, NONE_IS_GOOD};
use crate::catalog::links::{Board, Panel as Place};
use crate::catalog::metrics::{
    BOARD_TEMPERATURE_CELSIUS, EXPORTER_BUILD_INFO, MACHINE_INFO, NVIDIA_DRIVER_INFO,
    POOL_HEADROOM_BYTES, TEMPERATURE_THRESHOLD_CELSIUS, THROTTLE_SECONDS_TOTAL,
};
use crate::model::pool::Reader;

/// As many lines as an eye can follow.
const FEW: u32 = 6;
/// As many bands as a panel has room for.
const BANDS: u32 = 24;

pub(in crate::grafana) fn dashboard() -> Dashboard {
    let verdicts = vec![
        answering(),
        silent(),
        troubled(112, "In trouble", Rank::Bad),
        troubled(113, "To look at", Rank::Watch),
        hottest_tile(),
        tiles::firing(115),
    ];
    Dashboard {
        board: Board::Fleet,
        title: "GB10: Fleet",
        about: "Every GB10 machine as a row, the worst first. A click on a box leads to its dashboard.",
        span: "3h",
        refresh: "30s",
        shelves: vec![
            Shelf::Panels(3, verdicts),
            Shelf::Panels(12, vec![boxes()]),
            Shelf::Panels(9, vec![worst_over_time()]),
            Shelf::Panels(9, vec![least_headroom(), hottest(), throttled()]),
            Shelf::Panels(6, vec![drivers(), firmware(), exporters()]),
        ],
    }
}

fn answering() -> Panel {
    Panel::tile(110, "Boxes", Tile::default())
        .says("Boxes whose exporter answered the last scrape. All of them is normal.")
        .when_empty("no box is scraped")
        .shows(up().now().only("== 1").count(), "answer")
        .stepped(&[(None, Rank::Bad.colour()), (Some(1.0), Rank::Good.colour())])
        .digits(0)
}

fn silent() -> Panel {
    Panel::tile(111, "Silent", Tile::default())
        .says("Boxes whose exporter did not answer. 0 is normal; on these machines a silent exporter is often a frozen box.")
        .when_empty("no box is scraped")
        .shows(up().now().only("== 0").count(), "silent")
        .stepped(NONE_IS_GOOD)
        .digits(0)
}

fn troubled(id: u32, title: &'static str, from: Rank) -> Panel {
    let says = match from {
        Rank::Watch => {
            "Boxes whose worst verdict is worth a look: heat that costs nothing yet, jobs that do not fit, reclaim. 0 is normal."
        }
        _ => "Boxes whose worst verdict costs work or is about to lose the box. 0 is normal.",
    };
    let text = match from {
        Rank::Watch => format!(">= {} < {}", from.floor(), Rank::Bad.floor()),
        _ => format!(">= {}", from.floor()),
    };
    let step = if from == Rank::Watch { Rank::Watch } else { Rank::Bad };
    Panel::tile(id, title, Tile::default())
        .says(says)
        .when_empty("no box is scraped")
        .shows(worst(&[INSTANCE]).only(&text).count(), "boxes")
        .stepped(&[(None, Rank::Good.colour()), (Some(1.0), step.colour())])
        .digits(0)
}

fn hottest_tile() -> Panel {
    Panel::tile(114, "Hottest", Tile::default())
        .says("The hottest zone of the hottest box. 85 to 90 degrees are normal under full load; boxes have cut their power from 93 on.")
        .when_empty("no box tells a temperature")
        .shows(of(&BOARD_TEMPERATURE_CELSIUS).max(&[]), "hottest")
        .stepped(&[
            (None, Rank::Good.colour()),
            (Some(91.0), Rank::Watch.colour()),
            (Some(93.0), Rank::Grave.colour()),
        ])
        .digits(0)
}

fn boxes() -> Panel {
    let columns = vec![
        Column::label(INSTANCE, "Box").wide(180).leading_to(Leads::Box),
        Column::values(0, "Worst").states(every_mapping()).wide(130),
        Column::values(1, "Headroom").wide(90),
        Column::values(2, "Hottest").wide(80),
        Column::values(3, "Throttle").states(throttle().mappings()).wide(130),
        Column::values(4, "Jobs").states(contention().mappings()).wide(115),
        Column::values(5, "Pressure").states(pressure().mappings()).wide(120),
        Column::values(6, "Alerts").states(alert_mappings()).wide(80),
        Column::label("driver", "Driver"),
        Column::label("firmware", "Firmware"),
        Column::label("kernel", "Kernel"),
        Column::label("exporter", "Exporter"),
    ];
    let by = &[INSTANCE];
    let available = Reader::Available.as_str();
    let driver = of(&NVIDIA_DRIVER_INFO).now().renamed("version", "driver");
    let exporter = of(&EXPORTER_BUILD_INFO).now().renamed("version", "exporter");
    Panel::table(Number::Linked(Place::Boxes), "Boxes, the worst first", columns)
        .says(
            "Every box: its worst verdict, headroom above the reserve, hottest zone, verdicts, the gravest alert that fires and \
             what it runs. Fine and sky blue are normal, and one version of each kind in a fleet. A box without figures does not answer.",
        )
        .when_empty("no box is scraped")
        .shows(worst(by), "")
        .shows(of(&POOL_HEADROOM_BYTES).is("reader", available).min(by), "")
        .shows(of(&BOARD_TEMPERATURE_CELSIUS).max(by), "")
        .shows(throttle().worst(by), "")
        .shows(contention().worst(by), "")
        .shows(pressure().worst(by), "")
        .shows(gravest_alert_of_each_box(), "")
        .shows(driver.max(&[INSTANCE, "driver"]), "")
        .shows(of(&MACHINE_INFO).max(&[INSTANCE, "firmware", "kernel"]), "")
        .shows(exporter.max(&[INSTANCE, "exporter"]), "")
}

fn worst_over_time() -> Panel {
    Panel::states(Number::Own(120), "Worst verdict of each box")
        .says(
            "The gravest verdict of each box over time; of more boxes than there is room for, those that are worst. \
             Green and sky blue are normal.",
        )
        .when_empty("no box is scraped")
        .shows(worst(&[INSTANCE]).top(BANDS), "{{instance}}")
        .called(every_mapping())
}

fn least_headroom() -> Panel {
    let available = Reader::Available.as_str();
    let each = of(&POOL_HEADROOM_BYTES).is("reader", available).min(&[INSTANCE]);
    Panel::lines(Number::Own(121), "Least headroom", Lines { floating: true, ..Lines::default() })
        .says("The boxes with the least headroom above the reserve. Small is normal where boxes are meant to be full; below 0 the reserve is broken into.")
        .when_empty("no box answers")
        .wide(8)
        .digits(1)
        .numbered(colour::boxes())
        .shows(each.bottom(FEW), "{{instance}}")
}

fn hottest() -> Panel {
    let each = of(&BOARD_TEMPERATURE_CELSIUS).max(&[INSTANCE]).top(FEW);
    let line =
        of(&TEMPERATURE_THRESHOLD_CELSIUS).is("scope", "board").is("threshold", "cutoff_from");
    Panel::lines(Number::Own(122), "Hottest boards", Lines { floating: true, ..Lines::default() })
        .says("The boxes with the hottest zones. 85 to 90 degrees are normal under full load; twins at like work should be within five degrees.")
        .when_empty("no box tells a temperature")
        .wide(8)
        .numbered(colour::boxes())
        .shows(each, "{{instance}}")
        .compares(line.max(&[]), "cut-off", colour::LIMIT)
}

fn throttled() -> Panel {
    let held = of(&THROTTLE_SECONDS_TOTAL).without("kind", "at_power_cap");
    Panel::lines(Number::Own(123), "Share of time throttled", Lines::default())
        .says(
            "Share of time in which heat, a supply or a missing peer held the GPU back, of the worst boxes. The power cap, which is the platform, is not in it. 0 is normal.",
        )
        .when_empty("no box has a GPU that can be read")
        .wide(8)
        .numbered(colour::boxes())
        .shows(held.rate().sum(&[INSTANCE]).top(FEW), "{{instance}}")
}

fn versions(
    id: u32,
    title: &'static str,
    says: &'static str,
    query: Query,
    label: &'static str,
) -> Panel {
    let columns = vec![Column::label(label, title), Column::values(0, "Boxes")];
    Panel::table(Number::Own(id), title, columns)
        .says(says)
        .when_empty("no box answers")
        .wide(8)
        .digits(0)
        .shows(query.count_by(&[label]), "")
}

fn drivers() -> Panel {
    let says = "Drivers of NVIDIA's kernel module, by boxes. One is normal: some faults come with a driver alone.";
    versions(130, "Drivers", says, of(&NVIDIA_DRIVER_INFO).now(), "version")
}

fn firmware() -> Panel {
    let says =
        "Firmware of the boxes. One for each product is normal; power and heat depend on it.";
    versions(131, "Firmware", says, of(&MACHINE_INFO).now(), "firmware")
}

fn exporters() -> Panel {
    let says =
        "Versions of the exporter. One is normal: verdicts of different versions may differ.";
    versions(132, "Exporters", says, of(&EXPORTER_BUILD_INFO).now(), "version")
}
