//! What the machine is and how it is set up.

use super::reading::Reading;
use crate::units::{Bytes, Count, Seconds};

readings! {
    /// `/proc/loadavg`.
    Load from Loadavg at load as "loadavg" {
        /// Runnable and uninterruptible tasks, mean of one minute, in hundredths.
        one_hundredths: Count = Required "one_hundredths",
        /// Mean of five minutes, in hundredths.
        five_hundredths: Count = Required "five_hundredths",
        /// Mean of fifteen minutes, in hundredths.
        fifteen_hundredths: Count = Required "fifteen_hundredths",
        /// Tasks that could run now.
        runnable: Count = Required "runnable",
        /// Tasks on the box.
        tasks: Count = Required "tasks",
    }
}

readings! {
    /// `/proc/uptime`.
    Uptime from Uptime at uptime as "uptime" {
        /// Time since boot, suspend included.
        since_boot: Seconds = Required "since_boot",
    }
}

readings! {
    keyed
    /// `/proc/stat`, of which only the boot time is read.
    Stat from Stat at stat as "stat" {
        /// Boot time, seconds since 1970.
        boot_time: Count = Required "btime",
    }
}

readings! {
    /// The virtual memory settings that decide how the pool behaves.
    VmSettings from VmSettings at vm as "vm" {
        /// How readily anonymous pages are swapped. Common advice for GB10 is 10.
        swappiness: Count = Required "swappiness",
        /// What the kernel keeps free for itself. Raising it lowers MemAvailable.
        min_free: Bytes = Required "min_free_kbytes",
        /// Distance between the reclaim watermarks, in 1/10000 of the zone.
        watermark_scale_factor: Count = Optional "watermark_scale_factor",
        /// 0 heuristic, 1 always, 2 never beyond the limit.
        overcommit_memory: Count = Required "overcommit_memory",
        /// How readily directory and inode caches are reclaimed.
        vfs_cache_pressure: Count = Required "vfs_cache_pressure",
        /// Share of available memory, in percent, that may be dirty before writers must write.
        dirty_ratio: Count = Required "dirty_ratio",
        /// Share of available memory, in percent, at which the background writer starts.
        dirty_background_ratio: Count = Required "dirty_background_ratio",
        /// How hard the kernel defragments in the background, 0 to 100.
        compaction_proactiveness: Count = Optional "compaction_proactiveness",
        /// Huge pages set aside.
        nr_hugepages: Count = Optional "nr_hugepages",
        /// Transparent huge pages: always, madvise or never.
        transparent_hugepage: String = Optional "transparent_hugepage",
    }
}

readings! {
    /// The kernel that runs.
    Kernel from Kernel at kernel as "kernel" {
        /// Release, as `uname -r` prints it.
        release: String = Required "release",
        /// Machine, as `uname -m` prints it (Linux 6.1 and later).
        arch: String = Optional "arch",
        /// Identity of this boot.
        boot_id: String = Required "boot_id",
    }
}

readings! {
    /// `/etc/os-release`.
    Os from OsRelease at os as "os_release" {
        /// The distribution in words.
        pretty_name: String = Optional "PRETTY_NAME",
        /// Its short name.
        id: String = Optional "ID",
        /// Its version.
        version_id: String = Optional "VERSION_ID",
    }
}

readings! {
    /// `/sys/class/dmi/id`: who made the box. Serial numbers are never read.
    Dmi from Dmi at dmi as "dmi" {
        /// Vendor of the system.
        sys_vendor: String = Optional "sys_vendor",
        /// Product.
        product_name: String = Optional "product_name",
        /// Vendor of the board.
        board_vendor: String = Optional "board_vendor",
        /// Board.
        board_name: String = Optional "board_name",
        /// Vendor of the firmware.
        bios_vendor: String = Optional "bios_vendor",
        /// Version of the firmware.
        bios_version: String = Optional "bios_version",
        /// Date of the firmware.
        bios_date: String = Optional "bios_date",
    }
}

readings! {
    /// `/proc/driver/nvidia`: the kernel driver, as it describes itself without NVML.
    Nvidia from Nvidia at nvidia as "nvidia" {
        /// Version of the kernel module.
        driver_version: String = Optional "driver_version",
        /// Which pools the driver keeps freed system memory in, as a bit mask (drivers 590.44 and
        /// later; 0 is off). Their pages are in no line of /proc/meminfo.
        page_pools: Count = Optional "EnableSystemMemoryPools",
    }
}

impl Nvidia {
    /// Whether the driver keeps freed pages in pools.
    #[must_use]
    pub fn pools_on(&self) -> Reading<bool> {
        Ok(self.page_pools?.0 != 0)
    }
}
