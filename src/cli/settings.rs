//! The settings as flags and environment variables, made from the table of the configuration.

use crate::capture::Capture;
use crate::config::table::{self, COLLECTOR, Row, switched};
use crate::config::{Config, Origin, file};
use crate::model::gpu::GpuChoice;
use crate::model::source::Source;
use crate::sources::{Live, Machine, Roots};
use crate::thresholds::Thresholds;
use anyhow::{anyhow, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A configuration file is a page or two; this is a mistake, and the parser would take its time with it.
const MAX_FILE: u64 = 64 * 1024;
/// Key of the flag that names the file.
const CONFIG_FILE: &str = "config.file";
const CONFIG_FILE_ENV: &str = "GB10_EXPORTER_CONFIG_FILE";
const CAPTURE: &str = "capture";
/// How the GPU is asked; not a plain switch, but it can be switched off like one.
const GPU: &str = "collector.gpu";
const NO_GPU: &str = "no-collector.gpu";

/// What flags and environment say. `ALL`: every setting, otherwise only which machine is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Given<const ALL: bool> {
    file: Option<PathBuf>,
    capture: Option<PathBuf>,
    values: Vec<(String, Vec<String>)>,
}

fn rows(all: bool) -> impl Iterator<Item = &'static Row> {
    table::rows().filter(move |row| all || row.machine)
}

/// A row as an argument. Its default and its variable are shown and not taken by the parser: an
/// argument that nobody typed must neither win over the file nor contradict one that somebody did.
fn argument(row: &'static Row) -> Arg {
    let default = (row.show)(&Config::default());
    let mut help = row.help.to_owned();
    if !default.is_empty() {
        help = format!("{help} [default: {}]", default.join(", "));
    }
    let commas = if row.many { ", separated by commas" } else { "" };
    let standard = row.standard.map_or(String::new(), |standard| format!(", {}", standard.name));
    let heading = row.key.starts_with("otlp.").then_some("OpenTelemetry");
    let action = if row.many { ArgAction::Append } else { ArgAction::Set };
    Arg::new(row.key)
        .long(row.flag())
        .value_name(row.value_name)
        .help(format!("{help} [env: {}{commas}{standard}]", row.environment()))
        .help_heading(heading)
        .action(action)
        .value_parser(move |text: &str| {
            // The parser would show what it refuses. What may be a password is checked after it.
            let checked = if row.is_secret() { Ok(()) } else { row.check(&[text.to_owned()]) };
            checked.map(|()| text.to_owned())
        })
}

/// Key and variable of a collector.
fn collector_names(source: Source) -> (String, String) {
    let variable = format!("GB10_EXPORTER_COLLECTOR_{}", source.as_str().to_uppercase());
    (format!("{COLLECTOR}{}", source.as_str()), variable)
}

/// `--collector.NAME` and `--no-collector.NAME`, as node_exporter has them. The later one counts.
fn collector(source: Source) -> [Arg; 2] {
    let (key, variable) = collector_names(source);
    let off = format!("no-{key}");
    [
        Arg::new(key.clone())
            .long(key.clone())
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(clap::value_parser!(bool))
            .overrides_with(off.clone())
            .help(format!("Read {} [default: true] [env: {variable}]", source.describe()))
            .help_heading("Collectors"),
        Arg::new(off.clone()).long(off).action(ArgAction::SetTrue).overrides_with(key).hide(true),
    ]
}

impl<const ALL: bool> Args for Given<ALL> {
    fn augment_args(command: Command) -> Command {
        let command = command
            .arg(
                Arg::new(CONFIG_FILE)
                    .long(CONFIG_FILE)
                    .value_name("FILE")
                    .help(format!(
                        "YAML file with settings; flags and environment win over it [env: {CONFIG_FILE_ENV}]"
                    ))
                    .value_parser(clap::value_parser!(PathBuf)),
            )
            .arg(
                Arg::new(CAPTURE)
                    .long(CAPTURE)
                    .value_name("FILE")
                    .help("Read a recorded machine (docs/CAPTURES.md) instead of this one")
                    .conflicts_with_all(table::rows().filter(|row| row.machine).map(|row| row.key))
                    .value_parser(clap::value_parser!(PathBuf)),
            )
            .args(rows(ALL).map(argument));
        if !ALL {
            return command;
        }
        command
            .mut_arg("state.directory", |arg| arg.conflicts_with(CAPTURE))
            .arg(Arg::new(NO_GPU).long(NO_GPU).action(ArgAction::SetTrue).hide(true))
            .args(switched().flat_map(collector))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Whether somebody typed an argument.
fn typed(matches: &ArgMatches, key: &str) -> bool {
    matches.value_source(key) == Some(ValueSource::CommandLine)
}

/// A variable that is set to something; an empty one counts as not set.
fn variable(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name}: expected UTF-8 text"),
    }
}

