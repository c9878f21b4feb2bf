//! Whether a GPU shares the pool, and who holds what the kernel has no account of: every kind of answer,
//! and what it may not be taken for.

mod support;

use gb10_exporter::capture::Capture;
use gb10_exporter::derive::{self, State};
use gb10_exporter::model::frame::Frame;
use gb10_exporter::model::pool::Segment;
use gb10_exporter::model::reading::Missing;
use gb10_exporter::model::sharing::{
    Attribution, Basis, Hidden, Holder, MemoryReport, Sharing, Unaccounted,
};
use gb10_exporter::thresholds::Thresholds;
use gb10_exporter::units::{Bytes, GIB};
use support::{frame, root};

/// A capture with other values in its GPU section; an empty value leaves the key out.
fn machine(name: &str, changes: &[(&str, &str)]) -> Capture {
    let mut capture = Capture::load(&root().join(format!("tests/captures/{name}.txt"))).unwrap();
    for (key, value) in changes {
        capture.gpu.retain(|(known, _)| known != key);
        if !value.is_empty() {
            capture.gpu.push(((*key).to_owned(), (*value).to_owned()));
        }
    }
    capture
}

fn read(name: &str, changes: &[(&str, &str)]) -> Frame {
    frame(&machine(name, changes))
}

/// The verdict on GPU 0.
fn verdict(name: &str, changes: &[(&str, &str)]) -> (MemoryReport, Sharing, Basis) {
    let gpu = read(name, changes).verdicts.gpus.unwrap()[0];
    (gpu.report, gpu.sharing, gpu.basis)
}

const GB10: &str = "gb10-580.126.09-idle";
const CARD: &str = "x86-rtx-4080-super";

#[test]
fn what_the_part_is_comes_before_what_its_driver_says() {
    use Basis::*;
    use MemoryReport::*;
    use Sharing::*;
    let renamed = [("0.name", "NVIDIA XY1"), ("0.pci_device_id", "0x123410DE")];
    let with = |more: &[(&'static str, &'static str)]| [&renamed[..], more].concat();
    let pool = read(GB10, &[]).snapshot.meminfo.total.unwrap().0;
    let about: &'static str = format!("{},{},0", pool - GIB, pool - GIB).leak();
    for (name, changes, want) in [
        (GB10, vec![], (Unsupported, Shared, Gb10)),
        (GB10, vec![("0.name", "!999")], (Unsupported, Shared, Gb10)),
        (GB10, vec![("0.pci_device_id", "!3")], (Unsupported, Shared, Gb10)),
        (GB10, vec![("0.memory", "!999")], (Failed, Shared, Gb10)),
        (GB10, vec![("0.memory", "0,0,0")], (Zero, Shared, Gb10)),
        (GB10, vec![("0.memory", "8522825728,8314159104,208666624")], (CarveOut, Shared, Gb10)),
        (GB10, vec![("0.memory", about)], (WholePool, Shared, Gb10)),
        ("gb10-memory-about-memtotal", vec![], (WholePool, Shared, Gb10)),
        ("n1x-carve-out", vec![], (CarveOut, Shared, IntegratedPart)),
        ("jetson-thor", vec![], (Unsupported, Shared, IntegratedPart)),
        // A part that nobody knows, on a machine on which it could be.
        (GB10, with(&[]), (Unsupported, Shared, NoFigureAndAddressing)),
        (GB10, with(&[("0.addressing_mode", "None")]), (Unsupported, Sharing::Unknown, Nothing)),
        (GB10, with(&[("0.memory", "!27")]), (Failed, Sharing::Unknown, Nothing)),
        (GB10, with(&[("0.memory", "0,0,0")]), (Zero, Sharing::Unknown, Nothing)),
        (GB10, with(&[("0.memory", about)]), (WholePool, Sharing::Unknown, Nothing)),
        (
            GB10,
            with(&[("0.memory", "17179869184,17179869184,0")]),
            (Dedicated, Separate, OwnFigure),
        ),
        // On x86 nothing shares memory with an NVIDIA GPU: HMM alone proves nothing.
        (CARD, vec![], (Dedicated, Separate, OwnFigure)),
        (CARD, vec![("0.memory", "!3")], (Unsupported, Sharing::Unknown, Nothing)),
        (CARD, vec![("0.memory", "!27")], (Failed, Sharing::Unknown, Nothing)),
        (CARD, vec![("0.memory", "67218743296,67218743296,0")], (Dedicated, Separate, OwnFigure)),
        ("gh200", vec![], (Dedicated, Separate, OwnFigure)),
        ("dgx-station-gb300", vec![], (Dedicated, Separate, OwnFigure)),
    ] {
        assert_eq!(verdict(name, &changes), want, "{name} {changes:?}");
    }
}

