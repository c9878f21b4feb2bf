use crate::derive::bench::Spark;
use crate::model::reading::Missing;
use crate::model::workload::Phase;
use crate::units::{Bytes, Count, GIB, Seconds};

/// A box on which memory that the driver holds shows as what nobody has an account of.
struct Balance {
    spark: Spark,
    /// What the driver holds, listed or not.
    driver: u64,
}

impl Balance {
    fn new() -> Self {
        let mut spark = Spark::new();
        let m = &mut spark.snapshot.meminfo;
        for zero in [
            &mut m.buffers,
            &mut m.cached,
            &mut m.shmem,
            &mut m.anon_pages,
            &mut m.slab,
            &mut m.s_reclaimable,
            &mut m.s_unreclaim,
            &mut m.kernel_stack,
            &mut m.page_tables,
            &mut m.vmalloc_used,
        ] {
            *zero = Ok(Bytes(0));
        }
        spark.gpu().performance_state = Ok(Count(8));
        Self { spark, driver: 0 }
    }

    fn run(&mut self, seconds: u64) -> crate::model::contention::Release {
        let free = Bytes(119 * GIB - self.driver);
        self.spark.snapshot.meminfo.free = Ok(free);
        self.spark.snapshot.meminfo.available = Ok(free);
        self.spark.run(seconds).release.clone()
    }

    fn holds(&mut self, pid: u32, bytes: u64) -> &mut Self {
        self.spark.holds(pid, bytes);
        self.driver = bytes;
        self
    }
}

/// The job is gone, its memory comes back three minutes later.
#[test]
fn stopping_is_not_releasing() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 unit=docker cap=none started=10");
    box_.holds(10, 90 * GIB);
    let before = box_.run(100);
    assert_eq!((before.pending, before.lag), (Ok(Bytes(0)), Err(Missing::NotPresent)));
    box_.spark.end(10);
    let release = box_.run(1);
    assert_eq!(release.pending, Ok(Bytes(90 * GIB)));
    assert_eq!(release.ended.len(), 1);
    assert_eq!(release.ended[0].held, Bytes(90 * GIB));
    let release = box_.run(100);
    assert_eq!(release.lag, Ok(Seconds(100.0)));
    assert!(release.ended.is_empty(), "told once");
    assert!(release.waits_for.unwrap().contains("90.00 GiB of a job that has ended"));
    box_.driver = 30 * GIB;
    assert_eq!(box_.run(60).pending, Ok(Bytes(30 * GIB)));
    box_.driver = 0;
    let release = box_.run(1);
    assert_eq!((release.pending, release.lag), (Ok(Bytes(0)), Ok(Seconds(161.0))));
    assert_eq!(box_.run(300).lag, Ok(Seconds(161.0)), "of the last release");
}

/// A GPU that falls asleep when its last process has gone says the same.
#[test]
fn a_gpu_at_rest_says_the_same() {
    let mut box_ = Balance::new();
    box_.spark.gpu().performance_state = Ok(Count(0));
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 90 * GIB).run(100);
    box_.spark.end(10);
    assert_eq!(box_.run(1).pending, Ok(Bytes(90 * GIB)), "a context seems to be there");
    box_.spark.gpu().performance_state = Ok(Count(8));
    assert_eq!(box_.run(1).pending, Ok(Bytes(90 * GIB)));
    // Where the driver keeps pools nobody can tell them from what is held.
    let mut box_ = Balance::new();
    box_.spark.snapshot.nvidia.page_pools = Ok(Count(529));
    box_.spark.gpu().performance_state = Ok(Count(0));
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 90 * GIB).run(100);
    box_.spark.end(10);
    assert_eq!(box_.run(1).pending, Err(Missing::NotAvailable));
}

/// What was unaccounted before is nobody's release, and what else grows is not either.
#[test]
fn no_more_is_pending_than_was_held() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10").holds(10, 20 * GIB);
    // 5 GiB that nobody explains were there before.
    box_.driver = 25 * GIB;
    box_.run(50);
    box_.spark.end(10);
    assert_eq!(box_.run(5).pending, Ok(Bytes(20 * GIB)));
    box_.driver = 60 * GIB;
    assert_eq!(box_.run(5).pending, Ok(Bytes(20 * GIB)));
    box_.driver = 5 * GIB;
    assert_eq!(box_.run(5).pending, Ok(Bytes(0)));
}

