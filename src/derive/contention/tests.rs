use crate::derive::bench::Spark;
use crate::model::contention::{Contention, ContentionState};
use crate::model::reading::Missing;
use crate::units::{Bytes, Count, GIB};

/// Jobs (what they are, GPU bytes) on a box of 120 GiB that has watched them for long enough.
fn among(jobs: &[(&str, u64)]) -> Contention {
    let mut spark = Spark::new();
    for (i, (is, bytes)) in jobs.iter().enumerate() {
        let pid = 10 + u32::try_from(i).unwrap();
        spark.start(&format!("{is} pid={pid} started={pid}")).holds(pid, *bytes);
    }
    spark.run(100).contention.clone()
}

fn state(jobs: &[(&str, u64)]) -> ContentionState {
    among(jobs).state
}

#[test]
fn a_job_is_judged_by_its_cap_and_not_by_its_presence() {
    use ContentionState::{None, Overcommitted, Shared, Unknown};
    let cases: &[(&[(&str, u64)], ContentionState)] = &[
        (&[], None),
        (&[("vllm cap=none", 100 * GIB)], None),
        // The small one beside a server with a cap.
        (&[("vllm cap=whole:0.5", 55 * GIB), ("trl cap=none", 4 * GIB - 1)], Shared),
        (&[("vllm cap=whole:0.5", 55 * GIB), ("trl cap=none", 4 * GIB)], Overcommitted),
        // Two heavy ones do not fit however much is free now.
        (&[("trl cap=none", 5 * GIB), ("python cap=none", 5 * GIB)], Overcommitted),
        // Nobody types in them.
        (&[("notebook cap=none", 16 * GIB), ("notebook cap=none", 7 * GIB)], Shared),
        (&[("notebook cap=none", 61 * GIB), ("trl cap=none", 7 * GIB)], Overcommitted),
        // Caps that add up, to the byte, and those that do not.
        (&[("vllm cap=whole:0.42", 30 * GIB), ("vllm cap=whole:0.35", 30 * GIB)], Shared),
        (&[("vllm cap=whole:0.49", 0), ("vllm cap=whole:0.49", 0)], Overcommitted),
        (&[("vllm cap=whole:0.49", GIB), ("vllm cap=whole:0.47", GIB)], Shared),
        // What has loaded is all it takes, and heavy only by its size.
        (
            &[
                ("llama_cpp cap=fixed", 20 * GIB),
                ("llama_cpp cap=fixed", 25 * GIB),
                ("ollama cap=fixed", 30 * GIB),
            ],
            Shared,
        ),
        (&[("llama_cpp cap=fixed", 60 * GIB), ("trl cap=none", 5 * GIB)], Overcommitted),
        (&[("llama_cpp cap=fixed", 60 * GIB - 1), ("trl cap=none", 5 * GIB)], Shared),
        // A cap that cannot be seen decides nothing, unless sizes do.
        (&[("vllm cap=unknown", 20 * GIB), ("trl cap=none", 2 * GIB)], Unknown),
        (&[("vllm cap=unknown", 70 * GIB), ("trl cap=none", 5 * GIB)], Overcommitted),
        (&[("vllm cap=unknown", 70 * GIB), ("trl cap=none", 2 * GIB)], Unknown),
        (&[("vllm cap=unknown", 70 * GIB)], None),
        // A cap that is exceeded is none.
        (&[("vllm cap=whole:0.05", 30 * GIB), ("trl cap=none", 5 * GIB)], Overcommitted),
        // A context alone is no job.
        (&[("vllm cap=whole:0.5", 55 * GIB), ("python cap=none", 300 << 20)], None),
    ];
    for (jobs, want) in cases {
        let contention = among(jobs);
        assert_eq!(contention.state, *want, "{jobs:?}: {}", contention.evidence);
    }
}

/// Every number that the verdict rests on is beside it, and what to stop first.
#[test]
fn evidence_names_who_how_much_and_which_cap() {
    let contention = among(&[
        ("vllm unit=docker cap=whole:0.5", 55 * GIB),
        ("trl unit=user-1000 cap=none", 70 * GIB),
    ]);
    assert_eq!(
        contention.evidence,
        "trl (user-1000, pid 11) holds 70.00 GiB, without a cap, heavy; \
         vllm (docker, pid 10) holds 55.00 GiB, may take 60.00 GiB, heavy; \
         together 130.00 GiB of 116.00 GiB above the reserve"
    );
    assert_eq!(
        contention.stop_first.as_deref(),
        Some("trl (user-1000, pid 11): the newest of those that nothing bounds")
    );
    assert_eq!((contention.heavy, contention.uncapped), (Ok(2), Ok(1)));
    assert!((contention.committed.unwrap().0 - 130.0 / 120.0).abs() < 1e-9);
    assert_eq!(contention.claims[0].claims, Bytes(70 * GIB));
}

/// A share of the cache counts on top until the job has settled, and is part of it then.
#[test]
fn a_cache_counts_once() {
    let mut spark = Spark::new();
    spark.run(1);
    spark.start("vllm pid=10 cap=kv_only:20GiB").holds(10, 30 * GIB);
    spark.start("trl pid=11 cap=none").holds(11, 2 * GIB);
    assert_eq!(spark.run(5).contention.claims[0].claims, Bytes(50 * GIB));
    spark.holds(10, 50 * GIB);
    assert_eq!(spark.run(120).contention.claims[0].claims, Bytes(50 * GIB));
}

