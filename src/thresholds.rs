//! Every number that decides anything, once: its unit, default, range and where it comes from.

use crate::units::{Bytes, BytesPerSecond, Celsius, Count, Hertz, Ratio, Seconds, Unit, Watts};

/// A threshold's value as documents and configuration see it, in the row's unit.
pub trait Number: Copy {
    /// Its unit.
    const UNIT: Unit;
    /// As a plain number in that unit.
    fn number(self) -> f64;
    /// From a plain number in that unit.
    fn from_number(number: f64) -> Self;
}

impl Number for Bytes {
    const UNIT: Unit = Unit::Bytes;
    fn number(self) -> f64 {
        self.as_f64()
    }
    fn from_number(number: f64) -> Self {
        Self(whole(number))
    }
}

impl Number for Count {
    const UNIT: Unit = Unit::Count;
    fn number(self) -> f64 {
        self.as_f64()
    }
    fn from_number(number: f64) -> Self {
        Self(whole(number))
    }
}

/// A threshold whose type is a number with a unit's name.
macro_rules! float_number {
    ($($name:ident)+) => {$(
        impl Number for $name {
            const UNIT: Unit = Unit::$name;
            fn number(self) -> f64 {
                self.0
            }
            fn from_number(number: f64) -> Self {
                Self(number)
            }
        }
    )+};
}

float_number!(Seconds Ratio BytesPerSecond Watts Celsius Hertz);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranges are positive and far below 2^53"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// One row of the table.
pub struct Row {
    /// Name in configuration and documents.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Default, in the unit.
    pub default: f64,
    /// Smallest value that makes sense.
    pub min: f64,
    /// Largest value that makes sense.
    pub max: f64,
    /// What it decides.
    pub doc: &'static str,
    /// Why it is what it is.
    pub provenance: &'static str,
    /// The value in force.
    pub get: fn(&Thresholds) -> f64,
    /// Sets it, to a value within the range.
    pub set: fn(&mut Thresholds, f64),
}

macro_rules! thresholds {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident: $ty:ident = $name:literal, $default:expr, $min:expr, $max:expr, because $why:literal;
    )+) => {
        /// The numbers in force.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Thresholds { $( $(#[doc = $doc])+ pub $field: $ty, )+ }

        impl Default for Thresholds {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl Thresholds {
            /// Every row.
            pub const ROWS: &'static [fn() -> Row] = &[$(
                || Row {
                    name: $name,
                    unit: <$ty as Number>::UNIT,
                    default: { let v: $ty = $default; v.number() },
                    min: { let v: $ty = $min; v.number() },
                    max: { let v: $ty = $max; v.number() },
                    doc: concat!($($doc),+),
                    provenance: $why,
                    get: |t| t.$field.number(),
                    set: |t, number| t.$field = <$ty as Number>::from_number(number),
                },
            )+];
        }
    };
}

