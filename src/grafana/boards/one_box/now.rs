//! What the GPU says now. A figure that cannot be read is shown as n/a, with the reason beside it.

use super::super::super::colour::{self, Colour};
use super::super::super::panel::{Panel, Tile};
use super::super::super::query::{NUMBER, Query, of};
use super::super::super::verdict::{Mapping, Rank};
use crate::catalog::metrics::{
    BOARD_MARGIN_CELSIUS, CUDA_FREE_BYTES, GPU_CLOCK_HERTZ, GPU_MEMORY_REPORT, GPU_POWER_WATTS,
    GPU_TEMPERATURE_CELSIUS, READING_MISSING,
};
use crate::model::gpu::ClockKind;
use crate::model::reading::Missing;
use crate::model::sharing::MemoryReport;

/// Below this a number stands for the reason why there is no figure. No figure of these panels is as small.
const NOT_READ: i64 = -1000;

const QUIET: &[(Option<f64>, Colour)] = &[(None, colour::TEXT)];

/// The number of a reason.
fn code(reason: Missing) -> i64 {
    NOT_READ - i64::from(reason as u8)
}

/// A tile that says n/a, and why, while a reading is missing.
fn told(id: u32, title: &'static str, figure: &Query, reading: &str) -> Panel {
    let why: Vec<String> = Missing::ALL
        .iter()
        .map(|reason| {
            let missing = of(&READING_MISSING).is("reading", reading).is("reason", reason.as_str());
            format!("{} * {}", code(*reason), missing.max(&[]).text)
        })
        .collect();
    let text = format!("{} or {}", figure.text, why.join(" or "));
    let reasons = Missing::ALL.iter().map(|reason| Mapping {
        value: code(*reason).to_string(),
        text: format!("n/a: {}", reason.as_str().replace('_', " ")),
        colour: Rank::Untold.colour(),
    });
    Panel::tile(id, title, Tile { plain: true })
        .shows(Query { text, unit: figure.unit }, title)
        .called(reasons.collect())
        .stepped(QUIET)
}

pub(super) fn tiles() -> Vec<Panel> {
    vec![temperature(), margin(), power(), clock(), cuda_free(), report()]
}

fn temperature() -> Panel {
    let figure = of(&GPU_TEMPERATURE_CELSIUS).gpu().max(&[]);
    told(110, "GPU temp.", &figure, "gpu.temperature")
        .says("Temperature of the GPU. 80 to 85 degrees after an hour of full load are normal.")
        .when_empty("no GPU, or no answer")
}

fn margin() -> Panel {
    told(111, "Board margin", &of(&BOARD_MARGIN_CELSIUS).min(&[]), "thermal_zone.temp")
        .says(
            "Degrees that the hottest zone of the board has left to where boxes have cut their power, 93 to 96, \
             whatever the firmware states. 8 to 15 are normal under full load.",
        )
        .when_empty("no thermal zone, or no answer")
        .stepped(&[
            (None, Rank::Grave.colour()),
            (Some(0.0), Rank::Bad.colour()),
            (Some(2.0), colour::TEXT),
        ])
}

fn power() -> Panel {
    told(112, "GPU power", &of(&GPU_POWER_WATTS).gpu().max(&[]), "gpu.power")
        .says(
            "Power of the GPU alone. 80 to 100 W are normal under full load, 3 to 12 W when idle. The 240 W of the \
             supply are for the whole box.",
        )
        .when_empty("no GPU, or no answer")
}

fn clock() -> Panel {
    let sm = of(&GPU_CLOCK_HERTZ).gpu().is("clock", ClockKind::Sm.as_str()).max(&[]);
    told(113, "SM clock", &sm, "gpu.clock")
        .says(
            "SM clock. 2.0 to 2.5 GHz are normal for a busy GPU, and for an idle one with an open context. The memory \
             clock is told by no GB10.",
        )
        .when_empty("no GPU, or no answer")
        .digits(2)
}

fn cuda_free() -> Panel {
    told(115, "CUDA free", &of(&CUDA_FREE_BYTES).min(&[]), "meminfo.MemFree")
        .says(
            "What CUDA calls free: on a GB10 that is MemFree, and page cache counts as used. Much less than \
             available is normal after files were read.",
        )
        .when_empty("not proven to be a GB10, or no driver")
        .digits(1)
}

fn report() -> Panel {
    let states: Vec<String> = MemoryReport::ALL
        .iter()
        .map(|state| {
            let series = of(&GPU_MEMORY_REPORT).gpu().is("state", state.as_str());
            format!("{} * ({} == 1)", *state as u8 + 1, series.now().text)
        })
        .collect();
    let query = Query { text: states.join(" or "), unit: NUMBER };
    let mappings = MemoryReport::ALL.iter().map(|state| Mapping {
        value: (*state as u8 + 1).to_string(),
        text: match state {
            MemoryReport::Unsupported => "n/a (normal)".to_owned(),
            other => other.as_str().replace('_', " "),
        },
        colour: match state {
            MemoryReport::Failed => Rank::Bad.colour(),
            _ => Rank::Untold.colour(),
        },
    });
    Panel::tile(116, "NVML memory", Tile { plain: true })
        .says(
            "What the driver says when it is asked for memory. Unsupported, printed as [N/A], is the normal \
             answer of a GB10: it has no memory of its own, and its pool is what this dashboard shows.",
        )
        .when_empty("no GPU, or no answer")
        .shows(query.max(&[]), "report")
        .called(mappings.collect())
        .stepped(QUIET)
}