fn held(name: &str, changes: &[(&str, &str)]) -> (Unaccounted, Bytes) {
    let f = read(name, changes);
    let whole = f.verdicts.pool.partition.unwrap().part(Segment::Unaccounted).unwrap();
    let parts: Vec<Bytes> = f.verdicts.unaccounted.parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        assert_eq!(parts.into_iter().sum::<Bytes>(), whole, "{name}: the parts add up");
    }
    (f.verdicts.unaccounted, whole)
}

#[test]
fn what_nobody_is_seen_to_hold_is_given_to_nobody() {
    use Attribution::*;
    const POOLS: &str = "gb10-610.43.02-serving-page-pools";
    for (name, changes, want) in [
        ("spark-fe-llm-server", vec![], Complete),
        ("gb10-580.173.02-serving", vec![], Partial),
        ("gb10-managed-memory", vec![], Clamped),
        ("gb10-580.95.05-container-busy", vec![], Hidden),
        ("gb10-processes-denied", vec![], Attribution::Unknown),
        ("gb10-580.142-hanging", vec![], Attribution::Unknown),
        ("gb10-driver-unloaded", vec![], Attribution::Unknown),
        (CARD, vec![], NotShared),
        ("dgx-station-gb300", vec![], NotShared),
        // A list that was refused, or cut, may leave somebody out.
        ("spark-fe-llm-server", vec![("0.processes.graphics", "!4")], Partial),
        ("spark-fe-llm-server", vec![("0.processes.mps", "!999")], Partial),
        ("spark-fe-llm-server", vec![("0.processes.mps", "!3")], Complete),
        // Busy beside graphics only: perhaps with it, perhaps not.
        (POOLS, vec![("0.processes.compute", " "), ("0.processes.graphics", "5:1048576")], Partial),
        (POOLS, vec![("0.processes.compute", " "), ("0.processes.graphics", " ")], Hidden),
        (GB10, vec![("0.utilization", "5")], Partial),
        // Nobody listed, and whether it is in use is not to be told.
        (GB10, vec![("0.processes.graphics", " "), ("0.pstate", "!999")], Partial),
        (GB10, vec![("0.processes.graphics", " "), ("0.pstate", "0")], Hidden),
        (GB10, vec![("0.processes.graphics", " ")], Complete),
        // Of other parts it is not known that the fastest state means a context.
        (
            "jetson-thor",
            vec![
                ("0.processes.compute", " "),
                ("0.processes.graphics", " "),
                ("0.utilization", "0"),
                ("0.pstate", "0"),
            ],
            Complete,
        ),
    ] {
        let (held, _) = held(name, &changes);
        assert_eq!(held.attribution, want, "{name} {changes:?}");
        let known = matches!(want, Complete | Partial | Clamped | Estimated);
        assert_eq!(held.part(Holder::GpuProcesses).is_ok(), known, "{name} {changes:?}");
    }
}

/// Processes that hold more than there is: what was charged is told, and what else there is is not zero
/// but not known.
#[test]
fn more_than_there_is_is_cut_and_said() {
    let (held, whole) = held("gb10-managed-memory", &[]);
    assert_eq!(held.part(Holder::GpuProcesses), Ok(whole));
    assert!(held.charged.unwrap() > whole);
    assert_eq!(held.part(Holder::Unknown), Err(Missing::NotAvailable));
    assert_eq!(held.part(Holder::PagePools), Err(Missing::NotAvailable));
}

