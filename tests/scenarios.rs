//! Stories of machines, replayed: each says what must be concluded when, and what never.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

use gb10_exporter::capture::scenario::Scenario;
use gb10_exporter::catalog::verdicts;
use gb10_exporter::engine::player::Player;
use gb10_exporter::thresholds::Thresholds;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Exporter, exporter, root, tool, value};

fn scenarios() -> Vec<PathBuf> {
    let all: Vec<PathBuf> =
        support::promtool::scenarios().into_iter().map(|(_, path)| path).collect();
    assert!(all.len() >= 9, "only {} scenarios", all.len());
    all
}

/// What the scenario says and is not so.
fn broken(path: &Path) -> Vec<String> {
    let scenario = Scenario::load(path).unwrap_or_else(|e| panic!("{e}"));
    let expectations = scenario.expectations.clone();
    let mut wrong = Vec::new();
    let ever = expectations.iter().filter(|e| e.at.is_none()).count();
    if ever == 0 || ever == expectations.len() {
        wrong.push(
            "it needs something that must be so, and something that must never be".to_owned(),
        );
    }
    for expected in &expectations {
        if let Err(what) = verdicts::check(&expected.verdict, &expected.state) {
            wrong.push(format!("line {}: {what}", expected.line));
        }
    }
    let mut met = vec![false; expectations.len()];
    for (time, frame) in Player::new(scenario, Thresholds::default(), ("0", "0")) {
        let states = frame.as_ref().map(verdicts::of).unwrap_or_default();
        for (expected, met) in expectations.iter().zip(&mut met) {
            if expected.at.is_some_and(|at| at != time) {
                continue;
            }
            let state = states.iter().find(|(name, ..)| *name == expected.verdict);
            let is = state.is_some_and(|(_, state, _)| *state == expected.state);
            match expected.at {
                Some(_) if is => *met = true,
                None if is && !*met => {
                    *met = true;
                    wrong.push(format!("line {}: it is, at {time:?}", expected.line));
                }
                Some(_) => {
                    wrong.push(format!("line {}: it is {state:?}", expected.line));
                    *met = true;
                }
                None => {}
            }
        }
    }
    for (expected, met) in expectations.iter().zip(met) {
        if expected.at.is_some() && !met {
            wrong.push(format!("line {}: there is no frame at that time", expected.line));
        }
    }
    wrong
}

