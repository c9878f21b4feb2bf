//! A box whose processes, memory and counters a test moves.

use crate::derive::{self, State};
use crate::model::gpu::{Gpu, GpuProcess};
use crate::model::moment::Moment;
use crate::model::pool::Verdicts;
use crate::model::reading::Missing;
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::model::workload::{Job, Phase, Proc, Workload, Workloads};
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Count, Ratio, Seconds};
use std::time::Duration;

const GIB: u64 = crate::units::GIB;

/// A box whose processes a test moves.
pub(in crate::derive) struct Spark {
    pub(in crate::derive) state: State,
    pub(in crate::derive) t: Thresholds,
    pub(in crate::derive) snapshot: Snapshot,
    pub(in crate::derive) seconds: u64,
    pub(in crate::derive) now: Option<Verdicts>,
}

impl Spark {
    /// With 120 GiB, all but 10 of them available, and one idle GB10.
    pub(in crate::derive) fn new() -> Self {
        let at = Moment { mono: Duration::ZERO, wall: Duration::from_secs(1_764_000_000) };
        let mut snapshot = Snapshot::absent(at, Missing::NotPresent);
        snapshot.meminfo.total = Ok(Bytes::from_gib(120));
        snapshot.meminfo.free = Ok(Bytes::from_gib(100));
        snapshot.meminfo.available = Ok(Bytes::from_gib(110));
        snapshot.kernel.arch = Ok("aarch64".into());
        snapshot.uptime.since_boot = Ok(Seconds(1000.0));
        let mut gpu = Gpu::absent(0, Missing::Unsupported);
        gpu.name = Ok("NVIDIA GB10".into());
        gpu.pci_device_id = Ok(derive::GB10_DEVICE.into());
        gpu.utilization = Ok(Ratio(0.0));
        gpu.processes = Ok(Vec::new());
        gpu.listed = [Ok(Count(0)), Ok(Count(0)), Err(Missing::Unsupported)];
        snapshot.gpus.devices = Ok(vec![gpu]);
        snapshot.processes.list = Ok(Vec::new());
        snapshot.processes.denied = Ok(Count(0));
        Self { state: State::default(), t: Thresholds::default(), snapshot, seconds: 0, now: None }
    }

    pub(in crate::derive) fn gpu(&mut self) -> &mut Gpu {
        &mut self.snapshot.gpus.devices.as_mut().unwrap()[0]
    }

    pub(in crate::derive) fn procs(&mut self) -> &mut Vec<Proc> {
        self.snapshot.processes.list.as_mut().unwrap()
    }

    /// A process begins. It started now unless the text says otherwise.
    pub(in crate::derive) fn start(&mut self, is: &str) -> &mut Self {
        let mut proc = Proc::from_is("", is).unwrap();
        proc.name = proc.pid.to_string();
        if !is.contains("started=") {
            proc.started = self.snapshot.uptime.since_boot.unwrap();
        }
        proc.cpu = Ok(Seconds(0.0));
        proc.major_faults = Ok(Count(0));
        for figure in [
            &mut proc.resident,
            &mut proc.anonymous,
            &mut proc.file,
            &mut proc.shared,
            &mut proc.swap,
        ] {
            *figure = Ok(Bytes(0));
        }
        self.procs().push(proc);
        self
    }

    pub(in crate::derive) fn proc(&mut self, pid: u32) -> &mut Proc {
        self.procs().iter_mut().find(|proc| proc.pid == pid).unwrap()
    }

    pub(in crate::derive) fn end(&mut self, pid: u32) -> &mut Self {
        self.procs().retain(|proc| proc.pid != pid);
        self.gpu().processes.as_mut().unwrap().retain(|row| row.pid != pid);
        self
    }

    /// What the driver charges to a process.
    pub(in crate::derive) fn holds(&mut self, pid: u32, bytes: u64) -> &mut Self {
        let rows = self.gpu().processes.as_mut().unwrap();
        rows.retain(|row| row.pid != pid);
        rows.push(GpuProcess { pid, memory: Ok(Bytes(bytes)), lists: [true, false, false] });
        self
    }

    pub(in crate::derive) fn busy(&mut self, share: f64) -> &mut Self {
        self.gpu().utilization = Ok(Ratio(share));
        self
    }

    /// Seconds pass; processes are read every fifth.
    pub(in crate::derive) fn run(&mut self, seconds: u64) -> &Verdicts {
        for _ in 0..seconds {
            self.seconds += 1;
            let at = Moment {
                mono: Duration::from_secs(self.seconds),
                wall: Duration::from_secs(1_764_000_000 + self.seconds),
            };
            self.snapshot.at = at;
            self.snapshot.uptime.since_boot =
                self.snapshot.uptime.since_boot.map(|Seconds(s)| Seconds(s + 1.0));
            if self.seconds % 5 == 1 {
                self.snapshot.read_at[Source::Processes.index()] = Some(at);
            }
            for source in [Source::Meminfo, Source::Vmstat] {
                self.snapshot.read_at[source.index()] = Some(at);
            }
            self.now = Some(derive::derive(&mut self.state, &self.snapshot, &self.t));
        }
        self.now.as_ref().unwrap()
    }

    pub(in crate::derive) fn workloads(&self) -> &Workloads {
        &self.now.as_ref().unwrap().workloads
    }

    pub(in crate::derive) fn jobs(&self) -> &[Job] {
        self.workloads().jobs.as_ref().unwrap()
    }

    pub(in crate::derive) fn job(&self, class: &str) -> &Job {
        let mut found = self.jobs().iter().filter(|job| job.class.as_str() == class);
        let job = found.next().unwrap_or_else(|| panic!("no {class} in {:?}", self.jobs()));
        assert!(found.next().is_none(), "several {class}");
        job
    }

    pub(in crate::derive) fn phase(&self, class: &str) -> Phase {
        self.job(class).phase.unwrap()
    }

    pub(in crate::derive) fn workload(&self, class: &str, unit: &str) -> Option<&Workload> {
        let totals = self.workloads().totals.as_ref().unwrap();
        totals.iter().find(|w| w.class.as_str() == class && &*w.unit == unit)
    }

    /// A server of 60 GiB loads within a minute, is warm two minutes later and waits for requests.
    pub(in crate::derive) fn serving(&mut self) -> &mut Self {
        self.run(1);
        self.start("vllm pid=10 unit=docker cap=whole:0.5");
        self.start("vllm pid=11 parent=10 unit=docker cap=unknown");
        self.run(10);
        for gib in 1..=58 {
            self.holds(11, gib * GIB).run(1);
        }
        self.run(200);
        self
    }
}
