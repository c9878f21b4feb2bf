//! Curves in a terminal: dots of braille letters, or stars where a terminal knows ASCII only.

use super::{Plot, Scale, Track, caption, clean, extremes, heading, labels, marks, pieces};
use super::{Stretch, range, span, stretches};

/// Columns of a terminal that does not tell.
pub const WIDTH: usize = 100;
/// Narrower than this nothing can be seen.
const LEAST: usize = 40;
/// Wider than this no terminal is.
const MOST: usize = 1000;
/// Rows of a panel.
const ROWS: usize = 5;
/// Columns for a mark of time and the space beside it.
const MARK: f64 = 12.0;

/// What curves are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Braille letters and box drawing.
    Unicode,
    /// ASCII.
    Ascii,
}

/// The letters of a way of drawing.
struct Letters {
    /// Dots of a letter, across and down.
    dots: (usize, usize),
    side: char,
    corner: char,
    floor: char,
    mark: char,
    stretch: char,
}

impl Glyphs {
    const fn letters(self) -> Letters {
        match self {
            Self::Unicode => Letters {
                dots: (2, 4),
                side: '│',
                corner: '└',
                floor: '─',
                mark: '┴',
                stretch: '━',
            },
            Self::Ascii => Letters {
                dots: (1, 1),
                side: '|',
                corner: '+',
                floor: '-',
                mark: '+',
                stretch: '=',
            },
        }
    }

    /// The letter of some dots: the bit of the dot at (x, y) is 4 x + y.
    fn letter(self, dots: u8) -> char {
        // Unicode numbers a letter's dots for the old six first, the two below them last.
        const BITS: [u32; 8] = [0x01, 0x02, 0x04, 0x40, 0x08, 0x10, 0x20, 0x80];
        match (self, dots) {
            (_, 0) => ' ',
            (Self::Ascii, _) => '*',
            (Self::Unicode, _) => {
                let set = BITS.iter().enumerate().filter(|(place, _)| dots & (1 << place) != 0);
                let code = set.fold(0x2800, |code, (_, bit)| code | bit);
                char::from_u32(code).unwrap_or(' ')
            }
        }
    }
}

/// The plot as lines of at most `width` columns.
#[must_use]
pub fn terminal(plot: &Plot<'_>, width: usize, glyphs: Glyphs) -> String {
    let width = width.clamp(LEAST, MOST);
    let mut lines = vec![cut(&clean(plot.title), width)];
    draw(plot, width, glyphs, &mut lines);
    let spelt = |c: char| match (glyphs, c) {
        (Glyphs::Ascii, c) if !c.is_ascii() => '?',
        _ => c,
    };
    // A degree sign says nothing that its letter does not.
    let kept = |c: &char| glyphs != Glyphs::Ascii || *c != '°';
    let ended = |line: &String| {
        line.trim_end().chars().filter(kept).map(spelt).chain(['\n']).collect::<String>()
    };
    lines.iter().map(ended).collect()
}

fn draw(plot: &Plot<'_>, width: usize, glyphs: Glyphs, lines: &mut Vec<String>) {
    let Some(time) = span(plot) else {
        lines.push("no samples".to_owned());
        return;
    };
    let panels: Vec<(&Track<'_>, Option<Range>)> =
        plot.tracks.iter().map(|track| (track, Range::of(track))).collect();
    let ranges = panels.iter().filter_map(|(_, range)| range.as_ref());
    let gutter = ranges.map(|one| one.high.len().max(one.low.len())).max().unwrap_or(0);
    let canvas = Canvas { glyphs, gutter, columns: width - gutter - 2, time };
    for (track, range) in panels {
        lines.push(cut(&format!("{:gutter$}  {}", "", heading(track)), width));
        match range {
            Some(range) => canvas.panel(track, &range, lines),
            None => lines.push(format!("{:gutter$}  no samples", "")),
        }
    }
    canvas.axis(plot, lines);
    let near = (time.1 - time.0) / approximate(canvas.columns);
    canvas.stretches(&stretches(plot, time, near), lines);
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

#[expect(clippy::cast_precision_loss, reason = "columns of a terminal")]
const fn approximate(n: usize) -> f64 {
    n as f64
}

/// From what to what a panel goes, and how that is written.
struct Range {
    scale: (f64, f64),
    low: String,
    high: String,
}

impl Range {
    fn of(track: &Track<'_>) -> Option<Self> {
        let points = track.points.iter().filter(|(at, _)| at.is_finite());
        let (low, high) = extremes(points.map(|(_, value)| *value))?;
        let room = Scale::of((low, high), approximate(ROWS));
        // A curve fills its panel, but noise in the last digits of a constant does not.
        let (low, high) = if high > low { (low, high) } else { (room.low, room.high) };
        let (told_low, told_high) = range((low, high));
        Some(Self { scale: (low, high), low: told_low, high: told_high })
    }
}

/// Where curves are drawn.
struct Canvas {
    glyphs: Glyphs,
    /// Columns before it.
    gutter: usize,
    columns: usize,
    time: (f64, f64),
}

/// Which of `cells` a share from 0 to 1 falls into.
fn cell(share: f64, cells: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates"
    )]
    let cell = (share * approximate(cells)) as usize;
    cell.min(cells - 1)
}

