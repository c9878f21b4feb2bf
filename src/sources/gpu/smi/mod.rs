//! The GPU through `nvidia-smi`, the driver's program, where its library cannot be loaded.
//!
//! A round runs it twice: for the GPUs, and for the processes with a compute context. Other lists of
//! processes, Xid errors, energy and the version of CUDA are not to be had from its queries.

mod fields;
mod parse;
pub(super) mod run;

use super::gather::join;
use super::{Pace, Retry, gone};
use crate::model::fields::Group;
use crate::model::gpu::{Gpu, GpuProcess, Gpus, ProcessList, Via};
use crate::model::reading::{Missing, Reading};
use crate::sources::files::ReadError;
use crate::sources::lines::label;
use crate::units::Count;
use fields::FIELDS;
pub(in crate::sources) use fields::missing;
use parse::{Problem, Processes, Table};
pub(super) use run::Running;
use run::{Failure, MAX_OUTPUT, Output, Runner};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The query for processes.
const PROCESSES: &str = "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory";
/// Where programs are looked for when the environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Reads the GPU through nvidia-smi.
pub struct Reader {
    program: String,
    runner: Runner,
    names: Names,
    /// Why the last run told nothing.
    failure: Option<Problem>,
    retry: Retry,
}

impl Reader {
    /// With the program's name, to be looked up in `PATH`, or its path.
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            runner: Runner::default(),
            names: Names::default(),
            failure: None,
            retry: Retry::default(),
        }
    }

    /// What runs at the time.
    pub(super) fn running(&self) -> Running {
        self.runner.running.clone()
    }

    /// One round.
    ///
    /// # Errors
    /// Why the program tells nothing, or the first thing that it did not tell.
    pub fn read(&mut self, pace: &Pace<'_>, into: &mut Gpus) -> Result<(), ReadError> {
        let now = (pace.now)();
        let outcome = match &self.failure {
            Some(failure) if !self.retry.due(now) => Err(failure.clone()),
            _ => self.round(pace, now + pace.limits.smi_deadline),
        };
        match outcome {
            Ok((gpus, problem)) => {
                self.retry.worked();
                self.failure = None;
                *into = gpus;
                problem.map_or(Ok(()), |(what, reason)| Err(gone(what, reason)))
            }
            Err((what, reason)) => {
                // What is still being found out is gone on with at once.
                if reason != Missing::Pending && self.retry.due(now) {
                    self.retry.failed((pace.now)(), &pace.limits);
                    self.failure = Some((what.clone(), reason));
                }
                *into = Gpus::absent(reason);
                Err(gone(what, reason))
            }
        }
    }

    fn round(
        &mut self,
        pace: &Pace<'_>,
        until: Duration,
    ) -> Result<(Gpus, Option<Problem>), Problem> {
        let program = find(&self.program)?;
        let (asked, output) = self.ask(&program, pace, until)?;
        let mut table = parse::table(&asked, &output.stdout);
        table.add_unreachable(&output.stderr);
        let ended_well = output.status.success();
        if table.gpus.is_empty() || (!ended_well && table.problem.is_none()) {
            let lines = table.notes.iter().copied().chain(output.stderr.lines());
            let (what, reason) = parse::verdict(output.status.code(), lines);
            let problem = (format!("{}: {what}", self.program), reason);
            if table.gpus.is_empty() {
                return Err(table.problem.filter(|_| ended_well).unwrap_or(problem));
            }
            table.problem = Some(problem);
        }
        self.names.learn(table.driver.as_deref().ok());
        let late = self.add_processes(&program, pace, until, &mut table);
        let gpus = Gpus {
            via: Ok(Via::NvidiaSmi),
            path: Ok(program.display().to_string()),
            driver: table.driver,
            devices: Ok(table.gpus),
            xids: Err(Missing::Unsupported),
            ..Gpus::absent(Missing::NotAvailable)
        };
        Ok((gpus, late.or(table.problem)))
    }

    /// Asks for the GPUs, without the fields that this driver does not know. It names one of them at a
    /// time, so the first round may take several runs; what it has found out is kept.
    fn ask(
        &mut self,
        program: &Path,
        pace: &Pace<'_>,
        until: Duration,
    ) -> Result<(Vec<usize>, Output), Problem> {
        loop {
            let begun = (pace.now)();
            let asked = self.names.asked();
            let query = format!("--query-gpu={}", self.names.query());
            let output = self.run(program, &[query, "--format=csv".to_owned()], pace, until)?;
            let refused = parse::refused(&output.stdout, &output.stderr);
            if refused.is_empty() {
                return Ok((asked, output));
            }
            if !self.names.refuse(&refused) || self.names.asked().is_empty() {
                let what =
                    format!("{} does not know the field {}", self.program, label(refused[0]));
                return Err((what, Missing::Failed));
            }
            // Another run, and one for the processes.
            let now = (pace.now)();
            if now + now.saturating_sub(begun) * 2 > until {
                let what = format!("still finding out which fields {} knows", self.program);
                return Err((what, Missing::Pending));
            }
        }
    }

    /// Asks for the processes. Returns why there was no answer in time.
    fn add_processes(
        &mut self,
        program: &Path,
        pace: &Pace<'_>,
        until: Duration,
        table: &mut Table<'_>,
    ) -> Option<Problem> {
        let arguments = [PROCESSES.to_owned(), "--format=csv,noheader".to_owned()];
        let output = self.run(program, &arguments, pace, until);
        let mut found = match &output {
            Ok(output) if output.status.success() => parse::processes(&output.stdout),
            Ok(output) => {
                let lines = output.stdout.lines().chain(output.stderr.lines());
                let (what, reason) = parse::verdict(output.status.code(), lines);
                let problem = Some((format!("processes: {what}"), reason));
                Processes { refused: Some(reason), problem, ..Processes::default() }
            }
            Err((what, reason)) => Processes {
                refused: Some(*reason),
                problem: Some((what.clone(), *reason)),
                ..Processes::default()
            },
        };
        for gpu in &mut table.gpus {
            gpu.processes = of(gpu, &found);
            // Its query knows processes with a compute context and no others.
            gpu.listed = [Err(Missing::Unsupported); ProcessList::ALL.len()];
            gpu.listed[ProcessList::Compute as usize] =
                gpu.processes.as_ref().map(|list| Count(list.len() as u64)).map_err(|m| *m);
        }
        let late = found.problem.take_if(|(_, reason)| *reason == Missing::Hung);
        table.problem = table.problem.take().or(found.problem);
        late
    }

    fn run(
        &mut self,
        program: &Path,
        arguments: &[String; 2],
        pace: &Pace<'_>,
        until: Duration,
    ) -> Result<Output, Problem> {
        self.runner.run(program, arguments, until, pace.now).map_err(|failure| {
            let path = program.display();
            match failure {
                Failure::Start(error) => {
                    let reason = match error.kind() {
                        std::io::ErrorKind::NotFound => Missing::NoLibrary,
                        std::io::ErrorKind::PermissionDenied => Missing::Denied,
                        _ => Missing::Failed,
                    };
                    (format!("{path} cannot be run: {error}"), reason)
                }
                Failure::Late => {
                    let deadline = pace.limits.smi_deadline.as_secs_f64();
                    (format!("{path} took longer than {deadline} s to answer"), Missing::Hung)
                }
                Failure::Flood => {
                    (format!("{path} printed more than {MAX_OUTPUT} bytes"), Missing::Malformed)
                }
                Failure::Stuck(id) => {
                    (format!("{path} (pid {id}) hangs and cannot be killed"), Missing::Hung)
                }
            }
        })
    }
}

