//! Queries, made of rows of the metric table.

use crate::catalog::Metric;
use crate::units::Unit;
use std::fmt::Write;

/// The label of a box and of the exporter's job, which Prometheus adds.
pub(super) const INSTANCE: &str = "instance";
/// Whatever is chosen in the dashboard's variables.
const CHOSEN: &str = r#"job=~"$job",instance=~"$instance""#;

/// A unit by Grafana's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown(pub(super) &'static str);

/// A plain number.
pub(super) const NUMBER: Shown = Shown("short");
/// A share from 0 to 1.
pub(super) const SHARE: Shown = Shown("percentunit");
/// An amount of memory.
pub(super) const MEMORY: Shown = shown(Unit::Bytes);
/// How long ago a time was; the time is in milliseconds.
pub(super) const AGO: Shown = Shown("dateTimeFromNow");

/// How an amount of the unit is shown.
const fn shown(unit: Unit) -> Shown {
    Shown(match unit {
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "binBps",
        Unit::Celsius => "celsius",
        Unit::Watts => "watt",
        Unit::Joules => "joule",
        Unit::Seconds => "s",
        Unit::Hertz => "hertz",
        Unit::Ratio => "percentunit",
        Unit::Count | Unit::None => "short",
    })
}

/// How the rate of a counter in the unit is shown: seconds in a second are a share of time, joules in a
/// second are watts.
const fn shown_rate(unit: Unit) -> Shown {
    Shown(match unit {
        Unit::Bytes => "binBps",
        Unit::Seconds => "percentunit",
        Unit::Joules => "watt",
        _ => "cps",
    })
}

/// Series of one metric, of the boxes that are chosen.
#[derive(Clone, Debug)]
pub(super) struct Series {
    name: &'static str,
    labels: Option<&'static [&'static str]>,
    unit: Unit,
    matchers: String,
}

/// The series of a metric.
pub(super) fn of(metric: &Metric) -> Series {
    Series {
        name: metric.name,
        labels: Some(metric.labels),
        unit: metric.unit,
        matchers: String::new(),
    }
}

/// Whether a target answered its last scrape. Prometheus makes it.
pub(super) fn up() -> Series {
    Series { name: "up", labels: None, unit: Unit::None, matchers: String::new() }
}

/// This project's alerts that fire. Prometheus makes them.
pub(super) fn alerts() -> Series {
    let alerts = Series { name: "ALERTS", labels: None, unit: Unit::None, matchers: String::new() };
    alerts.is("alertstate", "firing").matching("alertname", "GB10.+")
}

impl Series {
    fn matcher(mut self, label: &str, operator: &str, value: &str) -> Self {
        debug_assert!(
            self.labels.is_none_or(|labels| labels.contains(&label)),
            "{} has no label {label}",
            self.name
        );
        let _ = write!(self.matchers, ",{label}{operator}\"{value}\"");
        self
    }

    /// Those whose label has this value.
    pub(super) fn is(self, label: &str, value: &str) -> Self {
        self.matcher(label, "=", value)
    }

    /// Those whose label has another value.
    pub(super) fn without(self, label: &str, value: &str) -> Self {
        self.matcher(label, "!=", value)
    }

    /// Those whose label matches.
    pub(super) fn matching(self, label: &str, pattern: &str) -> Self {
        self.matcher(label, "=~", pattern)
    }

    /// Those of the chosen GPUs.
    pub(super) fn gpu(self) -> Self {
        self.matching("gpu", "$gpu")
    }

    /// The name alone.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    fn text(&self) -> String {
        format!("{}{{{CHOSEN}{}}}", self.name, self.matchers)
    }

    /// The values.
    pub(super) fn now(self) -> Query {
        Query { text: self.text(), unit: shown(self.unit) }
    }

    /// How fast a counter grows.
    pub(super) fn rate(self) -> Query {
        let text = format!("rate({}[$__rate_interval])", self.text());
        Query { text, unit: shown_rate(self.unit) }
    }

    /// By how much a counter grows from point to point.
    pub(super) fn increase(self) -> Query {
        let text = format!("increase({}[$__rate_interval])", self.text());
        Query { text, unit: shown(self.unit) }
    }

    /// The sum over the chosen boxes, and over all labels but these.
    pub(super) fn sum(self, by: &[&str]) -> Query {
        self.now().sum(by)
    }

    /// The largest of the chosen boxes.
    pub(super) fn max(self, by: &[&str]) -> Query {
        self.now().max(by)
    }

    /// The smallest of the chosen boxes.
    pub(super) fn min(self, by: &[&str]) -> Query {
        self.now().min(by)
    }
}

