//! Numbers and durations at the start of a text, each with what follows it.

use crate::units::Seconds;
use std::time::Duration;

/// Longest step or run that is believed: three years.
const LONGEST: f64 = 1e8;

/// A whole number, and the rest.
pub(super) fn whole(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text.get(..end)?.parse().ok()?, &text[end..]))
}

/// Exactly so many digits at least and at most, and the rest.
pub(super) fn digits(text: &str, least: usize, most: usize) -> Option<(i32, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = (least..=most).contains(&end).then(|| text[..end].parse().ok())??;
    Some((number, &text[end..]))
}

/// A number that is finite and not negative, and the rest. `nan`, `inf` and `-1` are none.
pub(super) fn number(text: &str) -> Option<(f64, &str)> {
    let bytes = text.as_bytes();
    let run = |from: usize| {
        from + bytes.get(from..).unwrap_or(&[]).iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut end = run(0);
    if bytes.get(end) == Some(&b'.') {
        end = run(end + 1);
    }
    if end > 0 && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let from = end + 1 + signed;
        if run(from) > from {
            end = run(from);
        }
    }
    let value: f64 = text.get(..end)?.parse().ok()?;
    value.is_finite().then_some((value, &text[end..]))
}

/// The same, of a text that may be quoted and holds nothing else.
pub(super) fn only(text: &str) -> Option<f64> {
    let text = text.trim().trim_matches(['\'', '"']);
    number(text).filter(|(_, rest)| rest.trim().is_empty()).map(|(value, _)| value)
}

/// What follows a word.
pub(super) fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.split_once(word).map(|(_, rest)| rest.trim_start())
}

/// The number behind a word.
pub(super) fn value(text: &str, word: &str) -> Option<f64> {
    number(after(text, word)?).map(|(value, _)| value)
}

/// `N/M`, with blanks about the slash as columns have them, and the rest.
pub(super) fn ratio(text: &str) -> Option<(u64, u64, &str)> {
    let (number, rest) = whole(text.trim_start())?;
    let (of, rest) = whole(rest.trim_start().strip_prefix('/')?.trim_start())?;
    Some((number, of, rest))
}

/// `MM:SS`, `H:MM:SS` or `1 day, H:MM:SS`, and the rest. tqdm writes hours beyond a day as hours;
/// Python's timedelta writes days.
pub(super) fn interval(text: &str) -> Option<(Duration, &str)> {
    let (days, text) = days(text).unwrap_or((0, text));
    let (first, rest) = whole(text)?;
    let (second, rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
    let third = rest.strip_prefix(':').and_then(|rest| digits(rest, 2, 2));
    let (hours, minutes, seconds, mut rest) = match third {
        Some((third, rest)) => (first, u64::try_from(second).ok()?, third, rest),
        None => (0, first, second, rest),
    };
    // A part of a second, as timedelta has it, is not worth its cost.
    if third.is_some()
        && let Some(part) = rest.strip_prefix('.')
    {
        rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let minutes =
        days.checked_mul(24)?.checked_add(hours)?.checked_mul(60)?.checked_add(minutes)?;
    let seconds = minutes.checked_mul(60)?.checked_add(u64::try_from(seconds).ok()?)?;
    (seconds < 100_000_000).then(|| (Duration::from_secs(seconds), rest))
}

fn days(text: &str) -> Option<(u64, &str)> {
    let (days, rest) = whole(text)?;
    let rest = rest.strip_prefix(" day")?;
    Some((days, rest.strip_prefix('s').unwrap_or(rest).strip_prefix(", ")?))
}

/// A length of time that a step can have.
pub(super) fn step_time(seconds: f64) -> Option<Seconds> {
    (seconds > 0.0 && seconds < LONGEST).then_some(Seconds(seconds))
}

/// A rate that can be: of tokens in a second.
pub(super) fn rate(value: f64) -> Option<f64> {
    (value > 0.0 && value < 1e12).then_some(value)
}

/// A length of time that a run can have.
pub(super) fn duration(seconds: f64) -> Option<Duration> {
    (seconds < LONGEST).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

/// `2m 52s`, `1h 2m 3s`, `43s`: as ms-swift writes durations.
pub(super) fn spelled(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    for word in text.trim().trim_matches(['\'', '"']).split_whitespace() {
        let (value, unit) = number(word)?;
        total += value
            * match unit {
                "d" => 86_400.0,
                "h" => 3_600.0,
                "m" => 60.0,
                "s" => 1.0,
                _ => return None,
            };
    }
    (total > 0.0).then(|| duration(total))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_they_end() {
        assert_eq!(number("1.5e-3s/it"), Some((1.5e-3, "s/it")));
        assert_eq!(number("12e"), Some((12.0, "e")));
        for none in ["nan", "inf", "-1", "", ".", "e5", "1e999"] {
            assert_eq!(number(none), None, "{none}");
        }
        assert_eq!(ratio("  10/    1000 |"), Some((10, 1000, " |")));
    }

    #[test]
    fn intervals_have_hours_and_days() {
        let seconds = |text| interval(text).map(|(time, _)| time.as_secs());
        assert_eq!(seconds("01:40<15:00"), Some(100));
        assert_eq!(seconds("26:03:04"), Some(93_784));
        assert_eq!(seconds("1 day, 2:03:04<"), Some(93_784));
        assert_eq!(seconds("99999999999:00:00"), None);
        assert_eq!(spelled("2m 52s").map(|t| t.as_secs()), Some(172));
    }
}