#[test]
fn every_story_ends_as_it_should() {
    let mut failures = Vec::new();
    for path in scenarios() {
        for what in broken(&path) {
            failures.push(format!("{}: {what}", path.display()));
        }
        let scenario = Scenario::load(&path).unwrap();
        assert!(!scenario.story.is_empty(), "{} tells no story", path.display());
        assert!(scenario.source.len() > 5 && scenario.title.len() > 10);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A story that expects nothing, or what is not so, or what cannot be, does not pass.
#[test]
fn a_story_must_expect_something_that_is_so() {
    let dir = tempfile::tempdir().unwrap();
    let base = root().join("tests/captures/spark-page-cache-1-before.txt");
    fs::copy(base, dir.path().join("box.txt")).unwrap();
    let path = dir.path().join("story.txt");
    let so = "5s pool.imminent no\nnever pool.imminent yes\n";
    for (expects, says) in [
        (so, None),
        ("", Some("it needs something that must be so")),
        ("5s pool.imminent no\n", Some("something that must never be")),
        ("never pool.imminent yes\n", Some("it needs something that must be so")),
        ("5s pool.imminent yes\nnever pool.imminent unknown\n", Some("it is Some((")),
        ("5s pool.imminent no\nnever pool.imminent no\n", Some("it is, at")),
        ("5s pool.colour red\nnever pool.imminent yes\n", Some("is no verdict")),
        ("5s pool.imminent maybe\nnever pool.imminent yes\n", Some("is never")),
    ] {
        let story = format!("{HEAD}==> timeline\n0s gpu.power[0] = 30 W\n==> expect\n{expects}");
        fs::write(&path, story).unwrap();
        let wrong = broken(&path).join("\n");
        match says {
            Some(says) => assert!(wrong.contains(says), "{expects:?}: {wrong}"),
            None => assert_eq!(wrong, ""),
        }
    }
}

/// The example of the documentation is a story, too.
#[test]
fn the_documented_example_ends_as_it_says() {
    let text = fs::read_to_string(root().join("docs/SCENARIOS.md")).unwrap();
    let at = text.find("## Processes").expect("the section");
    let at = at + text[at..].find("==> timeline").expect("an example");
    let example = text[at..].split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let base = root().join("tests/captures/spark-page-cache-1-before.txt");
    fs::copy(base, dir.path().join("box.txt")).unwrap();
    let path = dir.path().join("example.txt");
    fs::write(&path, HEAD.replace("20s", "10m") + example).unwrap();
    assert_eq!(broken(&path), Vec::<String>::new());
}

fn replay(args: &[&str]) -> (i32, String, String) {
    let out = exporter().arg("replay").args(args).output().expect("runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

#[test]
fn a_timeline_is_the_same_every_time() {
    for path in scenarios() {
        let path = path.to_str().unwrap();
        let (code, first, err) = replay(&[path]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(replay(&[path, "--timeline"]).1, first, "{path}");
        for line in first.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let (verdict, state) =
                (line["verdict"].as_str().unwrap(), line["state"].as_str().unwrap());
            verdicts::check(verdict, state).unwrap();
        }
        assert!(first.lines().count() > 5);
    }
}

/// A stranger's five columns, in a file beside the scenario, in ten lines.
#[test]
fn five_columns_of_a_report_become_a_scenario() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join("tests/captures/spark-fe-idle.txt"), dir.path().join("box.txt")).unwrap();
    fs::write(
        dir.path().join("log.csv"),
        "timestamp, memory.available [MiB], power.draw [W], temperature.gpu, clocks.sm [MHz]\n\
         2026/04/25 11:04:53.110, 30720, 11.48 W, 48, 2405 MHz\n\
         2026/04/25 11:04:58.149, 20480, [N/A], 52, 2522 MHz\n\
         2026/04/25 11:05:03.196, 8192, 45.60 W, 57, 2522 MHz\n",
    )
    .unwrap();
    let scenario = dir.path().join("mine.txt");
    fs::write(
        &scenario,
        "# gb10-exporter scenario 1\n# kind: raw\n# title: my box on a bad day\n# source: me\n# base: box.txt\n\
         # length: 20s\n\n==> timeline\n0s table log.csv time=timestamp \
         meminfo.MemAvailable=memory.available gpu.power[0]=power.draw \
         gpu.temperature[0]=temperature.gpu[C] gpu.clock[0.sm]=clocks.sm\n",
    )
    .unwrap();
    let path = scenario.to_str().unwrap();
    let at = |time: &str| {
        let (code, out, err) = replay(&[path, "--at", time, "--metrics"]);
        assert_eq!(code, 0, "{err}");
        out
    };
    let (first, middle, last) = (at("0s"), at("6s"), at("12s"));
    assert_eq!(value(&first, "gb10_pool_available_bytes"), Some(30720.0 * 1_048_576.0));
    assert_eq!(value(&first, "gb10_gpu_power_watts{gpu=\"0\"}"), Some(11.48));
    assert_eq!(value(&middle, "gb10_gpu_power_watts{gpu=\"0\"}"), None, "[N/A] is no figure");
    assert_eq!(value(&last, "gb10_gpu_power_watts{gpu=\"0\"}"), Some(45.6));
    assert_eq!(value(&last, "gb10_gpu_temperature_celsius{gpu=\"0\"}"), Some(57.0));
    assert_eq!(value(&middle, "gb10_gpu_clock_hertz{gpu=\"0\",clock=\"sm\"}"), Some(2.522e9));
    // What was not said follows: the parts add up, and the margin is what the temperature leaves.
    let size = value(&last, "gb10_pool_size_bytes").unwrap();
    let sum: f64 = last
        .lines()
        .filter(|line| line.starts_with("gb10_pool_segment_bytes{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert!((sum - size).abs() < 1.0, "{sum} of {size}");
    let margin =
        |text: &str| value(text, "gb10_gpu_temperature_margin_celsius{gpu=\"0\"}").unwrap();
    assert!((margin(&first) - margin(&last) - 9.0).abs() < 1e-9);
}

const HEAD: &str = "# gb10-exporter scenario 1\n# kind: invented\n# title: a b\n# source: c\n# base: box.txt\n# length: 20s\n\n";

/// Each mistake is one line that names file and line and says what was expected; exit code 2.
#[test]
fn mistakes_are_told_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join("tests/captures/spark-fe-idle.txt"), dir.path().join("box.txt")).unwrap();
    let with = |body: &str| format!("{HEAD}{body}");
    let line = |timeline: &str| with(&format!("==> timeline\n{timeline}\n"));
    for (text, at, says) in [
        (String::new(), 1, "expected the first line to be"),
        (HEAD.replace("scenario 1", "scenario 9"), 1, "expected the first line to be"),
        (HEAD.replace("# length: 20s\n", ""), 1, "the header lacks \"# length"),
        (HEAD.replace("20s", "20 parsecs"), 6, "expected a number with one of s, ms"),
        (HEAD.replace("box.txt", "no.txt"), 5, "no.txt cannot be read: No such file"),
        (HEAD.replace("# kind", "# colour"), 2, "found \"colour\""),
        (with("==> timelime\n"), 8, "expected timeline, expect, table NAME or a section"),
        (HEAD.replace("# base: box.txt\n", ""), 1, "expected \"# base: FILE\" in the header, or"),
        (with("==> gpu\ncount = 1\n"), 1, "expected \"# base: FILE\" in the header, or"),
        (HEAD.replace("# base: box.txt\n", "") + "==> gpu\ncout = 1\n", 8, "cout: unknown key"),
        (line("0s"), 9, "expected \"TIME WHAT\""),
        (line("0s meminfo.MemFree"), 9, "expected READING = VALUE"),
        (line("0s meminfo.MemFre = 1 GiB"), 9, "\"meminfo.MemFre\" is no reading"),
        (line("0s meminfo.MemFree = 1 parsec"), 9, "expected a number with one of GiB"),
        (line("0s meminfo.MemFree missing lunch"), 9, "no such reason"),
        (line("0s gpu.temperature[7] = 4 C"), 9, "is not there; there is gpu.temperature[0]"),
        (line("0s gpu.name[0] = \"a"), 9, "a quotation mark is not closed"),
        (line("0s processes.is[a] = vllm"), 9, "expected pid=NUMBER"),
        (line("0s processes.is[a] = vLLM pid=7"), 9, "expected a class, one of vllm"),
        (line("0s processes.is[a] = vllm pid=7 cap=whole:5"), 9, "expected a share such as 0.5"),
        (line("0s processes.anonymous[a] = 1 GiB"), 9, "or is not there"),
        (line("9s..3s meminfo.MemFree = 1 GiB -> 2 GiB"), 9, "goes backwards"),
        (line("30s meminfo.MemFree = 1 GiB"), 9, "past the scenario's length"),
        (line("0s meminfo.MemFree = 1 GiB -> 2 GiB"), 9, "needs a time FROM..TO"),
        (line("0s lane fats hangs 3s"), 9, "\"fats\" is no lane"),
        (line("0s kernel"), 9, "expected a line of the kernel's log, found nothing"),
        (line("0s kernel x 3"), 9, "expected a line of the kernel's log, found nothing"),
        (line("0s kernel x some NVRM: x"), 9, "expected a whole number from 1 behind \"x\""),
        (line("0s kernel x 0 NVRM: x"), 9, "expected a whole number from 1 behind \"x\""),
        (line("0s..3s kernel NVRM: x"), 9, "expected one time here, found \"0s..3s\""),
        (line("30s kernel NVRM: x"), 9, "past the scenario's length"),
        (line("3s reboot clean down 4s\n5s kernel NVRM: x"), 10, "the machine is down then"),
        (line("0s meminfo.MemFree = 30"), 9, "expected a unit with \"30\", one of GiB"),
        (line("0s gpu.utilization[0] = 96"), 9, "expected a unit with \"96\", one of %"),
        (line("0s meminfo.MemFree = -1 GiB"), 9, "expected nothing negative"),
        (line("0s gpu.performance_state[0] = 8.4"), 9, "expected a whole number"),
        (line("1s..3s meminfo.MemFree missing failed"), 9, "expected one time here"),
        (
            line("1s reboot clean down 5s\n3s meminfo.MemFree = 1 GiB"),
            10,
            "the machine is down then",
        ),
        (with("# length: 4s\n==> timeline\n"), 8, "length is there twice"),
        (line("0s table t time=ts meminfo.MemFree=f"), 9, "no table \"t\" here, and"),
    ] {
        told(dir.path(), &text, at, says);
    }
}

/// A table's mistakes are told with the table's own lines.
#[test]
fn mistakes_in_tables_are_told_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join("tests/captures/spark-fe-idle.txt"), dir.path().join("box.txt")).unwrap();
    let with = |body: &str| format!("{HEAD}{body}");
    let table = |rows: &str| {
        with(&format!(
            "==> table t\n{rows}\n==> timeline\n0s table t time=ts meminfo.MemFree=free[GiB]\n"
        ))
    };
    for (text, at, says) in [
        (table("ts,fre\n0,1"), 9, "expected a column \"free\", found ts, fre"),
        (table("ts,free\n0,1\n5,2,3"), 11, "expected 2 columns as in the header, found 3"),
        (table("ts,free\n5,1\n0,2"), 11, "before the first row"),
        (table("ts,free\n0,1\n9,2\n5,2"), 12, "before the row above it"),
        (table("ts,free\n0,lots"), 10, "free: expected a number with one of GiB"),
        (table("ts,free\nnoon,1"), 10, "expected a time"),
        (table("ts,free"), 9, "expected rows below the header"),
        (table("ts,free\n0,1\n30,2"), 13, "the last row is at 30 s, after the scenario's end"),
        (table("ts,free\n0,1").replace("table t time", "table u time"), 12, "no table \"u\" here"),
        (with("==> table t\na\n==> timeline\n"), 8, "table t is never used"),
        (with("==> expect\n99s pool.imminent yes\n"), 9, "this is after the scenario's end"),
        (with("==> expect\n5s pool.imminent\n"), 9, "expected \"TIME VERDICT STATE\""),
        (with("==> expect\n5s pool.iminent yes\n"), 9, "is no verdict; there are pool.exhaustion"),
        (with("==> expect\n5s pool.imminent maybe\n"), 9, "it can be yes, no, unknown"),
    ] {
        told(dir.path(), &text, at, says);
    }
}

