//! The machine, its settings, its boots and its temperatures.

use super::{Samples, flag, metric, rows};
use crate::model::frame::Frame;
use crate::model::pool::Window;
use crate::model::reading::Reading;
use crate::units::{Celsius, Count};

fn text(reading: &Reading<String>) -> Option<&str> {
    reading.as_deref().ok()
}

fn settings(f: &Frame, out: &mut Samples) {
    let vm = &f.snapshot.vm;
    if vm.swappiness.is_err() && vm.overcommit_memory.is_err() && vm.min_free.is_err() {
        return;
    }
    let number = |reading: Reading<Count>| reading.map(|n| n.0.to_string()).ok();
    let min_free = vm.min_free.map(|b| b.0.to_string()).ok();
    out.info([
        number(vm.swappiness).as_deref(),
        min_free.as_deref(),
        number(vm.watermark_scale_factor).as_deref(),
        number(vm.overcommit_memory).as_deref(),
        text(&vm.transparent_hugepage),
        number(vm.compaction_proactiveness).as_deref(),
    ]);
}

/// Whether the driver keeps freed pages in pools, in a word.
fn pools(on: Reading<bool>) -> Option<&'static str> {
    on.ok().map(|on| if on { "on" } else { "off" })
}

rows![
    ZONE_TEMPERATURE_CELSIUS = metric!(
        "gb10_zone_temperature_celsius",
        Gauge,
        Celsius,
        ["zone"],
        [Thermal],
        Stable,
        "/sys/class/thermal",
        "Temperature of a thermal zone. Named by its ACPI path where that is readable; which zone is the GPU is contested.",
        |f, out| for zone in f.snapshot.zones.iter().flatten() {
            out.each([zone.name.clone().into()], zone.temperature, |t| t.0);
        }
    ),
    ZONE_TRIP_CELSIUS = metric!(
        "gb10_zone_trip_celsius",
        Gauge,
        Celsius,
        ["zone"],
        [Thermal],
        Stable,
        "/sys/class/thermal",
        "Temperature at which the firmware says that it cuts the power. Boxes have gone down from 93 to 96 degrees.",
        |f, out| for zone in f.snapshot.zones.iter().flatten() {
            out.each([zone.name.clone().into()], zone.critical, |t| t.0);
        }
    ),
    BOARD_TEMPERATURE_CELSIUS = metric!(
        "gb10_board_temperature_celsius",
        Gauge,
        Celsius,
        [],
        [Thermal],
        Stable,
        "/sys/class/thermal",
        "Temperature of the hottest thermal zone that could be read. The GPU die reads about ten degrees less.",
        |f, out| out.one(f.verdicts.hottest.as_ref().map_err(|m| *m), |(_, t)| t.0)
    ),
    BOARD_TEMPERATURE_MAX_CELSIUS = metric!(
        "gb10_board_temperature_max_celsius",
        Gauge,
        Celsius,
        ["window"],
        [Thermal],
        Stable,
        "/sys/class/thermal, every second",
        "Highest temperature of the hottest thermal zone within the window. From 93 to 96 degrees boxes are one step from the power-off, and a peak may fall between two scrapes.",
        |f, out| for (window, temperature) in Window::ALL.iter().zip(f.verdicts.board_max) {
            out.each([window.as_str().into()], temperature, |Celsius(t)| t);
        }
    ),
    MACHINE_INFO = metric!(
        "gb10_machine_info",
        Info,
        None,
        ["vendor", "product", "board", "firmware", "kernel", "arch", "os"],
        [Dmi, Kernel, OsRelease],
        Stable,
        "/sys/class/dmi/id, /proc/sys/kernel, /etc/os-release",
        "Which machine this is. A value that is not known is empty.",
        |f, out| {
            let (dmi, kernel) = (&f.snapshot.dmi, &f.snapshot.kernel);
            out.info([
                text(&dmi.sys_vendor),
                text(&dmi.product_name),
                text(&dmi.board_name),
                text(&dmi.bios_version),
                text(&kernel.release),
                text(&kernel.arch),
                text(&f.snapshot.os.pretty_name),
            ]);
        }
    ),
    NVIDIA_DRIVER_INFO = metric!(
        "gb10_nvidia_driver_info",
        Info,
        None,
        ["version", "page_pools"],
        [Nvidia],
        Stable,
        "/proc/driver/nvidia",
        "The NVIDIA kernel driver, and whether it keeps freed pages in pools (drivers 590.44 and later); empty where it does not say. Absent without a driver.",
        |f, out| if let Ok(version) = &f.snapshot.nvidia.driver_version {
            out.info([Some(version), pools(f.snapshot.nvidia.pools_on())]);
        }
    ),
    VM_SETTINGS_INFO = metric!(
        "gb10_vm_settings_info",
        Info,
        None,
        [
            "swappiness",
            "min_free_bytes",
            "watermark_scale_factor",
            "overcommit_memory",
            "transparent_hugepage",
            "compaction_proactiveness"
        ],
        [VmSettings],
        Stable,
        "/proc/sys/vm, /sys/kernel/mm",
        "Virtual memory settings that decide how the pool behaves.",
        settings
    ),
    BOOT_TIMESTAMP_SECONDS = metric!(
        "gb10_boot_timestamp_seconds",
        Gauge,
        Seconds,
        [],
        [Stat],
        Stable,
        "/proc/stat btime",
        "When the machine booted, seconds since 1970.",
        |f, out| out.one(f.snapshot.stat.boot_time, Count::as_f64)
    ),
    BOOT_UNCLEAN = metric!(
        "gb10_boot_unclean",
        Gauge,
        None,
        [],
        [Kernel],
        Stable,
        "state file",
        "1 if the machine went down before this boot while the exporter was running and had not been told to stop. Absent without a state directory and on the first boot seen. An exporter killed and not restarted before an orderly reboot looks the same.",
        |f, out| out.one(f.boot.unclean, flag)
    ),
    PREVIOUS_BOOT_LAST_SEEN_TIMESTAMP_SECONDS = metric!(
        "gb10_previous_boot_last_seen_timestamp_seconds",
        Gauge,
        Seconds,
        [],
        [Kernel],
        Experimental,
        "state file",
        "When the boot before this one was last known to be alive, to the minute.",
        |f, out| out.one(f.boot.previous_seen, |s| Count(s).as_f64())
    ),
];
