//! What is drawn in which colour. The palette is the one of Okabe and Ito, which readers of every kind of
//! colour vision can tell apart; a colour means the same on every dashboard.

use crate::model::pool::Segment;
use crate::model::workload::Class;

/// A colour as Grafana takes it.
pub(super) type Colour = &'static str;

pub(super) const BLUE: Colour = "#0072B2";
pub(super) const SKY: Colour = "#56B4E9";
pub(super) const GREEN: Colour = "#009E73";
pub(super) const YELLOW: Colour = "#F0E442";
pub(super) const ORANGE: Colour = "#E69F00";
pub(super) const VERMILION: Colour = "#D55E00";
pub(super) const PURPLE: Colour = "#CC79A7";
pub(super) const GREY: Colour = "#8A8A8A";
/// That of text.
pub(super) const TEXT: Colour = "text";
/// Hardly there, on dark and on light.
pub(super) const FAINT: Colour = "rgba(138, 138, 138, 0.15)";
const PALE_GREY: Colour = "#BDBDBD";
const DARK_GREY: Colour = "#5A5A5A";
const PALE_SKY: Colour = "#A9D6F2";
const BROWN: Colour = "#8C5A2B";

/// Nobody uses it.
pub(super) const FREE: Colour = GREEN;
/// A new program can get it.
pub(super) const AVAILABLE: Colour = BLUE;
/// What the kernel can give back.
pub(super) const CACHE: Colour = SKY;
/// The GPU: its memory, its power, its temperature, its clock.
pub(super) const GPU: Colour = PURPLE;
/// The board round it.
pub(super) const BOARD: Colour = ORANGE;
/// A line not to be crossed.
pub(super) const LIMIT: Colour = VERMILION;
/// A figure to compare with: a size, a rating.
pub(super) const RATED: Colour = GREY;
/// What was learned or configured and is no limit.
pub(super) const EXPECTED: Colour = SKY;

/// A part of the pool.
pub(super) const fn segment(segment: Segment) -> Colour {
    match segment {
        Segment::Free => FREE,
        Segment::PageCache => CACHE,
        Segment::SlabReclaimable => PALE_SKY,
        Segment::Shared => BLUE,
        Segment::Anonymous => ORANGE,
        Segment::SlabUnreclaimable => PALE_GREY,
        Segment::Kernel => DARK_GREY,
        Segment::HugePages => YELLOW,
        Segment::Compressed => BROWN,
        Segment::Unaccounted => GPU,
    }
}

/// Classes of jobs that are often together on one box, each with a colour of its own.
pub(super) const CLASSES: &[(Class, Colour)] = &[
    (Class::Vllm, BLUE),
    (Class::Ollama, ORANGE),
    (Class::LlamaCpp, GREEN),
    (Class::Sglang, SKY),
    (Class::Trl, VERMILION),
    (Class::Unsloth, YELLOW),
    (Class::Python, PURPLE),
    (Class::Triton, BROWN),
    (Class::Comfyui, PALE_SKY),
    (Class::Desktop, GREY),
];
