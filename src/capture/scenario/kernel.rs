//! Lines of the kernel in a scenario: `95s kernel NVRM: Xid (PCI:000f:01:00): 13, ...`, and
//! `95s kernel x 16 ...` for one that comes 16 times.

use super::Scenario;
use crate::capture::kernel::counted;
use crate::model::kernel_log::{KernelLog, LogPlace};
use crate::model::reading::Missing;
use crate::sources::kernel_log::Tally;
use std::time::Duration;

/// A line of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelLine {
    pub at: Duration,
    /// Where the scenario says so.
    pub line: usize,
    pub times: u64,
    pub text: String,
}

impl KernelLine {
    /// What comes after `kernel`.
    pub(super) fn parse(line: usize, at: Duration, rest: &str) -> Result<Self, String> {
        let (times, text) = counted(rest)?;
        Ok(Self { at, line, times, text })
    }
}

/// The kernel's log of a scenario on its way. What is there when the machine comes up, and so when the exporter
/// starts, is from before it; that of the capture, too.
pub struct KernelLines {
    tally: Option<Tally>,
    /// Lines that were taken.
    taken: usize,
    /// When the machine last came up.
    up: Duration,
}

impl KernelLines {
    /// Of a machine that comes up then, or was up at the beginning.
    #[must_use]
    pub fn of(scenario: &Scenario, up: Duration) -> Self {
        let own = scenario.base.tally(LogPlace::Scenario);
        let has = own.is_some() || !scenario.kernel.is_empty();
        let first = own.filter(|_| up.is_zero());
        let tally = has.then(|| first.unwrap_or_else(|| Tally::new(LogPlace::Scenario)));
        Self { tally, taken: 0, up }
    }

    /// The log at a time, which is not before the last one that was asked for. A scenario without lines of
    /// the kernel has no log.
    pub fn at(&mut self, scenario: &Scenario, time: Duration) -> KernelLog {
        let Some(tally) = &mut self.tally else { return Err(Missing::NotPresent) };
        let due = scenario.kernel.iter().skip(self.taken).take_while(|line| line.at <= time);
        for line in due {
            self.taken += 1;
            if line.at >= self.up {
                let at = Ok(scenario.start + line.at);
                tally.take(&line.text, at, line.at == self.up, line.times);
            }
        }
        Ok(tally.told())
    }
}
