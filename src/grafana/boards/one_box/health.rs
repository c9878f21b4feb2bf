//! The exporter itself, the machine's boots, and what cannot be read.

use super::super::super::colour;
use super::super::super::panel::{Column, Lines, Number, Panel, Shelf, Tile};
use super::super::super::query::{INSTANCE, MEMORY, of};
use super::super::super::verdict::{Mapping, Rank, source};
use crate::catalog::links::Panel as Place;
use crate::catalog::metrics::{
    BOOT_TIMESTAMP_SECONDS, BOOT_UNCLEAN, EXPORTER_BUILD_INFO, GPU_DRIVER_INFO, GPU_INFO,
    GPU_MEMORY_SHARING, LANE_LAST_TICK_TIMESTAMP_SECONDS, LANE_MISSED_TICKS_TOTAL, MACHINE_INFO,
    NVIDIA_DRIVER_INFO, PROCESS_CPU_SECONDS_TOTAL, PROCESS_OPEN_FDS, PROCESS_RESIDENT_MEMORY_BYTES,
    PROCESS_THREADS, READING_MISSING, SOURCE_DURATION_SECONDS, SOURCE_ERRORS_TOTAL,
    VM_SETTINGS_INFO,
};

pub(super) fn shelves() -> Vec<Shelf> {
    vec![
        Shelf::Title("Exporter and machine"),
        Shelf::Panels(12, vec![sources(), missing(), lanes()]),
        Shelf::Panels(
            7,
            vec![durations(), cost(), super::heat::unreachable(), booted(), unclean()],
        ),
        Shelf::Panels(4, vec![machine()]),
        Shelf::Panels(4, vec![gpu()]),
        Shelf::Panels(4, vec![settings()]),
    ]
}

fn sources() -> Panel {
    Panel::states(Number::Linked(Place::Health), "Sources")
        .says(
            "Each place that readings come from. Ok and not present are normal; training and the kernel's log are \
             not present where they are not set up. Denied needs a right, failed and hung are faults: the driver \
             has kept its callers waiting for minutes before boxes went down.",
        )
        .when_empty("the box does not answer")
        .wide(8)
        .shows(source().worst(&["source"]), "{{source}}")
        .called(source().mappings())
}

fn missing() -> Panel {
    let columns =
        vec![Column::label("reading", "Reading"), Column::label("reason", "Why it has no value")];
    Panel::table(Number::Own(150), "What cannot be read", columns)
        .says(
            "Readings without a value, and why; the value itself is absent everywhere, never 0. Unsupported memory \
             and memory clock are normal on a GB10, and so is what is not present on this kernel.",
        )
        .when_empty("everything can be read, or no answer")
        .wide(8)
        .shows(of(&READING_MISSING).max(&["reading", "reason"]), "")
}

fn lanes() -> Panel {
    let age = of(&LANE_LAST_TICK_TIMESTAMP_SECONDS).min(&["lane"]);
    let age = super::super::super::query::Query { text: format!("time() - {}", age.text), ..age };
    Panel::lines(Number::Own(151), "Age of the last round", Lines::default())
        .says(
            "How long ago each lane finished a round, and how many were missed. 1 to 2 seconds are normal, 5 to 6 \
             for slow and processes. A lane that grows older has a source that hangs.",
        )
        .when_empty("the box does not answer")
        .wide(8)
        .coloured(vec![
            ("/^fast$/".to_owned(), colour::BLUE),
            ("/^gpu$/".to_owned(), colour::GPU),
            ("/^sensors$/".to_owned(), colour::BOARD),
            ("/^slow$/".to_owned(), colour::GREEN),
            ("/^processes$/".to_owned(), colour::SKY),
            ("/^messages$/".to_owned(), colour::YELLOW),
            ("/^logs$/".to_owned(), colour::BROWN),
        ])
        .shows(age, "{{lane}}")
        .marks(of(&LANE_MISSED_TICKS_TOTAL).increase().sum(&[]), "missed", colour::VERMILION)
}

fn durations() -> Panel {
    Panel::lines(Number::Own(152), "Time that reads take", Lines::default())
        .says(
            "How long the last read of the slowest sources took, and how many failed. Under 20 ms is normal; \
             nvidia-smi in place of NVML takes that long each time.",
        )
        .when_empty("a replay, or the box does not answer")
        .wide(6)
        .shows(of(&SOURCE_DURATION_SECONDS).max(&["source"]).top(5), "{{source}}")
        .marks(of(&SOURCE_ERRORS_TOTAL).increase().sum(&[]), "errors", colour::VERMILION)
}

