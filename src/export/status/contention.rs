//! Contention, pressure and release, as parts of the status document.

use super::{Figure, Map, bytes};
use crate::model::contention::{Contention, Pressed, Release, Sign, Symptom};
use crate::model::pool::Reader;
use crate::units::{Ratio, Seconds, SignedBytes};
use serde::{Deserialize, Serialize};

/// Whether jobs fight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentionPart {
    /// The state.
    pub state: String,
    /// Who, how much, by which cap.
    pub evidence: String,
    /// What to stop first, and why.
    pub stop_first: Option<String>,
    /// Heavy jobs.
    pub heavy_jobs: Figure<u64>,
    /// Jobs that nothing bounds.
    pub uncapped_jobs: Figure<u64>,
    /// What they hold or may take as a share of the pool.
    pub committed_ratio: Figure<f64>,
    /// Each job's part.
    pub claims: Vec<ClaimPart>,
}

/// A job's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimPart {
    /// Its class.
    pub workload: String,
    /// Its unit.
    pub unit: String,
    /// The pid of its first process.
    pub pid: u32,
    /// What it holds.
    pub held: u64,
    /// What it holds or may take.
    pub claims: u64,
    /// Whether it is heavy.
    pub heavy: Figure<bool>,
    /// Whether nothing bounds it.
    pub uncapped: bool,
}

/// The pressure on memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PressurePart {
    /// The state.
    pub state: String,
    /// What it rests on.
    pub evidence: String,
    /// The symptoms.
    pub symptoms: Map<SymptomPart>,
    /// Free memory in blocks of 2 MiB and more of the zones that the driver takes from.
    pub contiguous_normal: Figure<u64>,
}

/// A symptom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SymptomPart {
    /// Whether it shows.
    pub shows: Figure<bool>,
    /// Whether it proves that memory in use was taken away.
    pub proves: bool,
    /// The figures.
    pub evidence: String,
}

/// What ended jobs have not given back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleasePart {
    /// What is still held.
    pub pending: Figure<u64>,
    /// How long the last release took, or has taken so far, in seconds.
    pub lag_seconds: Figure<f64>,
    /// What the next job can take, by reader.
    pub safe_to_start: Map<Figure<i64>>,
    /// What that waits for.
    pub waits_for: Option<String>,
    /// Jobs without their server.
    pub orphans: Vec<OrphanPart>,
}

/// A job without its server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrphanPart {
    /// Its class.
    pub workload: String,
    /// Its unit.
    pub unit: String,
    /// Its pid.
    pub pid: u32,
    /// What it holds.
    pub held: u64,
    /// Whether the end of its server was seen.
    pub seen: bool,
    /// For how long it has done nothing.
    pub idle_seconds: f64,
}

impl ContentionPart {
    pub(super) fn of(contention: &Contention) -> Self {
        let claims = contention.claims.iter().map(|claim| ClaimPart {
            workload: claim.class.as_str().to_owned(),
            unit: claim.unit.to_string(),
            pid: claim.pid,
            held: claim.held.0,
            claims: claim.claims.0,
            heavy: Figure::of(claim.heavy, |heavy| heavy),
            uncapped: claim.uncapped,
        });
        Self {
            state: contention.state.as_str().to_owned(),
            evidence: contention.evidence.clone(),
            stop_first: contention.stop_first.clone(),
            heavy_jobs: Figure::of(contention.heavy, |n| n),
            uncapped_jobs: Figure::of(contention.uncapped, |n| n),
            committed_ratio: Figure::of(contention.committed, |Ratio(share)| share),
            claims: claims.collect(),
        }
    }
}

impl PressurePart {
    pub(super) fn of(pressed: &Pressed) -> Self {
        let part = |symptom: &Symptom| {
            let Sign { shows, evidence } = pressed.sign(*symptom);
            let part = SymptomPart {
                shows: Figure::of(*shows, |shows| shows),
                proves: symptom.proves(),
                evidence: evidence.clone(),
            };
            (symptom.as_str().to_owned(), part)
        };
        Self {
            state: pressed.state.as_str().to_owned(),
            evidence: pressed.evidence.clone(),
            symptoms: Symptom::ALL.iter().map(part).collect(),
            contiguous_normal: bytes(pressed.contiguous),
        }
    }
}

impl ReleasePart {
    pub(super) fn of(release: &Release) -> Self {
        let safe = Reader::ALL.iter().zip(release.safe).map(|(reader, safe)| {
            (reader.as_str().to_owned(), Figure::of(safe, |SignedBytes(bytes)| bytes))
        });
        let orphans = release.orphans.iter().map(|orphan| OrphanPart {
            workload: orphan.class.as_str().to_owned(),
            unit: orphan.unit.to_string(),
            pid: orphan.pid,
            held: orphan.held.0,
            seen: orphan.seen,
            idle_seconds: orphan.idle.0,
        });
        Self {
            pending: bytes(release.pending),
            lag_seconds: Figure::of(release.lag, |Seconds(s)| s),
            safe_to_start: safe.collect(),
            waits_for: release.waits_for.clone(),
            orphans: orphans.collect(),
        }
    }
}
