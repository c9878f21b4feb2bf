use super::*;
use proptest::prelude::*;

fn plot<'a>(tracks: &'a [Track<'a>], stretches: &'a [Stretch<'a>], axis: Axis) -> Plot<'a> {
    Plot { title: "A run", tracks, stretches, axis }
}

fn track<'a>(title: &'a str, unit: &'a str, points: &'a [(f64, f64)]) -> Track<'a> {
    Track { title, unit, points }
}

/// A triangle with a gap, every ten seconds for forty minutes.
fn triangle() -> Vec<(f64, f64)> {
    let all = (0..240).map(|i| {
        let at = f64::from(i) * 10.0;
        (at, 50.0 + (at - 1200.0).abs() / 30.0)
    });
    all.filter(|(at, _)| !(600.0..900.0).contains(at)).collect()
}

#[test]
fn a_small_plot_is_drawn_like_this() {
    let points = triangle();
    let flat = [(0.0, 3.0), (1200.0, 3.0), (2390.0, 3.0)];
    let tracks = [track("temperature", "°C", &points), track("load", "", &flat)];
    let stretches = [(300.0, 500.0, "warm"), (400.0, 700.0, "slow"), (2000.0, 2390.0, "slow")];
    let plot = plot(&tracks, &stretches, Axis::Elapsed);
    let unicode = terminal(&plot, 60, Glyphs::Unicode);
    assert_eq!(unicode, include_str!("tests/unicode.txt"), "\n{unicode}");
    let ascii = terminal(&plot, 60, Glyphs::Ascii);
    assert_eq!(ascii, include_str!("tests/ascii.txt"), "\n{ascii}");
    assert!(ascii.is_ascii());
}

#[test]
fn a_gap_is_a_gap() {
    let points = [(0.0, 1.0), (10.0, 1.0), (20.0, 1.0), (51.0, 2.0), (60.0, 2.0), (90.0, 3.0)];
    let lengths = |points: &[(f64, f64)]| pieces(points).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(&points), [3, 3]);
    // Without a value there is no sample; and no order is asked for.
    let mut holes = points.to_vec();
    holes.push((52.0, f64::NAN));
    holes.reverse();
    assert_eq!(lengths(&holes), [3, 3]);
    assert_eq!(lengths(&[]), [0; 0]);
    assert_eq!(lengths(&[(5.0, 1.0), (5.0, 2.0)]), [2]);
    // A piece is drawn for itself in the picture, too: one beginning for each, a dot for a lonely sample.
    let lonely = [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (50.0, 2.0), (99.0, 1.0), (100.0, 1.0)];
    let tracks = [track("t", "", &lonely)];
    let picture = svg(&plot(&tracks, &[], Axis::Elapsed));
    let begins = |class: &str| {
        let line =
            picture.lines().rfind(|line| line.starts_with(&format!("<path class=\"{class}\"")));
        line.map_or(0, |line| line.matches('M').count())
    };
    assert_eq!((begins("c c0"), begins("c c0 d")), (2, 1), "{picture}");
}