/// A limit either side, and an end that is given up.
#[test]
fn little_is_nothing_and_nothing_is_pending_for_ever() {
    for (left, pending) in [(GIB, GIB), (GIB - 1, 0)] {
        let mut box_ = Balance::new();
        box_.spark.start("vllm pid=10 cap=none started=10");
        box_.holds(10, 20 * GIB).run(50);
        box_.spark.end(10);
        box_.driver = left;
        assert_eq!(box_.run(2).pending, Ok(Bytes(pending)), "{left}");
        assert_eq!(box_.run(900).pending, Ok(Bytes(0)), "nobody knows whose it is any more");
    }
}

/// Where nothing can be attributed nothing is claimed.
#[test]
fn what_is_not_read_is_not_pending() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 20 * GIB).run(50);
    box_.spark.end(10);
    box_.spark.gpu().processes = Err(Missing::Denied);
    assert!(box_.run(2).pending.is_err());
}

/// The server is stopped by its name, its engine goes on under init.
#[test]
fn an_engine_without_its_server_is_an_orphan() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 unit=docker cap=whole:0.5 started=10");
    box_.spark.start("vllm pid=11 parent=10 unit=docker cap=unknown started=11 worker");
    box_.holds(11, 50 * GIB).run(100);
    box_.spark.end(10);
    box_.spark.proc(11).parent = 0;
    let release = box_.run(10);
    assert_eq!(release.pending, Ok(Bytes(0)), "its engine still has it");
    assert!(release.orphans.is_empty(), "a supervisor may collect it");
    let release = box_.run(130);
    assert_eq!(release.orphans.len(), 1);
    let orphan = &release.orphans[0];
    assert!(orphan.seen && orphan.held == Bytes(50 * GIB) && orphan.pid == 11);
    // One that works for somebody is none.
    for second in 0..200_u32 {
        box_.spark.proc(11).cpu = Ok(Seconds(f64::from(second)));
        box_.run(1);
    }
    assert!(box_.run(1).orphans.is_empty());
}

/// One whose server's end was not seen is only suspected; a server by itself is none.
#[test]
fn an_orphan_that_was_there_before_is_suspected() {
    for (is, suspected) in [
        ("vllm pid=11 cap=unknown started=11 worker", true),
        ("vllm pid=11 cap=none started=11", false),
    ] {
        let mut box_ = Balance::new();
        box_.spark.start(is);
        box_.holds(11, 50 * GIB).run(100);
        let release = box_.run(100);
        assert_eq!(release.orphans.len(), usize::from(suspected), "{is}");
        assert!(release.orphans.iter().all(|orphan| !orphan.seen));
    }
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=11 cap=unknown started=11 worker");
    box_.holds(11, GIB - 1).run(300);
    assert!(box_.run(1).orphans.is_empty(), "not worth a page");
}

/// Headroom less what running jobs may still take by their caps.
#[test]
fn what_running_jobs_may_take_is_not_for_the_next() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=whole:0.5 started=10");
    box_.holds(10, 50 * GIB);
    let release = box_.run(100);
    // 69 GiB free, 4 reserved, 10 promised.
    let safe = release.safe.map(|safe| safe.unwrap().0 >> 30);
    assert_eq!(safe, [55, 55]);
    assert_eq!(release.waits_for, None);
    // Nobody knows where a load without a bound ends.
    box_.spark.start("trl pid=20 unit=b cap=none");
    let release = box_.run(5);
    assert_eq!(release.safe[0], Err(Missing::Pending));
    assert_eq!(release.waits_for.as_deref(), Some("trl (b), which is starting"));
    assert_eq!(box_.spark.phase("trl"), Phase::Starting);
    box_.spark.snapshot.processes.list = Err(Missing::Denied);
    box_.spark.snapshot.gpus.devices = Err(Missing::Denied);
    assert_eq!(box_.run(1).safe, [Err(Missing::Denied); 2]);
}

