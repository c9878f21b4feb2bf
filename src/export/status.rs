//! The frame as a document: `/api/v1/status`, `status --json`, and what the views for people read.
//!
//! The same type is written and read back, so `status --url` shows exactly what `status` shows. New
//! keys may appear within format 1; none changes its meaning.

mod contention;
mod gpu;
mod kernel_log;
mod module;
mod throttle;
mod training;
mod workload;

pub use contention::{
    ClaimPart, ContentionPart, OrphanPart, PressurePart, ReleasePart, SymptomPart,
};
pub use gpu::{CudaPart, DriverPart, GpuPart, UnaccountedPart};
pub use kernel_log::{KernelLogPart, MessagePart, VictimPart};
pub use module::{LimitPart, ModulePart};
pub use throttle::{BaselinePart, EpisodePart, ThrottlePart};
pub use training::{CausePart, LogPart, RunPart};
pub use workload::{CapPart, HoldersPart, JobPart};

use crate::model::event::Event;
use crate::model::fields;
use crate::model::frame::Frame;
use crate::model::moment::Moment;
use crate::model::pool::{Block, Exhaustion, Pinned, Reader, Segment, Window};
use crate::model::reading::{Missing, Reading, Value};
use crate::model::source::{Lane, Source};
use crate::units::{Bytes, Celsius, SignedBytes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document's version.
pub const FORMAT: u32 = 1;

/// A figure, or why there is none: `123` or `{"missing": "denied"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figure<T> {
    /// The figure.
    Value(T),
    /// The reason, in the words of `gb10_reading_missing`.
    Missing {
        /// Reason.
        missing: String,
    },
}

impl<T> Figure<T> {
    fn of<R>(reading: Reading<R>, value: impl FnOnce(R) -> T) -> Self {
        match reading {
            Ok(v) => Self::Value(value(v)),
            Err(reason) => Self::Missing { missing: reason.as_str().to_owned() },
        }
    }

    /// The figure, if there is one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value(v) => Some(v),
            Self::Missing { .. } => None,
        }
    }
}

type Map<T> = BTreeMap<String, T>;

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this document's layout.
    pub format: u32,
    /// The exporter.
    pub exporter: ExporterPart,
    /// The title of the scenario that is replayed, if no machine is read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay: Option<String>,
    /// When the frame was made, seconds since 1970.
    pub at: f64,
    /// The machine; what is not known is left out.
    pub machine: Map<String>,
    /// The memory pool.
    pub pool: PoolPart,
    /// Who holds the part of it that the kernel has no account of.
    pub unaccounted: UnaccountedPart,
    /// CUDA's view of it, on a proven GB10.
    pub cuda: CudaPart,
    /// Through what the GPU was asked.
    pub gpu_driver: DriverPart,
    /// The GPUs.
    pub gpus: Vec<GpuPart>,
    /// How each GB10 works; those too that the driver does not tell of at present.
    #[serde(default)]
    pub throttle: Vec<ThrottlePart>,
    /// Training runs whose logs are followed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub training: Vec<RunPart>,
    /// Who holds the pool.
    pub holders: HoldersPart,
    /// Whether jobs fight.
    pub contention: ContentionPart,
    /// The pressure on memory.
    pub pressure: PressurePart,
    /// What ended jobs have not given back.
    pub release: ReleasePart,
    /// What the kernel has said since boot.
    #[serde(default = "unread")]
    pub kernel_log: Figure<KernelLogPart>,
    /// The training logs that are followed, and how reading them goes.
    pub training_logs: Vec<LogPart>,
    /// Swap space.
    pub swap: SwapPart,
    /// Thermal zones.
    pub zones: Vec<ZonePart>,
    /// The hottest of those that could be read.
    pub hottest_zone: Figure<String>,
    /// Its highest temperature by window.
    #[serde(default)]
    pub board_max_celsius: Map<Figure<f64>>,
    /// The module's power controller, where the optional driver tells of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub module: Option<ModulePart>,
    /// Where boards begin to cut the power.
    pub cutoff_celsius: f64,
    /// The boot.
    pub boot: BootPart,
    /// Sources by name.
    pub sources: Map<SourcePart>,
    /// Lanes by name.
    pub lanes: Map<LanePart>,
    /// What happened lately, oldest first.
    pub events: Vec<EventPart>,
    /// Every reading of the field table.
    pub readings: Map<ReadingPart>,
}