#[test]
fn scales_have_round_numbers() {
    let numbers = |low, high| {
        let scale = Scale::of((low, high), 4.0);
        scale.ticks().into_iter().map(|tick| scale.number(tick)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(numbers(48.0, 82.0), "40 50 60 70 80 90");
    assert_eq!(numbers(0.0, 0.96), "0.0 0.5 1.0");
    assert_eq!(numbers(-0.3, 0.2), "-0.4 -0.2 0.0 0.2");
    assert_eq!(numbers(2405.0, 2405.0), "2000 2200 2400 2600 2800");
    assert_eq!(numbers(0.0, 0.0), "-1.0 -0.5 0.0 0.5 1.0");
    for (low, high, told) in [
        (48.2, 82.4, "48 82"),
        (11.33, 69.9, "11 70"),
        (1.21, 1.24, "1.2100 1.2400"),
        (0.0, 0.96, "0.00 0.96"),
        (2405.0, 2405.0, "2405 2405"),
        (0.94, 0.94, "0.94 0.94"),
        (3.0, 3.0, "3 3"),
        (-2.5, -2.5, "-2.5 -2.5"),
        (0.0, 0.0, "0 0"),
        (-1e300, 1e15, "-1.000e300 1.000e15"),
        (1_234_567.0, 1_234_567.0, "1234567 1234567"),
    ] {
        let (a, b) = range((low, high));
        assert_eq!(format!("{a} {b}"), told);
    }
    assert_eq!(numbers(1.21, 1.24), "1.21 1.22 1.23 1.24");
}

#[test]
fn times_are_round_and_local() {
    let marks = |axis: &Axis, from, to| {
        let labels = marks(axis, (from, to), 8.0).into_iter().map(|(_, label)| label);
        labels.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        marks(&Axis::Elapsed, 0.0, 100.0),
        "0:00:00 0:00:15 0:00:30 0:00:45 0:01:00 0:01:15 0:01:30"
    );
    assert_eq!(marks(&Axis::Elapsed, -600.0, 5400.0), "0:00 0:15 0:30 0:45 1:00 1:15 1:30");
    // In a zone that is half an hour beside the others.
    let india = Axis::Clock(TimeZone::posix("IST-5:30").unwrap());
    let noon = 1_795_523_400.0;
    assert_eq!(
        marks(&india, noon, noon + 6.0 * HOUR),
        "18:00 19:00 20:00 21:00 22:00 23:00 25 Nov"
    );
    assert_eq!(caption(&india, (noon, noon + HOUR)), "2026-11-24, local time (IST)");
    // Summer time ends in between: marks stay round, and one hour is longer.
    let berlin = Axis::Clock(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
    let eve = 1_792_875_600.0;
    assert_eq!(
        marks(&berlin, eve, eve + 20.0 * HOUR),
        "25 Oct 03:00 06:00 09:00 12:00 15:00 18:00"
    );
    assert_eq!(caption(&berlin, (eve, eve + DAY)), "2026-10-24 to 2026-10-25, local time (CEST)");
    assert_eq!(marks(&berlin, eve, eve + 30.0 * DAY).split(' ').count() % 2, 0);
}

/// Tags are balanced, attributes quoted, entities known, and there is nothing but what a picture needs.
fn well_formed(picture: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = picture.trim_end();
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        for entity in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            assert!(known.iter().any(|known| entity.starts_with(known)), "{text}");
        }
        assert!(!text.contains('>') || open.last() == Some(&"style"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        let end = at + rest[at..].find('>').expect("an end");
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(
            ["svg", "title", "style", "rect", "text", "tspan", "path"].contains(&name),
            "{tag}"
        );
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        assert!(!open.is_empty() || end + 1 == rest.len(), "one root");
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest}");
}

#[test]
fn pictures_are_well_formed_and_text_stays_text() {
    let points = triangle();
    let evil = "<script>alert('&\"')</script>\u{1b}[2J\0";
    let tracks = [track(evil, evil, &points), track("empty", "W", &[])];
    let stretches = [(0.0, 100.0, evil), (90.0, 2000.0, "b"), (f64::NAN, 1.0, "c")];
    let plot = Plot { title: evil, ..plot(&tracks, &stretches, Axis::Elapsed) };
    let picture = svg(&plot);
    well_formed(&picture);
    assert!(picture.contains("&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt; [2J "));
    assert!(picture.contains("prefers-color-scheme:dark") && picture.contains("no samples"));
    let text = terminal(&plot, 80, Glyphs::Unicode);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn long_runs_make_small_pictures() {
    let points: Vec<(f64, f64)> = (0..100_000_u32)
        .map(|i| (f64::from(i), f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 700.0))
        .collect();
    let tracks = ["a", "b", "c", "d", "e"].map(|title| track(title, "W", &points));
    let stretches: Vec<Stretch<'_>> =
        (0..20_000).map(|i| (f64::from(i) * 5.0, f64::from(i) * 5.0 + 2.0, "slow")).collect();
    let picture = svg(&plot(&tracks, &stretches, Axis::Elapsed));
    well_formed(&picture);
    assert!(picture.len() < 200_000, "{}", picture.len());
    // The highest and the lowest are still there.
    assert!(picture.contains("0 to 94"), "{}", &picture[..4000]);
}

proptest! {
    #[test]
    fn nothing_panics(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..12),
        stretches in prop::collection::vec((any::<f64>(), any::<f64>(), "\\PC{0,20}"), 0..6),
        width in 0..200_usize,
        clock in any::<bool>(),
    ) {
        let tracks = [track("a", "W", &points), track("b", "", &points[..points.len() / 2])];
        let stretches: Vec<Stretch<'_>> =
            stretches.iter().map(|(from, to, label)| (*from, *to, label.as_str())).collect();
        let axis = if clock { Axis::Clock(TimeZone::UTC) } else { Axis::Elapsed };
        let plot = plot(&tracks, &stretches, axis);
        well_formed(&svg(&plot));
        for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
            let text = terminal(&plot, width, glyphs);
            let width = width.clamp(40, 1000);
            prop_assert!(text.lines().all(|line| line.chars().count() <= width), "{}", text);
        }
    }
}
