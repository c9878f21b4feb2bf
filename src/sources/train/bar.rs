//! Progress bars as tqdm draws them (4.x), and which of a log's bars is the run's.
//!
//! `about:  10%|█         | 100/1000 [01:40<15:00,  1.00s/it, loss=2.1]`; without a total
//! `100it [01:40,  1.00s/it]`. The rate is a running mean of the last updates (over everything, in the bar
//! that stays when it is done), so it is told as smoothed.

use super::scan::{interval, number, step_time, whole};
use crate::units::Seconds;
use std::time::Duration;

/// Words that say what a bar counts that are no steps, by their beginnings.
const OTHER: [&str; 60] = [
    "map",
    "filter",
    "download",
    "load",
    "token",
    "fetch",
    "generat",
    "eval",
    "valid",
    "predict",
    "infer",
    "sav",
    "writ",
    "upload",
    "convert",
    "pack",
    "add",
    "apply",
    "truncat",
    "preprocess",
    "process",
    "extract",
    "import",
    "quantiz",
    "calibrat",
    "unpack",
    "sanity",
    "test",
    "sampl",
    "creat",
    "flatten",
    "group",
    "read",
    "cach",
    "collect",
    "merg",
    "dequant",
    "encod",
    "decod",
    "shard",
    "safetensors",
    "parquet",
    "captur",
    "compil",
    "profil",
    "render",
    "setting",
    "split",
    "resolv",
    "build",
    "val",
    "check",
    "comput",
    "scor",
    "index",
    "shuffl",
    "prepar",
    "push",
    "copy",
    "dataset",
];
/// Words that say that it counts steps.
const STEPS: [&str; 6] = ["train", "epoch", "step", "iter", "finetun", "loss"];
/// What a step may be called in a rate. Examples, bytes, shards and tokens are none.
const UNITS: [&str; 6] = ["it", "step", "steps", "batch", "batches", "iter"];

/// One drawing of a bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar<'a> {
    /// What stands before it.
    pub(super) about: &'a str,
    pub(super) number: u64,
    pub(super) of: Option<u64>,
    pub(super) elapsed: Duration,
    pub(super) smoothed: Option<Seconds>,
    /// What stands behind the rate, and behind the bar.
    pub(super) tail: &'a str,
}

/// The last bar of a line; several stand in one where carriage returns were lost.
pub(super) fn last(text: &str) -> Option<Bar<'_>> {
    text.rmatch_indices('[').take(32).find_map(|(at, _)| {
        let (elapsed, rest) = interval(&text[at + 1..])?;
        let (smoothed, tail) = rate(rest)?;
        let before = text[..at].trim_end();
        let (about, count) = before.rsplit_once([' ', '|']).unwrap_or(("", before));
        let (number, of) = match whole(count)? {
            (number, "it") => (number, None),
            (number, rest) => {
                let (of, rest) = whole(rest.strip_prefix('/')?)?;
                (number, Some(of).filter(|_| rest.is_empty()))
            }
        };
        Some(Bar { about: words(about), number, of, elapsed, smoothed, tail })
    })
}

/// The rate behind the elapsed time, if it is one of steps, and what follows it. Lightning draws bars
/// without a rate: figures follow at once.
fn rate(text: &str) -> Option<(Option<Seconds>, &str)> {
    let text = match text.strip_prefix('<') {
        Some(rest) => match interval(rest) {
            Some((_, rest)) => rest,
            None => rest.strip_prefix('?')?,
        },
        None => text,
    };
    let text = text.strip_prefix(", ")?.trim_start();
    let end = text.find([',', ']', ' ']).unwrap_or(text.len());
    let (word, tail) = text.split_at(end);
    if word.contains('=') {
        return Some((None, text));
    }
    if let Some(rest) = word.strip_prefix('?') {
        let unit = rest.strip_suffix("/s")?;
        return UNITS.contains(&unit).then_some((None, tail));
    }
    let (value, unit) = number(word)?;
    let seconds = match (unit.strip_prefix("s/"), unit.strip_suffix("/s")) {
        (Some(unit), _) if UNITS.contains(&unit) => value,
        (_, Some(unit)) if UNITS.contains(&unit) => 1.0 / value,
        _ => return None,
    };
    Some((step_time(seconds), tail))
}

/// The description before the percentage and the drawing, if any.
fn words(about: &str) -> &str {
    // A bar before this one in the same line ends in a bracket.
    let about = about.rsplit_once(']').map_or(about, |(_, rest)| rest);
    let Some((before, _)) = about.split_once('%') else { return about.trim() };
    before.trim_end_matches(|c: char| c.is_ascii_digit()).trim().trim_end_matches(':')
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Other,
    Unknown,
    Steps,
}

fn kind(about: &str) -> Kind {
    let lower = about.to_lowercase();
    let mut kind = Kind::Unknown;
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if OTHER.iter().any(|other| word.starts_with(other)) {
            return Kind::Other;
        }
        if STEPS.iter().any(|step| word.starts_with(step)) {
            kind = Kind::Steps;
        }
    }
    kind
}

/// A bar that is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Track {
    of: Option<u64>,
    number: u64,
    elapsed: Duration,
    steps: bool,
}

