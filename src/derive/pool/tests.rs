#![expect(clippy::cast_precision_loss, reason = "figures of a test")]

use super::*;
use crate::sources::proc::{buddyinfo, meminfo, vmstat};
use crate::units::{BytesPerSecond, GIB, MIB};
use proptest::prelude::*;

/// A machine whose memory figures a test sets and whose clock it moves.
struct Box {
    state: State,
    thresholds: Thresholds,
    snapshot: Snapshot,
}

impl Box {
    fn new() -> Self {
        let at =
            Moment { mono: Duration::from_secs(1000), wall: Duration::from_secs(1_700_000_000) };
        let mut snapshot = Snapshot::absent(at, Missing::Pending);
        snapshot.meminfo = meminfo::parse("MemTotal: 127600748 kB\n");
        Self { state: State::default(), thresholds: Thresholds::default(), snapshot }
    }

    /// One second later, with this much available (and as much free).
    fn tick(&mut self, available: u64) -> Pool {
        self.snapshot.meminfo.available = Ok(Bytes(available));
        self.snapshot.meminfo.free = Ok(Bytes(available));
        self.advance(1);
        self.snapshot.read_at[Source::Meminfo.index()] = Some(self.snapshot.at);
        derive(&mut self.state, &self.snapshot, &self.thresholds)
    }

    /// Seconds later, with memory that could not be read.
    fn blind(&mut self, seconds: u64, reason: Missing) -> Pool {
        self.advance(seconds);
        let mut snapshot = self.snapshot.clone();
        snapshot.lose(Source::Meminfo, reason);
        derive(&mut self.state, &snapshot, &self.thresholds)
    }

    fn advance(&mut self, seconds: u64) {
        self.snapshot.at.mono += Duration::from_secs(seconds);
        self.snapshot.at.wall += Duration::from_secs(seconds);
    }
}

fn mib(n: u64) -> u64 {
    n * MIB
}

#[test]
fn headroom_is_counted_above_the_reserve_and_may_be_negative() {
    let mut b = Box::new();
    let reserve = b.thresholds.reserve.0;
    for (available, want) in
        [(reserve + 1, 1_i64), (reserve, 0), (reserve - 1, -1), (0, -(4 << 30))]
    {
        let pool = b.tick(available);
        assert_eq!(pool.headroom, [Ok(SignedBytes(want)); 2]);
    }
}

#[test]
fn the_reserve_is_broken_below_it_and_restored_only_well_above() {
    let mut b = Box::new();
    let (reserve, above) = (b.thresholds.reserve.0, b.thresholds.reserve_hysteresis.0);
    for (available, broken) in [
        (reserve, false),
        (reserve - 1, true),
        (reserve, true),
        (reserve + above - 1, true),
        (reserve + above, false),
        (reserve + above - 1, false),
    ] {
        assert_eq!(b.tick(available).below_reserve, Ok(broken), "{available}");
    }
    b.tick(reserve - 1);
    let blind = b.blind(1, Missing::Hung);
    assert_eq!((blind.below_reserve, blind.imminent), (Err(Missing::Hung), Err(Missing::Hung)));
    assert_eq!(b.tick(reserve + above - 1).below_reserve, Ok(true), "it is remembered meanwhile");
}

#[test]
fn windows_keep_the_extreme_for_as_long_as_they_are() {
    let mut b = Box::new();
    b.tick(mib(50_000));
    let dip = b.tick(mib(40_000));
    assert_eq!(dip.available_min, [Ok(Bytes(mib(40_000))); 3]);
    assert_eq!(dip.fall_max, [Ok(Bytes(mib(10_000))); 3]);
    let mut pool = dip;
    for _ in 0..60 {
        pool = b.tick(mib(50_000));
    }
    assert_eq!(pool.available_min[0], Ok(Bytes(mib(40_000))), "exactly a minute ago");
    pool = b.tick(mib(50_000));
    assert_eq!(pool.available_min[0], Ok(Bytes(mib(50_000))));
    assert_eq!(pool.available_min[1], Ok(Bytes(mib(40_000))));
    assert_eq!(pool.free_min[2], Ok(Bytes(mib(40_000))));
    assert_eq!(pool.fall_max[0], Ok(Bytes(0)));
    assert_eq!(pool.fall_max[2], Ok(Bytes(mib(10_000))));
}

/// A fall is measured within ten seconds: the same loss spread over a minute is a sixth of it.
#[test]
fn slow_falls_are_small_falls() {
    let mut b = Box::new();
    let mut pool = b.tick(mib(60_000));
    for i in 1..=60 {
        pool = b.tick(mib(60_000 - i * 100));
    }
    assert_eq!(pool.fall_max[0], Ok(Bytes(mib(1_000))));
}

