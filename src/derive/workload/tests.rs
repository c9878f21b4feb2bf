use crate::derive::bench::Spark;
use crate::model::reading::Missing;
use crate::model::workload::{Phase, View, Workload};
use crate::units::{Bytes, Count, GIB, Seconds};

/// From the first process to the first request and back to rest.
#[test]
fn a_server_starts_loads_warms_serves_and_rests() {
    let mut spark = Spark::new();
    spark.run(1);
    spark.start("vllm pid=10 unit=docker cap=whole:0.5");
    spark.start("vllm pid=11 parent=10 unit=docker cap=unknown");
    spark.run(20);
    assert_eq!(spark.phase("vllm"), Phase::Starting);
    for gib in 1..=58 {
        spark.holds(11, gib * GIB);
        spark.proc(11).resident = Ok(Bytes::from_gib(gib.min(30)));
        spark.run(1);
        if gib > 3 {
            assert_eq!(spark.phase("vllm"), Phase::Loading, "{gib}");
        }
    }
    spark.proc(11).resident = Ok(Bytes::from_gib(2));
    spark.run(40);
    assert_eq!(spark.phase("vllm"), Phase::Warming);
    spark.run(60);
    assert_eq!(spark.phase("vllm"), Phase::Idle);
    spark.busy(0.96).run(20);
    assert_eq!(spark.phase("vllm"), Phase::Serving);
    spark.busy(0.0).run(20);
    assert_eq!(spark.phase("vllm"), Phase::Idle);
    let job = spark.job("vllm");
    assert_eq!(job.processes, 2);
    assert_eq!(job.settled, Ok(Bytes::from_gib(58)));
    assert_eq!(job.load_peak, Ok(Bytes::from_gib(88)), "model and mapped file at once");
    assert_eq!(job.cap.bytes, Ok(Bytes::from_gib(60)));
    assert!(!job.cap.exceeded);
    assert_eq!(spark.workload("vllm", "docker").unwrap().starts, Ok(Count(1)));
}

/// What the file pages of a mapped model say before the GPU holds anything.
#[test]
fn a_mapped_model_is_a_load_before_the_gpu_has_it() {
    let mut spark = Spark::new();
    spark.run(1);
    spark.start("llama_cpp pid=10 unit=llama cap=fixed");
    spark.run(6);
    assert_eq!(spark.phase("llama_cpp"), Phase::Starting);
    for gib in 1..=5 {
        spark.proc(10).file = Ok(Bytes::from_gib(gib));
        spark.run(5);
    }
    assert_eq!(spark.phase("llama_cpp"), Phase::Loading);
    assert_eq!(spark.job("llama_cpp").cap.bytes, Err(Missing::Pending), "not loaded yet");
    for gib in 1..=20 {
        spark.holds(10, gib * GIB).run(1);
    }
    spark.run(120);
    assert_eq!(spark.job("llama_cpp").cap.bytes, Ok(Bytes::from_gib(20)), "that is all it takes");
}

/// Between its bare context and its weights a job that began under the exporter's eyes starts; of one that was
/// there before nothing is known.
#[test]
fn what_has_only_begun_is_starting_and_not_unknown() {
    for (started, phase) in [("", Phase::Starting), (" started=10", Phase::Unknown)] {
        let mut spark = Spark::new();
        spark.run(6);
        spark.start(&format!("vllm pid=10 cap=none{started}"));
        // Above job.small, and no growth by job.load_rise yet.
        spark.holds(10, GIB * 9 / 10).run(20);
        assert_eq!(spark.phase("vllm"), phase, "{started:?}");
        spark.holds(10, 5 * GIB).run(1);
        assert_eq!(spark.phase("vllm"), Phase::Loading, "{started:?}");
    }
}

/// Around the limit of growth, one unit either side.
#[test]
fn growth_counts_from_its_limit_on() {
    for (rise, loads) in [(GIB - 1, false), (GIB, true)] {
        let mut spark = Spark::new();
        spark.start("trl pid=10 cap=none started=10").holds(10, 20 * GIB);
        spark.run(100);
        assert_eq!(spark.phase("trl"), Phase::Idle);
        // What has settled breathes; what was never seen to settle loads.
        spark.state = crate::derive::State::default();
        spark.run(20);
        spark.holds(10, 20 * GIB + rise).run(1);
        assert_eq!(spark.phase("trl") == Phase::Loading, loads, "{rise}");
    }
    for (rise, loads) in [(4 * GIB - 1, false), (4 * GIB, true)] {
        let mut spark = Spark::new();
        spark.start("trl pid=10 cap=none started=10").holds(10, 20 * GIB);
        spark.run(100);
        spark.holds(10, 20 * GIB + rise).run(1);
        assert_eq!(spark.phase("trl") == Phase::Loading, loads, "{rise}");
    }
}

