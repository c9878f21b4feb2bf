//! Lines for a terminal: none wider than a hundred columns, and what matters in colour.

use std::io::{self, IsTerminal};

const WIDTH: usize = 100;
/// A space at which no line ends: between an option and its value.
pub(super) const TIED: char = '\u{a0}';

/// What a word means at a glance. The word is always there, too; parts of the pool have other colours, which mean
/// nothing but which part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Good,
    /// It can be, with less to spare.
    Near,
    /// Not.
    Bad,
    /// Not to be told.
    Unknown,
}

impl Tone {
    /// The text in its colour, where a terminal shows it.
    pub(super) fn paint(self, text: &str, colour: bool) -> String {
        let code = match self {
            _ if !colour => return text.to_owned(),
            Self::Good => "1;32",
            Self::Near => "1;33",
            Self::Bad => "1;31",
            Self::Unknown => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether standard output goes to a terminal that is to have colours.
pub(super) fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A text behind its head. Further lines are indented; a word that is longer than a line is left whole.
pub(super) fn wrapped(head: &str, indent: usize, text: &str) -> String {
    let mut out = head.to_owned();
    let mut width = head.chars().count();
    let mut first = true;
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let long = word.chars().count();
        if !first && width + 1 + long > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            width = indent;
        } else if !first {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += long;
        first = false;
    }
    out.push('\n');
    out.replace(TIED, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(Tone::Bad.paint("no", false), "no");
        assert_eq!(Tone::Bad.paint("no", true), "\x1b[1;31mno\x1b[0m");
    }

    #[test]
    fn lines_end_before_a_hundred_columns_and_not_within_an_option() {
        let text = format!("{} --seq{TIED}2048 {}", "x".repeat(90), "y".repeat(120));
        let out = wrapped("- ", 4, &text);
        let expected = format!("- {}\n    --seq 2048\n    {}\n", "x".repeat(90), "y".repeat(120));
        assert_eq!(out, expected);
        assert_eq!(wrapped("none", 2, ""), "none\n");
    }
}