/// The driver takes the job off its list three seconds before the process is gone.
#[test]
fn an_end_is_seen_whichever_list_is_first() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 84 * GIB).run(100);
    box_.spark.gpu().processes = Ok(Vec::new());
    assert_eq!(box_.run(3).pending, Ok(Bytes(0)), "it is still there");
    box_.spark.end(10);
    let release = box_.run(1);
    assert_eq!(release.pending, Ok(Bytes(84 * GIB)));
    assert_eq!(release.ended[0].held, Bytes(84 * GIB));
    // The other way round, and nothing is left of it: there was no release to wait for.
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 84 * GIB).run(100);
    box_.spark.end(10);
    box_.driver = 0;
    let release = box_.run(20);
    assert_eq!((release.pending, release.lag), (Ok(Bytes(0)), Err(Missing::NotPresent)));
}

/// What does not come back is not said to have come back.
#[test]
fn what_is_given_up_is_not_given_back() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 84 * GIB).run(100);
    box_.spark.end(10);
    assert_eq!(box_.run(900).lag, Ok(Seconds(899.0)));
    let mut gave_up = 0;
    for _ in 0..20 {
        gave_up += u32::from(box_.run(1).gave_up);
    }
    assert_eq!(gave_up, 1, "told once");
    let release = box_.run(1);
    assert_eq!((release.pending, release.lag), (Ok(Bytes(0)), Err(Missing::NotPresent)));
    // The next end is judged by what is there then.
    box_.spark.start("vllm pid=20 cap=none");
    box_.spark.holds(20, 10 * GIB);
    box_.driver = 94 * GIB;
    box_.run(100);
    box_.spark.end(20);
    assert_eq!(box_.run(2).pending, Ok(Bytes(10 * GIB)));
}

/// A driver or a process list that does not answer has not ended anybody.
#[test]
fn what_cannot_be_read_has_not_ended() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 84 * GIB).run(100);
    let (devices, list) =
        (box_.spark.snapshot.gpus.devices.clone(), box_.spark.snapshot.processes.list.clone());
    box_.spark.snapshot.gpus.devices = Err(Missing::Hung);
    for _ in 0..30 {
        assert!(box_.run(1).ended.is_empty());
    }
    box_.spark.snapshot.gpus.devices = devices;
    assert!(box_.run(1).ended.is_empty());
    box_.spark.snapshot.processes.list = Err(Missing::Hung);
    for _ in 0..30 {
        assert!(box_.run(1).ended.is_empty());
    }
    box_.spark.snapshot.processes.list = list;
    assert!(box_.run(10).ended.is_empty());
    let places = box_.spark.workload("vllm", "root").unwrap();
    assert_eq!(places.ends.unwrap().iter().sum::<u64>(), 0);
    assert!(box_.spark.workload("other", "unknown").is_none());
}

/// What a running job holds, or may yet take, is not known: nor is what is safe.
#[test]
fn what_is_not_known_is_not_safe() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=whole:0.5 started=10");
    box_.holds(10, 50 * GIB).run(100);
    box_.spark.snapshot.gpus.devices = Err(Missing::Hung);
    assert_eq!(box_.run(1).safe, [Err(Missing::Hung); 2]);
    // Found by an exporter that has just started.
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 50 * GIB);
    assert_eq!(box_.run(20).safe[0], Err(Missing::Pending));
    assert!(box_.run(60).safe[0].is_ok());
    // A notebook that nobody types in is waited for by nobody.
    box_.spark.start("notebook pid=20 unit=b cap=none");
    let release = box_.run(10);
    assert!(release.safe[0].is_ok() && release.waits_for.is_none());
}

/// One that has ended and that nobody has buried: the driver charges it what it has not given back.
#[test]
fn a_zombie_has_ended_and_may_hold_memory() {
    let mut box_ = Balance::new();
    box_.spark.start("vllm pid=10 cap=none started=10");
    box_.holds(10, 84 * GIB).run(100);
    box_.spark.proc(10).zombie = true;
    let release = box_.run(1);
    assert_eq!(release.ended.len(), 1);
    assert_eq!(release.pending, Ok(Bytes(84 * GIB)), "once, though it is charged");
    // Its row goes, its memory does not.
    box_.spark.gpu().processes = Ok(Vec::new());
    assert_eq!(box_.run(10).pending, Ok(Bytes(84 * GIB)));
    box_.spark.end(10);
    let release = box_.run(1);
    assert!(release.ended.is_empty(), "told once");
    assert_eq!(release.pending, Ok(Bytes(84 * GIB)));
    box_.driver = 0;
    assert_eq!(box_.run(10).pending, Ok(Bytes(0)));
}
