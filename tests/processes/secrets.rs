//! What processes are started with is nobody's business: no output has it, and no memory of the exporter.

use crate::live::{CAPTURE, Cast, charge, command, serve, stdout};
use crate::support::fakes::Gpu;
use crate::support::value;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::process::Stdio;

/// In arguments: keys, tokens, addresses with passwords, prompts.
const ARGUMENTS: &[&str] = &[
    "--api-key",
    "sk-Zq7Planted1AAAAAAAAAAAAAAAAAA",
    "--hf-token=hf_Zq7Planted2BBBBBBBBBBBBBBBB",
    "--url",
    "postgres://zq7:Zq7Planted3CCCCCCCC@db.example/x",
    "--prompt",
    "tell nobody about Zq7Planted4DDDDDDDD",
];
const ENVIRONMENT: &str = "Zq7Planted5EEEEEEEEEEEEEEEEEEEE";
/// What all of them have in common, in two pieces so that this program's text is no copy of it.
const MARK: [&str; 2] = ["Zq7", "Planted"];

fn mark() -> String {
    MARK.concat()
}

/// Processes with secrets, one of each kind that is looked at closely.
fn play(cast: &mut Cast) -> Vec<(u32, u64)> {
    cast.tell(&["secret", ENVIRONMENT]);
    let mut pids = Vec::new();
    for (name, line) in [
        ("python3", &["python3", "-m", "vllm.entrypoints.openai.api_server"][..]),
        ("vllm", &["/opt/bin/vllm", "serve", "m"]),
        ("ollama", &["ollama", "serve"]),
        ("python3", &["python3", "train.py"]),
        ("node", &["node", "server.js"]),
        ("painter", &["painter"]),
    ] {
        pids.push(cast.start(name, &[line, ARGUMENTS].concat()).pid);
    }
    // One whose title is one text, one with bytes that are no text, one that is too long.
    let title = ["python3 -m vllm.entrypoints.openai.api_server", &ARGUMENTS.join(" ")].join(" ");
    pids.push(cast.start("python3", &[&title]).pid);
    let long = "x".repeat(70_000);
    let line = [&["vllm", "serve"], ARGUMENTS, &[&long]].concat();
    pids.push(cast.start("vllm", &line).pid);
    pids.iter().map(|pid| (*pid, 1 << 30)).collect()
}

/// Where a text stands in the memory that a process can write to.
fn places(pid: u32, text: &str) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut found = Vec::new();
    let mut all = 0;
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (range, rights) = (fields.next().unwrap(), fields.next().unwrap());
        if !rights.starts_with("rw") {
            continue;
        }
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|n| u64::from_str_radix(n, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        memory.seek(SeekFrom::Start(from)).unwrap();
        // Some of the kernel's own mappings cannot be read.
        if memory.read_exact(&mut bytes).is_err() {
            continue;
        }
        all += bytes.len();
        for at in bytes.windows(text.len()).enumerate().filter(|(_, w)| *w == text.as_bytes()) {
            let end = (at.0 + 60).min(bytes.len());
            found.push(format!("{line}: {:?}", String::from_utf8_lossy(&bytes[at.0..end])));
        }
    }
    assert!(all > 1 << 20, "its memory was looked at: {all} bytes");
    found
}

#[test]
fn no_secret_of_a_process_gets_out() {
    let gpu = Gpu::new(CAPTURE);
    let mut cast = Cast::new();
    let charged = play(&mut cast);
    charge(&gpu, &charged);
    let exporter = serve(&gpu, &["--log.level=debug"]);
    let ticks = "gb10_lane_ticks_total{lane=\"processes\"}";
    let metrics = exporter.wait_for_metrics("two rounds", |m| value(m, ticks) >= Some(2.0));
    let seen = format!(
        "gb10_workload_processes{{workload=\"vllm\",unit=\"{}\"}}",
        crate::live::unit_here()
    );
    assert!(value(&metrics, &seen) >= Some(4.0), "they were read: {metrics}");

    let places = places(exporter.child.id(), &mark());
    assert!(places.is_empty(), "{} in its memory:\n{}", places.len(), places.join("\n"));
    let mut outputs = vec![("metrics", metrics)];
    for path in ["/", "/api/v1/status", "/metrics"] {
        outputs.push((path, exporter.get(path)));
    }
    outputs.push(("log", exporter.log.lock().unwrap().clone()));
    outputs.push(("terminal", stdout(command(&gpu, "status"))));
    let mut json = command(&gpu, "status");
    json.arg("--json");
    outputs.push(("json", stdout(json)));
    let directory = tempfile::tempdir().unwrap();
    for (name, more) in [
        ("one capture", &["--no-mask"][..]),
        ("a while", &["--no-mask", "--duration", "6s", "--interval", "2s"]),
    ] {
        let file = directory.path().join(name);
        let mut record = command(&gpu, "record");
        record.args(more).arg(&file).stderr(Stdio::piped());
        let out = record.output().unwrap();
        assert!(out.status.success());
        outputs.push(("what record prints", String::from_utf8(out.stderr).unwrap()));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("cap=none"), "processes are in it: {text}");
        outputs.push((name, text));
    }
    let mut sample = command(&gpu, "sample");
    sample.args(["--extended", "--interval", "1s", "--duration", "2s", "-"]);
    outputs.push(("CSV", stdout(sample)));
    for (name, text) in &outputs {
        assert!(text.len() > 20 || *name == "log", "{name}: {text}");
        assert!(!text.contains(&mark()), "{name} tells it:\n{text}");
    }
    drop(cast);
}
