//! What stands before a line's own words: colours, time stamps, ranks, containers, levels.

use super::scan::{digits, whole};
use super::stamp::{Clock, Stamp, When, stamp};
use std::borrow::Cow;

/// Prefixes one behind another, at most.
const MOST: usize = 12;

/// A line without what stood before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Prefix<'a> {
    pub(super) text: &'a str,
    pub(super) when: Option<When>,
    pub(super) rank: Option<u32>,
}

/// Without the terminal's control sequences: colours, and the moves with which nested bars are drawn.
pub(super) fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains(['\u{1b}', '\u{8}']) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            // ESC [ parameters, and one letter.
            '\u{1b}' if rest.as_str().starts_with('[') => {
                rest.next();
                rest.find(|c| ('@'..='~').contains(c));
            }
            '\u{1b}' => drop(rest.next()),
            '\u{8}' => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Takes off one prefix after another. Of several time stamps the first one with a zone counts.
pub(super) fn strip<'a>(line: &'a str, clock: &mut Clock) -> Prefix<'a> {
    let mut found =
        Prefix { text: line.trim_start_matches('\u{feff}').trim(), ..Prefix::default() };
    let mut moment: Option<Stamp> = None;
    for _ in 0..MOST {
        let before = found.text;
        if let Some((told, rest)) = told(before) {
            moment = better(moment, told);
            found.text =
                host(container(rest.trim_start_matches([' ', '\t', ']', ',', ':', '-', '|'])));
        } else if let Some((rank, rest)) = rank(before) {
            found.rank = found.rank.or(Some(rank));
            found.text = rest;
        } else if let Some((inner, rest)) = bracket(before) {
            if let Some(told) = inside(inner) {
                moment = better(moment, told);
            }
            found.text = rest;
        } else if let Some(rest) = label(before) {
            found.text = rest;
        }
        if found.text.len() == before.len() {
            break;
        }
        // What loggers put between their columns.
        found.text = found.text.trim_start_matches([' ', '\t', '-', '|', '>']);
    }
    found.when = moment.and_then(|stamp| clock.when(stamp));
    found
}

/// A moment is better than a time of the day, and one with a zone better than one without.
fn better(now: Option<Stamp>, then: Stamp) -> Option<Stamp> {
    let worth = |stamp: &Stamp| match stamp {
        Stamp::Epoch(_) | Stamp::Date { offset: Some(_), .. } => 3,
        Stamp::Date { .. } => 2,
        Stamp::OfDay(_) | Stamp::Elapsed(_) => 1,
    };
    now.filter(|now| worth(now) >= worth(&then)).or(Some(then))
}

/// A time stamp, bare or in a bracket of its own.
fn told(text: &str) -> Option<(Stamp, &str)> {
    let inner = text.strip_prefix(['[', '(']).unwrap_or(text);
    stamp(inner).map(|(stamp, rest)| (stamp, rest.strip_prefix([']', ')']).unwrap_or(rest)))
}

/// A time stamp among the words of a bracket: `NeMo I 2025-03-04 02:58:29 perf:56`.
fn inside(inner: &str) -> Option<Stamp> {
    let starts =
        inner.char_indices().filter(|(at, c)| c.is_ascii_digit() && inner[..*at].ends_with(' '));
    starts.take(4).find_map(|(at, _)| stamp(&inner[at..])).map(|(stamp, _)| stamp)
}