/// Finds the run's bar among several, line by line, and remembers one.
///
/// Bars of another unit or of another description never count. The first one left is the run's; a bar
/// with another total takes its place when
/// - it says that it counts steps and the first did not, or
/// - the first is done, and it is at least as long: stages of a run, a second run, or
/// - the first is done, and what a training step reports is printed beside the other, or
/// - it has run for a minute and twice as long as the first was ever seen to: that one was no run.
///
/// The bars of an evaluation within a run therefore do not count: the run's is not done, and older. A
/// whole log is read again when that changed its mind, with the bar that ran longest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bars {
    current: Option<Track>,
    longest: Option<Track>,
    /// The last bar that did not count and might have.
    other: Option<Track>,
    /// The only one whose total counts, where it is known.
    only: Option<Track>,
    /// Bars counted that turned out to be none of the run's.
    pub(super) revised: bool,
}

/// What a bar is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// Not of the run.
    Other,
    /// The run's first, or the first of its next stage.
    New,
    /// The run's first, and what counted before was none of the run's.
    Instead,
    /// The run's, going on.
    Same,
}

impl Bars {
    /// For reading the log again: if they changed their mind, the one that ran longest alone, and if not
    /// what they were at the beginning.
    pub(super) fn again(&self) -> Self {
        let only = if self.revised { self.longest } else { self.only };
        Self { only, ..Self::default() }
    }

    /// A training step's report stands beside the last bar: if the run's is done, that one is.
    pub(super) fn reported(&mut self) {
        let done = |track: Track| track.of.is_some_and(|of| track.number >= of);
        if self.current.is_some_and(done)
            && let Some(other) = self.other.take()
        {
            (self.current, self.longest, self.revised) = (Some(other), Some(other), true);
        }
    }

    pub(super) fn place(&mut self, bar: &Bar<'_>) -> Place {
        let kind = kind(bar.about);
        if kind == Kind::Other || self.only.is_some_and(|only| only.of != bar.of) {
            return Place::Other;
        }
        let next = Track {
            of: bar.of,
            number: bar.number,
            elapsed: bar.elapsed,
            steps: kind == Kind::Steps,
        };
        let place = match self.current {
            None => Place::New,
            Some(now) if now.of == next.of => Place::Same,
            Some(now) => {
                let done = now.of.is_some_and(|of| now.number >= of);
                let stage = done && (next.of >= now.of || next.steps);
                let longer = next.elapsed > now.elapsed * 2 + Duration::from_secs(60);
                if !(stage || longer || (next.steps && !now.steps)) {
                    self.other = Some(next);
                    return Place::Other;
                }
                let wrong = !done || now.elapsed.as_secs() < 60;
                self.revised |= wrong;
                if wrong { Place::Instead } else { Place::New }
            }
        };
        // The bar that stays goes on having run as long as it was seen to.
        let elapsed = match (place, self.current) {
            (Place::Same, Some(now)) => now.elapsed.max(next.elapsed),
            _ => next.elapsed,
        };
        let next = Track { elapsed, ..next };
        (self.current, self.other) = (Some(next), None);
        if self.longest.is_none_or(|longest| longest.elapsed <= next.elapsed) {
            self.longest = Some(next);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_as_they_are_drawn() {
        let bar = |text| {
            last(text).map(|b| (b.number, b.of, b.elapsed.as_secs(), b.smoothed.map(|s| s.0)))
        };
        for (text, expected) in [
            (
                " 10%|█         | 100/1000 [01:40<15:00,  1.00s/it]",
                Some((100, Some(1000), 100, Some(1.0))),
            ),
            (
                "  4% 99/2238 [1:48:23<35:43:37, 60.13s/it]",
                Some((99, Some(2238), 6503, Some(60.13))),
            ),
            ("x:  0%|  | 0/50 [00:00<?, ?it/s]", Some((0, Some(50), 0, None))),
            (
                "50%|# | 1/2 [1 day, 2:03:04<1 day, 0:00:01,  2.00it/s, loss=1]",
                Some((1, Some(2), 93_784, Some(0.5))),
            ),
            ("100it [01:40,  1.00s/it]", Some((100, None, 100, Some(1.0)))),
            (
                "1/9 [00:01<00:08,  1.00s/it]  2/9 [00:02<00:07,  1.00s/it]{'loss': 1.0}",
                Some((2, Some(9), 2, Some(1.0))),
            ),
            ("Map: 100%|██| 80/80 [00:00<00:00, 678.72 examples/s]", None),
            ("model-00001.safetensors:  12%|# | 1.2G/10G [00:10<01:10, 120MB/s]", None),
            ("50%|# | 1/2 [00:01<00:01,  0.00s/it]", Some((1, Some(2), 1, None))),
            (
                "1|25|Loss: 1.2:  2%|▏ | 25/1234 [00:30<25:00,  1.23s/it]",
                Some((25, Some(1234), 30, Some(1.23))),
            ),
        ] {
            assert_eq!(bar(text), expected, "{text}");
        }
    }

    #[test]
    fn the_run_is_found_among_bars() {
        let mut bars = Bars::default();
        let mut place = |text: &str| bars.place(&last(text).unwrap());
        assert_eq!(
            place("Loading checkpoint shards: 100%|██| 4/4 [00:09<00:00,  2.25s/it]"),
            Place::Other
        );
        assert_eq!(place("10/50 [00:17<01:06,  1.67s/it]"), Place::New);
        assert_eq!(place("2/80 [00:00<00:00,  4.26it/s]"), Place::Other);
        assert_eq!(place("11/50 [00:18<01:06,  1.67s/it]"), Place::Same);
        assert_eq!(place("50/50 [01:18<00:00,  1.67s/it]"), Place::Same);
        assert_eq!(place("3/3 [00:01<00:00,  4.26it/s]"), Place::Other);
        assert_eq!(place("0/100 [00:00<?, ?it/s]"), Place::New);
        assert!(!bars.revised);
    }
}
