//! An exporter on a machine of real files whose NVIDIA driver is a stand-in.

use super::fakes::Gpu;
use super::{Exporter, Machine, exporter, value};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// An exporter on a machine of real files whose driver's library is a stand-in.
pub struct Rig {
    _machine: Machine,
    pub gpu: Gpu,
    pub exporter: Exporter,
}

impl Rig {
    /// With a library in place of NVIDIA's.
    pub fn new(capture: &str, library: &Path, yaml: &str) -> Self {
        Self::with(capture, &[("--path.nvml", library)], yaml)
    }

    /// With these programs and libraries.
    pub fn with(capture: &str, paths: &[(&str, &Path)], yaml: &str) -> Self {
        let machine = Machine::new(capture);
        let gpu = Gpu::new(capture);
        let mut command = exporter();
        command.args(["serve", "--web.listen-address", "127.0.0.1:0"]);
        for (flag, sub) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
            command.arg(format!("--path.{flag}={}", machine.path(sub).display()));
        }
        let config = machine.path("config.yml");
        fs::write(&config, yaml).unwrap();
        command.arg("--config.file").arg(config);
        for (flag, path) in paths {
            command.arg(flag).arg(path);
        }
        command.envs(gpu.environment());
        Self { exporter: Exporter::spawn(command), _machine: machine, gpu }
    }

    pub fn wait(&self, what: &str, check: impl Fn(&str) -> bool) -> String {
        self.exporter.wait_for_metrics(what, check)
    }

    pub fn logged(&self) -> String {
        self.exporter.log.lock().unwrap().clone()
    }

    pub fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.exporter.child.id())).unwrap().count()
    }

    /// Connections of scrapes that are being closed come on top for a moment: the least of several
    /// looks.
    pub fn open_files(&self) -> usize {
        let count =
            || fs::read_dir(format!("/proc/{}/fd", self.exporter.child.id())).unwrap().count();
        let looks = (0..20).map(|_| {
            thread::sleep(Duration::from_millis(20));
            count()
        });
        looks.min().unwrap()
    }

    /// How often the library was initialised.
    pub fn inits(&self) -> usize {
        self.gpu.trace().iter().filter(|line| *line == "init").count()
    }

    /// No call ever began while another one was running: there is one thread that asks.
    pub fn assert_one_thread_asks(&self) {
        let trace = self.gpu.trace();
        assert!(!trace.iter().any(|line| line == "OVERLAP"), "{trace:?}");
        assert!(!trace.is_empty());
    }
}

/// The state of the GPU's source.
pub fn state(metrics: &str) -> String {
    let prefix = "gb10_source_state{source=\"gpu\",state=\"";
    let of = |line: &str| Some(line.strip_prefix(prefix)?.strip_suffix("\"} 1")?.to_owned());
    metrics.lines().find_map(of).unwrap_or_else(|| "none".to_owned())
}

/// A counter of a lane.
pub fn of_lane(metrics: &str, what: &str, lane: &str) -> f64 {
    value(metrics, &format!("gb10_lane_{what}_total{{lane=\"{lane}\"}}")).unwrap()
}
