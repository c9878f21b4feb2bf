//! Real pressure: programs in a control group that is too small for them, on a swap file of the test's own.
//! The kernel's counters move, and the symptoms follow.
//!
//! It takes root to make these. Where they cannot be made that is said, and what is left is asserted: that
//! nothing shows. What a control group of version 1 or 2 reclaims is in none of the kernel's counters of
//! reclaim, so the state of the pressure cannot be shown here, nor can what Ubuntu's kernel does otherwise.
#![expect(clippy::disallowed_methods, reason = "tests start programs and set the scene")]

#[path = "processes/live.rs"]
#[expect(dead_code, reason = "it is there for other tests, too")]
mod live;
mod support;

use live::{Actor, CAPTURE, Cast, charge, serve};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::fakes::Gpu;
use support::{root, value};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// What the group may have, and what a program in it wants.
const LIMIT: u64 = 64 * MIB;
const WANTED: u64 = 160;
const QUICK: &str = "thresholds: {pressure: {window: 5s, hold: 0s}}\n";

/// A control group of the test's own, with a limit.
struct Group(PathBuf);

impl Group {
    /// In either version; why not, otherwise.
    fn new(name: &str) -> Result<Self, String> {
        let name = format!("gb10-exporter-{name}-{}", std::process::id());
        let versions =
            [("memory", "memory.limit_in_bytes"), ("", "memory.max"), ("unified", "memory.max")];
        for (below, limit) in versions {
            let path = Path::new("/sys/fs/cgroup").join(below).join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Self(path);
            if fs::write(group.0.join(limit), LIMIT.to_string()).is_ok() {
                return Ok(group);
            }
        }
        Err("no control group with a limit can be made".to_owned())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A swap file of the test's own.
struct Swap(PathBuf);

impl Swap {
    fn new() -> Result<Self, String> {
        let path = root().join(format!("target/swap-{}", std::process::id()));
        // It may have no holes.
        fs::write(&path, vec![0x5a; 256 << 20]).map_err(|e| e.to_string())?;
        let swap = Self(path);
        for program in ["chmod 600", "mkswap", "swapon"] {
            let (program, argument) = program.split_once(' ').unwrap_or((program, ""));
            let mut command = Command::new(program);
            command.args(Some(argument).filter(|argument| !argument.is_empty())).arg(&swap.0);
            let out = command.output().map_err(|e| format!("{program}: {e}"))?;
            if !out.status.success() {
                return Err(format!("{program}: {}", String::from_utf8_lossy(&out.stderr)));
            }
        }
        Ok(swap)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
        let _ = fs::remove_file(&self.0);
    }
}

fn symptom(name: &str) -> String {
    let proof =
        if ["swap_in", "anonymous_refaults"].contains(&name) { "proven" } else { "context" };
    format!("gb10_eviction_symptom{{symptom=\"{name}\",proof=\"{proof}\"}}")
}

fn contention(state: &str) -> String {
    format!("gb10_contention_state{{state=\"{state}\"}}")
}

/// Two jobs without a cap, each of which holds enough to be heavy.
fn two(cast: &mut Cast, gpu: &Gpu) -> (Actor, Actor) {
    let line = ["/usr/bin/python3", "/usr/local/bin/trl", "sft"];
    let trainer = cast.start("python3", &line);
    let server = cast.start("python3", &["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "m"]);
    charge(gpu, &[(trainer.pid, 6 * GIB), (server.pid, 5 * GIB)]);
    (trainer, server)
}

fn config(directory: &Path) -> String {
    let path = directory.join("config.yml");
    fs::write(&path, QUICK).unwrap();
    path.display().to_string()
}

/// What a job needs is swapped out and read back, beside another job: that is eviction, and it is proven.
#[test]
fn swapping_beside_another_job_is_eviction() {
    let directory = tempfile::tempdir().unwrap();
    let gpu = Gpu::new(CAPTURE);
    let mut cast = Cast::new();
    let (trainer, server) = two(&mut cast, &gpu);
    let exporter = serve(&gpu, &["--config.file", &config(directory.path())]);
    let calm = |m: &str| value(m, &contention("overcommitted")) == Some(1.0);
    exporter.wait_for_metrics("two heavy ones and nothing moves", calm);
    let made = Group::new("hog").and_then(|group| Ok((group, Swap::new()?)));
    let (group, swap) = match made {
        Ok(made) => made,
        Err(why) => {
            eprintln!("not shown on this machine: {why}");
            let metrics = exporter.get("/metrics");
            assert_ne!(value(&metrics, &symptom("swap_in")), Some(1.0));
            return;
        }
    };
    cast.order(&trainer, &["join", group.0.to_str().unwrap()]);
    cast.order(&trainer, &["hog", &WANTED.to_string()]);
    let evicting = |m: &str| {
        [symptom("swap_in"), symptom("anonymous_refaults"), contention("evicting")]
            .iter()
            .all(|series| value(m, series) == Some(1.0))
    };
    exporter.wait_for_metrics("what was swapped out is read back", evicting);
    let status = exporter.get("/api/v1/status");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let evidence = status["contention"]["evidence"].as_str().unwrap();
    assert!(evidence.contains("swap_in: ") && evidence.contains("MiB/s from swap"), "{evidence}");
    assert!(!evidence.contains("GPU pages"), "nobody knows: {evidence}");
    // Its swap is told, by job.
    let swapped = "gb10_workload_swap_bytes{workload=\"trl\",unit=";
    exporter.wait_for_metrics("its swap", |m| {
        let line = m.lines().find(|line| line.starts_with(swapped));
        let bytes = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        bytes.is_some_and(|bytes| bytes > 32.0 * 1_048_576.0)
    });
    cast.kill(&trainer);
    charge(&gpu, &[(server.pid, 5 * GIB)]);
    let over = |m: &str| {
        value(m, &symptom("swap_in")) == Some(0.0) && value(m, &contention("none")) == Some(1.0)
    };
    exporter.wait_for_metrics("it is over", over);
    drop((group, swap));
}

/// A data set that is larger than what there is room for is read again and again: context, and no proof.
#[test]
fn reading_a_data_set_is_context() {
    let directory = tempfile::tempdir().unwrap();
    let gpu = Gpu::new(CAPTURE);
    let mut cast = Cast::new();
    let (trainer, _server) = two(&mut cast, &gpu);
    let exporter = serve(&gpu, &["--config.file", &config(directory.path())]);
    let group = match Group::new("reader") {
        Ok(group) => group,
        Err(why) => {
            eprintln!("not shown on this machine: {why}");
            exporter.wait_for_metrics("told", |m| value(m, &symptom("file_refaults")).is_some());
            return;
        }
    };
    let data = root().join(format!("target/data-{}", std::process::id()));
    cast.order(&trainer, &["join", group.0.to_str().unwrap()]);
    cast.order(&trainer, &["read", data.to_str().unwrap(), "200"]);
    let metrics = exporter.wait_for_metrics("file pages are read back", |m| {
        value(m, &symptom("file_refaults")) == Some(1.0)
    });
    assert_eq!(value(&metrics, &symptom("swap_in")), Some(0.0));
    assert_eq!(value(&metrics, &symptom("anonymous_refaults")), Some(0.0));
    assert_eq!(value(&metrics, &contention("evicting")), Some(0.0));
    cast.kill(&trainer);
    fs::remove_file(data).unwrap();
    drop(group);
}
