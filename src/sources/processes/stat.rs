//! `/proc/PID/stat` and `/proc/PID/status`.

use crate::model::reading::{Missing, Reading};
use crate::model::workload::Proc;
use crate::units::{Bytes, KIB};

/// What a `stat` line tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    /// The name, as the program or the kernel gave it. Any bytes, parentheses and line ends among them.
    pub(super) comm: Vec<u8>,
    pub(super) zombie: bool,
    /// A thread of the kernel's own.
    pub(super) kernel: bool,
    pub(super) parent: u32,
    /// In ticks.
    pub(super) cpu: u64,
    pub(super) major_faults: u64,
    /// In ticks since boot.
    pub(super) started: u64,
}

/// What the kernel notes of its own threads among their flags (PF_KTHREAD).
const KERNEL: u64 = 0x0020_0000;

/// Parses a line; none when it is not one.
pub(super) fn parse(line: &[u8]) -> Option<Stat> {
    // The name stands in parentheses and may hold some itself; the last one closes it.
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let comm = line.get(open + 1..close)?.to_vec();
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    Some(Stat {
        comm,
        zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        kernel: number(6)? & KERNEL != 0,
        parent: fields.get(1)?.parse().ok()?,
        major_faults: number(9)?,
        cpu: number(11)?.saturating_add(number(12)?),
        started: number(19)?,
    })
}

/// Takes the lines of memory from a `status`. A process that has ended has none of them.
pub(super) fn memory(text: &[u8], proc: &mut Proc) {
    no_memory(proc, Missing::NotPresent);
    for line in text.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let place: &mut Reading<Bytes> = match &line[..colon] {
            b"VmRSS" => &mut proc.resident,
            b"VmHWM" => &mut proc.resident_peak,
            b"RssAnon" => &mut proc.anonymous,
            b"RssFile" => &mut proc.file,
            b"RssShmem" => &mut proc.shared,
            b"VmLck" => &mut proc.locked,
            b"VmSwap" => &mut proc.swap,
            _ => continue,
        };
        *place = kib(&line[colon + 1..]).ok_or(Missing::Malformed);
    }
}

/// None of it, for one reason.
pub(super) const fn no_memory(proc: &mut Proc, reason: Missing) {
    proc.resident = Err(reason);
    proc.resident_peak = Err(reason);
    proc.anonymous = Err(reason);
    proc.file = Err(reason);
    proc.shared = Err(reason);
    proc.locked = Err(reason);
    proc.swap = Err(reason);
}

fn kib(value: &[u8]) -> Option<Bytes> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let number: u64 = text.strip_suffix("kB")?.trim_end().parse().ok()?;
    number.checked_mul(KIB).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::workload::Class;
    use proptest::prelude::*;

    const REST: &str = "S 200 214 214 0 -1 4194560 900 0 31 0 1200 300 0 0 20 0 5 0 61240 1 2 3";

    #[test]
    fn a_line_is_read_whatever_the_name() {
        let want = Stat {
            comm: b"VLLM::EngineCor".to_vec(),
            zombie: false,
            kernel: false,
            parent: 200,
            cpu: 1500,
            major_faults: 31,
            started: 61_240,
        };
        assert_eq!(parse(format!("214 (VLLM::EngineCor) {REST}").as_bytes()), Some(want.clone()));
        for name in ["a) Z 1 (b", "(", ")", "", " ", "x\ny"] {
            let read = parse(format!("214 ({name}) {REST}").as_bytes()).unwrap();
            assert_eq!(read, Stat { comm: name.as_bytes().to_vec(), ..want.clone() });
        }
        let mut bytes = b"214 (\xff\xfe) ".to_vec();
        bytes.extend_from_slice(REST.as_bytes());
        assert_eq!(parse(&bytes).unwrap().comm, b"\xff\xfe");
        assert!(
            parse(format!("214 (x) {}", REST.replacen('S', "Z", 1)).as_bytes()).unwrap().zombie
        );
        let kernel = "5 (kworker/0:0-events) I 2 0 0 0 -1 69238880 0 0 0 0 0 9 0 0 20 0 1 0 16 0 0";
        assert!(parse(kernel.as_bytes()).unwrap().kernel);
        for bad in ["", "214", "214 (x", "214 (x) S", "214 (x) S a b", "214 x) S 1", ")("] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn memory_is_read_by_name() {
        let mut proc = Proc::new("7", 7, Class::Vllm.into(), Missing::Pending);
        let text = "Name:\tVmRSS: 5 kB\nVmHWM:\t   90000 kB\nVmRSS:\t   80000 kB\nRssAnon:\t 60000 kB\n\
                    RssFile:\t 20000 kB\nRssShmem:\t 0 kB\nVmSwap:\t 12\n";
        memory(text.as_bytes(), &mut proc);
        assert_eq!(proc.resident, Ok(Bytes::from_kib(80_000)));
        assert_eq!(proc.anonymous, Ok(Bytes::from_kib(60_000)));
        assert_eq!(proc.shared, Ok(Bytes(0)));
        assert_eq!(proc.swap, Err(Missing::Malformed), "without its unit it was cut short");
        assert_eq!(proc.locked, Err(Missing::NotPresent));
        memory(b"Name:\tzombie\nState:\tZ (zombie)\n", &mut proc);
        assert_eq!(proc.resident, Err(Missing::NotPresent));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
            let mut proc = Proc::new("7", 7, Class::Vllm.into(), Missing::Pending);
            memory(&bytes, &mut proc);
        }
    }
}
