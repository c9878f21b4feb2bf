//! Quantities with their unit in the type: the only home of unit factors.
//!
//! Everything inside the program is in base units (bytes, seconds, celsius, watts, hertz, ratios
//! from 0 to 1). A source converts once, where it parses; a view converts once, where it prints.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes in a KiB. The kernel writes "kB" in `/proc/meminfo` and means this.
pub const KIB: u64 = 1024;
/// Bytes in a MiB.
pub const MIB: u64 = 1024 * KIB;
/// Bytes in a GiB.
pub const GIB: u64 = 1024 * MIB;
const KIB_F: f64 = 1024.0;
const MIB_F: f64 = 1024.0 * KIB_F;
const GIB_F: f64 = 1024.0 * MIB_F;
/// The kernel tells the times of a process in ticks, and shows programs 100 of them a second on every
/// architecture that this runs on, whatever its own timer does.
const TICKS_PER_SECOND: f64 = 100.0;

/// An amount of memory.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes(pub u64);

impl Bytes {
    /// A share of it, to the byte below.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, and nothing is negative"
    )]
    pub fn scaled(self, share: f64) -> Self {
        Self((self.as_f64() * share.max(0.0)) as u64)
    }

    /// The kernel's "kB" as bytes; a figure past `u64` saturates instead of wrapping.
    #[must_use]
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(KIB))
    }

    /// Whole MiB as bytes.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(MIB))
    }

    /// Whole GiB as bytes.
    #[must_use]
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(GIB))
    }

    /// As a float, for an exposition format. Exact up to 2^53 bytes (8 PiB).
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact up to 8 PiB, far past any of these machines"
    )]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Difference that stops at zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Sum that saturates.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self - other` with its sign.
    #[must_use]
    pub const fn signed_less(self, other: Self) -> SignedBytes {
        let a = if self.0 > i64::MAX as u64 { i64::MAX } else { self.0.cast_signed() };
        let b = if other.0 > i64::MAX as u64 { i64::MAX } else { other.0.cast_signed() };
        SignedBytes(a - b)
    }

    /// This amount as a share of `whole`; `None` when `whole` is zero.
    #[must_use]
    pub fn share_of(self, whole: Self) -> Option<Ratio> {
        (whole.0 > 0).then(|| Ratio(self.as_f64() / whole.as_f64()))
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), Self::plus)
    }
}

/// For people: GiB with two decimals from 1 GiB up, MiB or KiB below.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name, digits) = match self.0 {
            n if n >= GIB => (GIB, "GiB", 2),
            n if n >= MIB => (MIB, "MiB", 0),
            _ => (KIB, "KiB", 0),
        };
        f.pad(&format!("{:.digits$} {name}", self.as_f64() / Self(unit).as_f64()))
    }
}

/// A difference of two amounts of memory: headroom may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SignedBytes(pub i64);

impl SignedBytes {
    /// As a float, for an exposition format.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl fmt::Display for SignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{}", Bytes(self.0.unsigned_abs())))
    }
}

/// A plain count of things or events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Count(pub u64);

impl Count {
    /// As a float, for an exposition format. Exact up to 2^53.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counters past 2^53 lose their last bit, as in every Prometheus client"
    )]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The nearest count; nothing below zero.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates"
    )]
    pub fn rounded(number: f64) -> Self {
        Self(number.round() as u64)
    }
}

macro_rules! float_unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
        pub struct $name(pub f64);
    };
}

float_unit!(
    /// Degrees Celsius.
    Celsius
);
float_unit!(
    /// Watts.
    Watts
);
float_unit!(
    /// Joules.
    Joules
);
float_unit!(
    /// A share from 0 to 1.
    Ratio
);
float_unit!(
    /// Seconds.
    Seconds
);
float_unit!(
    /// Hertz.
    Hertz
);
float_unit!(
    /// Bytes per second; positive means the amount grows.
    BytesPerSecond
);

impl Celsius {
    /// The kernel's thermal files count thousandths of a degree.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "thousandths of a degree fit an f64 with room to spare"
    )]
    pub const fn from_milli(milli: i64) -> Self {
        Self(milli as f64 / 1e3)
    }
}

impl Watts {
    /// NVML counts milliwatts.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "milliwatts of one machine")]
    pub const fn from_milli(milli: u64) -> Self {
        Self(milli as f64 / 1e3)
    }

    /// hwmon counts microwatts.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "microwatts of a small computer")]
    pub const fn from_micro(micro: u64) -> Self {
        Self(micro as f64 / 1e6)
    }
}

impl Joules {
    /// NVML counts millijoules.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "precise to a millijoule up to 9 TJ")]
    pub const fn from_milli(milli: u64) -> Self {
        Self(milli as f64 / 1e3)
    }

    /// Whole millijoules, as the module's registers count; what is negative is none.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, which is what is wanted"
    )]
    pub fn whole_milli(self) -> u64 {
        (self.0 * 1e3).round() as u64
    }

    /// hwmon counts microjoules.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "precise to a microjoule up to 9 GJ")]
    pub const fn from_micro(micro: u64) -> Self {
        Self(micro as f64 / 1e6)
    }
}

impl Hertz {
    /// NVML and nvidia-smi count MHz.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "clocks are a few GHz")]
    pub const fn from_mega(mega: u64) -> Self {
        Self(mega as f64 * 1e6)
    }
}

impl Ratio {
    /// NVML and nvidia-smi count percent.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "percent are small")]
    pub const fn from_percent(percent: u64) -> Self {
        Self(percent as f64 / 1e2)
    }
}

impl Seconds {
    /// NVML counts the time under an event reason in nanoseconds; nvidia-smi prints microseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "precise to a microsecond for 285 years")]
    pub const fn from_nano(nano: u64) -> Self {
        Self(nano as f64 / 1e9)
    }

    /// Pressure stall totals count microseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "precise to a microsecond for 285 years")]
    pub const fn from_micro(micro: u64) -> Self {
        Self(micro as f64 / 1e6)
    }

    /// As the kernel's ticks of a hundredth of a second, to the nearest.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, and nothing is negative"
    )]
    pub fn ticks(self) -> u64 {
        (self.0 * TICKS_PER_SECOND).round().max(0.0) as u64
    }

    /// The times of a process count ticks.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "precise to a tick for a million years")]
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks as f64 / TICKS_PER_SECOND)
    }
}

/// For people: `88.1 W`.
impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} W", self.0))
    }
}

/// For people: `82.4 °C`.
impl fmt::Display for Celsius {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} °C", self.0))
    }
}

/// For people: `2405 MHz`.
impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.0} MHz", self.0 / 1e6))
    }
}

/// For people: `96 %`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.0} %", self.0 * 100.0))
    }
}

/// For people: `1 h 04 min`, `3 min 10 s`, `8 s`.
impl fmt::Display for Seconds {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to zero and above; a float cast saturates"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.max(0.0).round() as u64;
        let (days, hours, minutes, seconds) =
            (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60, whole % 60);
        f.pad(&match (days, hours, minutes) {
            (0, 0, 0) => format!("{seconds} s"),
            (0, 0, _) => format!("{minutes} min {seconds:02} s"),
            (0, _, _) => format!("{hours} h {minutes:02} min"),
            _ => format!("{days} d {hours:02} h"),
        })
    }
}

/// The unit of a reading, a metric or a threshold, as the tables name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Joules.
    Joules,
    /// Seconds.
    Seconds,
    /// Hertz.
    Hertz,
    /// A share from 0 to 1.
    Ratio,
    /// Things or events counted.
    Count,
    /// No unit: a state, an identity, text.
    None,
}

impl Unit {
    /// Every unit.
    pub const ALL: &'static [Self] = &[
        Self::Bytes,
        Self::BytesPerSecond,
        Self::Celsius,
        Self::Watts,
        Self::Joules,
        Self::Seconds,
        Self::Hertz,
        Self::Ratio,
        Self::Count,
        Self::None,
    ];

    /// The name used in documents and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes_per_second",
            Self::Celsius => "celsius",
            Self::Watts => "watts",
            Self::Joules => "joules",
            Self::Seconds => "seconds",
            Self::Hertz => "hertz",
            Self::Ratio => "ratio",
            Self::Count => "count",
            Self::None => "none",
        }
    }

    /// How amounts in this unit are written, and what each way of writing stands for.
    #[must_use]
    pub const fn written(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Bytes => &[
                ("GiB", GIB_F),
                ("MiB", MIB_F),
                ("KiB", KIB_F),
                ("kB", KIB_F),
                ("GB", 1e9),
                ("MB", 1e6),
                ("B", 1.0),
                ("", 1.0),
            ],
            Self::BytesPerSecond => {
                &[("GiB/s", GIB_F), ("MiB/s", MIB_F), ("KiB/s", KIB_F), ("", 1.0)]
            }
            Self::Celsius => &[("C", 1.0), ("°C", 1.0), ("mC", 1e-3), ("", 1.0)],
            Self::Watts => &[("W", 1.0), ("mW", 1e-3), ("uW", 1e-6), ("", 1.0)],
            Self::Joules => &[("J", 1.0), ("mJ", 1e-3), ("kJ", 1e3), ("", 1.0)],
            Self::Seconds => &[
                ("s", 1.0),
                ("ms", 1e-3),
                ("us", 1e-6),
                ("ns", 1e-9),
                ("m", 60.0),
                ("min", 60.0),
                ("h", 3600.0),
                ("d", 86400.0),
                ("", 1.0),
            ],
            Self::Hertz => &[("Hz", 1.0), ("MHz", 1e6), ("GHz", 1e9), ("", 1.0)],
            Self::Ratio => &[("%", 1e-2), ("", 1.0)],
            Self::Count | Self::None => &[("", 1.0)],
        }
    }

    /// The way in which a program writes amounts, with what it stands for: the base unit by its name, or the
    /// smallest of the others where it has none (shares are written in percent).
    #[must_use]
    pub fn plain(self) -> (&'static str, f64) {
        let mut named = self.written().iter().filter(|(name, _)| !name.is_empty());
        let base = named.clone().find(|(_, factor)| factor.to_bits() == 1_f64.to_bits());
        base.or_else(|| named.next_back()).copied().unwrap_or(("", 1.0))
    }

    /// An amount of the base unit as a number of [`plain`](Self::plain) ones. The last digits are rounded
    /// away: 0.57 are 57 percent and not 56.99999999999999.
    #[must_use]
    pub fn plain_amount(self, amount: f64) -> f64 {
        const DIGITS: f64 = 1e9;
        match self.plain().1 {
            factor if factor.to_bits() == 1_f64.to_bits() => amount,
            factor => (amount / factor * DIGITS).round() / DIGITS,
        }
    }

    /// An amount as a person writes it, `28.9 GiB` or `96 %`, in the base unit. `default` is the unit of
    /// a number that has none of its own.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(self, text: &str, default: &str) -> Result<f64, String> {
        let text = text.trim();
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E')))
            .unwrap_or(text.len());
        let (digits, suffix) = (&text[..end], text[end..].trim());
        let suffix = if suffix.is_empty() { default } else { suffix };
        let factor = self.written().iter().find(|(name, _)| *name == suffix);
        match (digits.parse::<f64>(), factor) {
            (Ok(number), Some((_, factor))) if number.is_finite() => Ok(number * factor),
            _ => {
                let names: Vec<_> =
                    self.written().iter().map(|(n, _)| *n).filter(|n| !n.is_empty()).collect();
                let with = if names.is_empty() {
                    String::new()
                } else {
                    format!(" with one of {}", names.join(", "))
                };
                Err(format!("expected a number{with}, found {text:?}"))
            }
        }
    }

    /// What a metric's name in this unit ends with (before `_total`), if the convention asks for one.
    #[must_use]
    pub const fn metric_suffix(self) -> Option<&'static str> {
        match self {
            Self::Count | Self::None => None,
            other => Some(other.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_gib_mib_and_signs() {
        assert_eq!(Bytes::from_kib(127_600_748).to_string(), "121.69 GiB");
        assert_eq!(Bytes::from_mib(891).to_string(), "891 MiB");
        assert_eq!(Bytes(0).to_string(), "0 KiB");
        assert_eq!(SignedBytes(-4 * GIB.cast_signed()).to_string(), "-4.00 GiB");
    }

    #[test]
    fn differences_saturate_instead_of_wrapping() {
        assert_eq!(Bytes(1).less(Bytes(2)), Bytes(0));
        assert_eq!(Bytes(u64::MAX).plus(Bytes(1)), Bytes(u64::MAX));
        assert_eq!(Bytes(1).signed_less(Bytes(3)), SignedBytes(-2));
        assert_eq!(Bytes(u64::MAX).signed_less(Bytes(0)), SignedBytes(i64::MAX));
        assert_eq!(Bytes::from_kib(u64::MAX), Bytes(u64::MAX));
    }

    #[test]
    fn what_a_program_writes_is_read_back() {
        for unit in Unit::ALL {
            let (name, factor) = unit.plain();
            for amount in [0.0, 0.57, 0.0012, 17.0, 96.0] {
                let written = unit.plain_amount(amount).to_string();
                let read = unit.parse(&written, name).unwrap();
                assert!(
                    (read - amount).abs() < 1e-9 * factor,
                    "{unit:?}: {amount} is {written} {name}"
                );
            }
        }
        assert_eq!(Unit::Ratio.plain_amount(0.57).to_string(), "57");
        assert_eq!(Unit::Hertz.plain().0, "Hz");
    }

    #[test]
    fn durations_read_like_speech() {
        for (seconds, words) in
            [(8.4, "8 s"), (190.0, "3 min 10 s"), (3_840.0, "1 h 04 min"), (90_000.0, "1 d 01 h")]
        {
            assert_eq!(Seconds(seconds).to_string(), words);
        }
    }
}
