use crate::derive::bench::Spark;
use crate::model::contention::{Pressed, PressureState, Symptom};
use crate::model::memory::ZoneBlocks;
use crate::model::reading::Missing;
use crate::units::{Bytes, Count, GIB, MIB, Seconds};

const PAGE: u64 = 4096;

/// What the kernel does each second.
#[derive(Clone, Copy, Default)]
struct Does {
    available: u64,
    swap_in: u64,
    refault_anon: u64,
    refault_file: u64,
    kswapd: u64,
    direct: u64,
    /// Hundredths of the time stalled.
    stalled: u32,
}

fn spark() -> Spark {
    let mut spark = Spark::new();
    // The page size is told by comparing the two.
    spark.snapshot.meminfo.s_unreclaim = Ok(Bytes(1000 * PAGE));
    let v = &mut spark.snapshot.vmstat;
    for counter in [
        &mut v.swap_in,
        &mut v.refault_anon,
        &mut v.refault_file,
        &mut v.steal_kswapd,
        &mut v.steal_direct,
        &mut v.stall_normal,
        &mut v.compact_fail,
        &mut v.oom_kill,
    ] {
        *counter = Ok(Count(1000));
    }
    v.nr_slab_unreclaimable = Ok(Count(1000));
    spark.snapshot.pressure.memory_some = Ok(Seconds(0.0));
    spark
}

fn run(spark: &mut Spark, seconds: u64, does: Does) -> &Pressed {
    spark.snapshot.meminfo.available = Ok(Bytes(does.available));
    for _ in 0..seconds {
        let v = &mut spark.snapshot.vmstat;
        for (counter, bytes) in [
            (&mut v.swap_in, does.swap_in),
            (&mut v.refault_anon, does.refault_anon),
            (&mut v.refault_file, does.refault_file),
            (&mut v.steal_kswapd, does.kswapd),
            (&mut v.steal_direct, does.direct),
        ] {
            *counter = counter.map(|Count(n)| Count(n + bytes / PAGE));
        }
        let stalled = f64::from(does.stalled) / 100.0;
        let psi = &mut spark.snapshot.pressure.memory_some;
        *psi = psi.map(|Seconds(s)| Seconds(s + stalled));
        spark.run(1);
    }
    &spark.now.as_ref().unwrap().pressed
}

const ROOM: Does = Does {
    available: 60 * GIB,
    swap_in: 0,
    refault_anon: 0,
    refault_file: 0,
    kswapd: 0,
    direct: 0,
    stalled: 0,
};
/// Little is left and everything is quiet: how boxes are meant to run.
const FULL: Does = Does { available: 8 * GIB, ..ROOM };
/// Reading a data set that is larger than the cache.
const STREAMS: Does = Does { kswapd: 800 * MIB, refault_file: 500 * MIB, direct: 10 * MIB, ..FULL };
const RECLAIMS: Does = Does { direct: 200 * MIB, kswapd: 400 * MIB, ..FULL };
const THRASHES: Does = Does { swap_in: 50 * MIB, refault_anon: 40 * MIB, ..RECLAIMS };

/// The level of a box alone is never more than tight.
#[test]
fn a_level_is_no_crisis() {
    let t = Spark::new().t;
    let limit = t.reserve.0 + t.comfort.0;
    for (available, want) in [
        (limit, PressureState::Comfortable),
        (limit - 1, PressureState::Tight),
        (2 * GIB, PressureState::Tight),
        (1, PressureState::Tight),
    ] {
        let pressed = run(&mut spark(), 60, Does { available, ..ROOM }).clone();
        assert_eq!(pressed.state, want, "{available}: {}", pressed.evidence);
        assert_eq!(pressed.proven().count(), 0);
    }
}

#[test]
fn each_state_has_its_signs() {
    let exhausted = Does { available: GIB - 1, ..RECLAIMS };
    let stalled = Does { stalled: 20, ..FULL };
    // Reading from swap without anybody waiting is somebody who wakes up.
    let wakes = Does { swap_in: 50 * MIB, ..ROOM };
    for (does, want) in [
        (STREAMS, PressureState::Tight),
        (Does { available: 60 * GIB, ..STREAMS }, PressureState::Comfortable),
        (RECLAIMS, PressureState::Reclaiming),
        (stalled, PressureState::Reclaiming),
        (wakes, PressureState::Comfortable),
        (THRASHES, PressureState::Thrashing),
        (Does { available: 60 * GIB, ..THRASHES }, PressureState::Thrashing),
        (exhausted, PressureState::Exhausted),
        (Does { available: GIB, ..RECLAIMS }, PressureState::Reclaiming),
    ] {
        let pressed = run(&mut spark(), 60, does).clone();
        assert_eq!(pressed.state, want, "{}", pressed.evidence);
    }
}