/// A scenario with a mistake, its line, and what is said about it: one line, exit code 2, nothing else.
fn told(dir: &Path, text: &str, at: usize, says: &str) {
    let path = dir.join("bad.txt");
    fs::write(&path, text).unwrap();
    let (code, out, err) = replay(&[path.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (2, ""), "{text}\n{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains(&format!("bad.txt:{at}: ")), "line {at}: {err}");
    assert!(err.contains(says), "{says:?}: {err}");
}

/// What is no scenario at all.
#[test]
fn what_is_no_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (bytes, says) in [
        (b"\x7fELF\xff\xfe".to_vec(), "is not UTF-8 text"),
        (vec![b'#'; 5 * 1024 * 1024], "is larger than 4 MiB"),
    ] {
        let path = dir.path().join("bad.txt");
        fs::write(&path, bytes).unwrap();
        let (code, _, err) = replay(&[path.to_str().unwrap()]);
        assert_eq!(code, 2);
        assert!(err.contains(says), "{err}");
    }
    assert_eq!(replay(&["/dev/zero"]).0, 2);
}

fn pipe_to(program: &Path, args: &[&str], input: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("input");
    fs::write(&file, input).unwrap();
    let out = Command::new(program)
        .args(args)
        .arg(&file)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    (out.status.success(), text + &String::from_utf8_lossy(&out.stderr))
}

/// Somebody else's rule, tested against our incident with the real promtool.
#[test]
fn anybody_can_test_rules_against_a_story() {
    let path = root().join("tests/scenarios/lora-load.txt");
    let args =
        [path.to_str().unwrap(), "--emit", "promtool", "--scrape-interval", "15s", "--phase", "7s"];
    let (code, series, err) = replay(&args);
    assert_eq!(code, 0, "{err}");
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("rules.yml"),
        "groups:\n  - name: mine\n    rules:\n      - alert: NearlyFull\n        expr: gb10_pool_available_bytes < 4e9\n",
    )
    .unwrap();
    let alert = |at: &str, fires: bool| {
        let alerts =
            if fires { "\n          - exp_labels: {instance: replay, job: gb10}" } else { " []" };
        format!(
            "      - eval_time: {at}\n        alertname: NearlyFull\n        exp_alerts:{alerts}\n"
        )
    };
    let indented: String = series.lines().map(|line| format!("    {line}\n")).collect();
    let test = format!(
        "rule_files: [rules.yml]\nevaluation_interval: 15s\ntests:\n  -\n{indented}    alert_rule_test:\n{}{}{}",
        alert("60s", false),
        alert("150s", true),
        alert("225s", false),
    );
    fs::write(dir.path().join("test.yml"), &test).unwrap();
    let out = Command::new(tool("promtool"))
        .args(["test", "rules", "test.yml"])
        .current_dir(dir.path())
        .output()
        .expect("promtool");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn a_story_can_be_filled_into_a_prometheus_and_a_spreadsheet() {
    let path = root().join("tests/scenarios/startup-collapse.txt");
    let path = path.to_str().unwrap();
    let (code, text, err) = replay(&[path, "--emit", "openmetrics", "--scrape-interval", "5s"]);
    assert_eq!(code, 0, "{err}");
    assert!(text.ends_with("# EOF\n"));
    let (fine, said) =
        pipe_to(&tool("promtool"), &["tsdb", "create-blocks-from", "openmetrics"], &text);
    assert!(fine, "{said}");
    let (code, csv, _) = replay(&[path, "--emit", "csv", "--scrape-interval", "1s"]);
    assert_eq!(code, 0);
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 62, "a header and each second from 0 to 60");
    let cells = |row: usize| -> Vec<String> {
        let mut quoted = false;
        let split = rows[row].split(|c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        split.map(str::to_owned).collect()
    };
    let column = cells(0).iter().position(|name| name == "meminfo.MemAvailable").unwrap();
    let at = |row: usize| cells(row)[column].parse::<f64>().unwrap();
    assert!((at(1) / 1_073_741_824.0 - 28.971).abs() < 0.001, "{}", at(1));
    assert!((at(13) / 1_073_741_824.0 - 6.267).abs() < 0.001);
}

#[test]
fn a_replay_is_served_and_says_that_it_is_one() {
    let path = root().join("tests/scenarios/load-that-fits.txt");
    let mut command = exporter();
    command.args(["replay", path.to_str().unwrap(), "--serve", "--speed", "60"]);
    command.args(["--web.listen-address", "127.0.0.1:0"]);
    let mut served = Exporter::spawn(command);
    let info =
        "gb10_replay_info{scenario=\"A load of 96 GiB in 40 s that ends with 12 GiB available\"}";
    served.wait_for_metrics("it is said", |m| value(m, info) == Some(1.0));
    let end = served.wait_for_metrics("the end", |m| {
        value(m, "gb10_pool_available_bytes") == Some(12.0 * 1_073_741_824.0)
    });
    assert!(value(&end, "gb10_pool_fall_max_bytes{window=\"5m\"}").unwrap() > 20e9);
    assert!(served.get("/").contains("REPLAY, no live machine"));
    // It stays at its end, and is no older for that.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(served.request("GET", "/metrics", "").status, 200);
    served.signal("TERM");
    let (code, log) = served.wait();
    assert_eq!(code, Some(0));
    assert!(log.contains("this is a replay, no machine is read"), "{log}");
}

/// Every reading of every machine of the suite can be put where it came from, and taken away.
#[test]
fn every_reading_can_be_set() {
    use gb10_exporter::model::fields;
    use gb10_exporter::model::reading::{Missing, Reading, Value};
    let mut tried = 0;
    for (name, path) in support::captures() {
        let capture = gb10_exporter::capture::Capture::load(&path).unwrap();
        let snapshot = support::frame(&capture).snapshot;
        for field in fields::all() {
            let mut values: Vec<(String, Reading<String>, Reading<f64>)> = Vec::new();
            (field.visit)(&snapshot, &mut |key, reading| {
                let text = reading.map(|v| format!("{v:?}"));
                let number = reading.map(|v| match v {
                    Value::Float(x) => x,
                    _ => 0.0,
                });
                values.push((key.to_owned(), text, number));
                let (Ok(value), false) = (reading, field.id == "gpu.processes") else { return };
                let mut copy = snapshot.clone();
                assert!((field.set)(&mut copy, key, Ok(value)), "{name}: {}[{key}]", field.id);
                let mut same = false;
                (field.visit)(&copy, &mut |k, r| same |= k == key && r == reading);
                assert!(same, "{name}: {}[{key}] is not what was put there", field.id);
                tried += 1;
            });
            // What a machine has several of is taken away as a whole or one by one.
            if let Some((key, ..)) = values.iter().find(|(_, value, _)| value.is_ok()) {
                let mut copy = snapshot.clone();
                let one = (field.set)(&mut copy, key, Err(Missing::Failed));
                let whole = (field.set)(&mut copy, "", Err(Missing::Failed));
                assert!(one || whole, "{name}: {}[{key}] cannot be taken away", field.id);
            }
        }
        assert!(fields::named("meminfo.Nothing").is_none());
    }
    assert!(tried > 3000, "only {tried} values");
}

/// A ramp begins where the machine is by then, whatever brought it there, and goes in a straight line.
#[test]
fn a_ramp_begins_where_the_machine_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(root().join("tests/captures/spark-fe-idle.txt"), dir.path().join("box.txt")).unwrap();
    let path = dir.path().join("ramp.txt");
    let body = "==> timeline\n2s gpu.process_memory[0.4711] = 60 GiB\n5s..15s meminfo.MemAvailable = 1 GiB\n\
                2s..18s gpu.power[0] = 0 W -> 16 W\n10s..20s gpu.power[0] = 108 W\n";
    fs::write(&path, format!("{HEAD}{body}")).unwrap();
    let at = |time: &str, series: &str| {
        let (code, out, err) = replay(&[path.to_str().unwrap(), "--at", time, "--metrics"]);
        assert_eq!(code, 0, "{err}");
        value(&out, series).unwrap()
    };
    let available = |time: &str| at(time, "gb10_pool_available_bytes") / 1_073_741_824.0;
    let begins = available("4s");
    assert!((52.0..54.0).contains(&begins), "{begins}");
    assert!((available("5s") - begins).abs() < 0.01 && (available("15s") - 1.0).abs() < 0.01);
    assert!((available("10s") - f64::midpoint(begins, 1.0)).abs() < 0.01, "half way");
    let watts = |time: &str| at(time, "gb10_gpu_power_watts{gpu=\"0\"}");
    for (time, want) in [("10s", 8.0), ("15s", 58.0), ("20s", 108.0)] {
        assert!((watts(time) - want).abs() < 0.01, "{time}: {}", watts(time));
    }
}

