//! What was seen: frames of the same engine that serves.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::model::frame::Frame;
use crate::model::gpu::Gpu;
use crate::model::moment::Moment;
use crate::model::sharing::Basis;
use crate::model::source::Source;
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;

/// How much longer than it watches it waits for a first frame. A box that hangs is told about, not waited
/// for.
const PATIENCE: Duration = Duration::from_secs(6);
/// Longest wait for one frame: a tick and some.
const ONE_FRAME: Duration = Duration::from_millis(1500);
/// In the DMI product names of the machines with a GB10 that are known.
const PRODUCTS: [&str; 7] =
    ["DGX_Spark", "DGX Spark", "GB10", "Ascent GX10", "ZGX Nano", "EdgeXpert", "PGX"];

/// An observation: one frame at least.
pub(super) struct Observed {
    frames: Vec<Arc<Frame>>,
    /// Whether it was a recorded machine, on which nothing moves.
    pub(super) recorded: bool,
}

impl Observed {
    /// Watches for `time`; a recorded machine for one frame.
    pub(super) fn watch(
        engine: &Engine,
        clock: &dyn Clock,
        time: Duration,
        recorded: bool,
    ) -> anyhow::Result<Self> {
        let began = clock.now();
        let mut frames: Vec<Arc<Frame>> = Vec::new();
        loop {
            let passed = clock.now().since(began);
            let enough = !frames.is_empty() && (recorded || passed >= time);
            if enough || passed >= time + PATIENCE {
                break;
            }
            let next = frames.last().map_or(1, |frame| frame.number + 1);
            engine.wait_for_frames(next, ONE_FRAME);
            if let Ok(frame) = engine.frame()
                && frame.number >= next
            {
                frames.push(frame);
            }
        }
        frames.last().context("this machine could not be read")?;
        Ok(Self { frames, recorded })
    }

    /// Every frame, oldest first.
    pub(super) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().map(AsRef::as_ref)
    }

    /// The last one.
    pub(super) fn last(&self) -> &Frame {
        // There is one: `watch` makes no other.
        &self.frames[self.frames.len() - 1]
    }

    /// From the first frame to the last.
    pub(super) fn time(&self) -> Duration {
        self.last().snapshot.at.since(self.frames[0].snapshot.at)
    }

    /// The readings of the GB10, one for each round of its lane.
    pub(super) fn readings(&self) -> impl Iterator<Item = (Moment, &Gpu)> {
        let mut before = None;
        self.frames()
            .filter_map(|frame| Some((frame.snapshot.read_at[Source::Gpu.index()]?, gb10(frame)?)))
            .filter(move |(at, _)| before.replace(*at) != Some(*at))
    }

    /// The GB10 as the last frame has it.
    pub(super) fn gpu_now(&self) -> Option<&Gpu> {
        gb10(self.last())
    }

    /// The last of the readings.
    pub(super) fn gpu(&self) -> Option<&Gpu> {
        self.readings().last().map(|(_, gpu)| gpu)
    }

    /// Whether the machine has a GB10: by its GPU, or by its maker where the GPU does not say.
    pub(super) fn is_gb10(&self) -> bool {
        self.gpu().is_some() || self.product_has_one()
    }

    /// Whether the maker's name of the machine is that of one with a GB10.
    pub(super) fn product_has_one(&self) -> bool {
        let product = self.last().snapshot.dmi.product_name.as_deref().unwrap_or_default();
        PRODUCTS.iter().any(|known| product.contains(known))
    }

    /// Why there are no readings of a GB10.
    pub(super) fn why_no_gpu(&self) -> String {
        let health = &self.last().health.sources[Source::Gpu.index()];
        match (&health.message, &self.last().snapshot.gpus.devices) {
            (Some(message), _) => message.to_string(),
            (None, Err(reason)) => reason.as_str().to_owned(),
            (None, Ok(_)) => "the GPU is another one".to_owned(),
        }
    }
}

/// The GB10 of a frame.
fn gb10(frame: &Frame) -> Option<&Gpu> {
    let verdicts = frame.verdicts.gpus.as_ref().ok()?;
    let index = verdicts.iter().find(|gpu| gpu.basis == Basis::Gb10)?.index;
    frame.snapshot.gpus.each().find(|gpu| gpu.index == index)
}
