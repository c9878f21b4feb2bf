//! Machines, recorded or reconstructed, against the published figures and the invariants.

mod support;

use gb10_exporter::capture::{Capture, Kind};
use gb10_exporter::export::status::{Figure, Status};
use gb10_exporter::export::{prometheus, terminal};
use gb10_exporter::model::frame::Frame;
use gb10_exporter::model::module::{EnergyRail, Limit, Rail};
use gb10_exporter::model::pool::{Exhaustion, Reader, Segment, Verdicts};
use gb10_exporter::model::reading::Missing;
use gb10_exporter::model::sharing::{Attribution, Holder};
use gb10_exporter::sources;
use gb10_exporter::units::{Bytes, Count, GIB, Joules, KIB, Watts};
use std::collections::BTreeSet;
use std::path::Path;
use support::{captures, frame, root};

fn load(name: &str) -> Capture {
    Capture::load(&root().join(format!("tests/captures/{name}.txt"))).unwrap()
}

fn verdicts(name: &str) -> Verdicts {
    frame(&load(name)).verdicts
}

/// The figure of a meminfo line in kB, read by a few lines of the test's own.
fn kb(capture: &Capture, line: &str) -> Option<u64> {
    let text =
        capture.paths().find(|(path, _)| *path == "/proc/meminfo").unwrap().1.unwrap().to_owned();
    let found =
        text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':').map(str::to_owned))?;
    found.split_whitespace().next()?.parse().ok()
}

fn gib(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a published figure"
    )]
    let bytes = (value * GIB as f64) as u64;
    bytes
}

/// Within what a figure published with two decimals leaves open.
#[track_caller]
fn near(actual: Bytes, published: f64) {
    let off = actual.0.abs_diff(gib(published));
    assert!(off <= gib(0.006), "{actual} is not {published} GiB");
}

#[test]
fn the_parts_add_up_on_every_capture_and_agree_with_the_published_formula() {
    for (name, path) in captures() {
        let capture = Capture::load(&path).unwrap();
        let f = frame(&capture);
        let p =
            f.verdicts.pool.partition.clone().unwrap_or_else(|m| panic!("{name}: {}", m.as_str()));
        let sum: u64 = p.parts.iter().map(|part| part.map_or(0, |bytes| bytes.0)).sum();
        assert_eq!(sum, kb(&capture, "MemTotal").unwrap() * KIB, "{name}");
        assert_eq!(p.absorbed, Bytes(0), "{name}");

        let line = |l: &str| kb(&capture, l).unwrap_or(0);
        let used = line("MemTotal")
            - line("MemFree")
            - line("Buffers")
            - line("Cached")
            - line("SReclaimable");
        let kernel = ["KernelStack", "PageTables", "SecPageTables", "Percpu", "VmallocUsed"];
        let accounted = line("AnonPages")
            + line("SUnreclaim")
            + line("Hugetlb")
            + kernel.map(line).iter().sum::<u64>();
        let zram = p.part(Segment::Compressed).unwrap().0 / KIB;
        let unaccounted = p.part(Segment::Unaccounted).unwrap();
        assert_eq!(unaccounted, Bytes::from_kib(used - accounted - zram), "{name}");
    }
}

#[test]
fn every_capture_says_how_far_to_trust_it() {
    let kinds: BTreeSet<&str> = captures()
        .iter()
        .map(|(name, path)| {
            let capture = Capture::load(path).unwrap();
            assert!(capture.title.len() > 10 && capture.source.len() > 3, "{name}");
            if capture.kind == Kind::Reconstructed {
                assert!(!capture.notes.is_empty(), "{name} does not say what was filled in");
            }
            capture.kind.as_str()
        })
        .collect();
    assert!(kinds.contains("raw") && kinds.contains("reconstructed"), "{kinds:?}");
}

#[test]
fn an_llm_server_shows_as_unaccounted_and_not_as_anything_else() {
    let pool = verdicts("spark-fe-llm-server").pool;
    let p = pool.partition.unwrap();
    near(p.part(Segment::Unaccounted).unwrap(), 98.3);
    // Used by the published formula, and what the kernel's counters account for.
    near(p.part(Segment::Unaccounted).unwrap().plus(Bytes(gib(9.6))), 107.9);
}

