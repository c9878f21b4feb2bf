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
pub(super) const PALE_GREY: Colour = "#BDBDBD";
pub(super) const DARK_GREY: Colour = "#5A5A5A";
const PALE_SKY: Colour = "#A9D6F2";
pub(super) const BROWN: Colour = "#8C5A2B";

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

/// A class of jobs. Those that are often together on one box have colours of their own; trainers share one,
/// for two of them seldom run beside each other.
const fn class(class: Class) -> Colour {
    match class {
        Class::Vllm | Class::Nim => BLUE,
        Class::Ollama | Class::LmStudio => ORANGE,
        Class::LlamaCpp | Class::Tgi => GREEN,
        Class::Sglang | Class::TensorrtLlm => SKY,
        Class::Trl
        | Class::Axolotl
        | Class::LlamaFactory
        | Class::Torchtune
        | Class::Nemo
        | Class::Deepspeed
        | Class::Accelerate
        | Class::Torchrun => VERMILION,
        Class::Unsloth => YELLOW,
        Class::Python | Class::Notebook => PURPLE,
        Class::Triton | Class::Compiler => BROWN,
        Class::Comfyui | Class::LlamaSwap => PALE_SKY,
        Class::Desktop | Class::Ray => GREY,
        Class::Other => PALE_GREY,
    }
}

/// Series that begin with the name of a class, in its colour.
pub(super) fn classes() -> Vec<(String, Colour)> {
    let mut by_colour: Vec<(Colour, Vec<&str>)> = Vec::new();
    for each in Class::ALL {
        let colour = class(*each);
        match by_colour.iter_mut().find(|(known, _)| *known == colour) {
            Some((_, names)) => names.push(each.as_str()),
            None => by_colour.push((colour, vec![each.as_str()])),
        }
    }
    let pattern = |names: Vec<&str>| format!("/^({})\\b/", names.join("|"));
    by_colour.into_iter().map(|(colour, names)| (pattern(names), colour)).collect()
}

/// Colours of lines that are told apart by a number and mean nothing else: strong ones alone, for a pale
/// line is lost on a light ground.
const NUMBERED: [Colour; 5] = [BLUE, ORANGE, GREEN, PURPLE, SKY];

/// Series of boxes, by the last digit of the host's name or address: each box looks the same in every panel,
/// whoever else is drawn there. From 5 on lines are dotted. A name without a number keeps Grafana's colour.
pub(super) fn boxes() -> Vec<(String, Colour, bool)> {
    numbered(|digit| format!(r"/^(\d+\.\d+\.\d+\.\d*|[^.:]*[a-z_-][^.:]*){digit}([.:]|$)/i"))
}

/// Series of thermal zones that have a number and no name.
pub(super) fn zones() -> Vec<(String, Colour, bool)> {
    numbered(|digit| format!(r"/^thermal_zone\d*{digit}$/"))
}

fn numbered(pattern: impl Fn(usize) -> String) -> Vec<(String, Colour, bool)> {
    let each = NUMBERED.iter().cycle().take(10).enumerate();
    each.map(|(digit, colour)| (pattern(digit), *colour, digit >= NUMBERED.len())).collect()
}