/// A query and how its values are shown.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) text: String,
    pub(super) unit: Shown,
}

impl Query {
    fn over(self, how: &str, by: &[&str]) -> Self {
        let by = if by.is_empty() { String::new() } else { format!(" by ({})", by.join(", ")) };
        Self { text: format!("{how}{by} ({})", self.text), ..self }
    }

    pub(super) fn sum(self, by: &[&str]) -> Self {
        self.over("sum", by)
    }

    pub(super) fn max(self, by: &[&str]) -> Self {
        self.over("max", by)
    }

    pub(super) fn min(self, by: &[&str]) -> Self {
        self.over("min", by)
    }

    /// How many there are; none are 0.
    pub(super) fn count(self) -> Self {
        Self { text: format!("count({}) or vector(0)", self.text), unit: NUMBER }
    }

    /// How many there are by these labels.
    pub(super) fn count_by(self, by: &[&str]) -> Self {
        Self { unit: NUMBER, ..self.over("count", by) }
    }

    /// The largest few.
    pub(super) fn top(self, few: u32) -> Self {
        Self { text: format!("topk({few}, {})", self.text), ..self }
    }

    /// The smallest few.
    pub(super) fn bottom(self, few: u32) -> Self {
        Self { text: format!("bottomk({few}, {})", self.text), ..self }
    }

    /// This, and where it is missing that.
    pub(super) fn or(self, other: &Self) -> Self {
        Self { text: format!("{} or {}", self.text, other.text), ..self }
    }

    /// A difference.
    pub(super) fn less(self, other: &Self) -> Self {
        Self { text: format!("{} - {}", self.text, other.text), ..self }
    }

    /// As a share of another.
    pub(super) fn share_of(self, other: &Self) -> Self {
        Self { text: format!("{} / {}", self.text, other.text), unit: SHARE }
    }

    /// Where it is so: a comparison that keeps or drops.
    pub(super) fn only(self, condition: &str) -> Self {
        Self { text: format!("{} {condition}", self.text), ..self }
    }

    /// A number in place of the value, where the value is `when`.
    pub(super) fn coded(self, when: u32, code: u32) -> Self {
        Self { text: format!("{code} + 0 * ({} == {when})", self.text), unit: NUMBER }
    }

    /// A time since 1970 in milliseconds, as Grafana wants it.
    pub(super) fn ago(self) -> Self {
        Self { text: format!("1000 * {}", self.text), unit: AGO }
    }

    /// A label by another name.
    pub(super) fn renamed(self, from: &str, to: &str) -> Self {
        let text = format!("label_replace({}, \"{to}\", \"$1\", \"{from}\", \"(.*)\")", self.text);
        Self { text, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::metrics::{GPU_ENERGY_JOULES_TOTAL, POOL_FREE_BYTES};

    #[test]
    fn a_query_is_of_the_chosen_boxes_and_knows_its_unit() {
        let free = of(&POOL_FREE_BYTES).sum(&[]);
        assert_eq!(free.text, r#"sum (gb10_pool_free_bytes{job=~"$job",instance=~"$instance"})"#);
        assert_eq!(free.unit.0, "bytes");
        let power = of(&GPU_ENERGY_JOULES_TOTAL).gpu().rate();
        assert_eq!(
            power.text,
            r#"rate(gb10_gpu_energy_joules_total{job=~"$job",instance=~"$instance",gpu=~"$gpu"}[$__rate_interval])"#
        );
        assert_eq!(power.unit.0, "watt");
    }
}