/// The exporter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExporterPart {
    /// Version.
    pub version: String,
    /// Commit.
    pub revision: String,
    /// For how long it has run, in seconds.
    pub running_seconds: f64,
}

/// The memory pool, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolPart {
    /// The pool.
    pub size: Figure<u64>,
    /// MemFree.
    pub free: Figure<u64>,
    /// MemAvailable.
    pub available: Figure<u64>,
    /// size - available.
    pub used: Figure<u64>,
    /// Parts that add up to the size.
    pub segments: Map<Figure<u64>>,
    /// What had to be taken off them.
    pub overcounted: Figure<u64>,
    /// Pinned pages by kind.
    pub pinned: Map<Figure<u64>>,
    /// What a flush returns at the least.
    pub flushable: Figure<u64>,
    /// available - free.
    pub hidden_from_free: Figure<u64>,
    /// Configured reserve.
    pub reserve: u64,
    /// Configured comfort.
    pub comfort: u64,
    /// Headroom by reader.
    pub headroom: Map<Figure<i64>>,
    /// Extremes by window.
    pub windows: Map<WindowPart>,
    /// Time to the reserve.
    pub exhaustion: ExhaustionPart,
    /// Whether the reserve is about to be reached, or was and is still broken into.
    pub exhaustion_imminent: Figure<bool>,
    /// Whether the reserve is broken into.
    pub below_reserve: Figure<bool>,
    /// Time that falls are measured over, in seconds.
    pub fall_within: f64,
    /// Free memory in contiguous blocks, by size.
    pub contiguous_free: Map<Figure<u64>>,
    /// Page size.
    pub page_size: Figure<u64>,
    /// Whether the driver keeps freed pages in pools, which shows as unaccounted.
    pub driver_page_pools: Figure<bool>,
}

/// Extremes within a window, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowPart {
    /// Smallest MemAvailable.
    pub available_min: Figure<u64>,
    /// Smallest MemFree.
    pub free_min: Figure<u64>,
    /// Largest fall of MemAvailable within `fall_within` seconds.
    pub fall_max: Figure<u64>,
}

/// Whether the pool runs down to its reserve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ExhaustionPart {
    /// Not to be told.
    Unknown {
        /// Why.
        missing: String,
    },
    /// Too much is left for it to be judged.
    Roomy,
    /// Not falling.
    Steady,
    /// Falling.
    Falling {
        /// Seconds to the reserve.
        seconds: f64,
        /// Slope, negative.
        bytes_per_second: f64,
        /// Window of the slope.
        over_seconds: f64,
    },
}

/// Swap space, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwapPart {
    /// Size.
    pub size: Figure<u64>,
    /// Unused.
    pub free: Figure<u64>,
}

/// A thermal zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZonePart {
    /// Name.
    pub zone: String,
    /// Temperature.
    pub celsius: Figure<f64>,
    /// Where the firmware says that it cuts power.
    pub critical_celsius: Figure<f64>,
}

