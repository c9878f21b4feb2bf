//! Training logs of every format, as their programs print them: which steps they report, when, and what is
//! to be known of them. Each has a malformed twin with its one message.

use gb10_exporter::model::training::{LogFormat, LogRemark, Step, TrainLog};
use gb10_exporter::sources::train::{FieldNames, Hints, LogError, Pattern, Reader, parse};
use gb10_exporter::units::Seconds;
use jiff::tz::{Offset, TimeZone};
use proptest::prelude::*;
use std::fmt::Write;
use std::fs;
use std::path::Path;

fn hints() -> Hints {
    Hints::new(TimeZone::UTC, 2025)
}

fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn read(name: &str) -> TrainLog {
    parse(&file(name), hints()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn numbers(log: &TrainLog) -> Vec<u64> {
    log.steps.iter().filter_map(|step| step.number).collect()
}

fn seconds(log: &TrainLog) -> Vec<f64> {
    log.steps.iter().filter_map(|step| step.seconds).map(|seconds| seconds.0).collect()
}

/// Seconds from the first step's stamp to the last one's.
fn span(log: &TrainLog) -> f64 {
    let walls: Vec<_> = log.steps.iter().map(|step| step.wall.unwrap().as_secs_f64()).collect();
    walls.last().unwrap() - walls[0]
}

fn range(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

#[test]
fn hugging_face_bars_and_dictionaries() {
    let log = read("hugging_face.log");
    assert_eq!(log.format, LogFormat::HuggingFace);
    // Forty steps, a crash, and on from step 30; eight batches of an evaluation between are none.
    assert_eq!(numbers(&log), [range(1, 40), range(31, 60)].concat());
    assert!(log.steps.iter().all(|step| step.of == Some(60) && step.seconds.is_none()));
    let at = |n: usize| log.steps[n].elapsed.unwrap().as_secs();
    assert_eq!((at(0), at(19), at(20)), (4, 48, 53));
    // The step after a checkpoint is where the run began anew, in the line where an editor shows it.
    assert_eq!(
        log.remarks,
        [LogRemark::NoTimeStamps, LogRemark::SmoothedOnly, LogRemark::Resumed(log.steps[40].line)]
    );
}

#[test]
fn hugging_face_measured_times() {
    let log = read("hugging_face_grpo.log");
    assert_eq!((log.format, numbers(&log)), (LogFormat::HuggingFace, range(1, 12)));
    assert_eq!(&seconds(&log)[5..8], [19.5, 28.75, 20.0]);
    assert_eq!(log.remarks, [LogRemark::NoTimeStamps]);
}

#[test]
fn axolotl_reports_tokens_from_two_ranks() {
    let log = read("axolotl.log");
    assert_eq!((log.format, numbers(&log)), (LogFormat::HuggingFace, range(1, 20)));
    assert!(log.steps.iter().all(|step| step.rank == Some(0)), "{:?}", log.steps);
    assert_eq!(log.steps[1].tokens_per_second, Some(1102.5));
    assert_eq!(log.steps[2].tokens_per_second, None);
    assert!(log.remarks.contains(&LogRemark::Ranks(2)), "{:?}", log.remarks);
}

#[test]
fn trainer_state_with_measured_times() {
    let log = read("trainer_state.json");
    assert_eq!(log.format, LogFormat::TrainerState);
    assert_eq!(&seconds(&log)[..2], [12.4, 12.5]);
    let last = log.steps.last().unwrap();
    assert_eq!((last.number, last.elapsed.map(|t| t.as_millis())), (Some(10), Some(141_500)));
    assert_eq!(log.remarks, [LogRemark::NoTimeStamps]);
}

#[test]
fn torchtune_bars_and_metrics() {
    let log = read("torchtune.log");
    assert_eq!((log.format, numbers(&log)), (LogFormat::Torchtune, range(1, 30)));
    assert_eq!(log.steps[1].elapsed.unwrap().as_secs(), 6);
    let log = read("torchtune_metrics.log");
    assert_eq!((log.format, numbers(&log)), (LogFormat::Torchtune, range(1, 25)));
    assert_eq!(log.steps[2].tokens_per_second, Some(1203.25));
}

#[test]
fn megatron_and_nemo() {
    let log = read("megatron.log");
    assert_eq!(log.format, LogFormat::Megatron);
    let tens = |from, to| range(from, to).into_iter().map(|n| n * 10).collect::<Vec<_>>();
    assert_eq!(numbers(&log), [tens(1, 15), tens(11, 20)].concat());
    assert_eq!((seconds(&log)[0], log.steps[0].of), (1.2445, Some(1000)));
    assert_eq!(log.steps[0].wall.unwrap().as_secs(), 1_754_032_789);
    assert_eq!(log.remarks, [LogRemark::ZoneAssumed, LogRemark::Resumed(log.steps[15].line)]);

    let log = read("nemo.log");
    assert_eq!((log.format, numbers(&log)), (LogFormat::Megatron, range(0, 23)));
    assert_eq!((seconds(&log)[3], log.steps[3].rank), (5.43, Some(0)));
    assert!((span(&log) - 23.0 * 5.47).abs() < 1.0);
    assert_eq!(log.remarks, [LogRemark::Ranks(2)]);
}

#[test]
fn llama_cpp_generation_and_training() {
    let log = read("llama_cpp.log");
    assert_eq!((log.format, log.steps.len()), (LogFormat::LlamaCpp, 12));
    assert_eq!(log.steps[0].seconds, Some(Seconds(0.021_35)));
    assert_eq!(log.steps[0].tokens_per_second, Some(46.84));
    assert!(log.steps.windows(2).all(|two| two[0].elapsed < two[1].elapsed));
    assert_eq!(log.remarks, [LogRemark::NoTimeStamps]);

    let log = read("llama_cpp_finetune.log");
    assert_eq!(log.format, LogFormat::LlamaCpp);
    // Samples, over both epochs.
    assert_eq!(numbers(&log), (1..=32).map(|n| n * 64).collect::<Vec<_>>());
}

#[test]
fn json_lines() {
    let log = read("jsonl.log");
    assert_eq!((log.format, numbers(&log)), (LogFormat::JsonLines, range(1, 30)));
    assert_eq!((seconds(&log)[0], log.steps[0].of), (1.901, Some(30)));
    assert!((span(&log) - 58.0).abs() < 0.01, "{}", span(&log));
    assert_eq!(log.remarks, []);
    let fields = FieldNames { tokens: vec!["perf.tok_s".to_owned()], ..FieldNames::default() };
    let log = parse(&file("jsonl.log"), Hints { fields, ..hints() }).unwrap();
    assert_eq!(log.steps[0].tokens_per_second, Some(4096.0 / 1.9));

    let log = read("llama_factory.log");
    assert_eq!(numbers(&log), (1..=10).map(|n| n * 5).collect::<Vec<_>>());
    assert_eq!(log.steps[9].elapsed.unwrap().as_secs(), 200);
}

#[test]
fn bars_alone() {
    let log = read("progress_bar.log");
    assert_eq!(log.format, LogFormat::ProgressBar);
    assert_eq!(numbers(&log), range(1, 36));
    assert_eq!(log.remarks, [LogRemark::NoTimeStamps, LogRemark::SmoothedOnly]);
}

#[test]
fn a_pattern_of_the_users() {
    let pattern = Pattern::new(
        r"it (?P<step>[\d,]+) of (?P<of>[\d,]+) done, (?P<minutes>[\d.]+) min each, (?P<tokens>\d+)",
    );
    let zone = TimeZone::fixed(Offset::from_seconds(-8 * 3600).unwrap());
    let log =
        parse(&file("pattern.log"), Hints { pattern: Some(pattern.unwrap()), zone, ..hints() })
            .unwrap();
    assert_eq!((log.format, log.steps.len()), (LogFormat::Pattern, 20));
    let first = log.steps[0];
    assert_eq!(
        (first.number, first.of, first.tokens_per_second),
        (Some(0), Some(1000), Some(1500.0))
    );
    assert_eq!((first.seconds.unwrap().0, first.wall.unwrap().as_secs()), (150.0, 1_736_714_040));
    assert_eq!(log.remarks, [LogRemark::ZoneAssumed, LogRemark::YearAssumed]);
}

#[test]
fn stamps_that_leave_something_out() {
    let lines = |stamps: &[&str]| {
        (1..)
            .zip(stamps)
            .map(|(n, stamp)| format!("{stamp} Step {n} | loss:1.0\n"))
            .collect::<String>()
    };
    // The file is of 2026: its first line is of the year before.
    let log = lines(&["12-31 23:59:58", "01-01 00:00:03"]);
    let log = parse(log.as_bytes(), Hints { year: 2026, ..hints() }).unwrap();
    assert_eq!(log.steps[1].wall.unwrap().as_secs(), 1_767_225_603);
    assert!((span(&log) - 5.0).abs() < 1e-9);
    let log = parse(lines(&["23:59:58", "00:00:03"]).as_bytes(), hints()).unwrap();
    assert_eq!(log.steps[1].elapsed.unwrap().as_secs(), 5);
    assert_eq!(log.remarks, [LogRemark::NoTimeStamps]);
}

#[test]
fn what_turned_out_later_counts_from_the_beginning() {
    // A bar that was no run, then the run; bars, then a format that says more.
    let mut log = String::from("50%|#| 4/8 [00:02<00:02,  1.20it/s]\n");
    for n in 1..50 {
        writeln!(log, "{n}%|#| {n}/200 [{:02}:{:02}<09:00,  3.00s/it]", n * 3 / 60, n * 3 % 60)
            .unwrap();
    }
    let read = parse(log.as_bytes(), hints()).unwrap();
    assert_eq!((read.steps[0].of, read.steps.len()), (Some(200), 49));
    log += "iteration 10/ 100 | elapsed time per iteration (ms): 1000.0 |\n";
    let read = parse(log.as_bytes(), hints()).unwrap();
    assert_eq!((read.format, read.steps.len()), (LogFormat::Megatron, 1));
}

#[test]
fn what_a_step_reports_tells_which_bar_is_the_runs() {
    let mut log = String::new();
    // Twenty minutes of something that says nothing of itself, and a short run.
    for n in 1..=100 {
        writeln!(log, "{n}%|#| {n}/100 [{:02}:{:02}<00:10, 12.00s/it]", n * 12 / 60, n * 12 % 60)
            .unwrap();
    }
    for n in 1..=30 {
        writeln!(log, "{n}%|#| {n}/30 [01:{n:02}<00:10,  1.00s/it]").unwrap();
        if n % 10 == 0 {
            log += "{'loss': 2.1, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.01}\n";
        }
    }
    let read = parse(log.as_bytes(), hints()).unwrap();
    assert_eq!((read.format, numbers(&read)), (LogFormat::HuggingFace, range(1, 30)));
    assert_eq!(read.steps[0].of, Some(30));
}

#[test]
fn lines_that_are_no_text_are_counted() {
    let mut log = vec![b'x'; 70_000];
    log.extend(
        b"\nStep 1 | loss:1.0 time_per_step:2.0\nStep 2 | loss:1.0 \xff time_per_step:3.0\r\n",
    );
    let read = parse(&log, hints()).unwrap();
    assert_eq!(
        read.steps.iter().map(|s| (s.line, s.number)).collect::<Vec<_>>(),
        [(2, Some(1)), (3, Some(2))]
    );
    assert!(read.remarks.contains(&LogRemark::LeftOut(2)));
}

#[test]
fn malformed_logs_say_what_is_wrong() {
    let message = |name: &str| parse(&file(name), hints()).unwrap_err();
    let mut all = String::new();
    for name in [
        "bad/hugging_face.log",
        "bad/trainer_state.json",
        "bad/trainer_state_no_times.json",
        "bad/torchtune.log",
        "bad/megatron.log",
        "bad/llama_cpp.log",
        "bad/jsonl.log",
        "bad/progress_bar.log",
        "bad/pattern.log",
        "bad/nothing.log",
    ] {
        writeln!(all, "{name}: {}", message(name)).unwrap();
    }
    if std::env::var_os("UPDATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs/bad/messages.txt");
        std::io::Write::write_all(&mut fs::File::create(path).unwrap(), all.as_bytes()).unwrap();
    }
    assert_eq!(all, String::from_utf8(file("bad/messages.txt")).unwrap());
    assert_eq!(message("bad/megatron.log").line(), Some(2));

    let pattern = Some(Pattern::new(r"step (?P<step>\d+)").unwrap());
    let error = parse(&file("bad/pattern.log"), Hints { pattern, ..hints() }).unwrap_err();
    assert!(matches!(error, LogError::NoSteps { .. }), "{error}");
    let format = Some(LogFormat::Megatron);
    let error = parse(&file("torchtune.log"), Hints { format, ..hints() }).unwrap_err();
    assert!(error.to_string().contains("looked for megatron"), "{error}");
    assert_eq!(parse(b" \n\n", hints()), Err(LogError::Empty));
    assert_eq!(parse(b"ab\0c", hints()), Err(LogError::Binary(2)));
}

#[test]
fn a_followed_log_says_the_same_wherever_it_is_cut() {
    for name in
        ["hugging_face.log", "axolotl.log", "nemo.log", "torchtune.log", "llama_cpp_finetune.log"]
    {
        let bytes = file(name);
        let follow = |size: usize| {
            let (mut reader, mut steps) = (Reader::new(hints()), Vec::<Step>::new());
            bytes.chunks(size).for_each(|chunk| reader.bytes(chunk, |step| steps.push(step)));
            reader.end(|step| steps.push(step));
            (reader.format(), reader.remarks(), steps)
        };
        let whole = follow(bytes.len());
        for size in [1, 7, 1000] {
            assert_eq!(follow(size), whole, "{name} in chunks of {size}");
        }
    }
}

/// The size of a reader as it shows itself: every collection that grew would show.
#[test]
fn a_million_lines_leave_nothing_behind() {
    let mut reader = Reader::new(hints());
    let mut sizes = Vec::new();
    for n in 0..1_000_000_u64 {
        let line = match n % 5 {
            0 => format!(
                "[rank{}]: 50%|#| {}/{} [01:40<15:00,  1.00s/it]",
                n % 3000,
                n % 700,
                n % 11 + 690
            ),
            1 => "{'loss': 2.1, 'tokens_per_second': 5.0}".to_owned(),
            2 => format!("12:34:{:02} {n} \u{1b}[31mwords of a program\u{1b}[0m", n % 60),
            3 => format!("01-{:02} 12:00:00 [INFO] [{n}]", n % 28 + 1),
            _ => format!("{{\"note\": {n}}}"),
        };
        reader.line(&line);
        if n % 250_000 == 249_999 {
            sizes.push(format!("{reader:?}").len());
        }
    }
    assert!(sizes.iter().all(|size| *size < sizes[0] + 200), "{sizes:?}");
}

/// Pieces of the formats' lines, so that nonsense comes near to sense.
fn nonsense() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "iteration ",
            "10/ 1000",
            " | ",
            "elapsed time per iteration (ms): ",
            "train_step_timing in s: ",
            "global_step: ",
            "Step ",
            "loss:",
            "eval time = ",
            " ms / ",
            " tokens (",
            "{'loss': ",
            "'step_time': ",
            "{\"step\": ",
            "\"step_time\": ",
            "}",
            "%|",
            "█",
            " [",
            "00:10<00:20, ",
            "1.5s/it]",
            "?it/s]",
            "1 day, ",
            "2025-01-12 12:34:56,789",
            "01-12 12:34:56 ",
            "Jan 12 12:34:56 ",
            "12:34:56 ",
            "1736685296.5 ",
            "[rank1]:",
            "data=1/2, t=00:00:01, ",
            "train: [",
            "\r",
            "\n",
            "\u{1b}[",
            "nan",
            "inf",
            "-1",
            "1e308",
            "1e-320",
            "99999999999999999999",
            "0",
            "{\"log_history\": [",
            "é",
            "１",
            "+99:99",
            "99:99:99",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
        "[0-9]{1,12}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn whatever_a_log_says_figures_are_figures(bytes in nonsense(), patterned in any::<bool>()) {
        let pattern = patterned.then(|| {
            Pattern::new(r"(?P<step>\d+)\D(?P<seconds>\S+)|(?P<rate>\d+)it|(?P<time>\S+ \S+)").unwrap()
        });
        let mut found = Vec::new();
        if let Ok(log) = parse(&bytes, Hints { pattern: pattern.clone(), ..hints() }) {
            prop_assert!(!log.steps.is_empty());
            found.extend(log.steps);
        }
        let mut reader = Reader::new(Hints { pattern, ..hints() });
        found.extend(String::from_utf8_lossy(&bytes).split('\n').filter_map(|line| reader.line(line)));
        for step in found {
            let figures = [step.seconds.map(|s| s.0), step.smoothed.map(|s| s.0), step.tokens_per_second];
            prop_assert!(figures.into_iter().flatten().all(|v| v.is_finite() && v > 0.0), "{step:?}");
            prop_assert!(step.line > 0);
        }
    }
}

