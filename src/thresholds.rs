//! Every number that decides anything, once: its unit, default, range and where it comes from.

use crate::units::{Bytes, BytesPerSecond, Count, Ratio, Seconds, Unit};

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

impl Number for Seconds {
    const UNIT: Unit = Unit::Seconds;
    fn number(self) -> f64 {
        self.0
    }
    fn from_number(number: f64) -> Self {
        Self(number)
    }
}

impl Number for Ratio {
    const UNIT: Unit = Unit::Ratio;
    fn number(self) -> f64 {
        self.0
    }
    fn from_number(number: f64) -> Self {
        Self(number)
    }
}

impl Number for BytesPerSecond {
    const UNIT: Unit = Unit::BytesPerSecond;
    fn number(self) -> f64 {
        self.0
    }
    fn from_number(number: f64) -> Self {
        Self(number)
    }
}

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
    /// A source that has not answered for this long is called hung.
    hung_after: Seconds = "lane.hung_after", Seconds(2.0), Seconds(0.5), Seconds(60.0),
        because "Two periods of the fast lane; reads of kernel memory take microseconds.";
    /// A reading older than this many periods of its lane is dropped.
    age_limit_periods: Count = "lane.age_limit_periods", Count(3), Count(2), Count(20),
        because "A scrape must never serve a frozen value; two late rounds are a busy box, three are a fault.";
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