/// The boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BootPart {
    /// When, seconds since 1970.
    pub booted: Figure<u64>,
    /// Whether the boot before ended without an orderly stop.
    pub previous_unclean: Figure<bool>,
    /// When the boot before was last seen alive.
    pub previous_seen: Figure<u64>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourcePart {
    /// State; none before the first read.
    pub state: Option<String>,
    /// What the last failure said.
    pub message: Option<String>,
    /// How long the last read took.
    pub seconds: Option<f64>,
    /// Failed reads.
    pub errors: u64,
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LanePart {
    /// Rounds finished.
    pub ticks: u64,
    /// Rounds missed.
    pub missed: u64,
    /// The source it waits for.
    pub stuck_on: Option<String>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventPart {
    /// Seconds since 1970.
    pub at: f64,
    /// What.
    pub event: String,
    /// How bad.
    pub severity: String,
    /// What it is about.
    pub subject: String,
    /// The evidence.
    pub evidence: String,
    /// Of a GPU's change of state: the stay that ended with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub episode: Option<EpisodePart>,
}

/// A reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadingPart {
    /// Where it comes from.
    pub source: String,
    /// Unit.
    pub unit: String,
    /// Value, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<serde_json::Value>,
    /// Why not, otherwise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub missing: Option<String>,
}

/// What an older exporter says of the kernel's log.
fn unread() -> Figure<KernelLogPart> {
    Figure::Missing { missing: Missing::NotPresent.as_str().to_owned() }
}

fn bytes(reading: Reading<Bytes>) -> Figure<u64> {
    Figure::of(reading, |b| b.0)
}

/// A map from the names of a closed set to something for each.
fn map<T: Copy, R>(all: &[T], name: fn(T) -> &'static str, each: impl Fn(usize, T) -> R) -> Map<R> {
    all.iter().enumerate().map(|(i, t)| (name(*t).to_owned(), each(i, *t))).collect()
}

/// How each source is doing.
fn sources(frame: &Frame) -> Map<SourcePart> {
    map(Source::ALL, Source::as_str, |i, _| {
        let health = &frame.health.sources[i];
        SourcePart {
            state: health.state.map(|state| state.as_str().to_owned()),
            message: health.message.as_deref().map(str::to_owned),
            seconds: health.duration.map(|d| d.as_secs_f64()),
            errors: health.errors,
        }
    })
}

/// How each lane is doing.
fn lanes(frame: &Frame) -> Map<LanePart> {
    map(Lane::ALL, Lane::as_str, |i, _| {
        let health = frame.health.lanes[i];
        LanePart {
            ticks: health.ticks,
            missed: health.missed,
            stuck_on: health.stuck_on.map(|source| source.as_str().to_owned()),
        }
    })
}

impl Status {
    /// The frame as a document.
    #[must_use]
    pub fn of(frame: &Frame) -> Self {
        let s = &frame.snapshot;
        let wall = |moment: Moment| moment.wall.as_secs_f64();
        Self {
            format: FORMAT,
            exporter: ExporterPart {
                version: frame.exporter.version.to_owned(),
                revision: frame.exporter.revision.to_owned(),
                running_seconds: s.at.since(frame.exporter.started).as_secs_f64(),
            },
            replay: frame.replay.as_deref().map(str::to_owned),
            at: wall(s.at),
            machine: machine(frame),
            pool: pool(frame),
            unaccounted: gpu::unaccounted(frame),
            cuda: gpu::cuda(frame),
            gpu_driver: gpu::driver(frame),
            gpus: gpu::gpus(frame),
            throttle: frame.verdicts.throttle.iter().map(ThrottlePart::of).collect(),
            training: frame.verdicts.training.iter().map(RunPart::of).collect(),
            holders: HoldersPart::of(&frame.verdicts.workloads),
            contention: ContentionPart::of(&frame.verdicts.contention),
            pressure: PressurePart::of(&frame.verdicts.pressed),
            release: ReleasePart::of(&frame.verdicts.release),
            kernel_log: kernel_log::kernel_log(frame),
            training_logs: frame.snapshot.training.iter().flatten().map(LogPart::of).collect(),
            swap: SwapPart { size: bytes(s.meminfo.swap_total), free: bytes(s.meminfo.swap_free) },
            zones: zones(frame),
            hottest_zone: Figure::of(
                frame.verdicts.hottest.as_ref().map_err(|m| *m),
                |(name, _)| name.clone(),
            ),
            board_max_celsius: map(Window::ALL, Window::as_str, |i, _| {
                Figure::of(frame.verdicts.board_max[i], |Celsius(t)| t)
            }),
            module: module::module(frame),
            cutoff_celsius: frame.thresholds.board_cutoff_from.0,
            boot: BootPart {
                booted: Figure::of(s.stat.boot_time, |t| t.0),
                previous_unclean: Figure::of(frame.boot.unclean, |u| u),
                previous_seen: Figure::of(frame.boot.previous_seen, |t| t),
            },
            sources: sources(frame),
            lanes: lanes(frame),
            events: frame.events.iter().map(event).collect(),
            readings: readings(frame),
        }
    }

    /// The document as JSON, on several lines.
    ///
    /// # Panics
    /// Never: the document has string keys and finite numbers only.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = serde_json::to_vec_pretty(self).expect("string keys, finite numbers");
        out.push(b'\n');
        out
    }
}

