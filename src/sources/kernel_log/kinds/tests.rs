use super::*;
use crate::model::workload::Class;
use proptest::prelude::*;

/// A line as the kernel or the driver writes it, its kind, number and program.
const LINES: &[(&str, MessageKind, Option<u64>, Option<&str>)] = &[
    (
        "NVRM: Xid (PCI:000f:01:00): 13, pid=4711, name=python, Graphics Exception: ESR 0x505730=0x104",
        MessageKind::Xid,
        Some(13),
        None,
    ),
    (
        "NVRM: Xid (PCI:0000:23:00): 79, GPU has fallen off the bus.",
        MessageKind::Xid,
        Some(79),
        None,
    ),
    ("NVRM: Xid (PCI:000f:01:00): 154", MessageKind::Xid, Some(154), None),
    (
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359",
        MessageKind::DriverNoMemory,
        None,
        None,
    ),
    // Without the code, and from another line and another place.
    (
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1393",
        MessageKind::DriverNoMemory,
        None,
        None,
    ),
    (
        "NVRM: GPU0 nvAssertOkFailedNoLog: Assertion failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from kgrctxAllocCtxBuffers(x) @ kernel_graphics_object.c:215",
        MessageKind::DriverNoMemory,
        None,
        None,
    ),
    (
        "NVRM: GPU0 nvCheckOkFailedNoLog: Check failed: Call not supported [NV_ERR_NOT_SUPPORTED] (0x00000056) returned from x @ y.c:4370",
        MessageKind::DriverError,
        None,
        None,
    ),
    (
        "NVRM: nvAssertFailedNoLog: Assertion failed: pBinArchive != NULL @ kernel_gsp_booter.c:487",
        MessageKind::DriverError,
        None,
        None,
    ),
    (
        "NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.126.09  Release Build",
        MessageKind::DriverLoaded,
        None,
        None,
    ),
    (
        "VLLM::Worker_TP invoked oom-killer: gfp_mask=0x102cc2(GFP_HIGHUSER|__GFP_NOWARN), order=4, oom_score_adj=0",
        MessageKind::OomInvoked,
        Some(4),
        Some("VLLM::Worker_TP"),
    ),
    (
        "Out of memory: Killed process 4711 (python) total-vm:158493688kB, anon-rss:1000kB, file-rss:4kB, shmem-rss:64992kB, UID:1000 pgtables:1kB oom_score_adj:0",
        MessageKind::OomKill,
        None,
        Some("python"),
    ),
    (
        "Memory cgroup out of memory: Killed process 1 (a b) total-vm:8kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB",
        MessageKind::OomKill,
        None,
        Some("a b"),
    ),
    (
        "python: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null),cpuset=/,mems_allowed=0",
        MessageKind::PageAllocationFailure,
        Some(4),
        Some("python"),
    ),
    (
        "INFO: task llama-server:4711 blocked for more than 122 seconds.",
        MessageKind::HungTask,
        Some(122),
        Some("llama-server"),
    ),
    (
        "INFO: task kworker/u64:3:99 blocked for more than 737 seconds.",
        MessageKind::HungTask,
        Some(737),
        Some("kworker/u64:3"),
    ),
    (
        "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [kworker/u32:9:77]",
        MessageKind::SoftLockup,
        Some(26),
        Some("kworker/u32:9"),
    ),
    ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", MessageKind::RcuStall, None, None),
    ("rcu: INFO: rcu_preempt self-detected stall on CPU", MessageKind::RcuStall, None, None),
    (
        "pcieport 0000:00:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
        MessageKind::PcieFatal,
        None,
        None,
    ),
    (
        "mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Inaccessible, (Unregistered Agent ID)",
        MessageKind::PcieNonfatal,
        None,
        None,
    ),
    (
        "pcieport 0000:00:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        MessageKind::PcieCorrected,
        None,
        None,
    ),
    (
        "pcieport 0000:00:00.0: AER: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
        MessageKind::PcieCorrected,
        None,
        None,
    ),
    (
        "I/O error, dev nvme0n1, sector 123 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
        MessageKind::IoError,
        None,
        None,
    ),
    (
        "blk_update_request: critical medium error, dev sda, sector 9 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 0",
        MessageKind::IoError,
        None,
        None,
    ),
    (
        "thermal thermal_zone0: acpitz: critical temperature reached",
        MessageKind::ThermalCritical,
        None,
        None,
    ),
    (
        "thermal thermal_zone4: critical temperature reached (128 C), shutting down",
        MessageKind::ThermalCritical,
        None,
        None,
    ),
];