/// A job that the exporter finds when it starts: nothing is said before it was watched for a while, and its
/// peak is not made up.
#[test]
fn what_was_there_before_is_not_known_at_once() {
    let mut spark = Spark::new();
    spark.start("vllm pid=10 cap=none started=10").holds(10, 50 * GIB);
    spark.run(30);
    assert_eq!(spark.phase("vllm"), Phase::Unknown);
    spark.run(40);
    assert_eq!(spark.phase("vllm"), Phase::Idle);
    assert_eq!(spark.job("vllm").load_peak, Err(Missing::NotPresent));
    assert_eq!(spark.workload("vllm", "root").unwrap().starts, Ok(Count(0)));
}

/// Of two that hold memory, the one works that uses the CPU.
#[test]
fn of_several_the_one_that_computes_is_at_work() {
    let mut spark = Spark::new();
    spark.start("vllm pid=10 cap=whole:0.3 started=10").holds(10, 30 * GIB);
    spark.start("trl pid=20 cap=none started=20").holds(20, 40 * GIB);
    spark.busy(0.96);
    for second in 0..100_u32 {
        spark.proc(20).cpu = Ok(Seconds(f64::from(second)));
        spark.proc(10).cpu = Ok(Seconds(f64::from(second) * 0.1));
        spark.run(1);
    }
    assert_eq!((spark.phase("trl"), spark.phase("vllm")), (Phase::Serving, Phase::Idle));
    let cpus = spark.job("trl").cpus.unwrap().0;
    assert!((0.9..1.1).contains(&cpus), "{cpus}");
    spark.gpu().utilization = Err(Missing::Unsupported);
    spark.run(1);
    assert_eq!(spark.phase("trl"), Phase::Unknown, "the GPU does not tell whether it works");
}

#[test]
fn a_cap_that_is_exceeded_is_none() {
    // 60 GiB, 5 % and 6 GiB on top: 69 GiB.
    for (gib, exceeded) in [(69, false), (70, true)] {
        let mut spark = Spark::new();
        spark.start("vllm pid=10 cap=whole:0.5").holds(10, gib * GIB);
        spark.run(1);
        assert_eq!(spark.job("vllm").cap.exceeded, exceeded, "{gib}");
    }
    let mut spark = Spark::new();
    spark.start("vllm pid=10 cap=kv_only:8GiB").holds(10, 70 * GIB).run(1);
    assert!(!spark.job("vllm").cap.exceeded, "a cache's size says nothing about the whole");
    assert_eq!(spark.job("vllm").cap.bytes, Ok(Bytes::from_gib(8)));
}

/// A share of what was free is known only to those who saw the start.
#[test]
fn a_share_of_what_was_free_needs_the_start() {
    let mut spark = Spark::new();
    spark.start("sglang pid=10 cap=fraction_of_free:0.8 started=10").run(5);
    assert_eq!(spark.job("sglang").cap.bytes, Err(Missing::NotAvailable));
    let mut spark = Spark::new();
    spark.run(1);
    spark.start("sglang pid=10 cap=fraction_of_free:0.8").run(5);
    assert_eq!(spark.job("sglang").cap.bytes, Ok(Bytes::from_gib(88)), "of 110 GiB");
    spark.snapshot.meminfo.available = Ok(Bytes::from_gib(20));
    spark.run(5);
    assert_eq!(spark.job("sglang").cap.bytes, Ok(Bytes::from_gib(88)), "of then, not of now");
}