/// Each threshold at its limit and one page below it.
#[test]
fn limits_count_from_their_value_on() {
    let t = Spark::new().t;
    let page = |rate: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a test's figure"
        )]
        let bytes = rate as u64;
        bytes
    };
    for (below, want) in [(0, PressureState::Reclaiming), (PAGE, PressureState::Tight)] {
        let direct = page(t.direct_reclaim_from.0) - below;
        assert_eq!(run(&mut spark(), 60, Does { direct, ..FULL }).state, want);
    }
    for (below, shows) in [(0, true), (PAGE, false)] {
        let swap_in = page(t.swap_in_from.0) - below;
        let refault_anon = page(t.refault_from.0) - below;
        let pressed = run(&mut spark(), 60, Does { swap_in, refault_anon, ..ROOM }).clone();
        assert_eq!(pressed.sign(Symptom::SwapIn).shows, Ok(shows));
        assert_eq!(pressed.sign(Symptom::AnonymousRefaults).shows, Ok(shows));
        assert_eq!(pressed.proven().count(), if shows { 2 } else { 0 });
    }
}

/// A streaming data set is context, and proves nothing.
#[test]
fn a_data_set_that_streams_is_context() {
    let pressed = run(&mut spark(), 60, STREAMS).clone();
    assert_eq!(pressed.sign(Symptom::FileRefaults).shows, Ok(true));
    assert_eq!(pressed.sign(Symptom::KernelReclaim).shows, Ok(true));
    assert_eq!(pressed.proven().count(), 0);
}

/// While a model is loaded the cache gives way: that is what it is for, until the slope says otherwise.
#[test]
fn a_load_is_no_crisis_until_its_slope_says_so() {
    let mut spark = spark();
    run(&mut spark, 1, FULL);
    spark.start("vllm pid=10 cap=none");
    run(&mut spark, 5, FULL);
    for gib in 1..40 {
        spark.holds(10, gib * GIB);
        let pressed = run(&mut spark, 1, RECLAIMS).clone();
        assert!(pressed.state <= PressureState::Tight, "{gib}: {}", pressed.evidence);
    }
    let evidence = spark.now.as_ref().unwrap().pressed.evidence.clone();
    assert!(evidence.contains("vllm is loading, a load is no crisis"), "{evidence}");
    // It falls by 1 GiB a second, with 8 left.
    for left in (0..8).rev() {
        spark.holds(10, (50 - left) * GIB);
        run(&mut spark, 1, Does { available: left * GIB + 1, ..RECLAIMS });
    }
    let pressed = &spark.now.as_ref().unwrap().pressed;
    assert!(pressed.state >= PressureState::Reclaiming, "{}", pressed.evidence);
}

/// Killed for want of memory on a box that had little: told for a minute, whatever is free now.
#[test]
fn a_kill_is_exhaustion_for_a_minute() {
    let mut spark = spark();
    run(&mut spark, 40, FULL);
    spark.snapshot.vmstat.oom_kill = Ok(Count(1001));
    assert_eq!(run(&mut spark, 55, ROOM).state, PressureState::Exhausted);
    assert_eq!(run(&mut spark, 60, ROOM).state, PressureState::Comfortable);
    // What was killed before the exporter started is no news.
    assert_eq!(run(&mut self::spark(), 60, FULL).state, PressureState::Tight);
}

/// The kernel counts those, too, that reach the limit of their own control group on an empty box.
#[test]
fn a_kill_on_an_empty_box_is_told_and_is_no_exhaustion() {
    let mut spark = spark();
    run(&mut spark, 40, ROOM);
    spark.snapshot.vmstat.oom_kill = Ok(Count(1001));
    let pressed = run(&mut spark, 5, ROOM).clone();
    assert_eq!(pressed.state, PressureState::Comfortable);
    assert!(pressed.evidence.starts_with("a process was killed"), "{}", pressed.evidence);
}

/// Reclaim comes in waves.
#[test]
fn a_worse_state_is_held_for_a_while() {
    let mut spark = spark();
    assert_eq!(run(&mut spark, 60, THRASHES).state, PressureState::Thrashing);
    let pressed = run(&mut spark, 45, FULL).clone();
    assert_eq!(pressed.state, PressureState::Thrashing);
    assert!(pressed.evidence.contains("its signs were last seen"), "{}", pressed.evidence);
    assert_eq!(run(&mut spark, 40, FULL).state, PressureState::Tight);
}

