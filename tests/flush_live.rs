//! A real flush of the whole page cache, and what it brought. No part of `make test`, for it slows down the
//! machine that runs it and needs root: `make prove` runs it and keeps its figures.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests start programs and write files; the figures go to standard output"
)]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::exporter;

/// How much of a file is in the page cache.
fn cached(path: &Path) -> u64 {
    let out = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .arg(path)
        .output();
    let out = out.expect("fincore of util-linux");
    String::from_utf8(out.stdout).unwrap().trim().parse().expect("bytes")
}

/// It asks first where a workload runs, and that is an end of the test.
#[test]
fn the_whole_cache_is_given_back() {
    const SIZE: usize = 256 << 20;
    // Not below /tmp, which may be memory itself.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("model.safetensors");
    fs::write(&path, vec![7; SIZE]).unwrap();
    assert_eq!(cached(&path), SIZE as u64);
    let command = exporter().args(["flush", "--level", "1", "--compact"]).output();
    let Output { status, stdout, stderr } = command.expect("runs");
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(0), "{err}");
    assert_eq!(cached(&path), 0);
    let line = |name: &str| {
        let found = out.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name}: {out}")).to_owned()
    };
    // Amount and unit, signed.
    let last = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[words.len() - 2..].join(" ")
    };
    let (free, cache) = (last(&line("free")), last(&line("page cache")));
    assert!(free.starts_with('+'), "{out}");
    assert!(cache.starts_with('-'), "{out}");
    assert!(err.contains("event=cache_flushed") && err.contains("compacted=true"), "{err}");
    println!(
        "proof: | a real flush, its file of 256 MiB included: free memory, page cache | {free}, {cache} |"
    );
}