#[test]
fn one_reading_counts_once_however_often_it_is_looked_at() {
    let mut b = Box::new();
    b.tick(mib(50_000));
    b.tick(mib(40_000));
    for _ in 0..5 {
        b.advance(1);
        derive(&mut b.state, &b.snapshot, &b.thresholds);
    }
    // Two readings so far: a third makes a slope, over the seconds that really passed.
    let pool = b.tick(mib(30_000));
    let Exhaustion::Falling { slope, .. } = pool.exhaustion else {
        panic!("{:?}", pool.exhaustion)
    };
    let steepest = mib(10_000) as f64 / 1.0;
    assert!(slope.0 > -steepest && slope.0 < 0.0, "{slope:?}");
}

#[test]
fn windows_run_empty_when_memory_cannot_be_read_and_say_why() {
    let mut b = Box::new();
    b.tick(mib(50_000));
    let pool = b.blind(59, Missing::Hung);
    assert_eq!(pool.available_min[0], Ok(Bytes(mib(50_000))));
    assert_eq!(pool.available, Err(Missing::Hung));
    assert_eq!(pool.exhaustion, Exhaustion::Unknown(Missing::Hung));
    let pool = b.blind(2, Missing::Hung);
    assert_eq!(
        pool.available_min,
        [Err(Missing::Hung), Ok(Bytes(mib(50_000))), Ok(Bytes(mib(50_000)))]
    );
    let pool = b.blind(900, Missing::Denied);
    assert_eq!(pool.fall_max, [Err(Missing::Denied); 3]);
}

/// The start-up collapse that an owner recorded, 2 s apart: 28.97 to 6.27 GiB in 11 s.
#[test]
fn a_recorded_collapse_is_seen_before_its_end() {
    let mut b = Box::new();
    let recorded = [(0, 28.971), (2, 28.962), (4, 27.311), (6, 23.787), (9, 10.605), (11, 6.267)];
    let mut imminent_at = None;
    for second in 0..=11 {
        let (_, available) = recorded.iter().rev().find(|(at, _)| *at <= second).unwrap();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a recorded figure"
        )]
        let pool = b.tick((available * 1_073_741_824.0) as u64);
        if pool.imminent == Ok(true) {
            imminent_at.get_or_insert(second);
        }
    }
    assert!(imminent_at.is_some_and(|at| at <= 9), "{imminent_at:?}");
}

#[test]
fn exhaustion_is_judged_by_level_rate_and_samples() {
    let level = Thresholds::default().exhaustion_level.0;
    let rate = Thresholds::default().exhaustion_min_rate.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
    let per_second = rate as u64;
    for (start, fall, samples, want) in [
        (level + 4 * per_second, per_second, 3, "roomy"),
        (level, per_second, 2, "unknown"),
        (level, per_second, 3, "falling"),
        (level, per_second - 1, 9, "steady"),
        (level, 0, 9, "steady"),
    ] {
        let mut b = Box::new();
        let mut pool = b.tick(start);
        for i in 1..samples {
            pool = b.tick(start - i * fall);
        }
        let got = match pool.exhaustion {
            Exhaustion::Roomy => "roomy",
            Exhaustion::Steady => "steady",
            Exhaustion::Falling { .. } => "falling",
            Exhaustion::Unknown(_) => "unknown",
        };
        assert_eq!(got, want, "{samples} samples of {fall} below {start}");
    }
}

#[test]
fn the_steeper_slope_counts_and_at_the_reserve_no_time_is_left() {
    let mut b = Box::new();
    for i in 0..30 {
        b.tick(20 * GIB - i * mib(20));
    }
    let mut pool = b.tick(19 * GIB);
    for i in 1..=5 {
        pool = b.tick(19 * GIB - i * mib(2_000));
    }
    let Exhaustion::Falling { slope, over, .. } = pool.exhaustion else {
        panic!("{:?}", pool.exhaustion)
    };
    assert_eq!((slope, over), (BytesPerSecond(-(mib(2_000) as f64)), Seconds(5.0)));
    for i in 0..5 {
        pool = b.tick(4 * GIB - i * mib(100));
    }
    let Exhaustion::Falling { to_reserve, .. } = pool.exhaustion else {
        panic!("{:?}", pool.exhaustion)
    };
    assert_eq!(to_reserve, Seconds(0.0));
}

#[test]
fn imminence_is_held_and_then_ends() {
    let mut b = Box::new();
    for i in 0..6 {
        b.tick(10 * GIB - i * mib(500));
    }
    let mut held = 0;
    while b.tick(8 * GIB).imminent == Ok(true) {
        held += 1;
        assert!(held < 100);
    }
    let wanted = Thresholds::default().imminent_hold.0;
    assert!(f64::from(held) >= wanted && f64::from(held) <= wanted + 10.0, "held for {held} s");
}

