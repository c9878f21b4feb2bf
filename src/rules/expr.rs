//! Expressions and texts in the language of Prometheus, built from rows of the catalog.

use super::{Alert, Condition, Is, When};
use crate::catalog::Metric;
use crate::catalog::metrics;
use crate::thresholds::Thresholds;
use crate::units::{Bytes, Count, GIB};

/// What whoever writes rules decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The numbers that decide.
    pub thresholds: Thresholds,
    /// The job under which Prometheus scrapes the exporters.
    pub job: String,
    /// Whether every selector names the job, not only those of `up`.
    pub every_selector: bool,
    /// Labels that every alert gets.
    pub labels: Vec<(String, String)>,
    /// Where the runbooks are.
    pub runbook_base: String,
    /// Where Grafana is.
    pub dashboard_base: String,
    /// Durations are multiplied by it, so that a test need not wait for half an hour.
    pub scale: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            job: crate::catalog::links::JOB.to_owned(),
            every_selector: false,
            labels: Vec::new(),
            runbook_base: crate::catalog::links::RUNBOOK_BASE.to_owned(),
            dashboard_base: crate::catalog::links::GRAFANA_BASE.to_owned(),
            scale: 1.0,
        }
    }
}

/// Builds the texts of one rule.
pub struct Context<'a> {
    /// Options.
    pub options: &'a Options,
}

/// How a figure is shown in a text, with its unit.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// In GiB and the like.
    Bytes,
    /// In percent.
    Share,
    /// In GHz and the like.
    Hertz,
    /// Whole degrees.
    Celsius,
    /// With a tenth.
    Watts,
    /// In hours, minutes and seconds.
    Seconds,
    /// A point in time.
    Date,
}

/// The time over which texts look back for what a box that has fallen silent said last.
const LOOK_BACK: u32 = 900;

impl Context<'_> {
    /// The thresholds in force.
    #[must_use]
    pub const fn thresholds(&self) -> &Thresholds {
        &self.options.thresholds
    }

    /// A time in the language's notation, scaled; at least a second.
    #[must_use]
    pub fn span(&self, seconds: u32) -> String {
        span(f64::from(seconds) * self.options.scale)
    }

    /// A metric's series with these labels.
    #[must_use]
    pub fn of(&self, metric: &Metric, with: &[(&str, &str)]) -> String {
        let with: Vec<(&str, &[&str])> =
            with.iter().map(|(name, value)| (*name, std::slice::from_ref(value))).collect();
        self.series(metric, &with)
    }

    /// A metric's series whose labels have one of these values each.
    #[must_use]
    pub fn series(&self, metric: &Metric, with: &[(&str, &[&str])]) -> String {
        let mut matchers = Vec::new();
        if self.options.every_selector {
            matchers.push(format!("job=\"{}\"", self.options.job));
        }
        for (label, values) in with {
            debug_assert!(metric.labels.contains(label), "{} has no label {label}", metric.name);
            matchers.push(match values {
                [one] => format!("{label}=\"{one}\""),
                several => format!("{label}=~\"{}\"", several.join("|")),
            });
        }
        selector(metric.name, &matchers)
    }

    /// Whether the exporters answer.
    #[must_use]
    pub fn up(&self) -> String {
        format!("up{{job=\"{}\"}}", self.options.job)
    }

    fn comparison(&self, condition: &Condition, series: &str) -> String {
        match &condition.is {
            Is::AtLeast(least) => {
                let least = least(self.thresholds());
                // Flags and states are 0 or 1; `== 1` is how people read them.
                let sign = if (least - 1.0).abs() < f64::EPSILON { "==" } else { ">=" };
                format!("{series} {sign} {least}")
            }
            Is::Below(limit) => format!("{series} < {}", limit(self.thresholds())),
            Is::Grew { by, within } => {
                // Extrapolation makes 2.9 of three; half a message less is not one more.
                let by = by(self.thresholds()) - 0.5;
                match condition.recorded {
                    Some(_) => format!("{series} > {by}"),
                    None => format!("increase({series}[{}]) > {by}", self.span(*within)),
                }
            }
        }
    }

    /// A condition; with `outlives` it goes on while what it rests on is not to be had, if it held last.
    fn condition(&self, condition: &Condition, outlives: u32) -> String {
        let series = match condition.recorded {
            Some(record) => record.name.to_owned(),
            None => self.series(condition.metric, condition.with),
        };
        // One of several states is as good as another: a change between them is not the end of anything.
        let several = condition.with.iter().find(|(_, values)| values.len() > 1);
        let now = match (&condition.is, several) {
            (Is::AtLeast(_), Some((label, _))) => {
                self.comparison(condition, &format!("max without ({label}) ({series})"))
            }
            _ => self.comparison(condition, &series),
        };
        if outlives == 0 {
            return now;
        }
        let last = format!("last_over_time({series}[{}])", self.span(outlives));
        let labels: String =
            condition.metric.labels.iter().map(|label| format!(", {label}")).collect();
        format!(
            "{now}\nor\n({} unless on (job, instance{labels}) {series})",
            self.comparison(condition, &last)
        )
    }

    /// The expression of an alert.
    #[must_use]
    pub fn expression(&self, alert: &Alert) -> String {
        match &alert.when {
            When::Series(condition) => self.condition(condition, alert.outlives),
            When::Both(first, second) => format!(
                "({})\nand on (job, instance, gpu)\n({})",
                self.condition(first, alert.outlives),
                self.condition(second, alert.outlives)
            ),
            When::Expression(expression) => expression(self),
        }
    }

    /// The panel that shows what an alert reads.
    #[must_use]
    pub fn dashboard(&self, alert: &Alert) -> String {
        let panel = alert.name.panel();
        format!(
            "{}/d/{}?viewPanel={}&from=now-1h&to=now&var-instance={{{{ $labels.instance | urlquery }}}}",
            self.options.dashboard_base.trim_end_matches('/'),
            panel.board().as_str(),
            panel.id()
        )
    }

    /// In a text: what a metric of the alert's box said last, in words.
    #[must_use]
    pub fn last(&self, metric: &Metric, with: &[(&str, &str)], format: Shown) -> String {
        let series = of_box(metric, with);
        let query = format!("last_over_time({series}[{}])", self.span(LOOK_BACK));
        one(&query, format)
    }

    /// In a text: the least that a metric of the alert's box was in the last quarter of an hour.
    #[must_use]
    pub fn least(&self, metric: &Metric, with: &[(&str, &str)], format: Shown) -> String {
        let series = of_box(metric, with);
        one(&format!("min_over_time({series}[{}])", self.span(LOOK_BACK)), format)
    }

    /// In a text: the three jobs of the alert's box that hold most, GPU and CPU memory together.
    #[must_use]
    pub fn holders(&self) -> String {
        let sum = |metric: &Metric| {
            let over = format!("last_over_time({}[{}])", of_box(metric, &[]), self.span(LOOK_BACK));
            format!("sum by (workload, unit) ({over})")
        };
        let gpu = sum(&metrics::WORKLOAD_GPU_MEMORY_BYTES);
        let host = sum(&metrics::WORKLOAD_RESIDENT_BYTES);
        let query = format!("topk(3, (({gpu} + {host}) or {gpu} or {host}) > 0)");
        format!(
            "Holders: {{{{ range $i, $job := query (printf \"{query}\" {}) }}}}{{{{ if $i }}}}, {{{{ end }}}}\
             {{{{ $job.Labels.workload }}}} ({{{{ $job.Labels.unit }}}}) {{{{ $job.Value | humanize1024 }}}}B\
             {{{{ else }}}}not to be seen{{{{ end }}}}.",
            arguments(&query)
        )
    }

    /// In a text: which states of a set were on in the last quarter of an hour.
    #[must_use]
    pub fn states(&self, metric: &Metric, label: &str) -> String {
        let series = of_box(metric, &[]).replace("=%[1]q", &format!("=%[1]q,{label}!='unknown'"));
        let query = format!("max_over_time({series}[{}]) == 1", self.span(LOOK_BACK));
        format!(
            "{{{{ range $i, $s := query (printf \"{query}\" {}) | sortByLabel \"{label}\" }}}}{{{{ if $i }}}}, {{{{ end }}}}\
             {{{{ $s.Labels.{label} }}}}{{{{ else }}}}unknown{{{{ end }}}}",
            arguments(&query)
        )
    }
}