#[test]
fn what_is_not_read_is_unknown() {
    let mut spark = spark();
    run(&mut spark, 60, THRASHES);
    spark.snapshot.vmstat.steal_direct = Err(Missing::Denied);
    spark.run(1);
    let pressed = spark.now.as_ref().unwrap().pressed.clone();
    assert_eq!((pressed.state, pressed.evidence.as_str()), (PressureState::Unknown, "denied"));
    // A kernel without PSI and without swap still tells the rest.
    let mut spark = self::spark();
    spark.snapshot.pressure.memory_some = Err(Missing::NotPresent);
    spark.snapshot.vmstat.swap_in = Err(Missing::NotPresent);
    let pressed = run(&mut spark, 60, RECLAIMS).clone();
    assert_eq!(pressed.state, PressureState::Reclaiming);
    assert_eq!(pressed.sign(Symptom::SwapIn).shows, Err(Missing::NotPresent));
}

/// Faults of a job that has settled, beside another one; a load faults its way through the whole model.
#[test]
fn faults_count_for_those_that_have_settled() {
    let run = |settles: u64, others: bool, rate: u64, does: Does| {
        let mut spark = spark();
        spark.start("vllm pid=10 cap=none started=10").holds(10, 20 * GIB);
        if others {
            spark.start("trl pid=20 cap=none started=20").holds(20, 30 * GIB);
        }
        let mut faults = 0;
        for _ in 0..settles {
            faults += rate;
            spark.proc(10).major_faults = Ok(Count(faults));
            self::run(&mut spark, 1, does);
        }
        spark.now.as_ref().unwrap().pressed.sign(Symptom::WorkloadFaults).shows
    };
    assert_eq!(run(100, true, 50, FULL), Ok(true));
    assert_eq!(run(100, true, 49, FULL), Ok(false));
    assert_eq!(run(100, false, 50, FULL), Ok(false), "alone");
    assert_eq!(run(100, true, 50, ROOM), Ok(false), "it reads a file, and nobody took it");
    assert_eq!(run(40, true, 5000, FULL), Ok(false), "not settled yet");
}

/// A server that sleeps gives its memory back on purpose; a trainer breathes.
#[test]
fn residency_is_lost_by_servers_and_is_context() {
    for (class, shows) in [("vllm", true), ("trl", false)] {
        let mut spark = spark();
        spark.start(&format!("{class} pid=10 cap=none started=10")).holds(10, 60 * GIB);
        run(&mut spark, 100, ROOM);
        spark.holds(10, 2 * GIB);
        let pressed = run(&mut spark, 10, ROOM).clone();
        assert_eq!(pressed.sign(Symptom::ResidencyLost).shows, Ok(shows), "{class}");
        assert_eq!(pressed.proven().count(), 0);
        assert_eq!(pressed.state, PressureState::Comfortable);
    }
}

/// Large blocks of zone Normal alone: the driver does not take from the zones below.
#[test]
fn contiguity_is_that_of_the_normal_zone() {
    let zone = |name: &str, blocks: u64| {
        let mut by_order = vec![1000; 11];
        (by_order[9], by_order[10]) = (blocks, 0);
        ZoneBlocks { name: name.into(), by_order, text: String::new() }
    };
    for (normal, shows) in [(32, false), (31, true)] {
        let mut spark = spark();
        spark.snapshot.blocks = Ok(vec![zone("node0.DMA", 500), zone("node0.Normal", normal)]);
        spark.snapshot.meminfo.free = Ok(Bytes(GIB));
        let pressed = run(&mut spark, 5, FULL).clone();
        assert_eq!(pressed.contiguous, Ok(Bytes(normal * 2 * MIB)));
        assert_eq!(pressed.sign(Symptom::ContiguityLost).shows, Ok(shows), "{normal}");
        // Little is free at all, and what is asked for is made.
        spark.snapshot.meminfo.free = Ok(Bytes(GIB - 1));
        assert_eq!(run(&mut spark, 5, FULL).sign(Symptom::ContiguityLost).shows, Ok(false));
        // It cannot be made.
        spark.snapshot.vmstat.compact_fail = Ok(Count(1001));
        assert_eq!(run(&mut spark, 5, FULL).sign(Symptom::ContiguityLost).shows, Ok(shows));
        // Without memory it is no wonder.
        let pressed = run(&mut spark, 5, Does { available: 3 * GIB, ..FULL }).clone();
        assert_eq!(pressed.sign(Symptom::ContiguityLost).shows, Ok(false));
    }
}

/// A notebook that somebody opens beside a box in distress is no load.
#[test]
fn an_open_notebook_hides_nothing() {
    let mut spark = spark();
    run(&mut spark, 1, FULL);
    spark.start("notebook pid=10 cap=none");
    assert_eq!(run(&mut spark, 60, RECLAIMS).state, PressureState::Reclaiming);
    // Nor is a server that began long ago and has loaded nothing since.
    let mut spark = self::spark();
    run(&mut spark, 1, FULL);
    spark.start("vllm pid=10 cap=none");
    assert_eq!(run(&mut spark, 120, RECLAIMS).state, PressureState::Tight);
    assert_eq!(run(&mut spark, 120, RECLAIMS).state, PressureState::Reclaiming);
}