/// Writing 60 GiB to a file takes them from CUDA's view, not from the pool.
#[test]
fn page_cache_is_flushable_and_stays_available() {
    let [before, full, after] =
        ["1-before", "2-full", "3-after"].map(|n| verdicts(&format!("spark-page-cache-{n}")).pool);
    near(before.free.unwrap(), 103.25);
    near(full.free.unwrap(), 41.52);
    near(after.free.unwrap(), 103.30);
    near(full.available.unwrap(), 115.65);
    let rise = full.flushable.unwrap().less(before.flushable.unwrap());
    assert!(rise >= Bytes::from_gib(60) && rise <= Bytes::from_gib(62), "{rise}");
    assert!(before.available.unwrap().less(full.available.unwrap()) < Bytes::from_mib(256));
    let headroom =
        |pool: &gb10_exporter::model::pool::Pool, reader| pool.headroom[reader as usize].unwrap().0;
    assert!(headroom(&before, Reader::Free) - headroom(&full, Reader::Free) > 60 << 30);
    assert!(headroom(&before, Reader::Available) - headroom(&full, Reader::Available) < 1 << 28);
    assert!(full.hidden.unwrap() > Bytes::from_gib(74));
}

/// 78 GiB that no process holds: driver 590 keeps freed pages in pools. Nothing may call it a leak,
/// an emergency or somebody's.
#[test]
fn driver_page_pools_are_no_emergency() {
    let f = frame(&load("gb10-590-page-pools"));
    let pool = &f.verdicts.pool;
    let unaccounted = pool.partition.as_ref().unwrap().part(Segment::Unaccounted).unwrap();
    near(unaccounted, 78.23);
    assert_eq!(f.snapshot.nvidia.page_pools.unwrap().0, 529);
    assert_eq!((pool.below_reserve, pool.imminent), (Ok(false), Ok(false)));
    assert!(matches!(pool.exhaustion, Exhaustion::Roomy));
    for reader in Reader::ALL {
        assert!(pool.headroom[*reader as usize].unwrap().0 > 0);
    }
    let texts = [
        String::from_utf8(prometheus::encode(&f, None)).unwrap(),
        gb10_exporter::export::terminal::render(&Status::of(&f), false),
    ];
    for text in texts {
        let lower = text.to_lowercase().replace("neither a leak", "");
        let claims: Vec<_> = lower
            .lines()
            .filter(|line| !line.starts_with('#') && !line.ends_with(" 0"))
            .filter(|line| {
                ["leak", "exhaust", "orphan", "held by"].iter().any(|word| line.contains(word))
            })
            .collect();
        assert!(claims.is_empty(), "{claims:?}");
    }
    // No process is named as the holder; the pools are, and what an idle box may need stays unknown.
    let held = f.verdicts.unaccounted;
    assert_eq!(held.attribution, Attribution::Estimated);
    assert_eq!(held.part(Holder::GpuProcesses), Ok(Bytes(0)));
    assert_eq!(held.part(Holder::Unknown), Ok(f.thresholds.idle_remainder_max));
    near(held.part(Holder::PagePools).unwrap(), 74.23);
}

#[test]
fn three_services_are_a_full_healthy_box() {
    let pool = verdicts("dell-gb10-three-services").pool;
    // The driver holds what its processes hold (82.7 GiB) and a little of its own.
    let unaccounted = pool.partition.unwrap().part(Segment::Unaccounted).unwrap();
    assert!(
        (Bytes::from_mib(84_713)..Bytes::from_mib(86_000)).contains(&unaccounted),
        "{unaccounted}"
    );
    assert_eq!((pool.below_reserve, pool.imminent), (Ok(false), Ok(false)));
}

#[test]
fn page_sizes_orders_and_huge_pages_come_from_the_machine() {
    let sixty_four = verdicts("spark-64k-pages").pool;
    assert_eq!(sixty_four.page_size, Ok(Bytes(65536)));
    assert!(sixty_four.contiguous.iter().all(Result::is_ok), "14 orders of 64 KiB reach 32 MiB");
    assert_eq!(sixty_four.hidden, Ok(Bytes(0)), "more free than available hides nothing");

    let idle = verdicts("spark-fe-idle").pool;
    assert_eq!(idle.page_size, Ok(Bytes(4096)));
    assert_eq!(idle.contiguous[3], Err(Missing::NotPresent), "11 orders of 4 KiB end at 4 MiB");

    let zram = verdicts("spark-zram").pool;
    near(zram.partition.unwrap().part(Segment::Compressed).unwrap(), 2.0);
    assert!(zram.contiguous.iter().all(Result::is_ok), "14 orders of 4 KiB reach 32 MiB");

    let huge = verdicts("spark-hugetlb").pool;
    near(huge.partition.unwrap().part(Segment::HugePages).unwrap(), 16.0);

    let x86 = verdicts("x86-vm").pool;
    assert_eq!(x86.page_size, Ok(Bytes(4096)), "although MemFree there is six times nr_free_pages");
}