fn machine(frame: &Frame) -> Map<String> {
    let s = &frame.snapshot;
    [
        ("vendor", &s.dmi.sys_vendor),
        ("product", &s.dmi.product_name),
        ("board", &s.dmi.board_name),
        ("firmware", &s.dmi.bios_version),
        ("kernel", &s.kernel.release),
        ("arch", &s.kernel.arch),
        ("os", &s.os.pretty_name),
        ("nvidia_driver", &s.nvidia.driver_version),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value.clone().ok()?)))
    .collect()
}

fn pool(frame: &Frame) -> PoolPart {
    let p = &frame.verdicts.pool;
    let partition = p.partition.as_ref().map_err(|m| *m);
    PoolPart {
        size: bytes(p.size),
        free: bytes(p.free),
        available: bytes(p.available),
        used: bytes(p.used),
        segments: map(Segment::ALL, Segment::as_str, |_, s| {
            bytes(partition.and_then(|p| p.part(s)))
        }),
        overcounted: bytes(partition.map(|p| p.absorbed)),
        pinned: map(Pinned::ALL, Pinned::as_str, |i, _| bytes(p.pinned[i])),
        flushable: bytes(p.flushable),
        hidden_from_free: bytes(p.hidden),
        reserve: frame.thresholds.reserve.0,
        comfort: frame.thresholds.comfort.0,
        headroom: map(Reader::ALL, Reader::as_str, |i, _| {
            Figure::of(p.headroom[i], |SignedBytes(b)| b)
        }),
        windows: map(Window::ALL, Window::as_str, |i, _| WindowPart {
            available_min: bytes(p.available_min[i]),
            free_min: bytes(p.free_min[i]),
            fall_max: bytes(p.fall_max[i]),
        }),
        exhaustion: match p.exhaustion {
            Exhaustion::Unknown(m) => ExhaustionPart::Unknown { missing: m.as_str().to_owned() },
            Exhaustion::Roomy => ExhaustionPart::Roomy,
            Exhaustion::Steady => ExhaustionPart::Steady,
            Exhaustion::Falling { to_reserve, slope, over } => ExhaustionPart::Falling {
                seconds: to_reserve.0,
                bytes_per_second: slope.0,
                over_seconds: over.0,
            },
        },
        exhaustion_imminent: Figure::of(p.imminent, |is| is),
        below_reserve: Figure::of(p.below_reserve, |is| is),
        fall_within: frame.thresholds.fall_within.0,
        contiguous_free: map(Block::ALL, Block::as_str, |i, _| bytes(p.contiguous[i])),
        page_size: bytes(p.page_size),
        driver_page_pools: Figure::of(frame.snapshot.nvidia.pools_on(), |on| on),
    }
}

fn zones(frame: &Frame) -> Vec<ZonePart> {
    let celsius = |t: Reading<Celsius>| Figure::of(t, |Celsius(v)| v);
    let all = frame.snapshot.zones.iter().flatten();
    all.map(|zone| ZonePart {
        zone: zone.name.clone(),
        celsius: celsius(zone.temperature),
        critical_celsius: celsius(zone.critical),
    })
    .collect()
}

fn event(e: &Event) -> EventPart {
    EventPart {
        at: e.at.wall.as_secs_f64(),
        event: e.kind.as_str().to_owned(),
        severity: e.severity.as_str().to_owned(),
        subject: e.subject.to_owned(),
        evidence: e.evidence.clone(),
        episode: e.episode.map(|(gpu, episode)| EpisodePart::of(gpu, &episode)),
    }
}

/// Every row of the field table; a member of a family has its key in brackets.
fn readings(frame: &Frame) -> Map<ReadingPart> {
    let mut out = Map::new();
    for field in fields::all() {
        (field.visit)(&frame.snapshot, &mut |key, reading| {
            let id =
                if key.is_empty() { field.id.to_owned() } else { format!("{}[{key}]", field.id) };
            let value = reading.map(|value| match value {
                Value::Uint(n) => n.into(),
                Value::Float(x) => x.into(),
                Value::Text(t) => t.into(),
            });
            let source = field.source.as_str().to_owned();
            let unit = field.unit.as_str().to_owned();
            let missing = value.as_ref().err().map(|m| m.as_str().to_owned());
            out.insert(id, ReadingPart { source, unit, value: value.ok(), missing });
        });
    }
    out
}