/// A pool that has hit the ground falls no further. That is not the end of it.
#[test]
fn imminence_lasts_while_the_reserve_is_broken_into() {
    let mut b = Box::new();
    for i in 0..8 {
        b.tick(10 * GIB - i * 1300 * MIB);
    }
    for _ in 0..300 {
        let pool = b.tick(900 * MIB);
        assert_eq!((pool.imminent, pool.below_reserve), (Ok(true), Ok(true)));
    }
    assert_eq!(b.tick(20 * GIB).imminent, Ok(true), "held after the rescue");
    for _ in 0..60 {
        b.tick(20 * GIB);
    }
    assert_eq!(b.tick(20 * GIB).imminent, Ok(false));
    // A slow way below the reserve is no imminence, and stays none.
    let mut b = Box::new();
    for _ in 0..10 {
        assert_eq!(b.tick(3 * GIB).imminent, Ok(false));
    }
}

#[test]
fn flushable_is_what_is_clean_and_not_mapped() {
    let lines = |mapped: u64| {
        format!(
            "Active(file): 100 kB\nInactive(file): 50 kB\nMapped: {mapped} kB\nDirty: 5 kB\n\
             Writeback: 1 kB\nSReclaimable: 7 kB\n"
        )
    };
    assert_eq!(flushable(&meminfo::parse(&lines(20))), Ok(Bytes::from_kib(131)));
    assert_eq!(
        flushable(&meminfo::parse(&lines(500))),
        Ok(Bytes::from_kib(7)),
        "never below the slab"
    );
    assert_eq!(flushable(&meminfo::parse("Mapped: 1 kB\n")), Err(Missing::NotPresent));
}

#[test]
fn contiguous_blocks_follow_the_page_size() {
    let zones = buddyinfo::parse("Node 0, zone Normal 0 0 0 0 0 3 0 0 0 5 7\n").unwrap();
    let four = Bytes(4096);
    assert_eq!(contiguous(Bytes(2 * MIB), &zones, four), Ok(Bytes(5 * 2 * MIB + 7 * 4 * MIB)));
    assert_eq!(contiguous(Bytes(4 * MIB), &zones, four), Ok(Bytes(7 * 4 * MIB)));
    assert_eq!(contiguous(Bytes(16 * MIB), &zones, four), Err(Missing::NotPresent));
    let sixty_four = Bytes(65_536);
    assert_eq!(
        contiguous(Bytes(2 * MIB), &zones, sixty_four),
        Ok(Bytes(3 * 2 * MIB + 5 * 32 * MIB + 7 * 64 * MIB))
    );
}

#[test]
fn the_page_size_is_told_by_what_is_given_both_ways() {
    let blocks = buddyinfo::parse("Node 0, zone Normal 1000\n").unwrap();
    let size = |info: &str, stat: &str| {
        page_size(&meminfo::parse(info), &vmstat::parse(stat), Ok(blocks.as_slice()))
    };
    let slab = "SUnreclaim: 6400 kB\nMemFree: 64000 kB\n";
    assert_eq!(size(slab, "nr_slab_unreclaimable 100\n"), Ok(Bytes(65_536)));
    assert_eq!(size(slab, "nr_slab_unreclaimable 1600\n"), Ok(Bytes(4096)));
    assert_eq!(size("MemFree: 64000 kB\n", "nr_free_pages 4000\n"), Ok(Bytes(16_384)));
    assert_eq!(size("MemFree: 64000 kB\n", ""), Ok(Bytes(65_536)), "by the free blocks");
    assert_eq!(size("MemFree: 640 kB\n", ""), Err(Missing::Malformed));
    assert_eq!(size("", ""), Err(Missing::NotPresent));
}

#[test]
fn a_frame_without_anything_read_derives_nothing_and_says_why() {
    let at = Moment { mono: Duration::ZERO, wall: Duration::ZERO };
    let snapshot = Snapshot::absent(at, Missing::Disabled);
    let pool = derive(&mut State::default(), &snapshot, &Thresholds::default());
    assert_eq!(pool.size, Err(Missing::Disabled));
    assert_eq!(pool.partition, Err(Missing::Disabled));
    assert_eq!(pool.headroom, [Err(Missing::Disabled); 2]);
    assert_eq!(pool.contiguous, [Err(Missing::Disabled); 4]);
    assert_eq!(pool.available_min, [Err(Missing::Disabled); 3]);
}

proptest! {
    /// No course of figures, however wild, gives anything but finite numbers.
    #[test]
    fn every_derived_number_is_finite(values in proptest::collection::vec(any::<u64>(), 1..80)) {
        let mut b = Box::new();
        for value in values {
            let pool = b.tick(value);
            if let Exhaustion::Falling { to_reserve, slope, .. } = pool.exhaustion {
                prop_assert!(to_reserve.0.is_finite() && to_reserve.0 >= 0.0);
                prop_assert!(slope.0.is_finite() && slope.0 < 0.0);
            }
        }
    }
}