#[test]
fn a_container_without_sys_and_psi_still_tells_the_pool() {
    let f = frame(&load("container-no-psi-no-sys"));
    assert!(f.verdicts.pool.headroom.iter().all(Result::is_ok));
    assert_eq!(f.snapshot.pressure.memory_some, Err(Missing::NotPresent));
    assert_eq!(f.snapshot.zones, Err(Missing::NotPresent));
    assert_eq!(f.snapshot.nvidia.page_pools, Err(Missing::Denied));
    let text = String::from_utf8(prometheus::encode(&f, None)).unwrap();
    assert!(!text.contains("gb10_pressure_stall_seconds_total{"));
    assert!(!text.contains("gb10_board_temperature_celsius "));
    assert!(text.contains(
        "gb10_reading_missing{reading=\"nvidia.EnableSystemMemoryPools\",reason=\"denied\"} 1"
    ));
}

/// The optional driver's controller: on its box, and nowhere a trace of it without.
#[test]
fn the_power_controller_shows_where_its_driver_is_loaded() {
    let f = frame(&load("spark-hugetlb"));
    let m = &f.verdicts.module;
    assert_eq!(m.budget(Limit::Pl1), Ok(Watts(17.95)));
    assert_eq!(
        [Limit::Pl1, Limit::Syspl1].map(|l| m.limit(l)),
        [Ok(Watts(140.0)), Ok(Watts(231.0))]
    );
    assert_eq!(m.power(Rail::CpuE), Ok(Watts(0.012)));
    assert_eq!(m.energy(EnergyRail::Pkg), Ok(Joules(0.0)), "counted from here");
    assert_eq!((m.prochot, m.level), (Ok(false), Ok(Count(0))));
    for (name, path) in captures().into_iter().filter(|(name, _)| name != "spark-hugetlb") {
        let f = frame(&Capture::load(&path).unwrap());
        assert!(!f.verdicts.module.known(), "{name}");
        let status = Status::of(&f);
        assert!(!String::from_utf8(status.to_json()).unwrap().contains("\"module\""), "{name}");
        assert!(!terminal::render(&status, false).contains("Module"), "{name}");
        let text = String::from_utf8(prometheus::encode(&f, None)).unwrap();
        let module = |line: &str| line.starts_with("gb10_module_");
        assert!(!text.lines().any(module), "{name}");
    }
}

/// What the view for people says of the controller and of a peak, which no capture has.
#[test]
fn limits_signals_and_peaks_are_told_in_words() {
    let mut status = Status::of(&frame(&load("spark-hugetlb")));
    let line = |status: &Status, start: &str| {
        let text = terminal::render(status, false);
        text.lines().find(|line| line.trim_start().starts_with(start)).map(str::to_owned)
    };
    let whole = "Module: 17.9 of 140.0 W (pl1), 26.1 of 231.0 W (syspl1); system 24.9 W";
    assert_eq!(line(&status, "Module").as_deref(), Some(whole));
    assert_eq!(line(&status, "highest in"), None, "no hotter than now");
    let missing = || Figure::Missing { missing: "not_available".to_owned() };
    let module = status.module.as_mut().unwrap();
    module.prochot = Figure::Value(true);
    module.limits.get_mut("pl1").unwrap().limit_watts = missing();
    module.limits.get_mut("syspl1").unwrap().used_watts = missing();
    module.power_watts.insert("sys_total".to_owned(), missing());
    let part = "Module: 17.9 W (pl1, no limit read), limit 231.0 W (syspl1); PROCHOT: the board slows the SoC down";
    assert_eq!(line(&status, "Module").as_deref(), Some(part));
    status.board_max_celsius.insert("15m".to_owned(), Figure::Value(84.04));
    for (running, over) in [(190.0, "3 min 10 s"), (5000.0, "15 min 00 s")] {
        status.exporter.running_seconds = running;
        let want = format!("  highest in {over}: 84.0 °C");
        assert_eq!(line(&status, "highest in"), Some(want));
    }
}

/// A capture less one file.
struct Without<'a>(&'a Capture, &'a str);

impl sources::Files for Without<'_> {
    fn text(&self, path: &str) -> Result<String, sources::FileError> {
        if path == self.1 { Err(sources::FileError::Denied) } else { self.0.text(path) }
    }
    fn names(&self, path: &str) -> Result<Vec<String>, sources::FileError> {
        self.0.names(path)
    }
}

impl sources::Machine for Without<'_> {
    fn gpu(
        &self,
        pace: &sources::gpu::Pace<'_>,
        into: &mut gb10_exporter::model::gpu::Gpus,
    ) -> Result<(), sources::ReadError> {
        self.0.gpu(pace, into)
    }

    fn processes(
        &self,
        into: &mut gb10_exporter::model::workload::Processes,
    ) -> Result<(), sources::ReadError> {
        self.0.processes(into)
    }
}