/// Trees of processes as real jobs have them.
#[test]
fn processes_that_do_one_thing_are_one_job() {
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, u64)]);
    let cases: &[Case<'_>] = &[
        // A server, its engine and workers, and what the engine compiles.
        (
            &[
                "vllm pid=10 cap=whole:0.5",
                "vllm pid=11 parent=10 cap=unknown",
                "python pid=12 parent=11",
                "compiler pid=13 parent=11",
                "compiler pid=14 parent=13",
            ],
            &[("vllm", 3), ("compiler", 2)],
        ),
        // A launcher and the trainer that it starts, with an engine of its own.
        (
            &["torchrun pid=10", "axolotl pid=11 parent=10", "vllm pid=12 parent=11 cap=unknown"],
            &[("axolotl", 3)],
        ),
        // Ollama runs llama.cpp; llama-swap only starts it.
        (&["ollama pid=10 cap=fixed", "llama_cpp pid=11 parent=10 cap=fixed"], &[("ollama", 2)]),
        (
            &[
                "llama_swap pid=10",
                "llama_cpp pid=11 parent=10 cap=fixed",
                "llama_cpp pid=12 parent=10 cap=fixed",
            ],
            &[("llama_swap", 1), ("llama_cpp", 1), ("llama_cpp", 1)],
        ),
        // Each kernel of a notebook server is a job; what it forks is part of it.
        (
            &[
                "notebook pid=10",
                "notebook pid=11 parent=10",
                "notebook pid=12 parent=10",
                "python pid=13 parent=12",
            ],
            &[("notebook", 2), ("notebook", 1), ("notebook", 1)],
        ),
        // A server that somebody starts from a notebook is a server.
        (&["notebook pid=10", "vllm pid=11 parent=10 cap=none"], &[("notebook", 1), ("vllm", 1)]),
        // A parent that is younger than its child had its pid from another one.
        (
            &["vllm pid=10 started=900 cap=none", "python pid=11 parent=10 started=500"],
            &[("vllm", 1), ("python", 1)],
        ),
        // Of two that name each other nobody is lost.
        (&["vllm pid=10 parent=11", "vllm pid=11 parent=10"], &[("vllm", 1), ("vllm", 1)]),
    ];
    for (processes, want) in cases {
        let mut spark = Spark::new();
        for is in *processes {
            spark.start(is);
        }
        spark.run(1);
        let mut got: Vec<(&str, u64)> =
            spark.jobs().iter().map(|job| (job.class.as_str(), job.processes)).collect();
        got.sort_unstable();
        let mut want = want.to_vec();
        want.sort_unstable();
        assert_eq!(got, want, "{processes:?}");
    }
}

/// The server's flag bounds the engine that holds the memory, and what cannot be seen is no default.
#[test]
fn the_cap_is_that_of_the_process_that_says_it() {
    use crate::model::workload::CapKind;
    let cases: &[(&[&str], CapKind)] = &[
        (&["vllm pid=10 cap=whole:0.5", "vllm pid=11 parent=10 cap=unknown"], CapKind::Whole),
        (&["vllm pid=10 cap=none", "vllm pid=11 parent=10 cap=unknown"], CapKind::None),
        (&["python pid=10 cap=none", "vllm pid=11 parent=10 cap=unknown"], CapKind::Unknown),
        (&["trl pid=10 cap=none", "vllm pid=11 parent=10 cap=unknown"], CapKind::None),
        (&["vllm pid=11 cap=unknown"], CapKind::Unknown),
    ];
    for (processes, want) in cases {
        let mut spark = Spark::new();
        for is in *processes {
            spark.start(is);
        }
        spark.run(1);
        let job = &spark.jobs()[0];
        assert_eq!(job.cap.kind, *want, "{processes:?}");
    }
}

/// What a compiler below it says about a server: it is not ready.
#[test]
fn a_server_that_compiles_is_warming() {
    let mut spark = Spark::new();
    spark.serving();
    assert_eq!(spark.phase("vllm"), Phase::Idle);
    spark.start("compiler pid=30 parent=11").run(5);
    assert_eq!(spark.phase("vllm"), Phase::Warming);
    spark.end(30).run(5);
    assert_eq!(spark.phase("vllm"), Phase::Idle);
}

/// The same pid, another process: nothing carries over, and no counter falls or jumps.
#[test]
fn a_pid_that_comes_again_is_another_job() {
    let mut spark = Spark::new();
    spark.serving();
    spark.proc(11).major_faults = Ok(Count(500));
    spark.run(5);
    let before = spark.workload("vllm", "docker").unwrap().major_faults;
    assert_eq!(before, Ok(Count(500)));
    spark.end(10).end(11).run(1);
    spark.start("vllm pid=10 unit=docker cap=whole:0.5");
    spark.proc(10).major_faults = Ok(Count(7));
    spark.run(6);
    assert_eq!(spark.job("vllm").settled, Err(Missing::Pending));
    assert_eq!(spark.phase("vllm"), Phase::Starting);
    let after = spark.workload("vllm", "docker").unwrap();
    assert_eq!(after.major_faults, Ok(Count(507)));
    assert_eq!(after.starts, Ok(Count(2)));
}