impl Canvas {
    fn share(&self, at: f64) -> f64 {
        (at - self.time.0) / (self.time.1 - self.time.0)
    }

    fn panel(&self, track: &Track<'_>, range: &Range, lines: &mut Vec<String>) {
        let Letters { dots: (across, down), side, .. } = self.glyphs.letters();
        let (wide, high) = (self.columns * across, ROWS * down);
        let mut letters = vec![0_u8; self.columns * ROWS];
        let mut dot = |x: usize, y: usize| {
            let place = y / down * self.columns + x / across;
            letters[place] |= 1 << (x % across * 4 + y % down);
        };
        let (low, top) = range.scale;
        let at = |(time, value): (f64, f64)| {
            let y = cell(1.0 - (value - low) / (top - low), high);
            (cell(self.share(time), wide), y)
        };
        for piece in pieces(track.points) {
            let mut before = at(piece[0]);
            for point in piece {
                let here = at(point);
                line(before, here, &mut dot);
                before = here;
            }
        }
        for (row, letters) in letters.chunks(self.columns).enumerate() {
            let label = match row {
                0 => range.high.as_str(),
                _ if row == ROWS - 1 => range.low.as_str(),
                _ => "",
            };
            let drawn: String = letters.iter().map(|dots| self.glyphs.letter(*dots)).collect();
            lines.push(format!("{label:>gutter$} {side}{drawn}", gutter = self.gutter));
        }
    }

    fn axis(&self, plot: &Plot<'_>, lines: &mut Vec<String>) {
        let Letters { corner, floor, mark, .. } = self.glyphs.letters();
        let gutter = self.gutter;
        let mut line = vec![floor; self.columns];
        let mut text = vec![' '; gutter + 2 + self.columns];
        let mut free = 0;
        for (at, label) in marks(&plot.axis, self.time, approximate(self.columns) / MARK) {
            let column = cell(self.share(at), self.columns);
            let length = label.chars().count();
            let begin = (gutter + 2 + column).saturating_sub(length / 2);
            if begin >= free && begin + length <= text.len() {
                line[column] = mark;
                text.splice(begin..begin + length, label.chars());
                free = begin + length + 1;
            }
        }
        lines.push(format!("{:gutter$} {corner}{}", "", line.into_iter().collect::<String>()));
        lines.push(text.into_iter().collect());
        let caption = format!("{:gutter$}  {}", "", caption(&plot.axis, self.time));
        lines.push(cut(&caption, gutter + 2 + self.columns));
    }

    /// A line for each label, with its name behind the last mark, or before the first where there is no
    /// room behind, or on a line of its own.
    fn stretches(&self, all: &[Stretch<'_>], lines: &mut Vec<String>) {
        let Letters { stretch, .. } = self.glyphs.letters();
        let margin = " ".repeat(self.gutter + 2);
        for label in labels(all) {
            let mut marks = vec![' '; self.columns];
            let (mut first, mut last) = (self.columns, 0);
            for (from, to, _) in all.iter().filter(|stretch| stretch.2 == label) {
                let columns = [*from, *to].map(|at| cell(self.share(at), self.columns));
                marks[columns[0]..=columns[1]].fill(stretch);
                (first, last) = (first.min(columns[0]), last.max(columns[1]));
            }
            let name: Vec<char> = cut(&clean(label), self.columns).chars().collect();
            let length = name.len();
            let mut own = None;
            if last + 2 + length <= self.columns {
                marks.splice(last + 2..last + 2 + length, name);
            } else if length < first {
                marks.splice(first - 1 - length..first - 1, name);
            } else {
                own = Some(name.into_iter().collect::<String>());
            }
            lines.push(margin.clone() + &marks.into_iter().collect::<String>());
            lines.extend(own.map(|name| margin.clone() + &name));
        }
    }
}

/// All dots on the way from one to another.
fn line(from: (usize, usize), to: (usize, usize), dot: &mut impl FnMut(usize, usize)) {
    let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
    let between = |a: usize, b: usize, step: usize| {
        // Rounded to the nearer dot, and whole numbers all the way.
        (a * (steps - step) + b * step + steps / 2) / steps
    };
    for step in 0..=steps {
        dot(between(from.0, to.0, step), between(from.1, to.1, step));
    }
}