/// Variables of OpenTelemetry's specification that make no sense to this program.
#[derive(Default)]
pub(super) struct Refused(Vec<(&'static str, anyhow::Error)>);

impl Refused {
    /// They are a mistake only where something is to be sent: other programs read them too, and one that
    /// sends nothing has no say in what they mean. An endpoint is meant to be sent to.
    pub(super) fn judge(self, config: &Config) -> anyhow::Result<()> {
        let sends = config.otlp.targets().next().is_some();
        let counts = |key: &str| {
            let overridden = matches!(config.origin(key), Origin::Environment | Origin::Flag);
            !overridden && !config.otlp.disabled && (sends || key.ends_with("endpoint"))
        };
        match self.0.into_iter().find(|(key, _)| counts(key)) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// What variables of OpenTelemetry's specification say. The exporter's own variables and flags win over them.
pub(super) fn take_standard(
    config: &mut Config,
    rows: impl Iterator<Item = &'static Row>,
) -> anyhow::Result<Refused> {
    let mut refused = Refused::default();
    for row in rows {
        let Some(standard) = row.standard else { continue };
        let Some(text) = variable(standard.name)? else { continue };
        let values = (standard.read)(&text);
        let set = values.and_then(|values| config.set(row.key, &values, Origin::Standard));
        refused.0.extend(set.err().map(|what| (row.key, anyhow!("{}: {what}", standard.name))));
    }
    Ok(refused)
}

impl<const ALL: bool> FromArgMatches for Given<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self {
            file: matches.get_one(CONFIG_FILE).cloned(),
            capture: matches.get_one(CAPTURE).cloned(),
            values: Vec::new(),
        };
        for row in rows(ALL) {
            if typed(matches, row.key) {
                let values = matches.get_many::<String>(row.key).into_iter().flatten().cloned();
                given.values.push((row.key.to_owned(), values.collect()));
            }
        }
        if ALL && matches.get_flag(NO_GPU) {
            given.values.push((GPU.to_owned(), vec![GpuChoice::Off.as_str().to_owned()]));
        }
        for source in switched().filter(|_| ALL) {
            let (key, _) = collector_names(source);
            if matches.get_flag(&format!("no-{key}")) {
                given.values.push((key, vec!["false".to_owned()]));
            } else if typed(matches, &key)
                && let Some(on) = matches.get_one::<bool>(&key)
            {
                given.values.push((key, vec![on.to_string()]));
            }
        }
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const ALL: bool> Given<ALL> {
    /// The configuration in force: defaults, then what systemd gives, then the file, then environment
    /// and flags.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        let mut config = Config::default();
        if let Some(directory) = state_directory_of_the_service() {
            let set = config.set("state.directory", &[directory], Origin::Environment);
            set.map_err(|what| anyhow!("STATE_DIRECTORY: {what}"))?;
        }
        let file = match &self.file {
            Some(path) => Some(path.clone()),
            None => variable(CONFIG_FILE_ENV)?.map(PathBuf::from),
        };
        let text = file.as_deref().map(read).transpose()?;
        if let (Some(path), Some(text)) = (&file, &text) {
            file::apply(path, text, &mut config)?;
        }
        let refused = take_standard(&mut config, rows(ALL))?;
        Self::take_environment(&mut config)?;
        for (key, values) in &self.values {
            // Each was checked when it was parsed; together they may still say the same thing twice.
            config.set(key, values, Origin::Flag).map_err(|what| anyhow!("{key}: {what}"))?;
        }
        refused.judge(&config)?;
        // Only now: a flag may cure what the file alone would get wrong.
        match (&file, &text) {
            (Some(path), Some(text)) => file::consistent(path, text, &config)?,
            _ => config.contradictions().map_err(|c| anyhow!("{}: {}", c.keys[0], c.what))?,
        }
        if self.capture.is_some() {
            // A recorded machine's boots are not this machine's.
            config.state_directory = None;
        }
        Ok(config)
    }

    /// What the environment says of settings that this command has.
    fn take_environment(config: &mut Config) -> anyhow::Result<()> {
        let mut take = |name: &str, key: &str, many: bool| -> anyhow::Result<()> {
            let Some(value) = variable(name)? else { return Ok(()) };
            let values: Vec<String> = if many {
                value.split(',').map(|part| part.trim().to_owned()).collect()
            } else {
                vec![value]
            };
            config.set(key, &values, Origin::Environment).map_err(|what| anyhow!("{name}: {what}"))
        };
        for row in rows(ALL) {
            take(&row.environment(), row.key, row.many)?;
        }
        for source in switched().filter(|_| ALL) {
            let (key, name) = collector_names(source);
            take(&name, &key, false)?;
        }
        Ok(())
    }

    /// Whether the machine to read is a recorded one.
    pub(super) const fn is_capture(&self) -> bool {
        self.capture.is_some()
    }

    /// The machine to read: this one, or a recorded one.
    pub(super) fn machine(
        &self,
        config: &Config,
    ) -> anyhow::Result<Arc<dyn Machine + Send + Sync>> {
        if let Some(path) = &self.capture {
            return Ok(Arc::new(Capture::load(path)?));
        }
        let roots = Roots {
            procfs: config.procfs.clone(),
            sysfs: config.sysfs.clone(),
            rootfs: config.rootfs.clone(),
        };
        let live = Live::new(roots, &config.nvml, &config.nvidia_smi);
        let live = live.following(&config.train_logs).naming(config.naming.clone());
        Ok(Arc::new(live))
    }
}

/// The numbers that decide: the defaults, or those of a configuration file.
pub(super) fn thresholds(path: Option<&Path>) -> anyhow::Result<Thresholds> {
    let mut config = Config::default();
    if let Some(path) = path {
        let text = read(path)?;
        file::apply(path, &text, &mut config)?;
        file::consistent(path, &text, &config)?;
    }
    Ok(config.thresholds)
}

/// The text of a configuration file.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let failed = |e| file::FileError::Read(path.to_owned(), e);
    // A pipe or a device would be waited for.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        bail!("{} is not a file", path.display());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .map_err(failed)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        bail!("{} is larger than 64 KiB; that is no configuration file", path.display());
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("{} is not UTF-8 text", path.display()))
}

/// What systemd gives a service with `StateDirectory=`. Several are separated by colons; ours is the
/// first.
fn state_directory_of_the_service() -> Option<String> {
    let list = std::env::var_os("STATE_DIRECTORY")?.into_string().ok()?;
    list.split(':').next().filter(|dir| !dir.is_empty()).map(str::to_owned)
}
