//! Every box as a row, the worst first. Lines show a few boxes however many there are.

use super::super::colour;
use super::super::panel::{Column, Dashboard, Lines, Number, Panel, Shelf, Tile};
use super::super::query::{INSTANCE, Query, alerts, of, up};
use super::super::verdict::{
    Rank, answer_mappings, contention, every_mapping, pool_mappings, pressure, throttle, worst,
};
use super::tiles::{self, NONE_IS_GOOD};
use crate::catalog::links::{Board, Panel as Place};
use crate::catalog::metrics::{
    BOARD_TEMPERATURE_CELSIUS, EXPORTER_BUILD_INFO, GPU_ENERGY_JOULES_TOTAL, GPU_POWER_WATTS,
    MACHINE_INFO, NVIDIA_DRIVER_INFO, POOL_HEADROOM_BYTES, TEMPERATURE_THRESHOLD_CELSIUS,
    THROTTLE_SECONDS_TOTAL,
};
use crate::model::pool::Reader;

/// As many lines as an eye can follow.
const FEW: u32 = 8;
/// As many bands as a panel has room for.
const BANDS: u32 = 24;

pub(in crate::grafana) fn dashboard() -> Dashboard {
    let verdicts = vec![
        answering().wide(3),
        silent().wide(3),
        troubled(112, "Boxes in trouble", Rank::Bad).wide(3),
        troubled(113, "Boxes worth a look", Rank::Watch).wide(3),
        tiles::headroom(114).wide(3),
        hottest_tile().wide(3),
        power_tile().wide(3),
        tiles::firing(117).wide(3),
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
            Shelf::Panels(8, vec![least_headroom(), hottest(), throttled()]),
            Shelf::Panels(6, vec![drivers(), firmware(), exporters()]),
        ],
    }
}

fn answering() -> Panel {
    Panel::tile(110, "Boxes that answer", Tile::default())
        .says("Boxes whose exporter answered the last scrape. All of them is normal.")
        .when_empty("no box is scraped")
        .shows(up().now().only("== 1").count(), "answer")
        .stepped(&[(None, Rank::Bad.colour()), (Some(1.0), Rank::Good.colour())])
        .digits(0)
}

fn silent() -> Panel {
    Panel::tile(111, "Boxes that do not", Tile::default())
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
    Panel::tile(115, "Hottest board", Tile::default())
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

fn power_tile() -> Panel {
    Panel::tile(116, "Power of all GPUs", Tile::default())
        .says("Power of all GPUs together. 80 to 100 W each are normal under full load, 3 to 12 W when idle.")
        .when_empty("no GPU tells its power")
        .shows(of(&GPU_POWER_WATTS).sum(&[]), "power")
        .stepped(&[(None, colour::GREY)])
        .digits(0)
}

fn boxes() -> Panel {
    let columns = vec![
        Column::label(INSTANCE, "Box").wide(210).to_box(),
        Column::values(0, "Worst").states(every_mapping()).wide(140),
        Column::values(1, "Headroom").wide(100),
        Column::values(2, "Hottest").wide(90),
        Column::values(3, "Throttle").states(throttle().mappings()).wide(140),
        Column::values(4, "Jobs").states(contention().mappings()).wide(130),
        Column::values(5, "Pressure").states(pressure().mappings()).wide(120),
        Column::values(6, "Alerts").wide(80),
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
            "Every box: its worst verdict, headroom above the reserve, hottest zone, verdicts, alerts that fire and \
             what it runs. Boxes of one fleet should agree in their versions. A box without figures does not answer.",
        )
        .when_empty("no box is scraped")
        .digits(1)
        .shows(worst(by), "")
        .shows(of(&POOL_HEADROOM_BYTES).is("reader", available).min(by), "")
        .shows(of(&BOARD_TEMPERATURE_CELSIUS).max(by), "")
        .shows(throttle().worst(by), "")
        .shows(contention().worst(by), "")
        .shows(pressure().worst(by), "")
        .shows(alerts().now().count_by(by), "")
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
        .called([every_mapping(), pool_mappings(), answer_mappings()].concat())
}

fn least_headroom() -> Panel {
    let available = Reader::Available.as_str();
    let each = of(&POOL_HEADROOM_BYTES).is("reader", available).min(&[INSTANCE]);
    Panel::lines(Number::Own(121), "Least headroom", Lines { floating: true, ..Lines::default() })
        .says("The boxes with the least headroom above the reserve. Small is how many are meant to run; below 0 the reserve is broken into.")
        .when_empty("no box answers")
        .wide(8)
        .digits(1)
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
        .shows(each, "{{instance}}")
        .compares(line.max(&[]), "cut-off", colour::LIMIT)
}

fn throttled() -> Panel {
    let held = of(&THROTTLE_SECONDS_TOTAL).is_not("kind", "at_power_cap");
    let power: Query = of(&GPU_ENERGY_JOULES_TOTAL).rate().sum(&[]);
    Panel::lines(Number::Own(123), "Share of time throttled", Lines::default())
        .says(
            "Share of time in which heat, a supply or a missing peer held the GPU back, of the worst boxes, and mean \
             power of all GPUs. The power cap, which is the platform, is not in it. 0 is normal.",
        )
        .when_empty("no box has a GPU that can be read")
        .wide(8)
        .shows(held.rate().sum(&[INSTANCE]).top(FEW), "{{instance}}")
        .draws(power, "power of all GPUs", colour::RATED)
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