/// A metric's series of the alert's own box, within `printf`.
fn of_box(metric: &Metric, with: &[(&str, &str)]) -> String {
    let mut matchers = vec!["instance=%[1]q".to_owned()];
    for (label, value) in with {
        debug_assert!(metric.labels.contains(label), "{} has no label {label}", metric.name);
        matchers.push(match *value {
            SAME_RUN => format!("{label}=%[2]q"),
            value => format!("{label}='{value}'"),
        });
    }
    selector(metric.name, &matchers)
}

/// Stands for the run that the alert is about.
pub(super) const SAME_RUN: &str = "$labels.run";

/// What a query's verbs stand for.
fn arguments(query: &str) -> String {
    let run = if query.contains("%[2]q") { " $labels.run" } else { "" };
    format!("$labels.instance{run}")
}

/// The first value of a query.
fn one(query: &str, format: Shown) -> String {
    let (format, unit) = match format {
        Shown::Bytes => ("humanize1024", "B"),
        Shown::Share => ("humanizePercentage", ""),
        Shown::Hertz => ("humanize", "Hz"),
        Shown::Celsius => ("printf \"%.0f\"", " °C"),
        Shown::Watts => ("printf \"%.1f\"", " W"),
        Shown::Seconds => ("humanizeDuration", ""),
        Shown::Date => ("humanizeTimestamp", ""),
    };
    format!(
        "{{{{ with query (printf \"{query}\" {}) }}}}{{{{ . | first | value | {format} }}}}{unit}{{{{ else }}}}unknown{{{{ end }}}}",
        arguments(query)
    )
}

fn selector(name: &str, matchers: &[String]) -> String {
    if matchers.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", matchers.join(",")) }
}

/// Seconds in the language's notation: the largest unit that is whole.
#[must_use]
pub fn span(seconds: f64) -> String {
    let seconds = Count::rounded(seconds.max(1.0)).0;
    match seconds {
        s if s % 3600 == 0 => format!("{}h", s / 3600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// An amount, so that a person can read it.
#[must_use]
pub fn amount(bytes: Bytes) -> String {
    if bytes.0.is_multiple_of(GIB) {
        format!("{} * 2^30", bytes.0 / GIB)
    } else {
        format!("{} * 2^20", bytes.as_f64() / 1_048_576.0)
    }
}