/// A log without zones that goes through the end of summer time: its steps come one after the other.
#[test]
fn a_log_through_the_end_of_summer_time_goes_on() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let began: jiff::Timestamp = "2025-10-25T23:30:00Z".parse().unwrap();
    let mut text = String::new();
    for number in 0..900_i64 {
        let at = began + jiff::SignedDuration::from_secs(number * 10);
        let at = zone.to_datetime(at);
        let _ = writeln!(text, "{{\"step\": {number}, \"time\": \"{at}\"}}");
    }
    let log = parse(text.as_bytes(), Hints::new(zone, 2025)).unwrap();
    let walls: Vec<u64> = log.steps.iter().map(|step| step.wall.unwrap().as_secs()).collect();
    let each: Vec<u64> = walls.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    assert_eq!(each, vec![10; 899]);
    assert_eq!(log.remarks, [LogRemark::ZoneAssumed, LogRemark::DoubledHour]);
}

/// Two runs of unlike format options in one file, whichever reads it.
#[test]
fn two_runs_that_alternate_are_one_run_and_a_remark() {
    let mut text = String::new();
    for number in 0..200_u64 {
        let _ = writeln!(text, "{{\"step\": {}, \"step_time\": 4.0}}", 700 + number * 10);
        let _ = writeln!(text, "{{\"step\": {}, \"step_time\": 9.0}}", 10 + number * 10);
    }
    let log = parse(text.as_bytes(), hints()).unwrap();
    assert_eq!(seconds(&log), vec![4.0; 200]);
    assert_eq!(log.remarks, [LogRemark::NoTimeStamps, LogRemark::Interleaved(2)]);
    let mut reader = Reader::new(hints());
    let live: Vec<Step> = text.lines().filter_map(|line| reader.line(line)).collect();
    assert!(reader.interleaved() && live.len() < 210, "{}", live.len());
}
