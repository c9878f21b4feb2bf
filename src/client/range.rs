//! Stretches of time from a Prometheus, through its query_range.

use super::{Bounds, FetchError, ask};
use hyper::StatusCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A Prometheus refuses queries of more points a series than this.
const MAX_POINTS: u128 = 11_000;
/// More points a series than this are more than anybody looks at: 11 days of one a second.
const MAX_IN_ALL: u128 = 1_000_000;
/// Values of all series together that are held.
const MAX_VALUES: usize = 8_000_000;
/// A value with its time has some thirty bytes; a query of ours has a dozen series at most.
const BOUNDS: Bounds = Bounds { patience: Duration::from_secs(30), body: 32 * 1024 * 1024 };
const PATH: &str = "/api/v1/query_range";
/// Of an answer that is no JSON, so much is shown.
const SHOWN: usize = 200;

/// A stretch of time.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Its first time, since 1970.
    pub start: Duration,
    /// Its last time.
    pub end: Duration,
    /// Between two values.
    pub step: Duration,
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its labels, with its name.
    pub labels: BTreeMap<String, String>,
    /// Its values, by time.
    pub values: Vec<(Duration, f64)>,
}

/// Why there are no series.
#[derive(Debug, thiserror::Error)]
pub enum RangeError {
    /// No answer.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The Prometheus says no.
    #[error("{url} answered {status}: {said}")]
    Refused {
        /// What was asked.
        url: String,
        /// Its status.
        status: StatusCode,
        /// Its words.
        said: String,
    },
    /// Not what a Prometheus answers.
    #[error("{url} answered something else than a matrix of series: {what}")]
    Answer {
        /// What was asked.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// More than is taken.
    #[error("{0}")]
    Much(String),
}

#[derive(Deserialize)]
struct Answer {
    data: Option<Data>,
    error: Option<String>,
    #[serde(rename = "errorType")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// The series of an expression. No single query asks for more points than a Prometheus gives.
///
/// A Prometheus answers with the last value before each step, up to five minutes old, unless the expression
/// says otherwise: a step shorter than the scrape interval repeats values, and a gap is filled.
///
/// # Errors
/// No answer, or one that is none.
pub fn query(base: &str, expression: &str, span: &Span) -> Result<Vec<Line>, RangeError> {
    let mut lines: BTreeMap<BTreeMap<String, String>, Vec<(Duration, f64)>> = BTreeMap::new();
    let mut total = 0;
    for piece in pieces(span)? {
        let path = path(expression, &piece);
        let (status, body) = ask(base, &path, BOUNDS)?;
        let url = super::url(base, &path);
        for series in parse(&url, status, &body)? {
            let values = series.values.iter().filter_map(|(at, text)| {
                Some((Duration::try_from_secs_f64(*at).ok()?, text.parse::<f64>().ok()?))
            });
            let values = values.filter(|(_, value)| value.is_finite()).map(|(at, value)| {
                // Times are of milliseconds; as floats they are a little off.
                let milli = (at.as_nanos() + 500_000) / 1_000_000;
                (Duration::from_millis(u64::try_from(milli).unwrap_or(u64::MAX)), value)
            });
            let line = lines.entry(series.metric).or_default();
            let before = line.len();
            line.extend(values);
            total += line.len() - before;
        }
        if total > MAX_VALUES {
            let what = format!("{url}: more than {MAX_VALUES} values: take a longer step");
            return Err(RangeError::Much(what));
        }
    }
    Ok(lines.into_iter().map(|(labels, values)| Line { labels, values }).collect())
}

/// The stretch in pieces of so many points as one query may have.
fn pieces(span: &Span) -> Result<Vec<Span>, RangeError> {
    let step = span.step.as_millis();
    let Some(length) = span.end.as_millis().checked_sub(span.start.as_millis()) else {
        return Err(RangeError::Much("expected a start before the end".to_owned()));
    };
    let Some(steps) = length.checked_div(step) else {
        return Err(RangeError::Much("expected a step of at least a millisecond".to_owned()));
    };
    if steps >= MAX_IN_ALL {
        let what = format!("expected at most {MAX_IN_ALL} points: {} are asked for", steps + 1);
        return Err(RangeError::Much(what));
    }
    let milli = |n: u128| Duration::from_millis(u64::try_from(n).unwrap_or(u64::MAX));
    let start = span.start.as_millis();
    let mut all = Vec::new();
    let mut first = 0;
    while first <= steps {
        let last = steps.min(first + MAX_POINTS - 1);
        let (start, end) = (milli(start + first * step), milli(start + last * step));
        all.push(Span { start, end, step: span.step });
        first = last + 1;
    }
    Ok(all)
}

fn path(expression: &str, span: &Span) -> String {
    let seconds = |time: Duration| format!("{}.{:03}", time.as_secs(), time.subsec_millis());
    let begin = format!("{PATH}?");
    let length = begin.len();
    let mut query = form_urlencoded::Serializer::for_suffix(begin, length);
    query.append_pair("query", expression);
    query.append_pair("start", &seconds(span.start));
    query.append_pair("end", &seconds(span.end));
    query.append_pair("step", &seconds(span.step));
    query.finish()
}

fn parse(url: &str, status: StatusCode, body: &[u8]) -> Result<Vec<Series>, RangeError> {
    let answer = serde_json::from_slice::<Answer>(body);
    if status != StatusCode::OK {
        let said = match answer {
            Ok(Answer { error: Some(error), kind, .. }) => {
                kind.map_or_else(|| error.clone(), |kind| format!("{kind}: {error}"))
            }
            // A proxy, or another program.
            _ => shown(body),
        };
        return Err(RangeError::Refused { url: url.to_owned(), status, said });
    }
    match answer {
        Ok(Answer { data: Some(data), .. }) => Ok(data.result),
        Ok(_) => Err(RangeError::Answer { url: url.to_owned(), what: "no data".to_owned() }),
        Err(error) => {
            let what = format!("{error}, in {:?}", shown(body));
            Err(RangeError::Answer { url: url.to_owned(), what })
        }
    }
}

/// The beginning of an answer, on one line.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, end: u64, step: u64) -> Span {
        let [start, end, step] = [start, end, step].map(Duration::from_millis);
        Span { start, end, step }
    }