/// The processes of one GPU.
fn of(gpu: &Gpu, found: &Processes<'_>) -> Reading<Vec<GpuProcess>> {
    if let Some(reason) = found.refused {
        return Err(reason);
    }
    let uuid = gpu.uuid.as_ref().map_err(|reason| *reason)?;
    let rows: Vec<_> =
        found.rows.iter().filter(|(whose, _)| whose == uuid).map(|(_, row)| *row).collect();
    let mut all = BTreeMap::new();
    join(&mut all, ProcessList::Compute, &rows);
    Ok(all.into_values().collect())
}

/// The program's file, found as a shell would find it.
fn find(program: &str) -> Result<PathBuf, Problem> {
    if program.contains('/') {
        return Ok(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let mut found = None;
    // An entry that is not absolute means wherever the exporter happens to run.
    for place in std::env::split_paths(&path).filter(|place| place.is_absolute()) {
        let file = place.join(program);
        let Ok(facts) = file.metadata() else { continue };
        if facts.is_file() && facts.permissions().mode() & 0o111 != 0 {
            return Ok(file);
        }
        found = found.or(Some(file));
    }
    Err(match found {
        Some(file) => (format!("{} is no program", file.display()), Missing::Denied),
        None => (format!("{program} is not on PATH"), Missing::NoLibrary),
    })
}

/// The names by which the fields are asked for, as far as the driver has been found to know them.
#[derive(Default)]
struct Names {
    /// For each of [`FIELDS`], how many of its names were refused.
    refused: [usize; FIELDS.len()],
    /// The driver that refused them.
    driver: Option<String>,
}

impl Names {
    /// The fields that have a name left, as places in [`FIELDS`].
    fn asked(&self) -> Vec<usize> {
        (0..FIELDS.len()).filter(|place| self.name(*place).is_some()).collect()
    }

    fn name(&self, place: usize) -> Option<&'static str> {
        FIELDS[place].names.get(self.refused[place]).copied()
    }

    fn query(&self) -> String {
        let names: Vec<_> = (0..FIELDS.len()).filter_map(|place| self.name(place)).collect();
        names.join(",")
    }

    /// Notes refusals. False when none of them is for a name that was asked.
    fn refuse(&mut self, names: &[&str]) -> bool {
        let hit: Vec<_> = (0..FIELDS.len())
            .filter(|place| self.name(*place).is_some_and(|name| names.contains(&name)))
            .collect();
        for place in &hit {
            self.refused[*place] += 1;
        }
        !hit.is_empty()
    }

    /// Another driver may know other names.
    fn learn(&mut self, driver: Option<&str>) {
        if driver.is_none() || self.driver.as_deref() == driver {
            return;
        }
        if self.driver.is_some() {
            self.refused = [0; FIELDS.len()];
        }
        self.driver = driver.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests;