/// The series of a scrape that are about the machine, by name and labels.
fn series(f: &Frame) -> std::collections::BTreeMap<String, String> {
    let text = String::from_utf8(prometheus::encode(f, None)).unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("gb10_reading_missing"))
        .filter(|line| !line.starts_with("gb10_source_"))
        .map(|line| {
            line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap()
        })
        .collect()
}

/// Whether a series may have another value when `path` is gone. Two figures are remainders or maxima:
/// they go on with one input less, and what is unknown takes what cannot be given to anybody else. An info metric leaves the label empty. A zone without its ACPI name
/// is named by its index. The page size has a second source. What cannot be told without it is named.
fn may_move(path: &str, name: &str) -> bool {
    name.contains("segment=\"unaccounted\"")
        || name.starts_with("gb10_board_")
        || name.contains("holder=\"unknown\"")
        || name.starts_with("gb10_pool_attribution")
        || name.starts_with("gb10_contention_state")
        || name.starts_with("gb10_pressure_state")
        || (path == "/proc/meminfo" && name.starts_with("gb10_gpu_memory_"))
        || (path == "/proc/meminfo" && name.contains("input=\"held_memory\""))
        || (name.contains("_info{") && name.contains("=\"\""))
        || (path.ends_with("device/path") && name.starts_with("gb10_zone"))
}

/// Taking one file away takes away what comes from it, changes nothing else, and says why: on every
/// machine, for every file.
#[test]
fn a_missing_file_costs_only_its_own_readings() {
    let mut tried = 0;
    for (machine, path) in captures() {
        let capture = Capture::load(&path).unwrap();
        let whole_frame = frame(&capture);
        let whole = series(&whole_frame);
        for (path, _) in capture.paths() {
            let f = frame(&Without(&capture, path));
            for (name, value) in &series(&f) {
                let same = whole.get(name) == Some(value);
                let was = whole.get(name);
                assert!(
                    same || may_move(path, name),
                    "{machine} without {path}: {name} was {was:?}, is {value}"
                );
            }
            if let Ok(p) = &f.verdicts.pool.partition {
                let sum: u64 = p.parts.iter().flatten().map(|b| b.0).sum();
                assert_eq!(sum, p.size.0, "{machine} without {path}");
            }
            if readings(&f) == readings(&whole_frame) {
                continue;
            }
            tried += 1;
            let text = String::from_utf8(prometheus::encode(&f, None)).unwrap();
            // A sensor without its label goes by its number.
            let by_number = path.ends_with("device/path") || path.ends_with("_label");
            let named = by_number || text.contains("reason=\"denied\"");
            assert!(named, "{machine} without {path}: nothing says why");
        }
    }
    assert!(tried > 400, "only {tried} files mattered");
}

fn readings(f: &Frame) -> impl PartialEq + use<> {
    Status::of(f).readings
}

/// The same machine through real files below `--path.procfs` and `--path.sysfs`.
#[test]
fn roots_and_captures_read_alike() {
    let mut compared = 0;
    for (name, path) in captures() {
        let capture = Capture::load(&path).unwrap();
        // A file that may not be read cannot be staged by a test that runs as root.
        if capture.paths().any(|(p, text)| text.is_none() && p.ends_with("params")) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        unpack(&capture, dir.path());
        let roots = sources::Roots {
            procfs: dir.path().join("proc"),
            sysfs: dir.path().join("sys"),
            rootfs: dir.path().to_owned(),
        };
        assert_eq!(
            Status::of(&frame(&capture)).readings,
            Status::of(&frame(&Unpacked(roots, &capture))).readings,
            "{name}"
        );
        compared += 1;
    }
    assert!(compared >= captures().len() - 1, "only {compared} were compared");
}

/// A capture's files as real ones; its GPU and its processes, which are no files, as they are.
struct Unpacked<'a>(sources::Roots, &'a Capture);

impl sources::Files for Unpacked<'_> {
    fn text(&self, path: &str) -> Result<String, sources::FileError> {
        self.0.text(path)
    }
    fn names(&self, path: &str) -> Result<Vec<String>, sources::FileError> {
        self.0.names(path)
    }
}

impl sources::Machine for Unpacked<'_> {
    fn gpu(
        &self,
        pace: &sources::gpu::Pace<'_>,
        into: &mut gb10_exporter::model::gpu::Gpus,
    ) -> Result<(), sources::ReadError> {
        self.1.gpu(pace, into)
    }

    fn processes(
        &self,
        into: &mut gb10_exporter::model::workload::Processes,
    ) -> Result<(), sources::ReadError> {
        self.1.processes(into)
    }
}

#[expect(clippy::disallowed_methods, reason = "a test sets the scene")]
fn unpack(capture: &Capture, into: &Path) {
    for (path, text) in capture.paths() {
        if let Some(text) = text {
            let file = into.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
    }
}