thresholds! {
    /// Memory that should stay available for the operating system and the driver. Headroom is
    /// counted above it.
    reserve: Bytes = "pool.reserve", Bytes::from_gib(4), Bytes::from_mib(256), Bytes::from_gib(64),
        because "Planning advice for these boxes is the free figure minus a few GB; boxes were lost \
                 with 2 to 6 GiB available, and single falls of 13 GiB in 3 s are on record.";
    /// Headroom that a person may call comfortable; the views say so below it.
    comfort: Bytes = "pool.comfort", Bytes::from_gib(8), Bytes(0), Bytes::from_gib(64),
        because "Twice the reserve: one large allocation beside the running job.";
    /// How far available memory must rise above the reserve before the reserve counts as restored.
    reserve_hysteresis: Bytes = "pool.reserve_hysteresis", Bytes::from_mib(512), Bytes(0), Bytes::from_gib(8),
        because "A judgement: larger than the second-to-second noise of a serving box.";
    /// Falls of available memory are measured over this time.
    fall_within: Seconds = "pool.fall_within", Seconds(10.0), Seconds(1.0), Seconds(60.0),
        because "Recorded collapses took 9 to 11 s from 29 GiB to the end.";
    /// The slope of available memory is judged only below this much of it.
    exhaustion_level: Bytes = "pool.exhaustion_level", Bytes::from_gib(32), Bytes::from_gib(1), Bytes::from_gib(128),
        because "The steepest recorded start-up fell from 29 GiB; above that a fall is a load.";
    /// Slower falls than this are not called falling.
    exhaustion_min_rate: BytesPerSecond = "pool.exhaustion_min_rate",
        BytesPerSecond(16.0 * 1_048_576.0), BytesPerSecond(1_048_576.0), BytesPerSecond(1_073_741_824.0),
        because "A judgement: at 16 MiB/s, 28 GiB last half an hour; slower leaks are a matter for rules over hours.";
    /// Short window for the slope.
    slope_short: Seconds = "pool.slope_short", Seconds(5.0), Seconds(2.0), Seconds(30.0),
        because "Fast collapses: 2.1 to 4.4 GiB/s.";
    /// Long window for the slope.
    slope_long: Seconds = "pool.slope_long", Seconds(30.0), Seconds(10.0), Seconds(300.0),
        because "Loads that step: a 5 s window sees a pause between two weight shards as the end of the fall.";
    /// The reserve is called imminent when it is this near.
    imminent_within: Seconds = "pool.imminent_within", Seconds(30.0), Seconds(5.0), Seconds(600.0),
        because "Time for a watchdog or a person at the keyboard to stop the newest job.";
    /// How long imminence is kept after the fall ends.
    imminent_hold: Seconds = "pool.imminent_hold", Seconds(30.0), Seconds(0.0), Seconds(600.0),
        because "Loads pause between shards; shorter holds flap.";
    /// What remains unaccounted on an idle box is learned only up to this much.
    idle_remainder_max: Bytes = "pool.idle_remainder_max", Bytes::from_gib(4), Bytes(0), Bytes::from_gib(32),
        because "About 0.4 GiB on drivers of the 580 series; a box whose driver has pooled tens of GiB must not teach that this is normal.";
    /// A smaller idle remainder than this is not taken for the whole uncertainty.
    idle_remainder_floor: Bytes = "pool.idle_remainder_floor", Bytes::from_mib(512), Bytes(0), Bytes::from_gib(4),
        because "A judgement: the driver's overhead grows with the contexts that are open.";
    /// What exceeds the idle remainder by this much is called page pools, where the driver has them on.
    page_pools_from: Bytes = "pool.page_pools_from", Bytes::from_gib(2), Bytes::from_mib(64), Bytes::from_gib(64),
        because "A judgement: pools of 51 to 100 GiB are on record, and managed memory explains a few hundred MiB.";
    /// A source or a lane that is well again is noted as such after this long without a relapse.
    event_settle: Seconds = "event.settle", Seconds(30.0), Seconds(0.0), Seconds(600.0),
        because "A judgement: a sensor that hangs every few seconds should be one event, not hundreds.";
    /// Messages of the kernel that came within this time are recent.
    kernel_recent: Seconds = "kernel_log.recent", Seconds(60.0), Seconds(1.0), Seconds(3600.0),
        because "A judgement: a load that goes well has logged 16 lines within a second, and starts on record lie a minute apart.";
    /// Messages of memory that the driver did not get decide what is said of it for this long.
    no_memory_within: Seconds = "kernel_log.no_memory_within", Seconds(300.0), Seconds(10.0), Seconds(3600.0),
        because "A judgement: long enough for whoever looks every few minutes. A box at rest has logged 55 of them in three days and stayed well, so an old one says nothing.";
    /// A process that was killed for want of memory is a tiny victim when it had less memory of its own.
    tiny_victim: Bytes = "kernel_log.tiny_victim", Bytes::from_mib(256), Bytes::from_mib(1), Bytes::from_gib(16),
        because "A victim of 1000 kB was published while the driver held about 100 GB; small programs of a desktop have up to some 200 MiB.";
    /// How often the GPU is asked through NVML.
    gpu_period: Seconds = "gpu.period", Seconds(1.0), Seconds(0.05), Seconds(60.0),
        because "The driver samples utilization and power about once a second; one round is a few dozen calls of microseconds.";
    /// A round of questions to NVML that takes longer is given up: what is left is not asked, what was
    /// answered is not used, and the source is called hung.
    gpu_deadline: Seconds = "gpu.deadline", Seconds(2.0), Seconds(0.02), Seconds(60.0),
        because "Two periods; calls that blocked for 491 to 737 s are on record, healthy ones take microseconds.";
    /// How often nvidia-smi is run where it stands in for NVML.
    smi_period: Seconds = "gpu.smi_period", Seconds(5.0), Seconds(0.05), Seconds(300.0),
        because "One run takes about 20 ms of CPU and 20 MB; once a second would be 2 % of a core for nothing.";
    /// An nvidia-smi that takes longer is killed, with its children.
    smi_deadline: Seconds = "gpu.smi_deadline", Seconds(5.0), Seconds(0.02), Seconds(120.0),
        because "Without persistence mode the driver wakes the GPU for each run, which takes a second or two.";
    /// A driver that could not be reached is tried again after this long; each failure doubles it.
    gpu_retry_first: Seconds = "gpu.retry_first", Seconds(1.0), Seconds(0.02), Seconds(60.0),
        because "A driver that is being replaced is back within seconds.";
    /// The longest pause before a driver that could not be reached is tried again.
    gpu_retry_max: Seconds = "gpu.retry_max", Seconds(60.0), Seconds(0.02), Seconds(3600.0),
        because "Loading the library anew takes about 6 ms and 15 MB for a moment: once a minute costs nothing.";
    /// A GPU of a machine with one pool that reports less than this share of it reports a carve-out.
    carve_out_below: Ratio = "gpu.carve_out_below", Ratio(0.5), Ratio(0.01), Ratio(0.99),
        because "A carve-out of 7.9 GiB beside 54 GiB of memory is on record, 15 %; reports of the whole pool lie near 100 %.";
    /// A part that is not known and reports memory within this share of the pool's size may be reporting
    /// the pool.
    whole_pool_within: Ratio = "gpu.whole_pool_within", Ratio(0.1), Ratio(0.0), Ratio(0.5),
        because "A pool of 121.7 GiB is sold as 128 GB: 5 % apart, with room for what firmware keeps.";
    /// A GPU whose minute has less utilization than this is idle.
    idle_below: Ratio = "throttle.idle_below", Ratio(0.05), Ratio(0.0), Ratio(0.5),
        because "An idle box says 0 %; a desktop or a request now and then adds a few.";
    /// A GPU whose minute has at least this much utilization is busy.
    busy_from: Ratio = "throttle.busy_from", Ratio(0.8), Ratio(0.1), Ratio(1.0),
        because "A busy GB10 says 96 %; a training run with single samples of 46 to 57 % between its steps has minutes of 88 % and more.";
    /// How far utilization must go back beyond its limit before a GPU is no longer idle or busy.
    utilization_hysteresis: Ratio = "throttle.utilization_hysteresis", Ratio(0.1), Ratio(0.0), Ratio(0.5),
        because "A judgement: a pause of six seconds in a minute.";
    /// A single sample with at least this much utilization is a busy one.
    busy_sample_from: Ratio = "throttle.busy_sample_from", Ratio(0.9), Ratio(0.1), Ratio(1.0),
        because "Boxes with a power-delivery fault said 94 to 96 %, so do healthy ones under load.";
    /// Nothing is concluded from less than this of the first minute, and when the driver is silent for longer,
    /// nothing is known any more.
    first_after: Seconds = "throttle.first_after", Seconds(30.0), Seconds(1.0), Seconds(60.0),
        because "A judgement: half of the minute that means are taken over.";
    /// The time over which power must be flat and temperature climb, and for which clock must be lost.
    throttle_window: Seconds = "throttle.window", Seconds(600.0), Seconds(120.0), Seconds(3600.0),
        because "A box that starts to work heats up for minutes; after ten the fan has answered.";
    /// Power is flat when the means of its minutes lie within this range.
    flat_range: Watts = "throttle.flat_range", Watts(5.0), Watts(0.1), Watts(50.0),
        because "On recorded plateaus near 90 W the means of minutes lie within 3 W while samples spread over 8.";
    /// How far power must leave what it is judged by before the judgement changes.
    power_hysteresis: Watts = "throttle.power_hysteresis", Watts(2.0), Watts(0.0), Watts(20.0),
        because "A judgement: as much as the means of minutes differ on a recorded plateau.";
    /// Temperature climbs when the last minute is this much warmer than the first of the window.
    climb_from: Celsius = "throttle.climb_from", Celsius(3.0), Celsius(0.1), Celsius(50.0),
        because "On a recorded plateau of 25 minutes the means of minutes stay within 2 degrees.";
    /// A climb below this temperature is no heat.
    climb_above: Celsius = "throttle.climb_above", Celsius(70.0), Celsius(0.0), Celsius(110.0),
        because "Thermal slowdown is recorded from 76 degrees on; a box that goes from 50 to 57 is a box at work.";
    /// In the first minutes of a job a climb is its start.
    warm_up: Seconds = "throttle.warm_up", Seconds(600.0), Seconds(0.0), Seconds(3600.0),
        because "Any job heats a cold box up; on recorded starts the temperature is steady within minutes.";
    /// A GPU at this temperature is hot, whether it climbs or not.
    hot_from: Celsius = "throttle.hot_from", Celsius(83.0), Celsius(40.0), Celsius(110.0),
        because "82 degrees is what a healthy saturated box settles at, without a microsecond of thermal slowdown; of samples with a thermal reason most lie at 82 and above.";
    /// How far temperature must go back before it no longer counts as hot or climbing.
    temperature_hysteresis: Celsius = "throttle.temperature_hysteresis", Celsius(1.0), Celsius(0.0), Celsius(20.0),
        because "The GPU tells whole degrees.";
    /// Without a module that tells its limit, a GPU below this power is not at one.
    cap_power_from: Watts = "throttle.cap_power_from", Watts(80.0), Watts(1.0), Watts(1000.0),
        because "Plateaus at the limit are recorded at 88 to 105 W. Decoding peaks at 81 W in single samples; minutes of it stay below 65.";
    /// Power within this share of its own maximum, or of the module's limit, is at it.
    cap_power_within: Ratio = "throttle.cap_power_within", Ratio(0.05), Ratio(0.0), Ratio(0.5),
        because "Samples of a recorded plateau spread by 9 % and the means of its minutes by 3.";
    /// A clock this far below the job's own first steady minutes is lost.
    clock_lost: Ratio = "throttle.clock_lost", Ratio(0.1), Ratio(0.01), Ratio(0.9),
        because "On a recorded plateau of 25 minutes the means of minutes differ by 2 %.";
    /// How far a lost clock must come back before it counts as there again.
    clock_hysteresis: Ratio = "throttle.clock_hysteresis", Ratio(0.02), Ratio(0.0), Ratio(0.5),
        because "As much as the means of minutes differ on a recorded plateau.";
    /// Minutes are alike when their power differs by at most this share.
    like_power: Ratio = "throttle.like_power", Ratio(0.15), Ratio(0.0), Ratio(1.0),
        because "The same work at clocks that heat holds down by a tenth draws about that much less; other work (47 W against 90) differs by half.";
    /// Minutes are alike when their utilization differs by at most this much.
    like_utilization: Ratio = "throttle.like_utilization", Ratio(0.05), Ratio(0.0), Ratio(1.0),
        because "Minutes of one recorded training run lie between 88 and 96 %.";
    /// Minutes are compared when at least this share of the window's is alike.
    alike_share: Ratio = "throttle.alike_share", Ratio(0.8), Ratio(0.1), Ratio(1.0),
        because "Training runs pause for an evaluation or a checkpoint every few minutes.";
    /// Under a thermal reason for at least this share of the time, a GPU loses work to heat.
    event_share: Ratio = "throttle.event_share", Ratio(0.2), Ratio(0.001), Ratio(1.0),
        because "A judgement: counters of 28 s and 173 s in all are recorded over hours and days; who loses a fifth of five minutes is in it now.";
    /// The time over which that share is taken.
    event_window: Seconds = "throttle.event_window", Seconds(300.0), Seconds(10.0), Seconds(3600.0),
        because "A judgement: a burst of heat when a job starts is over by then.";
    /// How far the share must fall below its limit before the loss is over.
    event_hysteresis: Ratio = "throttle.event_hysteresis", Ratio(0.1), Ratio(0.0), Ratio(1.0),
        because "A judgement: half of the limit.";
    /// A GPU that is not busy for this long has ended its job; what comes then is another one.
    job_gap: Seconds = "throttle.job_gap", Seconds(120.0), Seconds(60.0), Seconds(3600.0),
        because "A judgement: a job that is taken for another one has its beginning learned anew, which only comes late; another one that is taken for the same would be blamed on heat.";
    /// A power-delivery fault is judged over this time.
    fault_window: Seconds = "throttle.fault_window", Seconds(180.0), Seconds(10.0), Seconds(3600.0),
        because "A judgement: it does not come and go, so three minutes lose nothing, and no start of a job lasts as long.";
    /// A fault shows in at least this share of the busy samples.
    fault_share: Ratio = "throttle.fault_share", Ratio(0.8), Ratio(0.1), Ratio(1.0),
        because "The median of a recorded fault is 799 MHz at 19.5 W; single samples can catch a change of work.";
    /// Fewer busy samples than this share of the window prove nothing.
    fault_busy_share: Ratio = "throttle.fault_busy_share", Ratio(0.5), Ratio(0.05), Ratio(1.0),
        because "A judgement: a box that is busy for less than half of the time has other things to be judged by.";
    /// At most this SM clock under load is that of a fault.
    fault_clock_max: Hertz = "throttle.fault_clock_max", Hertz(1.0e9), Hertz(1.0e8), Hertz(3.0e9),
        because "Faulty boxes run at 500 to 850 MHz; owners cap healthy ones at 1500 to 2300 MHz.";
    /// At most this power under load is that of a fault.
    fault_power_max: Watts = "throttle.fault_power_max", Watts(30.0), Watts(1.0), Watts(500.0),
        because "Faulty boxes draw 14 to 20 W; normal decoding draws 32 to 36 W at 94 %.";
    /// A busy sample with at least this SM clock proves that power is delivered.
    fault_normal_clock: Hertz = "throttle.fault_normal_clock", Hertz(1.4e9), Hertz(1.0e8), Hertz(3.0e9),
        because "The published limit between faulty and healthy clocks under load.";
    /// A GPU that spins without doing work is judged over this time.
    stall_window: Seconds = "throttle.stall_window", Seconds(600.0), Seconds(60.0), Seconds(3600.0),
        because "A judgement: waiting for a peer or for a compiler is over by then.";
    /// It spins when this share of the samples shows it.
    stall_share: Ratio = "throttle.stall_share", Ratio(0.8), Ratio(0.1), Ratio(1.0),
        because "A judgement: a server that gets a request now and then is not stalled.";
    /// How far that share must fall before it is over.
    stall_share_hysteresis: Ratio = "throttle.stall_share_hysteresis", Ratio(0.1), Ratio(0.0), Ratio(1.0),
        because "A judgement: a minute of the ten.";
    /// Busy below this power does no work.
    stall_power_below: Watts = "throttle.stall_power_below", Watts(28.0), Watts(1.0), Watts(500.0),
        because "An idle context draws 10 to 11.5 W at full clocks; the lightest decoding on record draws 32 W.";
    /// It spins at full clocks, at least at this one.
    stall_clock_from: Hertz = "throttle.stall_clock_from", Hertz(2.0e9), Hertz(1.0e8), Hertz(3.0e9),
        because "With nothing to hold them clocks are at 2.2 to 2.5 GHz; lower ones have another cause.";
    /// A GPU whose memory grew by this much within the window is loading, and waits for the disk.
    loading_from: Bytes = "throttle.loading_from", Bytes::from_gib(1), Bytes::from_mib(16), Bytes::from_gib(64),
        because "Models load at 0.1 to 2 GiB/s; a job that has loaded grows by less in ten minutes.";
    /// The highest clock under load is taken for at least this, until a higher one is seen.
    learned_clock_floor: Hertz = "clock.learned_floor", Hertz(2.385e9), Hertz(1.0e9), Hertz(3.0e9),
        because "The lowest of the clocks at which healthy boxes idle and serve: a box that was capped from the start must not teach that this is its best.";
    /// A clock cap is looked for over this time.
    clock_cap_window: Seconds = "clock.cap_window", Seconds(600.0), Seconds(60.0), Seconds(3600.0),
        because "A judgement: no two phases of a job hold one clock for ten minutes without a cap.";
    /// A cap is this far below the highest clock under load; nearer ones cannot be told from it.
    clock_cap_margin: Ratio = "clock.cap_margin", Ratio(0.08), Ratio(0.01), Ratio(0.5),
        because "Uncapped boxes were watched for hours between 2385 and 2405 MHz, and 2522 MHz was seen at lighter load: 5.5 % apart without a cap.";
    /// Under a cap the clock stays within this of it.
    clock_cap_spread: Hertz = "clock.cap_spread", Hertz(15.0e6), Hertz(1.0e6), Hertz(2.0e8),
        because "Clocks move in steps of 7 MHz; a clock that power governs wanders by 100 MHz and more.";
    /// The first steps of a run say nothing about its pace.
    run_warm_up: Seconds = "run.warm_up", Seconds(60.0), Seconds(0.0), Seconds(3600.0),
        because "Kernels are compiled and caches filled in the first steps; builds of minutes are on record for servers, of seconds for trainers.";
    /// The time whose median step is the run's own pace.
    run_baseline: Seconds = "run.baseline", Seconds(600.0), Seconds(30.0), Seconds(7200.0),
        because "As long as the window that heat is judged by, and before a box is hot.";
    /// No pace is told from fewer steps.
    run_baseline_steps: Count = "run.baseline_steps", Count(10), Count(3), Count(10_000),
        because "A judgement: the median of ten is not moved by a checkpoint and a long batch.";
    /// The run is steady when both halves of that time agree within this share.
    run_steady: Ratio = "run.steady", Ratio(0.1), Ratio(0.01), Ratio(1.0),
        because "A judgement: batches of unequal length move the median of minutes by a few percent.";
    /// Steps that take this much longer than the run's own pace are slow.
    run_slow_from: Ratio = "run.slow_from", Ratio(0.2), Ratio(0.01), Ratio(10.0),
        because "Twice what a steady run may vary by; the slow stretches that owners report are at 1.6 and more.";
    /// How far they must come back before the stretch is over.
    run_slow_hysteresis: Ratio = "run.slow_hysteresis", Ratio(0.1), Ratio(0.0), Ratio(5.0),
        because "A judgement: half of the limit.";
    /// A stretch must last this long to be told.
    run_slow_for: Seconds = "run.slow_for", Seconds(120.0), Seconds(0.0), Seconds(3600.0),
        because "A checkpoint or an evaluation takes less, and a box that heats up takes longer.";
    /// Single steps are smoothed over this time, and over five of them at least.
    run_smooth: Seconds = "run.smooth", Seconds(60.0), Seconds(1.0), Seconds(600.0),
        because "The minute that the GPU's figures are taken over.";
    /// A step that takes this many times as long as those before it, and is alone, has a pause in it.
    run_pause_from: Ratio = "run.pause_from", Ratio(2.0), Ratio(1.1), Ratio(100.0),
        because "A checkpoint or an evaluation takes many steps' time; the slow stretches that owners report are at 1.6 to 2, and do not come as single steps.";
    /// A pause is a stall when it takes this much longer than its steps should have, and as many of them as
    /// run.stall_steps says.
    run_stall_for: Seconds = "run.stall_for", Seconds(600.0), Seconds(30.0), Seconds(86_400.0),
        because "Evaluations and checkpoints on record take seconds to a few minutes; what takes longer is no stall if it comes at equal distances.";
    /// A stall takes the time of this many of the run's own steps, too.
    run_stall_steps: Count = "run.stall_steps", Count(20), Count(2), Count(10_000),
        because "A judgement: a run whose steps take minutes may well be silent for ten of them.";
    /// Slow spells too short to be told one by one are told when they take this share of the run together.
    run_short_share: Ratio = "run.short_share", Ratio(0.1), Ratio(0.01), Ratio(1.0),
        because "A judgement: at the limit of slowness, a tenth of a run costs 2 % of it.";
    /// A state of the GPU or of the jobs that holds for this share of a slow stretch may be its cause.
    run_cause_share: Ratio = "run.cause_share", Ratio(0.5), Ratio(0.05), Ratio(1.0),
        because "What holds for the smaller part of a stretch does not explain the larger one.";
    /// A state that can only be told after minutes counts from this much of it.
    run_cause_for: Seconds = "run.cause_for", Seconds(60.0), Seconds(1.0), Seconds(3600.0),
        because "A power fault is told after three minutes; a minute of it within a stretch is no accident.";
    /// A lower clock is named when it explains this much of a slow stretch.
    run_cause_explains: Ratio = "run.cause_explains", Ratio(0.2), Ratio(0.01), Ratio(1.0),
        because "A judgement: what explains less than a fifth is not what somebody looks for.";
    /// A clock this much lower than in the run's own steady minutes explains something.
    run_clock_lower: Ratio = "run.clock_lower", Ratio(0.05), Ratio(0.01), Ratio(0.9),
        because "The means of minutes differ by 2 % on a recorded plateau.";
    /// Power of the GPU that is normal at full load.
    gpu_sustained: Watts = "power.gpu_sustained", Watts(100.0), Watts(1.0), Watts(2000.0),
        because "88 to 92.5 W are recorded under stress and 105 W at most: a plateau near 100 W is the platform, not a fault.";
    /// Power that the module is built for.
    module_rated: Watts = "power.module_rated", Watts(140.0), Watts(1.0), Watts(2000.0),
        because "The SoC's design power, and the limit that its firmware sets for the module.";
    /// Power that the supply is rated for.
    supply_rated: Watts = "power.supply_rated", Watts(240.0), Watts(1.0), Watts(5000.0),
        because "The rating of the supply (USB-C PD 3.1, 48 V at 5 A), not a load figure: whole boxes peak at 168 to 171 W.";
    /// Where boards begin to cut the power.
    board_cutoff_from: Celsius = "board.cutoff_from", Celsius(93.0), Celsius(40.0), Celsius(120.0),
        because "A hottest zone of 93 to 96 degrees is one step from a sudden power-off, although the firmware states 104.8.";
    /// Where boards have cut the power at the latest.
    board_cutoff_to: Celsius = "board.cutoff_to", Celsius(96.0), Celsius(40.0), Celsius(120.0),
        because "The plateau that throttling holds; nobody has reported a board above it for long.";
    /// So many workloads have series of their own; those beyond it are counted together.
    job_shown: Count = "job.shown", Count(8), Count(1), Count(64),
        because "A workload is up to 28 series, and a box without any about 370: with eight the exporter stays below 600.";
    /// A job that holds less GPU memory than this has not loaded anything.
    job_small: Bytes = "job.small", Bytes::from_mib(768), Bytes::from_mib(16), Bytes::from_gib(8),
        because "A bare CUDA context holds 150 to 420 MiB on these machines; a 1.4 GiB model is the smallest on record.";
    /// A job that has loaded nothing for this long is not starting any more.
    job_start: Seconds = "job.start", Seconds(1200.0), Seconds(10.0), Seconds(7200.0),
        because "A cold start of 1019 s is on record.";
    /// A job loads while what it holds grows by this much within `job.load_window`.
    job_load_rise: Bytes = "job.load_rise", Bytes::from_gib(1), Bytes::from_mib(16), Bytes::from_gib(32),
        because "The slowest load on record brings 74 GiB in 610 s, 3.6 GiB in 30 s; a server that serves grows by hundreds of MiB.";
    /// The time over which growth counts as loading.
    job_load_window: Seconds = "job.load_window", Seconds(30.0), Seconds(5.0), Seconds(600.0),
        because "Loads pause between shards for seconds.";
    /// A job has settled when it has not grown for this long.
    job_settle: Seconds = "job.settle", Seconds(60.0), Seconds(5.0), Seconds(1800.0),
        because "Between its weights and its caches a server measures and compiles; most start-ups on record go on within a minute.";
    /// Growth by this much takes a settled job back to loading.
    job_reload_rise: Bytes = "job.reload_rise", Bytes::from_gib(4), Bytes::from_mib(64), Bytes::from_gib(64),
        because "A trainer's allocations breathe by a few GiB between steps (32 to 39 GiB are on record over an hour); another model is more at once.";
    /// A job that uses this many CPUs works, where the GPU is busy and several jobs hold memory on it.
    job_busy_cpus: Ratio = "job.busy_cpus", Ratio(0.25), Ratio(0.01), Ratio(16.0),
        because "An engine that has served idles at a tenth of a CPU on record; one that decodes keeps a whole one busy.";
    /// What a start may take beyond a cap before the cap is no cap.
    job_cap_overshoot: Bytes = "job.cap_overshoot", Bytes::from_gib(6), Bytes(0), Bytes::from_gib(64),
        because "5.6 GiB of host side and graphs outside the accounting of one engine are on record.";
    /// The share by which a cap may be exceeded on top of that.
    job_cap_tolerance: Ratio = "job.cap_tolerance", Ratio(0.05), Ratio(0.0), Ratio(1.0),
        because "Sizes are rounded and the pool is read as 119.6 or 121.7 GiB by different programs, 2 % apart.";
    /// Rates of the kernel's counters are taken over this time.
    pressure_window: Seconds = "pressure.window", Seconds(30.0), Seconds(5.0), Seconds(600.0),
        because "As long as the long window of the pool's slope: a burst of a second is no state.";
    /// Reading this much back from swap is a symptom.
    swap_in_from: BytesPerSecond = "pressure.swap_in_from",
        BytesPerSecond(4.0 * 1_048_576.0), BytesPerSecond(4096.0), BytesPerSecond(4.0 * 1_073_741_824.0),
        because "A judgement: 120 MiB in half a minute. Boxes at rest read nothing from swap for hours; a desktop that wakes reads some tens of MiB once.";
    /// Reading this much anonymous memory back soon after it was reclaimed is a symptom.
    refault_from: BytesPerSecond = "pressure.refault_from",
        BytesPerSecond(4.0 * 1_048_576.0), BytesPerSecond(4096.0), BytesPerSecond(4.0 * 1_073_741_824.0),
        because "A judgement: as for swap, from which it comes back.";
    /// So many major faults a second of a job that has settled are a symptom.
    faults_from: Count = "pressure.faults_from", Count(50), Count(1), Count(1_000_000),
        because "A judgement: each waits for a disk for about a tenth of a millisecond and more, fifty of them for most of a step's slack; a settled server has none for hours.";
    /// Programs that reclaim this much themselves are in distress.
    direct_reclaim_from: BytesPerSecond = "pressure.direct_reclaim_from",
        BytesPerSecond(64.0 * 1_048_576.0), BytesPerSecond(4096.0), BytesPerSecond(16.0 * 1_073_741_824.0),
        because "A judgement: the background reclaimer keeps up with a disk of these boxes at several hundred MiB/s; what programs do beside it is the part that they wait for.";
    /// Work that stands still for memory for this share of the time is in distress.
    stall_from: Ratio = "pressure.stall_from", Ratio(0.1), Ratio(0.001), Ratio(1.0),
        because "The kernel's figure lags on these boxes and was zero before recorded freezes: it confirms and never warns.";
    /// With less available than this nothing is left.
    exhausted_below: Bytes = "pressure.exhausted_below", Bytes::from_gib(1), Bytes::from_mib(64), Bytes::from_gib(16),
        because "Boxes were lost with MemAvailable below 1 GiB; guards at 2 GiB have killed jobs that would have lived.";
    /// A worse state is kept for this long after its signs.
    pressure_hold: Seconds = "pressure.hold", Seconds(30.0), Seconds(0.0), Seconds(600.0),
        because "Reclaim comes in waves; shorter holds flap.";
    /// Less free memory in large blocks than this is a symptom.
    contiguous_low: Bytes = "pressure.contiguous_low", Bytes::from_mib(64), Bytes(0), Bytes::from_gib(16),
        because "Drivers failed with none to a few dozen blocks of 1 MiB left in zone Normal; a fresh box has thousands.";
    /// A job that holds this much without a cap is heavy.
    heavy_from: Bytes = "contention.heavy_from", Bytes::from_gib(4), Bytes::from_mib(256), Bytes::from_gib(64),
        because "The rule of those who use these boxes: one heavy job at a time; a small one below 4 GB beside a server with a cap is none.";
    /// A job that holds or may take this share of the pool is heavy whatever bounds it.
    heavy_share: Ratio = "contention.heavy_share", Ratio(0.5), Ratio(0.05), Ratio(1.0),
        because "Two of them cannot fit.";
    /// What ended jobs have not given back is told from this much on.
    release_from: Bytes = "release.from", Bytes::from_gib(1), Bytes::from_mib(64), Bytes::from_gib(64),
        because "The driver's own remainder moves by some hundred MiB.";
    /// What a job has not given back for this long is not called pending any more: nobody knows.
    release_for: Seconds = "release.for", Seconds(900.0), Seconds(60.0), Seconds(86_400.0),
        because "Releases of 60 s and of three minutes are on record.";
    /// A worker without its server that holds this much is an orphan.
    orphan_from: Bytes = "orphan.from", Bytes::from_gib(1), Bytes::from_mib(64), Bytes::from_gib(64),
        because "The one on record held 108 GB; a context alone is not worth a page.";
    /// It is one when it has done nothing for this long.
    orphan_for: Seconds = "orphan.for", Seconds(120.0), Seconds(10.0), Seconds(3600.0),
        because "A server that is restarted by its supervisor collects its workers within seconds.";
    /// A plan fits when it leaves this much available; with less, down to the reserve, it is tight.
    plan_comfort: Bytes = "plan.comfort", Bytes::from_gib(8), Bytes(0), Bytes::from_gib(64),
        because "The driver fails before Linux does: runs were lost with less than 3 GiB to spare, and those that lived had kept 8 and more.";
    /// What varies within a training step is reserved by torch's allocator times this.
    plan_slack: Ratio = "plan.slack", Ratio(1.25), Ratio(1.0), Ratio(2.0),
        because "1.17 to 1.32 over 16 configurations measured on these boxes; 1.08 to 1.36 elsewhere.";
    /// The same with expandable segments.
    plan_slack_expandable: Ratio = "plan.slack_expandable", Ratio(1.1), Ratio(1.0), Ratio(2.0),
        because "A judgement: segments that grow leave less unused; the lowest factors on record are 1.08 and 1.12.";
    /// What a training program takes beside its tensors: CUDA context, libraries, Python.
    plan_context_training: Bytes = "plan.context_training", Bytes::from_mib(2560), Bytes(0), Bytes::from_gib(32),
        because "2.6 to 2.7 GiB between the free figure and what is available after a container and a context.";
    /// The same for each process of a serving engine.
    plan_context_serving: Bytes = "plan.context_serving", Bytes::from_gib(3), Bytes(0), Bytes::from_gib(32),
        because "4.7 GiB beside weights and cache were measured with an operating system of 3 GiB within; engines load more libraries than trainers do.";
    /// What a loader that streams holds beside the weights, where the model's files do not tell.
    plan_staging: Bytes = "plan.staging", Bytes(5_000_000_000), Bytes(0), Bytes::from_gib(64),
        because "Files of weights have 5 GB and more; 3.6 GiB were measured beside the weights of one load.";
    /// Page cache of this share of a plan is worth a flush before it starts.
    plan_flush_from: Ratio = "plan.flush_from", Ratio(0.3), Ratio(0.01), Ratio(1.0),
        because "Engines that go by free memory refuse to start behind their own files; whether the driver takes cache back on demand is disputed.";
    /// A plan that differs by more than this from a measured one like it says so.
    plan_far_off: Ratio = "plan.far_off", Ratio(0.25), Ratio(0.01), Ratio(4.0),
        because "Plans that are told in full lie within 7 % of what was measured; a quarter is another configuration.";
    /// Before a run: so much in swap is worth a word.
    preflight_swap: Bytes = "preflight.swap_used", Bytes::from_gib(1), Bytes(0), Bytes::from_gib(64),
        because "A judgement: what was swapped out under an earlier job comes back in the middle of the next; a few hundred MiB of idle programs do not matter.";
    /// Before a run: with more swappiness than this, what is in swap counts.
    preflight_swappiness: Count = "preflight.swappiness", Count(10), Count(0), Count(200),
        because "The advice of those who run these boxes is 10; the default of 60 swaps programs out for page cache.";
    /// Before a run: a board this near to its cut-off is too hot to begin on.
    preflight_board_margin: Celsius = "preflight.board_margin", Celsius(10.0), Celsius(0.0), Celsius(60.0),
        because "A judgement: boards settle about ten degrees above where they begin once a load is on.";
    /// A source that has not answered for this long is called hung.
    hung_after: Seconds = "lane.hung_after", Seconds(2.0), Seconds(0.5), Seconds(60.0),
        because "Two periods of the fast lane; reads of kernel memory take microseconds.";
    /// A reading older than this many periods of its lane is dropped.
    age_limit_periods: Count = "lane.age_limit_periods", Count(3), Count(2), Count(20),
        because "A scrape must never serve a frozen value; two late rounds are a busy box, three are a fault.";
    /// A fall is told as the end of the pool below this much available; above it a load that fits falls just as fast.
    alert_exhaustion_below: Bytes = "alert.exhaustion_below", Bytes::from_gib(12), Bytes::from_gib(1), Bytes::from_gib(64),
        because "Planning advice leaves 12 GiB of the pool, so a load that was planned ends above it.";
    /// Minima of available memory that go down by at least this much in each of three hours are a leak.
    alert_leak_from: Bytes = "alert.leak_from", Bytes::from_mib(256), Bytes::from_mib(16), Bytes::from_gib(16),
        because "A judgement: caches of servers breathe by some hundred MiB a day; what takes a quarter GiB an hour fills a box in days.";
    /// A leak is told when it reaches the reserve within this time.
    alert_leak_ahead: Seconds = "alert.leak_ahead", Seconds(21_600.0), Seconds(3600.0), Seconds(604_800.0),
        because "A working half-day: time to end a run in order.";
    /// With this much available somebody may be about to launch something large.
    alert_launch_available: Bytes = "alert.launch_available", Bytes::from_gib(64), Bytes::from_gib(1), Bytes::from_gib(512),
        because "Half of the pool: models that take more are launched on an empty box.";
    /// Less than this in blocks of 32 MiB is too little for such a launch.
    alert_launch_contiguous: Bytes = "alert.launch_contiguous", Bytes::from_mib(6400), Bytes(0), Bytes::from_gib(64),
        because "200 blocks: boxes whose launches failed had none to a few, fresh ones have thousands.";
    /// Room that CUDA does not see is worth a word from this much on.
    alert_blind_from: Bytes = "alert.blind_from", Bytes::from_gib(16), Bytes::from_gib(1), Bytes::from_gib(256),
        because "A judgement: 30 to 73 GiB of cache were there when programs refused to start or capped their context.";
    /// And when CUDA sees less than this share of what is available.
    alert_blind_share: Ratio = "alert.blind_share", Ratio(0.5), Ratio(0.05), Ratio(1.0),
        because "A judgement: with more than half of it visible most launches find what they need.";
    /// A job that ends so often before it serves, within a quarter of an hour, is in a loop.
    alert_restarts: Count = "alert.restarts", Count(5), Count(2), Count(100),
        because "The recorded loop restarts every minute for an hour; four starts by hand in a row are on record, too.";
    /// So many lines of memory that the driver did not get, within ten minutes of service, are a burst.
    alert_no_memory_burst: Count = "alert.no_memory_burst", Count(8), Count(2), Count(10_000),
        because "Boxes that were lost in service logged dozens to two hundred; single lines are on record on boxes that stayed well.";
    /// A board is hot from this temperature of its hottest zone on.
    alert_board_hot: Celsius = "alert.board_hot", Celsius(91.0), Celsius(50.0), Celsius(110.0),
        because "Two degrees below where boards begin to cut the power, and where the unit that kept failing ran (91 to 92).";
    /// And about to cut the power from this one on.
    alert_board_critical: Celsius = "alert.board_critical", Celsius(94.0), Celsius(50.0), Celsius(110.0),
        because "Within the 93 to 96 degrees from which boxes have switched themselves off.";
    /// A lane that has finished no round for this long is stale.
    alert_stale_after: Seconds = "alert.stale_after", Seconds(60.0), Seconds(5.0), Seconds(3600.0),
        because "The slowest lane has a period of five seconds; a minute is twelve of its rounds.";
    /// So many missed rounds of a lane within ten minutes are worth a word.
    alert_missed_ticks: Count = "alert.missed_ticks", Count(30), Count(1), Count(600),
        because "One in twenty of the fast lane's: short collapses begin to fall through.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_within_their_ranges_and_names_are_unique() {
        let rows: Vec<Row> = Thresholds::ROWS.iter().map(|row| row()).collect();
        assert!(!rows.is_empty());
        for row in &rows {
            assert!(row.min <= row.default && row.default <= row.max, "{}", row.name);
            assert!(
                ((row.get)(&Thresholds::default()) - row.default).abs() < f64::EPSILON,
                "{}",
                row.name
            );
            assert!(row.provenance.len() > 20, "{} says where it comes from", row.name);
        }
        let mut names: Vec<_> = rows.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
    }
}
