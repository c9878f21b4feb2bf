//! What the GPU says now. A figure that cannot be read is shown as n/a, with the reason beside it.

use super::super::super::colour::{self, Colour};
use super::super::super::panel::{Panel, Tile};
use super::super::super::query::{Query, of};
use super::super::super::verdict::{Mapping, Rank};
use crate::catalog::metrics::{
    BOARD_MARGIN_CELSIUS, CUDA_FREE_BYTES, GPU_CLOCK_HERTZ, GPU_MEMORY_REPORT, GPU_POWER_WATTS,
    GPU_TEMPERATURE_CELSIUS, GPU_UTILIZATION_RATIO, READING_MISSING, SWAP_FREE_BYTES,
    SWAP_SIZE_BYTES,
};
use crate::model::gpu::ClockKind;
use crate::model::sharing::MemoryReport;

/// Stands for a figure that cannot be read, in this dashboard alone. No figure of these panels is ever it.
const NOT_READ: &str = "-1";

const QUIET: &[(Option<f64>, Colour)] = &[(None, colour::GREY)];

/// A tile that is n/a, with the reason, while a reading is missing.
fn told(id: u32, title: &'static str, figure: Query, legend: &str, reading: &str) -> Panel {
    let missing = of(&READING_MISSING).is("reading", reading).max(&["reason"]);
    let missing = Query { text: format!("{NOT_READ} * {}", missing.text), ..missing };
    Panel::tile(id, title, Tile { named: true })
        .shows(figure, legend)
        .shows(missing, "{{reason}}")
        .called(vec![Mapping {
            value: NOT_READ.to_owned(),
            text: "n/a".to_owned(),
            colour: Rank::Untold.colour(),
        }])
        .stepped(QUIET)
        .wide(3)
}

pub(super) fn tiles() -> Vec<Panel> {
    vec![temperature(), margin(), power(), clock(), utilization(), cuda_free(), report(), swap()]
}

fn temperature() -> Panel {
    let figure = of(&GPU_TEMPERATURE_CELSIUS).gpu().max(&[]);
    told(110, "GPU temperature", figure, "hottest GPU", "gpu.temperature")
        .says("Temperature of the GPU. 80 to 85 degrees after an hour of full load are normal.")
        .when_empty("no GPU, or no answer")
}

fn margin() -> Panel {
    told(111, "Board margin", of(&BOARD_MARGIN_CELSIUS).min(&[]), "to the cut-off", "thermal_zone.temp")
        .says(
            "Degrees that the hottest zone of the board has left to where boxes have cut their power, 93 to 96, \
             whatever the firmware states. 8 to 15 are normal under full load.",
        )
        .when_empty("no thermal zone, or no answer")
        .stepped(&[
            (None, Rank::Grave.colour()),
            (Some(0.0), Rank::Bad.colour()),
            (Some(2.0), colour::GREY),
        ])
}

fn power() -> Panel {
    told(112, "GPU power", of(&GPU_POWER_WATTS).gpu().max(&[]), "GPU alone", "gpu.power")
        .says(
            "Power of the GPU alone. 80 to 100 W are what it sustains, 3 to 12 W are idle. The 240 W of the \
             supply are for the whole box.",
        )
        .when_empty("no GPU, or no answer")
}

fn clock() -> Panel {
    let sm = of(&GPU_CLOCK_HERTZ).gpu().is("clock", ClockKind::Sm.as_str()).max(&[]);
    told(113, "SM clock", sm, "SM", "gpu.clock")
        .says(
            "SM clock. Busy GPUs run at 2.0 to 2.5 GHz, and idle ones with an open context as well. The memory \
             clock is told by no GB10.",
        )
        .when_empty("no GPU, or no answer")
        .digits(2)
}

fn utilization() -> Panel {
    told(114, "GPU utilization", of(&GPU_UTILIZATION_RATIO).gpu().max(&[]), "busy", "gpu.utilization")
        .says("Share of time in which a kernel ran. A GB10 that is busy says 96 %, which is as much as it ever says.")
        .when_empty("no GPU, or no answer")
}

fn cuda_free() -> Panel {
    told(115, "CUDA free", of(&CUDA_FREE_BYTES).min(&[]), "cudaMemGetInfo", "meminfo.MemFree")
        .says(
            "What CUDA calls free: on a GB10 that is MemFree, and page cache counts as used. Much less than \
             available is normal after files were read.",
        )
        .when_empty("not proven to be a GB10, or no driver")
        .digits(1)
}

fn report() -> Panel {
    let state = MemoryReport::Unsupported.as_str();
    let not_told = of(&GPU_MEMORY_REPORT).gpu().is("state", state).max(&[]);
    let others = of(&GPU_MEMORY_REPORT).gpu().is_not("state", state).max(&["state"]).only("== 1");
    Panel::tile(116, "Driver on memory", Tile { named: true })
        .says(
            "What the driver says when it is asked for memory. Unsupported, printed as [N/A], is the normal \
             answer of a GB10: it has no memory of its own, and its pool is what this dashboard shows.",
        )
        .when_empty("no GPU, or no answer")
        .shows(not_told.only("== 1"), "unsupported: normal")
        .shows(others, "{{state}}")
        .called(vec![Mapping {
            value: "1".to_owned(),
            text: "n/a".to_owned(),
            colour: Rank::Untold.colour(),
        }])
        .wide(3)
}

fn swap() -> Panel {
    let used = of(&SWAP_SIZE_BYTES).sum(&[]).less(&of(&SWAP_FREE_BYTES).sum(&[]));
    told(117, "Swap used", used, "of all swap", "meminfo.SwapFree")
        .says("Swap in use. 0 is normal, and so are some hundred MiB of programs that sleep. 0 as well without swap.")
        .when_empty("no answer")
        .digits(1)
}
