//! How hot the board has been: a scrape a minute misses the peak that cut the power.

use super::window::{Extreme, Keep};
use crate::model::pool::Window;
use crate::model::reading::{Missing, Reading};
use crate::model::snapshot::Snapshot;
use crate::model::source::Source;
use crate::units::Celsius;
use std::array::from_fn;

const WINDOWS: usize = Window::ALL.len();

/// What is remembered between snapshots.
#[derive(Clone, Debug)]
pub(super) struct State {
    max: [Extreme<Celsius>; WINDOWS],
}

impl Default for State {
    fn default() -> Self {
        Self { max: from_fn(|i| Extreme::new(Keep::Max, Window::ALL[i].length())) }
    }
}

/// The highest temperature of the hottest zone, by window. A round that is seen again changes nothing,
/// for its samples are as old as they were. A window without any has the reason that holds now.
pub(super) fn derive(
    state: &mut State,
    snapshot: &Snapshot,
    hottest: &Reading<(String, Celsius)>,
) -> [Reading<Celsius>; WINDOWS] {
    let read = snapshot.read_at[Source::Thermal.index()];
    if let (Some(at), Ok((_, temperature))) = (read, hottest) {
        state.max.iter_mut().for_each(|window| window.push(at.mono, *temperature));
    }
    let reason = hottest.as_ref().err().copied().unwrap_or(Missing::Pending);
    from_fn(|i| {
        state.max[i].forget(snapshot.at.mono);
        state.max[i].get().ok_or(reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::moment::Moment;
    use std::time::Duration;

    /// The board at this many seconds.
    fn at(
        state: &mut State,
        seconds: u64,
        read: Option<u64>,
        hottest: Reading<f64>,
    ) -> [Reading<Celsius>; WINDOWS] {
        let moment = |s| Moment { mono: Duration::from_secs(s), wall: Duration::from_secs(s) };
        let mut snapshot = Snapshot::absent(moment(seconds), Missing::Pending);
        snapshot.read_at[Source::Thermal.index()] = read.map(moment);
        derive(state, &snapshot, &hottest.map(|t| ("TSOC".to_owned(), Celsius(t))))
    }

    #[test]
    fn a_peak_stays_for_as_long_as_the_window_is() {
        let mut state = State::default();
        assert_eq!(at(&mut state, 1, Some(1), Ok(84.0)), [Ok(Celsius(84.0)); 3]);
        let mut last = [Err(Missing::Pending); 3];
        for second in 2..=62 {
            last = at(&mut state, second, Some(second), Ok(60.0));
        }
        assert_eq!(last, [Ok(Celsius(60.0)), Ok(Celsius(84.0)), Ok(Celsius(84.0))]);
        for second in 63..=302 {
            last = at(&mut state, second, Some(second), Ok(60.0));
        }
        assert_eq!(last, [Ok(Celsius(60.0)), Ok(Celsius(60.0)), Ok(Celsius(84.0))]);
    }

    #[test]
    fn the_frost_has_a_maximum_too() {
        let mut state = State::default();
        let _ = at(&mut state, 1, Some(1), Ok(-12.5));
        assert_eq!(at(&mut state, 2, Some(2), Ok(-13.0)), [Ok(Celsius(-12.5)); 3]);
    }

    #[test]
    fn a_round_seen_again_grows_no_younger() {
        let mut state = State::default();
        for second in 1..=61 {
            assert_eq!(at(&mut state, second, Some(1), Ok(84.0))[0], Ok(Celsius(84.0)));
        }
        assert_eq!(at(&mut state, 62, Some(1), Ok(84.0))[0], Err(Missing::Pending));
    }

    #[test]
    fn a_window_without_samples_says_why() {
        let mut state = State::default();
        assert_eq!(
            at(&mut state, 1, None, Err(Missing::NotPresent)),
            [Err(Missing::NotPresent); 3]
        );
        let _ = at(&mut state, 2, Some(2), Ok(70.0));
        let hung = at(&mut state, 40, None, Err(Missing::Hung));
        assert_eq!(hung, [Ok(Celsius(70.0)); 3], "what was seen was seen");
        let later = at(&mut state, 63, None, Err(Missing::Hung));
        assert_eq!(later, [Err(Missing::Hung), Ok(Celsius(70.0)), Ok(Celsius(70.0))]);
    }
}