/// A job that is restarted a hundred times, in the same unit.
#[test]
fn restarts_add_no_series() {
    let mut spark = Spark::new();
    spark.run(1);
    for n in 0..100_u32 {
        spark.start(&format!("vllm pid={} unit=docker cap=whole:0.5", 100 + n)).run(5);
        spark.end(100 + n).run(5);
        assert_eq!(spark.workloads().totals.as_ref().unwrap().len(), 1);
    }
    let workload = spark.workload("vllm", "docker").unwrap();
    assert_eq!(workload.starts, Ok(Count(100)));
    assert_eq!((workload.processes, workload.gpu), (0, Ok(Bytes(0))));
}

/// More workloads than places: the rest is added up, without counters, and no place changes hands.
#[test]
fn the_rest_is_other_and_places_stay() {
    let mut spark = Spark::new();
    for n in 0..20_u32 {
        let pid = 100 + n;
        spark.start(&format!("python pid={pid} unit=u{n} started=10"));
        spark.holds(pid, u64::from(20 - n) * GIB / 4);
    }
    spark.run(6);
    let totals = spark.workloads().totals.clone().unwrap();
    assert_eq!(totals.len(), 9);
    let other = spark.workload("other", "other").unwrap();
    assert_eq!(other.processes, 12);
    assert_eq!(
        (other.starts, other.major_faults),
        (Err(Missing::NotPresent), Err(Missing::NotPresent))
    );
    let sum = |totals: &[Workload]| totals.iter().map(|w| w.gpu.unwrap().0).sum::<u64>();
    assert_eq!(sum(&totals), (1..=20).sum::<u64>() * GIB / 4);
    // The small become large: they still have no place, for nobody has left.
    for n in 8..20_u32 {
        spark.holds(100 + n, 6 * GIB);
    }
    spark.run(600);
    assert!(spark.workload("python", "u0").is_some() && spark.workload("python", "u19").is_none());
    // One ends: its place is kept for an hour, and then goes to the largest.
    spark.end(100).run(3000);
    assert!(spark.workload("python", "u0").is_some());
    spark.run(700);
    assert!(spark.workload("python", "u0").is_none());
    assert_eq!(spark.workloads().totals.as_ref().unwrap().len(), 9);
}

/// Processes that the driver names and that are not to be seen.
#[test]
fn what_can_be_seen_is_said() {
    let mut spark = Spark::new();
    spark.start("vllm pid=10 cap=none started=10").holds(10, 20 * GIB).run(1);
    assert_eq!(spark.workloads().view, Ok(View::Full));
    spark.holds(11, 5 * GIB).run(1);
    assert_eq!(spark.workloads().view, Ok(View::Full), "one may just have ended");
    assert_eq!(spark.job("other").gpu, Ok(Bytes::from_gib(5)));
    spark.procs().clear();
    spark.run(1);
    assert_eq!(spark.workloads().view, Ok(View::OtherNamespace));
    spark.snapshot.processes.denied = Ok(Count(40));
    spark.run(1);
    assert_eq!(spark.workloads().view, Ok(View::OwnOnly));
    spark.snapshot.processes.denied = Ok(Count(0));
    spark.run(1);
    assert_eq!(spark.workloads().view, Ok(View::OtherNamespace));
    // Not even listed, so that nobody knows how many.
    spark.snapshot.processes.denied = Err(Missing::Denied);
    spark.run(1);
    assert_eq!(spark.workloads().view, Ok(View::OwnOnly));
    // Busy, and nobody is listed.
    let mut spark = Spark::new();
    spark.busy(0.96).run(1);
    assert_eq!(spark.workloads().view, Ok(View::Nobody));
    spark.snapshot.processes.list = Err(Missing::Denied);
    spark.run(1);
    assert_eq!(spark.workloads().view, Err(Missing::Denied));
}

/// Without its processes the GPU's list is all there is; without both there is nothing, and no zero.
#[test]
fn what_is_not_read_is_not_zero() {
    let mut spark = Spark::new();
    spark.serving();
    spark.snapshot.processes.list = Err(Missing::Hung);
    spark.run(1);
    assert_eq!(spark.job("other").gpu, Ok(Bytes::from_gib(58)));
    assert!(spark.workload("vllm", "docker").is_none(), "it may well be there");
    spark.snapshot.gpus.devices = Err(Missing::Hung);
    spark.run(1);
    let now = spark.workloads().clone();
    assert_eq!((now.jobs, now.totals), (Err(Missing::Hung), Err(Missing::Hung)));
    // A driver that hangs: the processes are there, their sizes are not.
    let mut spark = Spark::new();
    spark.serving();
    spark.snapshot.gpus.devices = Err(Missing::Hung);
    spark.run(1);
    let job = spark.job("vllm");
    assert_eq!((job.gpu, job.phase), (Err(Missing::Hung), Ok(Phase::Unknown)));
    assert_eq!(spark.workload("vllm", "docker").unwrap().gpu, Err(Missing::Hung));
}