    #[test]
    fn no_piece_asks_for_more_than_is_given_and_no_point_is_asked_for_twice() {
        for (steps, pieces_expected) in
            [(0, 1), (1, 1), (10_999, 1), (11_000, 2), (21_999, 2), (22_000, 3), (100_000, 10)]
        {
            let all = pieces(&span(5_500, 5_500 + steps * 250 + 249, 250)).unwrap();
            assert_eq!(all.len(), pieces_expected, "{steps}");
            let mut times = Vec::new();
            for piece in &all {
                let points = piece.end.saturating_sub(piece.start).as_millis() / 250 + 1;
                assert!(points <= MAX_POINTS, "{points}");
                times.extend((0..points).map(|i| piece.start.as_millis() + i * 250));
            }
            assert_eq!(times, (0..=u128::from(steps)).map(|i| 5_500 + i * 250).collect::<Vec<_>>());
        }
        for (wrong, says) in [
            (span(2, 1, 1), "a start before the end"),
            (span(1, 2, 0), "a step"),
            (span(0, 1_000_000_000_000, 1), "are asked for"),
        ] {
            let error = pieces(&wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn answers_are_read_and_refusals_are_told() {
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"up","gpu":"0"},"values":[[1.5,"2"],[2.5,"NaN"]]}]}}"#;
        let series = parse("u", StatusCode::OK, matrix.as_bytes()).unwrap();
        assert_eq!(series[0].values[0], (1.5, "2".to_owned()));
        for (status, body, says) in [
            (
                400,
                r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
                "bad_data: parse error",
            ),
            (502, "<html>\nno</html>", "<html> no</html>"),
            (200, "{}", "no data"),
            (200, "gb10", "gb10"),
            (200, r#"{"data":{"result":[{"metric":{},"values":[1]}]}}"#, "values"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = parse("http://x", status, body.as_bytes()).map(|_| ()).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("http://x answered") && error.contains(says), "{error}");
        }
        let path = path("a{b=\"c d\"} > 1", &span(1, 60_000, 30_000));
        assert_eq!(
            path,
            "/api/v1/query_range?query=a%7Bb%3D%22c+d%22%7D+%3E+1&start=0.001&end=60.000&step=30.000"
        );
    }
}
