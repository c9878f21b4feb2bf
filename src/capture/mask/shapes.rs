//! What addresses, identities, serial numbers and secrets look like.

use super::{Masked, SECRET, SERIAL};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// How tokens of well-known services begin.
const TOKENS: &[&str] = &[
    "hf_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "nvapi-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "eyJ",
];

/// Longest name of a value.
const MAX_NAME: usize = 64;

/// A run of characters, and what stands around it.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) before: Option<char>,
    pub(super) text: &'a str,
    pub(super) after: Option<char>,
}

/// Replaces each longest run of characters that belong together, where `replace` says by what.
pub(super) fn runs(
    text: &str,
    belongs: impl Fn(char) -> bool,
    mut replace: impl FnMut(Run<'_>) -> Option<String>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(start) = rest.find(&belongs) {
        let end = rest[start..].find(|c| !belongs(c)).map_or(rest.len(), |n| start + n);
        out += &rest[..start];
        let run = Run {
            before: rest[..start].chars().next_back().or(before),
            text: &rest[start..end],
            after: rest[end..].chars().next(),
        };
        out += &replace(run).unwrap_or_else(|| run.text.to_owned());
        before = run.text.chars().next_back();
        rest = &rest[end..];
    }
    out + rest
}

/// The name of a line `Name: value` or `NAME=value`, with what follows it; nothing without one.
pub(super) fn name_of_line(line: &str) -> &str {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(0);
    if end > 0 && line[end..].starts_with([':', '=']) { &line[..=end] } else { "" }
}

/// The first place where a home directory is named: what stands before, the directory of homes, the
/// rest.
pub(super) fn home(text: &str) -> Option<(&str, &str, &str)> {
    ["/home/", "/Users/"]
        .iter()
        .filter_map(|homes| {
            let start = text.find(homes)?;
            let end = start + homes.len();
            Some((&text[..start], &text[start..end], &text[end..]))
        })
        .min_by_key(|(before, ..)| before.len())
}

/// Replaces a word in whatever case, and tells how often. `inside`: also within other words.
pub(super) fn replace_word(text: &str, word: &str, by: &str, inside: bool) -> (String, usize) {
    let (lower, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let (mut out, mut done, mut times) = (String::new(), 0, 0);
    for (start, found) in lower.match_indices(&word) {
        let end = start + found.len();
        let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let within =
            joins(lower[..start].chars().next_back()) || joins(lower[end..].chars().next());
        if inside || !within {
            out += &text[done..start];
            out += by;
            done = end;
            times += 1;
        }
    }
    (out + &text[done..], times)
}

/// The values whose names say what they are, in order.
pub(super) fn named_values(text: &str) -> Vec<(Range<usize>, Masked)> {
    let mut found = Vec::new();
    for (at, separator) in text.char_indices().filter(|(_, c)| ['=', ':', ' '].contains(c)) {
        let Some(kind) = kind_of_name(&text[..at], separator) else { continue };
        let value = &text[at + 1..];
        let bare = value.trim_start_matches([' ', '\t', '=', ':']);
        let quote = bare.chars().next().filter(|c| ['"', '\''].contains(c));
        let bare = quote.map_or(bare, |_| &bare[1..]);
        let ends = |c: char| match quote {
            Some(quote) => c == quote || c == '\n',
            None => c.is_whitespace() || ",;&)\"'".contains(c),
        };
        let bare = &bare[..bare.find(ends).unwrap_or(bare.len())];
        let number = bare.len() <= 10 && bare.chars().all(|c| c.is_ascii_digit());
        let kept = bare.is_empty()
            || [SECRET, SERIAL].contains(&bare)
            || bare.starts_with("//")
            // A switch of the driver that has "key" in its name.
            || (separator == ':' && number);
        if !kept {
            let start = at + 1 + (value.len() - text_from(value, bare).len());
            found.push((start..start + bare.len(), kind));
        }
    }
    found
}

/// The rest of `text` from where its part `part` begins.
fn text_from<'a>(text: &'a str, part: &str) -> &'a str {
    let offset = part.as_ptr() as usize - text.as_ptr() as usize;
    &text[offset..]
}

