//! The files below deploy/: they speak of flags that exist, and set no trap.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

use gb10_exporter::config::{Config, Origin, file, table};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{exporter, root, tool};

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The `Key=value` lines of the unit, without comments.
fn directives() -> Vec<(String, String)> {
    read("deploy/systemd/gb10-exporter.service")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn values(key: &str) -> Vec<String> {
    directives().into_iter().filter(|(k, _)| k == key).map(|(_, value)| value).collect()
}

/// Everything in a text that looks like a long flag.
fn flags(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))
        .filter_map(|word| word.strip_prefix("--"))
        .map(|flag| flag.trim_end_matches('.').to_owned())
        .filter(|flag| !flag.is_empty())
        .collect()
}

#[test]
fn every_flag_that_is_named_exists() {
    let out = exporter().arg("--help").output().expect("runs");
    let known = flags(&String::from_utf8(out.stdout).unwrap());
    assert!(known.contains("web.listen-address") && known.len() > 8, "{known:?}");
    let defaults = read("deploy/systemd/gb10-exporter.default");
    let named = flags(&(defaults + &values("ExecStart").join(" ")));
    assert!(named.contains("log.format"), "{named:?}");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The arguments of the example start an exporter, as systemd would split them.
#[test]
fn the_example_of_the_defaults_is_accepted() {
    let defaults = read("deploy/systemd/gb10-exporter.default");
    let example = defaults.lines().find_map(|line| line.strip_prefix("#   ARGS=")).unwrap();
    let args: Vec<&str> = example.trim_matches('"').split_whitespace().collect();
    assert!(args.len() > 1, "{example}");
    // The real thing but for the place of the file.
    let here = root().join("deploy/gb10-exporter.yml");
    let args = args.iter().map(|arg| arg.replace("/etc/gb10-exporter.yml", here.to_str().unwrap()));
    let out = exporter().arg("config").args(args).output().expect("runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stdout).contains("['127.0.0.1:10058']"));
    assert_eq!(defaults.lines().last(), Some("ARGS=\"\""), "nothing is changed by itself");
}

#[test]
fn the_unit_is_what_the_exporter_needs() {
    for (key, want) in [
        ("Type", "notify"),
        ("WatchdogSec", "30"),
        ("Restart", "on-failure"),
        ("StateDirectory", "gb10-exporter"),
        ("SupplementaryGroups", "adm"),
        ("EnvironmentFile", "-/etc/default/gb10-exporter"),
        ("ExecStart", "/usr/local/bin/gb10-exporter $ARGS"),
    ] {
        assert_eq!(values(key), [want], "{key}");
    }
    assert!(values("DynamicUser") == ["yes"] || values("User").len() == 1, "never root");
}

/// Each of these takes something away that the exporter reads, or a GPU's device nodes.
#[test]
fn no_trap_is_set() {
    for (key, value) in directives() {
        let trap = match key.as_str() {
            "PrivateDevices" | "ProtectClock" => value == "yes" || value == "true",
            "ProtectProc" => value != "default",
            "ProcSubset" => value != "all",
            "DeviceAllow" | "InaccessiblePaths" | "PrivateNetwork" | "IPAddressDeny" => true,
            "DevicePolicy" => value != "auto",
            "SystemCallFilter" => value.matches('~').count() > usize::from(value.starts_with('~')),
            _ => false,
        };
        assert!(!trap, "{key}={value}");
    }
}

/// systemd's own opinion, where systemd is.
#[test]
fn promtool_takes_the_scrape_job() {
    let job = read("deploy/prometheus/scrape.yml");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("prometheus.yml");
    fs::write(&file, format!("scrape_configs:\n{job}")).unwrap();
    let out = Command::new(tool("promtool"))
        .args(["check", "config"])
        .arg(&file)
        .output()
        .expect("promtool");
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("SUCCESS"), "{said}");
    assert!(job.contains(":10058"), "the port is the exporter's own");
}

/// The example configuration names every setting, and with its marks taken off it is accepted and says
/// what is the default anyway.
#[test]
fn the_example_configuration_is_one() {
    let text = fs::read_to_string(root().join("deploy/gb10-exporter.yml")).unwrap();
    let bare: String = text
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| {
            line.starts_with("  ") || line.ends_with(':') || line.starts_with("train_log: ")
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut config = Config::default();
    file::apply(Path::new("example"), &bare, &mut config).unwrap_or_else(|e| panic!("{e}\n{bare}"));
    for key in table::keys() {
        assert_eq!(config.origin(&key), Origin::File, "{key} is not in it");
        let default = table::shown(&Config::default(), &key);
        // What has no default has an example in its place.
        if !default.is_empty() {
            assert_eq!(table::shown(&config, &key), default, "{key}");
        }
    }
    // As it is shipped it sets nothing.
    let mut untouched = Config::default();
    file::apply(Path::new("example"), &text, &mut untouched).unwrap();
    assert_eq!(untouched, Config::default());
}
