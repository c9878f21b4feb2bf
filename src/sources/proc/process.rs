//! `/proc/self`: the exporter's own process.
//!
//! `self` is whoever asks, so this is never another program. Where `/proc` stands for another
//! machine's tree there is no `self` in it, and the source is not present.

use crate::model::fields::Group;
use crate::model::process::Process;
use crate::model::reading::{FromRaw, Missing, Reading};
use crate::sources::files::{Files, ReadError, Worst};
use crate::sources::lines::{kernel_number, shown, whole, whole_lines};
use crate::units::{Count, Seconds};
use procfs::process::{LimitValue, Limits, Stat};
use procfs::{FromBufRead, FromRead};

const STAT: &str = "/proc/self/stat";
const STATUS: &str = "/proc/self/status";
const LIMITS: &str = "/proc/self/limits";
const FD: &str = "/proc/self/fd";

/// CPU time, and the start in time since boot.
///
/// # Errors
/// The text is not a stat line.
pub fn parse_stat(text: &str) -> Result<(Seconds, Seconds), ReadError> {
    let stat = Stat::from_read(whole(STAT, text)?.as_bytes()).map_err(|_| {
        ReadError::malformed(STAT, format!("expected a line of numbers, found {}", shown(text)))
    })?;
    let cpu = Seconds::from_ticks(stat.utime.saturating_add(stat.stime));
    Ok((cpu, Seconds::from_ticks(stat.starttime)))
}

/// Takes memory and threads from `Name: value [kB]` lines; one that is not there costs itself only.
pub fn parse_status(text: &str, out: &mut Process) {
    for line in whole_lines(text).lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name {
            "VmRSS" => out.resident = number(value),
            "VmSize" => out.virtual_memory = number(value),
            "Threads" => out.threads = number(value),
            _ => {}
        }
    }
}

fn number<T: FromRaw>(value: &str) -> Reading<T> {
    kernel_number(value).and_then(T::from_raw)
}

/// The soft limit of open files: the one that counts. None where there is no limit.
///
/// # Errors
/// The text is not the table of limits.
pub fn parse_limits(text: &str) -> Result<Option<Count>, ReadError> {
    let limits = Limits::from_buf_read(whole(LIMITS, text)?.as_bytes()).map_err(|_| {
        ReadError::malformed(LIMITS, format!("expected a table of limits, found {}", shown(text)))
    })?;
    Ok(match limits.max_open_files.soft_limit {
        LimitValue::Value(files) => Some(Count(files)),
        LimitValue::Unlimited => None,
    })
}

/// Reads the exporter's own files into `out`.
///
/// # Errors
/// A file's failure, or what it said instead.
pub fn read(files: &dyn Files, out: &mut Process) -> Result<(), ReadError> {
    *out = Process::absent(Missing::NotPresent);
    let mut worst = Worst::default();
    let text = |path: &str| files.text(path).map_err(|e| e.at(path));
    let stat = worst.note(text(STAT).and_then(|text| parse_stat(&text)));
    out.cpu = stat.map(|(cpu, _)| cpu);
    out.started = stat.map(|(_, started)| started);
    match worst.note(text(STATUS)) {
        Ok(text) => parse_status(&text, out),
        Err(reason) => {
            out.resident = Err(reason);
            out.virtual_memory = Err(reason);
            out.threads = Err(reason);
        }
    }
    let limit = worst.note(text(LIMITS).and_then(|text| parse_limits(&text)));
    out.max_fds = limit.and_then(|limit| limit.ok_or(Missing::NotPresent));
    let open = worst.note(files.names(FD).map_err(|e| e.at(FD)));
    // One of them is the listing's own.
    out.open_fds = open.map(|names| Count(names.len().saturating_sub(1) as u64));
    worst.outcome()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Roots;
    use crate::units::Bytes;

    const LINE: &str = "1 (a b) c) S 0 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0 1234 5 6 \
        18446744073709551615 1 1 0 0 0 0 0 4096 17 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn ticks_are_hundredths_and_a_name_may_hold_anything() {
        assert_eq!(parse_stat(LINE).unwrap(), (Seconds(3.0), Seconds(12.34)));
        for text in ["", "1 (a", "1 (a) S 2\n", "a (b) c d\n"] {
            assert!(parse_stat(text).is_err(), "{text:?}");
        }
        for end in 0..LINE.len() {
            assert!(parse_stat(&LINE[..end]).is_err(), "cut short after {end}");
        }
    }

    #[test]
    fn a_line_that_is_not_there_costs_itself_only() {
        let mut out = Process::absent(Missing::NotPresent);
        parse_status("Name:\tx\nVmSize:\t    300 kB\nVmRSS:\t12\nThreads:\t9\n", &mut out);
        assert_eq!(out.virtual_memory, Ok(Bytes(300 * 1024)));
        assert_eq!(out.resident, Err(Missing::Malformed), "an amount without its unit");
        assert_eq!(out.threads, Ok(Count(9)));
    }

    #[test]
    fn a_table_of_limits_that_is_none_is_malformed() {
        let good = std::fs::read_to_string(LIMITS).unwrap();
        assert!(parse_limits(&good).unwrap().is_none_or(|limit| limit.0 > 0));
        for end in 0..good.len() {
            assert!(parse_limits(&good[..end]).is_err(), "cut short after {end}");
        }
        assert!(parse_limits("Limit\nMax cpu time\n").is_err());
    }

    #[test]
    fn this_very_process_is_read() {
        let mut out = Process::absent(Missing::Pending);
        read(&Roots::default(), &mut out).unwrap();
        assert!(out.resident.unwrap() <= out.virtual_memory.unwrap());
        assert!(out.threads.unwrap().0 >= 1);
        assert!(out.open_fds.unwrap().0 >= 3);
        assert!(out.started.unwrap().0 > 0.0);
    }

    #[test]
    fn another_machines_tree_has_no_self() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { procfs: dir.path().into(), ..Roots::default() };
        let mut out = Process::absent(Missing::Pending);
        assert_eq!(read(&roots, &mut out).unwrap_err().reason(), Missing::NotPresent);
        assert_eq!(out, Process::absent(Missing::NotPresent));
    }
}