/// What the value is whose name ends here.
fn kind_of_name(before: &str, separator: char) -> Option<Masked> {
    // A name is short, and a line of the kernel may hold tens of thousands of words.
    let start = before.char_indices().rev().take(MAX_NAME).last().map_or(0, |(start, _)| start);
    let before = before[start..].to_ascii_lowercase();
    let trimmed =
        if separator == ' ' { &before } else { before.trim_end_matches([' ', '\t', '"', '\'']) };
    if separator != ' '
        && ["serial number", "serial no", "serial no."].iter().any(|end| trimmed.ends_with(end))
    {
        return Some(Masked::Serial);
    }
    let part = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    let name = trimmed.rsplit(|c| !part(c)).next().unwrap_or_default();
    // Between name and value there is but a space only for flags, and in one kind of header.
    if separator == ' ' && !name.starts_with("--") && name != "bearer" && name != "basic" {
        return None;
    }
    let secret = [
        "token",
        "passw",
        "passphrase",
        "passwd",
        "pwd",
        "secret",
        "credential",
        "key",
        "bearer",
        "auth",
    ];
    if secret.iter().any(|word| name.contains(word)) {
        return Some(Masked::Secret);
    }
    let serial =
        name.contains("serial") || name.contains("asset_tag") || name == "sn" || name == "s/n";
    serial.then_some(Masked::Serial)
}

/// Where UUIDs are in a run of letters, digits and dashes.
pub(super) fn uuids(run: &str) -> Vec<Range<usize>> {
    let bytes = run.as_bytes();
    let is_uuid = |window: &[u8]| {
        window.iter().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    let mut found: Vec<Range<usize>> = Vec::new();
    for start in 0..bytes.len().saturating_sub(35) {
        let free = found.last().is_none_or(|last| start >= last.end);
        if free && is_uuid(&bytes[start..start + 36]) {
            found.push(start..start + 36);
        }
    }
    found
}

/// Where six or more pairs of hexadecimal digits stand with colons or dashes between them.
pub(super) fn macs(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let pair = |at: usize| {
        bytes.get(at).is_some_and(u8::is_ascii_hexdigit)
            && bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit)
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let separator = bytes.get(at + 2).copied().filter(|c| [b':', b'-'].contains(c));
        let mut end = at + 2;
        let mut pairs = usize::from(pair(at));
        while pairs > 0
            && separator.is_some()
            && bytes.get(end) == separator.as_ref()
            && pair(end + 1)
        {
            end += 3;
            pairs += 1;
        }
        if pairs >= 6 && !bytes.get(end).is_some_and(u8::is_ascii_hexdigit) {
            found.push(at..end);
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// The IPv6 address in a run of hexadecimal digits, colons and dots.
pub(super) fn ipv6(run: Run<'_>) -> Option<&str> {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if joins(run.before) || joins(run.after) {
        return None;
    }
    let mut bare = run.text.trim_matches('.');
    if !bare.ends_with("::") {
        bare = bare.trim_end_matches(':');
    }
    if !bare.starts_with("::") {
        bare = bare.trim_start_matches(':');
    }
    let address: Ipv6Addr = bare.parse().ok()?;
    (!address.is_unspecified() && !address.is_loopback()).then_some(bare)
}

/// The IPv4 address in a run of digits and dots. Where versions stand, only one of a private network
/// counts.
pub(super) fn ipv4(run: &str, version: bool) -> Option<&str> {
    let bare = run.trim_matches('.');
    let parts: Option<Vec<u8>> = bare.split('.').map(|part| part.parse().ok()).collect();
    let &[a, b, c, d] = parts?.as_slice() else { return None };
    let address = Ipv4Addr::new(a, b, c, d);
    let own = address.is_private() || address.is_link_local();
    let plain = address.is_unspecified() || address.is_loopback();
    (!plain && (own || !version)).then_some(bare)
}

fn digits(run: &str) -> usize {
    run.chars().filter(char::is_ascii_digit).count()
}

/// A token of a service, or long and mixed enough to be one.
pub(super) fn is_token(run: &str) -> bool {
    let known = TOKENS.iter().any(|start| run.starts_with(start)) && run.len() >= 16;
    let mixed = run.chars().any(|c| c.is_ascii_uppercase())
        && run.chars().any(|c| c.is_ascii_lowercase())
        && digits(run) >= 3;
    known || (run.len() >= 32 && mixed)
}

/// Letters and digits as only a machine strings them together.
pub(super) fn is_random(run: &str) -> bool {
    let both = digits(run) > 0 && digits(run) < run.len();
    let hex = run.chars().all(|c| c.is_ascii_hexdigit());
    let wide = if hex { 16 } else { 20 };
    both && run.len() >= wide
}

/// Many digits, with or without letters among them.
pub(super) fn is_serial(run: &str) -> bool {
    let number = run.starts_with("0x") && run.len() <= 18;
    let masked = run.len() == 12 && run.starts_with("0000000");
    let digits = digits(run);
    let long = digits == run.len() && digits >= 11;
    !number && !masked && (long || (run.len() >= 10 && digits >= 6 && digits < run.len()))
}