/// Page pools are named when nothing computes that could hold the memory without a figure, or for as
/// much as they held then.
#[test]
fn page_pools_are_named_with_evidence_only() {
    const IDLE: &str = "gb10-590-page-pools";
    let (idle, _) = held(IDLE, &[]);
    assert_eq!(idle.attribution, Attribution::Estimated);
    let pools = idle.part(Holder::PagePools).unwrap();
    assert!(pools > Bytes::from_gib(70));
    for changes in [
        vec![("0.utilization", "94")],
        vec![("0.pstate", "0")],
        vec![("0.utilization", "!999")],
        vec![("0.processes.compute", "77:1073741824"), ("0.utilization", "94")],
        vec![("0.processes.compute", "77:NA"), ("0.utilization", "94")],
        vec![("0.processes.graphics", "!4")],
    ] {
        let (busy, _) = held(IDLE, &changes);
        assert!(busy.part(Holder::PagePools).is_err(), "{changes:?}: {busy:?}");
    }
    // The same box goes on from what was seen when it was idle.
    let thresholds = Thresholds::default();
    let mut state = State::default();
    let first = read(IDLE, &[]).snapshot;
    derive::derive(&mut state, &first, &thresholds);
    let busy =
        [("0.processes.compute", "77:1073741824"), ("0.utilization", "94"), ("0.pstate", "0")];
    let then = read(IDLE, &busy).snapshot;
    let held = derive::derive(&mut state, &then, &thresholds).unaccounted;
    assert_eq!(held.part(Holder::PagePools), Ok(pools.less(Bytes::from_gib(1))));
    assert_eq!(held.attribution, Attribution::Estimated);
    // Never with a driver that has none.
    let (older, _) = self::held("spark-fe-llm-server", &[]);
    assert_eq!(older.part(Holder::PagePools), Ok(Bytes(0)));
}

/// Only a box that is known to be idle teaches what an idle box needs.
#[test]
fn a_faulty_box_does_not_teach_that_its_fault_is_normal() {
    let learned = |name: &str, changes: &[(&str, &str)]| {
        read(name, changes).verdicts.unaccounted.idle_remainder
    };
    assert!(learned(GB10, &[]).is_ok());
    for (name, changes) in [
        (GB10, vec![("0.utilization", "7")]),
        (GB10, vec![("0.utilization", "!999")]),
        (GB10, vec![("0.processes.compute", "7:1048576")]),
        (GB10, vec![("0.processes.compute", "!4")]),
        (GB10, vec![("0.processes.graphics", " "), ("0.pstate", "!999")]),
        (GB10, vec![("0.processes.graphics", " "), ("0.pstate", "0")]),
        ("gb10-590-page-pools", vec![]),
        ("gb10-580.95.05-container-busy", vec![]),
    ] {
        assert!(learned(name, &changes).is_err(), "{name} {changes:?}");
    }
}

/// What a GPU is does not change while its driver is silent.
#[test]
fn a_box_is_what_it_was_while_its_driver_hangs() {
    let thresholds = Thresholds::default();
    let mut state = State::default();
    let healthy = read("asus-gx10-oem", &[]).snapshot;
    let free = derive::derive(&mut state, &healthy, &thresholds).cuda_free;
    assert_eq!(free, healthy.meminfo.free);
    let mut silent = healthy.clone();
    silent.lose(gb10_exporter::model::source::Source::Gpu, Missing::Hung);
    assert_eq!(derive::derive(&mut state, &silent, &thresholds).cuda_free, free);
    assert_eq!(
        derive::derive(&mut State::default(), &silent, &thresholds).cuda_free,
        Err(Missing::NotPresent),
        "nothing has shown yet that it is one"
    );
    // Without a driver nothing is CUDA's.
    silent.lose(gb10_exporter::model::source::Source::Gpu, Missing::NoDriver);
    assert_eq!(derive::derive(&mut state, &silent, &thresholds).cuda_free, Err(Missing::NoDriver));
    let card = derive::derive(&mut state, &read(CARD, &[]).snapshot, &thresholds);
    assert!(card.cuda_free.is_err() && card.gpus.unwrap()[0].hidden != Hidden::Yes);
}