/// Eviction is told only where it is proven, and only beside another job.
#[test]
fn evicting_is_overcommitted_and_proven() {
    let run = |jobs: &[(&str, u64)], swaps: bool| {
        let mut spark = Spark::new();
        spark.snapshot.meminfo.s_unreclaim = Ok(Bytes(4096 * 1000));
        spark.snapshot.vmstat.nr_slab_unreclaimable = Ok(Count(1000));
        spark.snapshot.vmstat.steal_direct = Ok(Count(0));
        for (i, (is, bytes)) in jobs.iter().enumerate() {
            let pid = 10 + u32::try_from(i).unwrap();
            spark.start(&format!("{is} pid={pid} started={pid}")).holds(pid, *bytes);
        }
        for second in 0..100 {
            let pages = if swaps { second * 5000 } else { 0 };
            spark.snapshot.vmstat.swap_in = Ok(Count(pages));
            spark.run(1);
        }
        spark.now.clone().unwrap().contention
    };
    let two = [("trl cap=none", 50 * GIB), ("python cap=none", 40 * GIB)];
    let evicting = run(&two, true);
    assert_eq!(evicting.state, ContentionState::Evicting);
    assert!(evicting.evidence.contains("swap_in: "), "{}", evicting.evidence);
    assert!(!evicting.evidence.contains("GPU pages"));
    assert_eq!(run(&two, false).state, ContentionState::Overcommitted);
    assert_eq!(run(&two[..1], true).state, ContentionState::None, "alone");
    // They fit, and there is room: somebody wakes up.
    let fit = [("vllm cap=whole:0.5", 50 * GIB), ("trl cap=none", 2 * GIB)];
    assert_eq!(run(&fit, true).state, ContentionState::Shared);
}

#[test]
fn what_cannot_be_seen_is_unknown() {
    let mut spark = Spark::new();
    spark.start("vllm pid=10 cap=whole:0.5 started=10").holds(10, 50 * GIB);
    spark.snapshot.processes.denied = Ok(Count(30));
    let contention = spark.run(100).contention.clone();
    assert_eq!(contention.state, ContentionState::Unknown);
    assert!(
        contention.evidence.contains("not all of the box's processes"),
        "{}",
        contention.evidence
    );
    spark.snapshot.gpus.devices = Err(Missing::Hung);
    let contention = spark.run(1).contention.clone();
    assert_eq!(
        (contention.state, contention.heavy),
        (ContentionState::Unknown, Err(Missing::Hung))
    );
    // Two that are seen to be heavy are heavy, whoever else is there.
    let mut spark = Spark::new();
    spark.snapshot.processes.denied = Ok(Count(30));
    spark.start("trl pid=10 cap=none started=10").holds(10, 50 * GIB);
    spark.start("trl pid=11 unit=b cap=none started=11").holds(11, 40 * GIB);
    assert_eq!(spark.run(100).contention.state, ContentionState::Overcommitted);
    assert_eq!(state(&[("trl cap=none", GIB)]), ContentionState::None);
}

/// A cache is part of what a server holds when the exporter finds it, and when it wakes.
#[test]
fn a_cache_is_not_counted_again_after_a_restart() {
    let mut spark = Spark::new();
    spark.start("vllm pid=10 cap=kv_only:40GiB started=10").holds(10, 55 * GIB);
    spark.start("trl pid=11 cap=none started=11").holds(11, 10 * GIB);
    for _ in 0..100 {
        let contention = &spark.run(1).contention;
        assert_eq!(contention.state, ContentionState::Shared, "{}", contention.evidence);
    }
}

/// A share of a card's memory is none of the machine's.
#[test]
fn a_card_with_memory_of_its_own_claims_nothing() {
    let mut spark = Spark::new();
    let gpu = spark.gpu();
    gpu.name = Ok("NVIDIA GeForce RTX 4080 SUPER".into());
    gpu.pci_device_id = Ok("0x270210DE".into());
    let figures = crate::model::gpu::MemoryFigures {
        total: Bytes(16 * GIB),
        free: Bytes(4 * GIB),
        used: Bytes(12 * GIB),
    };
    gpu.memory = Ok(figures);
    spark.snapshot.kernel.arch = Ok("x86_64".into());
    spark.start("vllm pid=10 cap=whole:0.5 started=10").holds(10, 6 * GIB);
    spark.start("vllm pid=11 unit=b cap=whole:0.5 started=11").holds(11, 6 * GIB);
    let contention = spark.run(100).contention.clone();
    assert_eq!(contention.state, ContentionState::None, "{}", contention.evidence);
    assert!(spark.jobs().iter().all(|job| job.cap.bytes == Err(Missing::NotAvailable)));
}

/// A build is no business of the GPU's until it is beside a job of it.
#[test]
fn linkers_alone_do_not_fight() {
    let mut spark = Spark::new();
    for pid in [10, 11] {
        spark.start(&format!("compiler pid={pid} cap=none started={pid}"));
        spark.proc(pid).anonymous = Ok(Bytes(5 * GIB));
    }
    assert_eq!(spark.run(10).contention.state, ContentionState::Shared);
    spark.start("trl pid=20 cap=none started=20").holds(20, 5 * GIB);
    assert_eq!(spark.run(10).contention.state, ContentionState::Overcommitted);
}

/// One whose cap cannot be seen and that came last is what was not reckoned with.
#[test]
fn the_newcomer_is_stopped_whose_cap_cannot_be_seen() {
    let contention = among(&[
        ("vllm unit=a cap=whole:0.5", 50 * GIB),
        ("python unit=b cap=none", 22 * GIB),
        ("vllm unit=c cap=unknown", 45 * GIB),
    ]);
    assert_eq!(contention.state, ContentionState::Overcommitted);
    assert_eq!(
        contention.stop_first.as_deref(),
        Some("vllm (c, pid 12): the newest of those that nothing is seen to bound")
    );
}