/// What was learned outlives a restart of the exporter and a reboot.
#[test]
fn peaks_are_kept() {
    let mut spark = Spark::new();
    spark.serving();
    let learned = spark.state.workload.entries();
    assert_eq!(learned.len(), 1);
    assert_eq!(learned[0].load_peak, Some(Bytes::from_gib(58)));
    let mut spark = Spark::new();
    spark.state.workload.load(learned.clone());
    spark.start("vllm pid=10 unit=docker cap=none started=10").holds(10, 50 * GIB).run(70);
    assert_eq!(spark.workload("vllm", "docker").unwrap().load_peak, Ok(Bytes::from_gib(58)));
    spark.state = std::mem::take(&mut spark.state).rebooted();
    assert_eq!(spark.state.workload.entries().len(), 1);
    let flood: Vec<_> = (0..200)
        .map(|n| crate::model::workload::LearnedWorkload {
            unit: format!("u{n}"),
            ..learned[0].clone()
        })
        .collect();
    spark.state.workload.load(flood);
    assert!(spark.state.workload.entries().len() <= 65, "bounded");
}

/// The driver names a program up to five seconds before the list of processes has it: that is no job, and no
/// place is taken for an hour.
#[test]
fn what_is_not_listed_yet_takes_no_place() {
    let mut spark = Spark::new();
    spark.run(1);
    spark.holds(10, 3 * GIB).run(4);
    assert!(spark.workload("other", "unknown").is_none());
    assert_eq!(spark.workload("other", "other").unwrap().gpu, Ok(Bytes(3 * GIB)));
    spark.start("python pid=10 cap=none").run(10);
    let totals = spark.workloads().totals.clone().unwrap();
    assert_eq!(totals.len(), 1, "{totals:?}");
    assert_eq!(spark.workload("python", "root").unwrap().starts, Ok(Count(1)));
    // One that is never listed is a job after two rounds.
    spark.holds(99, GIB).run(15);
    assert!(spark.workload("other", "unknown").is_some());
}

/// Pages that a trainer's loaders share are there once.
#[test]
fn shared_pages_are_counted_once() {
    let mut spark = Spark::new();
    spark.snapshot.meminfo.anon_pages = Ok(Bytes::from_gib(6));
    spark.start("trl pid=10 cap=none started=10");
    for pid in 11..20 {
        spark.start(&format!("python pid={pid} parent=10 cap=none started={pid}"));
    }
    for pid in 10..20 {
        spark.proc(pid).shared = Ok(Bytes::from_gib(8));
        spark.proc(pid).anonymous = Ok(Bytes::from_gib(3));
    }
    spark.run(1);
    assert_eq!(spark.job("trl").host, Ok(Bytes::from_gib(14)));
}

/// A desktop's programs leave the places to those who hold something.
#[test]
fn a_desktop_takes_no_place() {
    let mut spark = Spark::new();
    for pid in 10..30_u32 {
        spark.start(&format!("desktop pid={pid} unit=app{pid} cap=none started=5"));
        spark.holds(pid, 60 << 20);
    }
    spark.run(10);
    spark.start("vllm pid=50 unit=docker cap=none").holds(50, 55 * GIB).run(10);
    assert!(spark.workload("vllm", "docker").is_some());
    assert_eq!(spark.workloads().totals.as_ref().unwrap().len(), 2);
}

/// A launcher that turns into what it launches is one start of that; one whose parent joins has not ended.
#[test]
fn starts_and_ends_go_together() {
    let mut spark = Spark::new();
    spark.run(1);
    spark.start("torchrun pid=10 unit=a cap=none").run(5);
    spark.start("axolotl pid=11 parent=10 unit=a cap=none").run(30);
    spark.end(11).end(10).run(10);
    let of = |class: &str| {
        let workload = spark.workload(class, "a");
        workload.map(|w| (w.starts.unwrap().0, w.ends.unwrap().iter().sum::<u64>()))
    };
    assert_eq!(of("axolotl"), Some((1, 1)));
    assert!(matches!(of("torchrun"), None | Some((0, 0))), "{:?}", of("torchrun"));
    let mut spark = Spark::new();
    spark.start("trl pid=11 parent=10 unit=b cap=none started=11").run(10);
    spark.start("torchrun pid=10 unit=b cap=none started=10").run(10);
    assert_eq!(spark.workload("trl", "b").unwrap().ends.unwrap().iter().sum::<u64>(), 0);
}
