//! What an operator decides, in one value.
//!
//! A setting is one row of [`table`]: its flag, its environment variable, its key in the YAML file, its
//! help and its checks all come from there. Flags win over the exporter's own variables, these over those of
//! OpenTelemetry's specification, the environment over the file, the file over the defaults; [`Config::origin`] remembers who won.

mod checks;
pub mod file;
pub mod otlp;
mod rows;
pub mod table;

use crate::model::gpu::GpuChoice;
use crate::model::naming::Naming;
use crate::model::source::Source;
use crate::thresholds::Thresholds;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the pages of the web server are, other than the metrics.
pub mod paths {
    /// The landing page.
    pub const HOME: &str = "/";
    /// The frame as JSON.
    pub const STATUS: &str = "/api/v1/status";
    /// Whether the process lives.
    pub const HEALTHY: &str = "/-/healthy";
    /// Whether it has something to serve.
    pub const READY: &str = "/-/ready";
    /// All of them: the metrics may not be at one of these.
    pub const TAKEN: [&str; 4] = [HOME, STATUS, HEALTHY, READY];
}

/// The port of the exporter, on the list of default ports.
pub const DEFAULT_LISTEN: &str = ":10058";

states! {
    /// Who decided a setting.
    Origin {
        /// Nobody: the program's default.
        Default = "default",
        /// The configuration file.
        File = "file",
        /// A variable of OpenTelemetry's specification, which other programs may read too.
        Standard = "opentelemetry variable",
        /// An environment variable.
        Environment = "environment",
        /// The command line.
        Flag = "flag",
    }
}

states! {
    /// How the log is written.
    LogFormat {
        /// `key=value` pairs.
        Logfmt = "logfmt",
        /// One JSON object a line.
        Json = "json",
    }
}

/// The configuration in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Addresses to listen on.
    pub listen: Vec<String>,
    /// Path of the metrics.
    pub telemetry_path: String,
    /// Requests answered at a time; one more gets 503.
    pub max_requests: usize,
    /// Stands for `/proc`.
    pub procfs: PathBuf,
    /// Stands for `/sys`.
    pub sysfs: PathBuf,
    /// Stands for `/`.
    pub rootfs: PathBuf,
    /// Where the state file lives.
    pub state_directory: Option<PathBuf>,
    /// How much is logged.
    pub log_level: String,
    /// How it is written.
    pub log_format: LogFormat,
    /// Training logs to follow.
    pub train_logs: Vec<PathBuf>,
    /// Alertmanagers that are told of critical alerts at once.
    pub alertmanagers: Vec<String>,
    /// Labels of those alerts.
    pub alert_labels: Vec<(String, String)>,
    /// OpenTelemetry's data.
    pub otlp: otlp::Otlp,
    /// How processes and their units are called.
    pub naming: Naming,
    /// The NVML library.
    pub nvml: String,
    /// The program nvidia-smi.
    pub nvidia_smi: String,
    /// How the GPU is asked.
    pub gpu: GpuChoice,
    /// Which of the other sources are read, by [`Source::index`].
    pub collectors: [bool; Source::COUNT],
    /// The numbers that decide.
    pub thresholds: Thresholds,
    /// Who decided, by key; a key that is not here has its default.
    origins: BTreeMap<String, Origin>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![DEFAULT_LISTEN.to_owned()],
            telemetry_path: "/metrics".to_owned(),
            max_requests: 40,
            procfs: "/proc".into(),
            sysfs: "/sys".into(),
            rootfs: "/".into(),
            state_directory: None,
            log_level: "info".to_owned(),
            log_format: LogFormat::Logfmt,
            train_logs: Vec::new(),
            alertmanagers: Vec::new(),
            alert_labels: Vec::new(),
            otlp: otlp::Otlp::default(),
            naming: Naming::default(),
            nvml: "libnvidia-ml.so.1".to_owned(),
            nvidia_smi: "nvidia-smi".to_owned(),
            gpu: GpuChoice::Auto,
            collectors: [true; Source::COUNT],
            thresholds: Thresholds::default(),
            origins: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Who decided a setting.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).copied().unwrap_or(Origin::Default)
    }

    /// Sets one setting, for any key of the table, a collector or a threshold.
    ///
    /// # Errors
    /// Says what was expected there.
    pub fn set(&mut self, key: &str, values: &[String], origin: Origin) -> Result<(), String> {
        table::set(self, key, values)?;
        self.origins.insert(key.to_owned(), origin);
        Ok(())
    }

    /// Checks what only several settings together can get wrong.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn contradictions(&self) -> Result<(), Contradiction> {
        let of = |key: &str| table::shown(self, key).join(", ");
        let against = |keys: [&'static str; 2], what: &str| {
            let what = format!("{} {what} {} ({})", of(keys[0]), keys[1], of(keys[1]));
            Err(Contradiction { keys, what })
        };
        for Pair { keys: [first, second], wrong, what } in pairs(&self.thresholds) {
            if wrong {
                return against([first, second], what);
            }
        }
        let labelled = |name: &str| self.alert_labels.iter().any(|(label, _)| label == name);
        if let (Some(url), false) =
            (self.alertmanagers.first(), labelled("job") && labelled("instance"))
        {
            let keys = ["alertmanager.url", "alertmanager.label"];
            let what = format!(
                "{url} needs alertmanager.label with job=... and instance=..., as Prometheus has them, or each alert comes twice"
            );
            return Err(Contradiction { keys, what });
        }
        if let Some(wrong) = otlp::Otlp::contradiction(self) {
            return Err(wrong);
        }
        let others = table::switched().any(|source| self.collectors[source.index()]);
        if !others && self.gpu == GpuChoice::Off {
            let what =
                "every collector is switched off; there would be nothing to serve".to_owned();
            return Err(Contradiction { keys: ["collector", "collector"], what });
        }
        for (i, address) in self.listen.iter().enumerate() {
            let port_of_choice = address.ends_with(":0");
            if self.listen[..i].contains(address) && !port_of_choice {
                let what = format!("{address} is there twice");
                return Err(Contradiction { keys: ["web.listen_address"; 2], what });
            }
        }
        Ok(())
    }
}