/// containerd's `stdout F `, as kubectl's log files have it behind the stamp.
fn container(text: &str) -> &str {
    let rest = text.strip_prefix("stdout ").or_else(|| text.strip_prefix("stderr "));
    rest.and_then(|rest| rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P ")))
        .unwrap_or(text)
}

/// The journal's `host unit[1234]: ` behind the stamp.
fn host(text: &str) -> &str {
    let unit = || {
        let (_, rest) = text.split_once(' ')?;
        let (unit, rest) = rest.split_once(": ")?;
        (unit.ends_with(']') && !unit.contains(' ') && unit.contains('[')).then_some(rest)
    };
    unit().unwrap_or(text)
}

/// `[rank0]:`, `[RANK:0]`, `[Rank 0]`, torchrun's `[default0]:`, srun's `0: `.
fn rank(text: &str) -> Option<(u32, &str)> {
    let number = |text: &str| digits(text, 1, 4).and_then(|(n, _)| u32::try_from(n).ok());
    if let Some((inner, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let lower = inner.to_ascii_lowercase();
        let behind = lower.strip_prefix("rank").or_else(|| lower.strip_prefix("default"))?;
        let behind = behind.trim_start_matches([':', ' ', '=']);
        let rank = number(behind).filter(|_| behind.bytes().all(|b| b.is_ascii_digit()))?;
        return Some((rank, rest.trim_start_matches(':')));
    }
    let (_, rest) = whole(text)?;
    // Before a bar that begins with a carriage return there is nothing behind it.
    let rest = rest.strip_prefix(": ").or_else(|| (rest == ":").then_some(""))?;
    Some((number(text)?, rest))
}

/// A bracket that names something: a level, a module, a process. A progress bar's is none.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let close = match text.as_bytes().first()? {
        b'[' => ']',
        b'(' => ')',
        _ => return None,
    };
    let (inner, rest) = text[1..].split_once(close)?;
    let names = inner.starts_with(|c: char| c.is_ascii_alphanumeric());
    let bar = inner.contains(['<', '%', '=', '>']) && !inner.contains("pid=");
    (names && !bar && inner.len() <= 100).then_some((inner, rest.trim_start_matches(':')))
}

/// `trainer-1  | `, `retraining/0 `, `INFO `, `INFO:name:`, `I `, `>> `.
fn label(text: &str) -> Option<&str> {
    const LEVELS: [&str; 10] =
        ["INFO", "WARNING", "WARN", "ERROR", "DEBUG", "I", "W", "E", "D", ">>"];
    let (word, rest) = text.split_once([' ', '\t'])?;
    let rest = rest.trim_start();
    let bare = word.trim_end_matches(':');
    if LEVELS.contains(&bare)
        || (word.ends_with(':')
            && LEVELS
                .iter()
                .any(|level| word.strip_prefix(level).is_some_and(|rest| rest.starts_with(':'))))
    {
        return Some(rest);
    }
    let name = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b))
    };
    if !name(word) {
        return None;
    }
    if let Some(rest) = rest.strip_prefix("| ") {
        return Some(rest);
    }
    // nemo_run names the job and the replica of each line.
    let (job, replica) = word.rsplit_once('/')?;
    (name(job) && !replica.is_empty() && replica.bytes().all(|b| b.is_ascii_digit()))
        .then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn strip_one(line: &str) -> (&str, Option<u32>, bool) {
        let found = strip(line, &mut Clock::new(TimeZone::UTC, 2025));
        (found.text, found.rank, matches!(found.when, Some(When::Wall { .. })))
    }

    #[test]
    fn what_stands_before_a_line() {
        for (line, expected) in [
            (
                "[2025-01-12 12:34:56,789] [INFO] [axolotl.train:173] [PID:1234] [RANK:0] go",
                ("go", Some(0), true),
            ),
            ("2025-01-12T12:34:56.789Z stdout F go", ("go", None, true)),
            ("trainer-1  | go", ("go", None, false)),
            ("Jan 12 12:34:56 spark python[77]: go", ("go", None, true)),
            ("INFO 01-12 12:34:56 [loader.py:12] go", ("go", None, true)),
            ("[rank3]: go", ("go", Some(3), false)),
            (
                "retraining/0 [default1]:[NeMo W 2025-08-19 14:27:47 rerun:12] go",
                ("go", Some(1), true),
            ),
            (" 0: go", ("go", Some(0), false)),
            ("0: ", ("", Some(0), false)),
            ("(RayTrainWorker pid=77) go", ("go", None, false)),
            ("[INFO|trainer.py:2681] 2025-04-30 23:21:00,837 >> go", ("go", None, true)),
            ("[35729] 0.02.354.755 I go", ("go", None, false)),
            (
                " 10%|# | 1/10 [00:01<00:09,  1.00s/it]",
                ("10%|# | 1/10 [00:01<00:09,  1.00s/it]", None, false),
            ),
            ("Step 1 | loss:1.0", ("Step 1 | loss:1.0", None, false)),
        ] {
            assert_eq!(strip_one(line), expected, "{line}");
        }
        assert_eq!(plain("\u{1b}[32mgo\u{1b}[0m\u{1b}[A"), "go");
    }
}
