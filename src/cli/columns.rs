//! Lines for a terminal: none wider than a hundred columns.

const WIDTH: usize = 100;
/// A space at which no line ends: between an option and its value.
pub(super) const TIED: char = '\u{a0}';

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
    fn lines_end_before_a_hundred_columns_and_not_within_an_option() {
        let text = format!("{} --seq{TIED}2048 {}", "x".repeat(90), "y".repeat(120));
        let out = wrapped("- ", 4, &text);
        let expected = format!("- {}\n    --seq 2048\n    {}\n", "x".repeat(90), "y".repeat(120));
        assert_eq!(out, expected);
        assert_eq!(wrapped("none", 2, ""), "none\n");
    }
}