/// Two thresholds, and what must not be between them.
struct Pair {
    keys: [&'static str; 2],
    wrong: bool,
    what: &'static str,
}

const LESS: &str = "must be less than";
const ENDLESS: &str = "must be less than the limit, or what begins never ends;";

/// What only two thresholds together can get wrong.
fn pairs(t: &Thresholds) -> impl Iterator<Item = Pair> + use<> {
    let pair = |keys, wrong, what| Pair { keys, wrong, what };
    [
        pair(
            ["thresholds.pool.slope_short", "thresholds.pool.slope_long"],
            t.slope_short.0 >= t.slope_long.0,
            "must be shorter than",
        ),
        pair(
            ["thresholds.pool.exhaustion_level", "thresholds.pool.reserve"],
            t.exhaustion_level <= t.reserve,
            "must be above the reserve, or it is never seen coming;",
        ),
        pair(
            ["thresholds.throttle.idle_below", "thresholds.throttle.busy_from"],
            t.idle_below.0 >= t.busy_from.0,
            LESS,
        ),
        pair(
            ["thresholds.throttle.fault_clock_max", "thresholds.throttle.fault_normal_clock"],
            t.fault_clock_max.0 >= t.fault_normal_clock.0,
            LESS,
        ),
        pair(
            ["thresholds.throttle.event_hysteresis", "thresholds.throttle.event_share"],
            t.event_hysteresis.0 >= t.event_share.0,
            ENDLESS,
        ),
        pair(
            ["thresholds.throttle.utilization_hysteresis", "thresholds.throttle.busy_from"],
            t.utilization_hysteresis.0 >= t.busy_from.0,
            ENDLESS,
        ),
        pair(
            ["thresholds.throttle.stall_share_hysteresis", "thresholds.throttle.stall_share"],
            t.stall_share_hysteresis.0 >= t.stall_share.0,
            ENDLESS,
        ),
        pair(
            ["thresholds.throttle.clock_hysteresis", "thresholds.throttle.clock_lost"],
            t.clock_hysteresis.0 >= t.clock_lost.0,
            ENDLESS,
        ),
        pair(
            ["thresholds.throttle.temperature_hysteresis", "thresholds.throttle.climb_from"],
            t.temperature_hysteresis.0 >= t.climb_from.0,
            ENDLESS,
        ),
        pair(
            ["thresholds.run.slow_hysteresis", "thresholds.run.slow_from"],
            t.run_slow_hysteresis.0 >= t.run_slow_from.0,
            ENDLESS,
        ),
        pair(
            ["thresholds.board.cutoff_from", "thresholds.board.cutoff_to"],
            t.board_cutoff_from.0 > t.board_cutoff_to.0,
            "must not be above",
        ),
    ]
    .into_iter()
}

/// Settings that cannot both be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Their keys; the message is about the first.
    pub keys: [&'static str; 2],
    /// What is wrong.
    pub what: String,
}