/// A machine that is down says nothing, and comes back as another boot.
#[test]
fn a_machine_that_is_down_is_not_there() {
    let path = root().join("tests/scenarios/reboot.txt");
    let path = path.to_str().unwrap();
    let (code, _, err) = replay(&[path, "--at", "180s"]);
    assert_eq!(code, 2);
    assert!(err.contains("the machine is down at 180 s"), "{err}");
    let (_, series, _) = replay(&[path, "--emit", "promtool", "--scrape-interval", "30s"]);
    let of = |name: &str| {
        let mut lines = series.lines().skip_while(|line| !line.contains(&format!("'{name}{{")));
        lines.next().and_then(|_| lines.next()).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(of("up"), "values: '1x3 0x3 1x11 0x1 1x8'", "{series}");
    assert!(of("gb10_pool_size_bytes").contains(" stale _x3 "), "{}", of("gb10_pool_size_bytes"));
    let boots = |time: &str| {
        let (_, out, _) = replay(&[path, "--at", time, "--metrics"]);
        (
            value(&out, "gb10_boot_timestamp_seconds").unwrap(),
            value(&out, "gb10_boot_unclean") == Some(1.0),
        )
    };
    let (first, second, third) = (boots("100s"), boots("300s"), boots("14m"));
    assert!(first.0 < second.0 && second.0 < third.0, "{first:?} {second:?} {third:?}");
    assert_eq!((first.1, second.1, third.1), (false, true, false));
}