fn read(text: &str) -> Option<Message> {
    Parser::default().message(text)
}

#[test]
fn every_kind_is_known_by_its_words() {
    for (text, kind, number, name) in LINES {
        let message = read(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!((message.kind, message.number), (*kind, *number), "{text}");
        assert_eq!(message.name.as_deref(), *name, "{text}");
    }
    for kind in MessageKind::ALL {
        assert!(LINES.iter().any(|(_, known, ..)| known == kind), "{}", kind.as_str());
        assert!(ROWS.iter().any(|row| row.kind == *kind), "{}", kind.as_str());
    }
}

#[test]
fn what_a_victim_held_and_what_was_short() {
    let mut parser = Parser::default();
    let summary = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=python,pid=4711,uid=1000";
    assert_eq!(parser.message(summary), None, "it is counted by the line that follows");
    let kill = "Out of memory: Killed process 4711 (python) total-vm:158493688kB, anon-rss:1000kB, file-rss:4kB, shmem-rss:64992kB, UID:1000 pgtables:1kB oom_score_adj:0";
    let victim = parser.message(kill).unwrap().victim.unwrap();
    assert_eq!(
        victim,
        Victim {
            total_vm: Ok(Bytes::from_kib(158_493_688)),
            anonymous: Ok(Bytes::from_kib(1000)),
            file: Ok(Bytes::from_kib(4)),
            shared: Ok(Bytes::from_kib(64_992)),
            constraint: Ok(Constraint::None),
            class: None,
        }
    );
    let named = |program: &str| {
        let kill = kill.replace("(python)", &format!("({program})"));
        parser.message(&kill).and_then(|message| message.victim).and_then(|victim| victim.class)
    };
    // As the kernel cuts them.
    let told = ["VLLM::EngineCor", "llama-server", "gnome-shell", "ollama_llama_se"].map(named);
    assert_eq!(
        told,
        [Some(Class::Vllm), Some(Class::LlamaCpp), Some(Class::Desktop), Some(Class::Ollama)]
    );
    // The next one says it for itself. An older kernel has no commas and no shared memory.
    let older = "Out of memory: Killed process 4711 (python) total-vm:158493688kB anon-rss:1000kB";
    let victim = parser.message(older).unwrap().victim.unwrap();
    assert_eq!(victim.anonymous, Ok(Bytes::from_kib(1000)));
    assert_eq!(
        (victim.shared, victim.file),
        (Err(Missing::NotAvailable), Err(Missing::NotAvailable))
    );
    assert_eq!(victim.constraint, Err(Missing::NotAvailable));
    let cut = "Out of memory: Killed process 4711 (python) total-vm:15849";
    let victim = parser.message(cut).unwrap().victim.unwrap();
    assert_eq!(
        victim.total_vm,
        Err(Missing::Malformed),
        "its unit is not there: it may be cut short"
    );
    let huge = format!("Out of memory: Killed process 1 (x) total-vm:{}kB", u64::MAX);
    assert_eq!(read(&huge).unwrap().victim.unwrap().total_vm, Err(Missing::Malformed));
}

/// Lines of healthy boxes, the table's own first.
#[test]
fn what_is_benign_is_not_counted() {
    let known = [
        "mlx5_core 0000:01:00.0: mlx5_pcie_event:299:(pid 342): Detected insufficient power on the PCIe slot (27W).",
    ];
    assert_eq!(known.len(), BENIGN.len(), "a line for each row");
    for (line, (words, why)) in known.iter().zip(BENIGN) {
        assert!(line.contains(words) && !why.is_empty(), "{words}");
        assert_eq!(read(line), None, "{line}");
        // Were its words part of a line that is counted otherwise, they would still keep it out.
        assert_eq!(read(&format!("{} {words}", LINES[0].0)), None);
    }
    for line in [
        "NVRM: GPU at PCI:000f:01:00: GPU-00000000-0000-0000-0000-000000000001",
        "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  580.126.09",
        "oom_reaper: reaped process 4711 (python), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        "INFO: task python:7 is blocked on a mutex likely owned by task python:8.",
        "\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.",
        " sysmemAllocResources+0xa8/0x2a0 [nvidia]",
        "pcieport 0000:00:00.0: AER: Corrected error message received from 0000:01:00.0",
        "",
    ] {
        assert_eq!(read(line), None, "{line}");
    }
}

/// A process may be called what it likes, within 15 bytes, and the kernel begins lines with that.
#[test]
fn the_name_of_a_process_makes_no_other_message() {
    for name in [
        "NVRM: Xid (PCI:",
        "NVRM: Xid (): 1",
        "Out of memory",
        "Out of memory: ",
        "INFO: task a:1 ",
        "NV_ERR_NO_MEMOR",
        "NVRM: Check fai",
        ") total-vm:1kB",
        "rcu: INFO: a se",
        "BUG: soft locku",
        "PCIe Bus Error:",
    ] {
        assert!(name.len() <= 15);
        let line = format!("{name} invoked oom-killer: gfp_mask=0x0, order=0, oom_score_adj=0");
        assert_eq!(read(&line).map(|m| m.kind), Some(MessageKind::OomInvoked), "{line}");
        let line = format!("{name}: page allocation failure: order:0, mode:0x0");
        assert_eq!(read(&line).map(|m| m.kind), Some(MessageKind::PageAllocationFailure), "{line}");
        let line = format!("Out of memory: Killed process 1 ({name}) total-vm:7kB, anon-rss:3kB");
        let message = read(&line).unwrap();
        assert_eq!(message.kind, MessageKind::OomKill);
        assert_eq!(message.victim.unwrap().total_vm, Ok(Bytes::from_kib(7)), "{line}");
        let line = format!("INFO: task {name}:1 blocked for more than 122 seconds.");
        assert_eq!(read(&line).map(|m| m.kind), Some(MessageKind::HungTask), "{line}");
    }
    let line = "a\u{1b}[31mb\tc invoked oom-killer: gfp_mask=0x0, order=0";
    assert_eq!(read(line).unwrap().name.as_deref(), Some("a [31mb c"), "no control characters");
    let long = format!("{} invoked oom-killer: gfp_mask=0x0, order=0", "x".repeat(8192));
    assert_eq!(read(&long), None, "no name is so long");
}

proptest! {
    /// Neither garbage nor a line that is cut short or has bytes changed makes it panic, and names stay short.
    #[test]
    fn no_line_is_too_much(line in 0..LINES.len(), cut in 0_usize..200, junk in "\\PC{0,40}") {
        let text = LINES[line].0;
        let at = text.char_indices().map(|(i, _)| i).nth(cut).unwrap_or(text.len());
        for text in [text[..at].to_owned(), format!("{}{junk}", &text[..at]), format!("{junk}{text}"), junk] {
            if let Some(message) = read(&text) {
                prop_assert!(message.name.is_none_or(|name| name.chars().count() <= MAX_NAME));
            }
        }
    }

    /// Facts that are written down and read again are the same.
    #[test]
    fn facts_survive_being_written(
        kind in 0..MessageKind::COUNT,
        number in any::<u64>(),
        name in "[a-zA-Z_:/.-]{1,15}",
        sizes in proptest::array::uniform4(proptest::option::of(0_u64..1 << 40)),
        short in 0..=CONSTRAINTS.len(),
    ) {
        let kind = MessageKind::ALL[kind];
        let (named, numbered) = LINES
            .iter()
            .filter(|(_, known, ..)| *known == kind)
            .map(|(_, _, number, name)| (name.is_some(), number.is_some()))
            .next_back()
            .unwrap();
        let size = |i: usize| sizes[i].map(Bytes::from_kib).ok_or(Missing::NotAvailable);
        let victim = Victim {
            total_vm: size(0).map_err(|_| Missing::Malformed),
            anonymous: size(1),
            file: size(2),
            shared: size(3),
            constraint: CONSTRAINTS.get(short).map(|(_, c)| *c).ok_or(Missing::NotAvailable),
            class: classes::named(&name),
        };
        let message = Message {
            kind,
            number: numbered.then_some(number),
            name: named.then_some(name),
            victim: (kind == MessageKind::OomKill).then_some(victim),
        };
        let mut parser = Parser::default();
        let read: Vec<Message> =
            written(&message).iter().filter_map(|line| parser.message(line)).collect();
        prop_assert_eq!(read, [message]);
    }
}