fn cost() -> Panel {
    Panel::lines(Number::Own(153), "What the exporter costs", Lines::default())
        .says("Resident memory and CPU of the exporter itself. 20 to 30 MiB with NVML and about 1 % of one CPU are normal.")
        .when_empty("a replay, or a machine that does not tell")
        .wide(6)
        .draws(of(&PROCESS_RESIDENT_MEMORY_BYTES).max(&[]), "resident", colour::BLUE)
        .draws(of(&PROCESS_CPU_SECONDS_TOTAL).rate().max(&[]), "CPU", colour::ORANGE)
        .draws(of(&PROCESS_OPEN_FDS).max(&[]), "open files", colour::GREEN)
        .draws(of(&PROCESS_THREADS).max(&[]), "threads", colour::GREY)
}

fn booted() -> Panel {
    Panel::tile(154, "Booted", Tile { plain: true })
        .says("When the machine booted. Weeks ago is normal; a time within the last hour that nobody asked for is a crash.")
        .when_empty("the box does not answer")
        .wide(3)
        .shows(of(&BOOT_TIMESTAMP_SECONDS).max(&[]).ago(), "booted")
        .stepped(&[(None, colour::TEXT)])
}

fn unclean() -> Panel {
    let called = |value: &str, text: &str, rank: Rank| Mapping {
        value: value.to_owned(),
        text: text.to_owned(),
        colour: rank.colour(),
    };
    Panel::tile(155, "Last end", Tile::default())
        .says(
            "Whether the machine went down before this boot without having told the exporter to stop: a freeze, a \
             power cut or the plug. Orderly is normal.",
        )
        .when_empty("n/a: no state directory, or the first boot seen")
        .wide(3)
        .shows(of(&BOOT_UNCLEAN).max(&[]), "end")
        .called(vec![called("0", "orderly", Rank::Good), called("1", "unclean", Rank::Bad)])
}

fn machine() -> Panel {
    let columns = vec![
        Column::label(INSTANCE, "Box"),
        Column::label("product", "Product"),
        Column::label("firmware", "Firmware"),
        Column::label("kernel", "Kernel"),
        Column::label("os", "System"),
        Column::label("driver", "Driver"),
        Column::label("page_pools", "Page pools"),
        Column::label("exporter", "Exporter"),
    ];
    let driver = of(&NVIDIA_DRIVER_INFO).now().renamed("version", "driver");
    let exporter = of(&EXPORTER_BUILD_INFO).now().renamed("version", "exporter");
    Panel::table(Number::Own(156), "Machine", columns)
        .says(
            "What the box is and runs. Some slow states depend on firmware and driver alone. Drivers from 580 on and a kernel of NVIDIA's are normal; boxes of one fleet should agree.",
        )
        .when_empty("the box does not answer")
        .shows(of(&MACHINE_INFO).max(&[INSTANCE, "product", "firmware", "kernel", "os"]), "")
        .shows(driver.max(&[INSTANCE, "driver", "page_pools"]), "")
        .shows(exporter.max(&[INSTANCE, "exporter"]), "")
}

fn settings() -> Panel {
    let columns = vec![
        Column::label(INSTANCE, "Box"),
        Column::label("swappiness", "Swappiness"),
        Column::label("min_free_bytes", "Kept free").in_unit(MEMORY),
        Column::label("overcommit_memory", "Overcommit"),
        Column::label("transparent_hugepage", "Huge pages"),
    ];
    let labels =
        [INSTANCE, "swappiness", "min_free_bytes", "overcommit_memory", "transparent_hugepage"];
    Panel::table(Number::Own(157), "Memory settings", columns)
        .says(
            "Settings of the kernel that decide how the pool behaves. 60, 45 MB, 0 and madvise are normal, for these machines come with them; owners often set swappiness to 10.",
        )
        .when_empty("the box does not answer")
        .shows(of(&VM_SETTINGS_INFO).max(&labels), "")
}

fn gpu() -> Panel {
    let columns = vec![
        Column::label(INSTANCE, "Box"),
        Column::label("gpu", "GPU").wide(60),
        Column::label("name", "Name"),
        Column::label("vbios", "Firmware"),
        Column::label("addressing_mode", "Addressing"),
        Column::label("state", "Memory"),
        Column::label("via", "Asked through"),
        Column::label("cuda", "CUDA").wide(80),
    ];
    Panel::table(Number::Own(158), "GPU", columns)
        .says(
            "What the GPU is, whether it shares the pool, and through what it is asked. NVML is normal; nvidia_smi is the way out where the \
             library cannot be loaded, and costs more.",
        )
        .when_empty("no GPU, or no answer")
        .shows(of(&GPU_INFO).gpu().max(&[INSTANCE, "gpu", "name", "vbios", "addressing_mode"]), "")
        .shows(of(&GPU_MEMORY_SHARING).gpu().max(&[INSTANCE, "gpu", "state"]).only("== 1"), "")
        .shows(of(&GPU_DRIVER_INFO).max(&[INSTANCE, "via", "cuda"]), "")
}
