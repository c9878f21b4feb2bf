//! Curves as a picture for a browser, or for a page that shows pictures: one file without scripts, fonts or
//! anything else from elsewhere, dark where its reader's pages are.

use super::{Axis, Plot, Scale, Stretch, Track, caption, clean, extremes, heading, labels, marks};
use super::{pieces, range, span, stretches};
use std::fmt::Write;

/// The picture's measures, in its own units: pixels, where it is not scaled.
const WIDTH: f64 = 960.0;
/// Before the panels: the numbers of their scales.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const PANEL: f64 = 110.0;
/// Above a panel: its title.
const HEAD: f64 = 26.0;
/// Above all: the plot's title.
const TOP: f64 = 34.0;
/// Below all: marks of time and what they are.
const FOOT: f64 = 46.0;
/// A line of labels of stretches.
const LANE: f64 = 16.0;
/// As many lines for the first stretch of each label; those that follow take what is free.
const LANES: usize = 8;
/// A letter of a small text is about so wide.
const LETTER: f64 = 6.4;
/// Columns of pixels of a panel.
const COLUMNS: usize = 876;
/// Steps of a panel's scale.
const STEPS: f64 = 4.0;
/// Between marks of time at least.
const MARK: f64 = 80.0;
/// Colours of curves and of stretches; then they begin again.
const COLOURS: usize = 4;

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}\
.h{font-size:15px;font-weight:600}.n{font-size:11px;fill:#59636e}.e{text-anchor:end}.m{text-anchor:middle}\
.bg{fill:#fff}.g{stroke:#d1d9e0;fill:none}.f{stroke:#818b98;fill:none}\
.c{fill:none;stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}\
.d{stroke-width:4}\
.c0{stroke:#cf222e}.c1{stroke:#0969da}.c2{stroke:#1a7f37}.c3{stroke:#8250df}\
.s{fill-opacity:.16}.k{fill-opacity:.7}\
.s0{fill:#bf8700}.s1{fill:#cf222e}.s2{fill:#0969da}.s3{fill:#8250df}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.n{fill:#9198a1}.bg{fill:#0d1117}.g{stroke:#30363d}\
.f{stroke:#656c76}.s{fill-opacity:.24}\
.c0{stroke:#ff7b72}.c1{stroke:#58a6ff}.c2{stroke:#3fb950}.c3{stroke:#bc8cff}\
.s0{fill:#d29922}.s1{fill:#f85149}.s2{fill:#58a6ff}.s3{fill:#bc8cff}}";

/// The plot as a document of its own.
#[must_use]
pub fn svg(plot: &Plot<'_>) -> String {
    let mut out = String::with_capacity(64 * 1024);
    // Writing to a String cannot fail.
    let _ = document(&mut out, plot);
    out
}

type Written = std::fmt::Result;

fn document(out: &mut String, plot: &Plot<'_>) -> Written {
    let time = span(plot).unwrap_or((0.0, 1.0));
    let canvas = Canvas { time };
    let shaded = stretches(plot, time, (time.1 - time.0) / canvas.width());
    let (places, lanes) = canvas.lanes(&shaded);
    let top = TOP + count(lanes) * LANE;
    let panels = count(plot.tracks.len());
    let bottom = top + panels * (HEAD + PANEL);
    let height = bottom + FOOT;
    let title = escaped(plot.title);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" style=\"max-width:100%;height:auto\">"
    )?;
    writeln!(out, "<title>{title}</title>")?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(out, "<rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>")?;
    writeln!(out, "<text class=\"h\" x=\"{LEFT}\" y=\"22\">{title}</text>")?;
    let names = labels(&shaded);
    for ((from, to, label), lane) in shaded.iter().zip(places) {
        let colour = names.iter().position(|name| name == label).unwrap_or(0) % COLOURS;
        canvas.stretch(out, (*from, *to, label), colour, lane, (top, bottom))?;
    }
    let ticks = marks(&plot.axis, time, canvas.width() / MARK);
    for (place, track) in plot.tracks.iter().enumerate() {
        canvas.panel(out, track, place, top + count(place) * (HEAD + PANEL), &ticks)?;
    }
    canvas.foot(out, &plot.axis, &ticks, bottom)?;
    writeln!(out, "</svg>")
}

#[expect(clippy::cast_precision_loss, reason = "panels, lanes and letters of a picture")]
const fn count(n: usize) -> f64 {
    n as f64
}

/// Text as XML has it. Of control characters it knows no form at all.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No characters by the book, though they may stand in a string.
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// A length to a tenth, without needless digits.
fn tenth(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Where curves are drawn.
struct Canvas {
    time: (f64, f64),
}

impl Canvas {
    fn width(&self) -> f64 {
        let _ = self;
        WIDTH - LEFT - RIGHT
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + (at - self.time.0) / (self.time.1 - self.time.0) * self.width()
    }

    /// On which line each stretch's label stands, if on any, and how many lines there are. Each label gets a
    /// place for its first stretch before any is told a second time.
    fn lanes(&self, all: &[Stretch<'_>]) -> (Vec<Option<usize>>, usize) {
        let mut places = vec![None; all.len()];
        let mut taken: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        let first = |at: &usize| {
            let new = !told.contains(&all[*at].2);
            told.extend(new.then_some(all[*at].2));
            new
        };
        let (firsts, rest): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(first);
        for (must, at) in
            firsts.into_iter().map(|at| (true, at)).chain(rest.into_iter().map(|at| (false, at)))
        {
            let room = self.room(&all[at]);
            let free =
                |lane: &Vec<(f64, f64)>| lane.iter().all(|(a, b)| room.1 < *a || room.0 > *b);
            let lane = taken.iter().position(free).or_else(|| {
                let more = must && taken.len() < LANES;
                more.then(|| {
                    taken.push(Vec::new());
                    taken.len() - 1
                })
            });
            if let Some(lane) = lane {
                taken[lane].push(room);
                places[at] = Some(lane);
            }
        }
        (places, taken.len())
    }

    /// From where to where a stretch's label goes.
    fn room(&self, (from, _, label): &Stretch<'_>) -> (f64, f64) {
        let length = (count(label.chars().count()) * LETTER + 16.0).min(self.width());
        let begin = self.x(*from).min(WIDTH - RIGHT - length);
        (begin, begin + length)
    }

    fn stretch(
        &self,
        out: &mut String,
        stretch: Stretch<'_>,
        colour: usize,
        lane: Option<usize>,
        (top, bottom): (f64, f64),
    ) -> Written {
        let (from, to, label) = stretch;
        let (x, text) = (self.x(from), escaped(label));
        // Seen even where it lasts less than a pixel.
        let width = (self.x(to) - x).max(1.0);
        writeln!(
            out,
            "<rect class=\"s s{colour}\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{}\"><title>{text}\
             </title></rect>",
            tenth(x),
            tenth(width),
            bottom - top
        )?;
        let Some(lane) = lane else { return Ok(()) };
        let y = TOP + count(lane) * LANE;
        let begin = self.room(&stretch).0;
        writeln!(
            out,
            "<rect class=\"k s{colour}\" x=\"{}\" y=\"{}\" width=\"8\" height=\"8\"/>\
             <text class=\"n\" x=\"{}\" y=\"{}\">{text}</text>",
            tenth(begin),
            y + 2.0,
            tenth(begin + 12.0),
            y + 10.0
        )
    }

    fn panel(
        &self,
        out: &mut String,
        track: &Track<'_>,
        place: usize,
        top: f64,
        ticks: &[(f64, String)],
    ) -> Written {
        let colour = place % COLOURS;
        let (head, top) = (top + 17.0, top + HEAD);
        let bottom = top + PANEL;
        let (begin, end) = (LEFT, WIDTH - RIGHT);
        let finite = track.points.iter().filter(|(at, _)| at.is_finite());
        let values = extremes(finite.map(|(_, value)| *value));
        let told = values.map(range).map(|(low, high)| {
            let words = if low == high { low } else { format!("{low} to {high}") };
            format!("<tspan class=\"n\" dx=\"8\">{words}</tspan>")
        });
        writeln!(
            out,
            "<path class=\"c c{colour}\" d=\"M{begin} {}h14\"/>\
             <text x=\"{}\" y=\"{head}\">{}{}</text>",
            head - 4.0,
            begin + 20.0,
            escaped(&heading(track)),
            told.unwrap_or_default()
        )?;
        let Some((low, high)) = values else {
            writeln!(out, "<path class=\"f\" d=\"M{begin} {bottom}H{end}\"/>")?;
            let middle = top + PANEL / 2.0;
            return writeln!(
                out,
                "<text class=\"n m\" x=\"{}\" y=\"{middle}\">no samples</text>",
                f64::midpoint(begin, end)
            );
        };
        let scale = Scale::of((low, high), STEPS);
        let y = |value: f64| bottom - (value - scale.low) / (scale.high - scale.low) * PANEL;
        let mut grid = String::new();
        for tick in scale.ticks() {
            let at = tenth(y(tick));
            write!(grid, "M{begin} {at}H{end}")?;
            writeln!(
                out,
                "<text class=\"n e\" x=\"{}\" y=\"{}\">{}</text>",
                begin - 6.0,
                tenth(y(tick) + 4.0),
                scale.number(tick)
            )?;
        }
        for (at, _) in ticks {
            write!(grid, "M{} {top}V{bottom}", tenth(self.x(*at)))?;
        }
        writeln!(out, "<path class=\"g\" d=\"{grid}\"/>")?;
        writeln!(out, "<path class=\"f\" d=\"M{begin} {bottom}H{end}\"/>")?;
        let (curve, dots) = self.curve(track, y);
        writeln!(out, "<path class=\"c c{colour}\" d=\"{curve}\"/>")?;
        if dots.is_empty() {
            return Ok(());
        }
        writeln!(out, "<path class=\"c c{colour} d\" d=\"{dots}\"/>")
    }

    /// The curve. Of the samples in one column of pixels the lowest and the highest are drawn, which is what
    /// could be seen of all of them.
    ///
    /// Samples that have no others beside them are dots, which are told apart.
    fn curve(&self, track: &Track<'_>, y: impl Fn(f64) -> f64) -> (String, String) {
        let (mut path, mut dots) = (String::new(), String::new());
        let column = |at: f64| ((self.x(at) - LEFT) / self.width() * count(COLUMNS)).floor();
        for piece in pieces(track.points) {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for group in piece.chunk_by(|a, b| column(a.0).to_bits() == column(b.0).to_bits()) {
                let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
                let extremes = (group.iter().min_by(by_value), group.iter().max_by(by_value));
                let (Some(low), Some(high)) = extremes else { continue };
                if group.len() == 1 || low.1.to_bits() == high.1.to_bits() {
                    points.push(*low);
                    // A level ends where its last sample is.
                    points.extend(group.last().filter(|last| last.0 > low.0));
                } else {
                    let (a, b) = if low.0 <= high.0 { (low, high) } else { (high, low) };
                    points.extend([*a, *b]);
                }
            }
            if let [(at, value)] = points.as_slice() {
                // A line of no length has round ends.
                let _ = write!(dots, "M{} {}h0", tenth(self.x(*at)), tenth(y(*value)));
                continue;
            }
            for (place, (at, value)) in points.iter().enumerate() {
                let letter = match place {
                    0 => "M",
                    1 => "L",
                    _ => " ",
                };
                let _ = write!(path, "{letter}{} {}", tenth(self.x(*at)), tenth(y(*value)));
            }
        }
        (path, dots)
    }

    fn foot(&self, out: &mut String, axis: &Axis, ticks: &[(f64, String)], bottom: f64) -> Written {
        for (at, label) in ticks {
            let x = self.x(*at).clamp(LEFT, WIDTH - RIGHT);
            writeln!(
                out,
                "<text class=\"n m\" x=\"{}\" y=\"{}\">{}</text>",
                tenth(x),
                bottom + 16.0,
                escaped(label)
            )?;
        }
        writeln!(
            out,
            "<text class=\"n e\" x=\"{}\" y=\"{}\">{}</text>",
            WIDTH - RIGHT,
            bottom + 34.0,
            escaped(&caption(axis, self.time))
        )
    }
}
