//! A Prometheus of a test's own, on a port of its own.

use super::{request, tool};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Killed when dropped.
pub struct Prometheus {
    child: Child,
    pub address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    /// Holds what a file of OpenMetrics says, and scrapes nothing.
    pub fn filled(openmetrics: &std::path::Path) -> Self {
        Self::filled_and_scraping(&[openmetrics.to_owned()], &[])
    }

    /// Holds what files of OpenMetrics say, and scrapes these targets every second.
    pub fn filled_and_scraping(files: &[std::path::PathBuf], targets: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let out = Command::new(tool("promtool"))
                .args(["tsdb", "create-blocks-from", "openmetrics"])
                .arg(file)
                .arg(dir.path().join("data"))
                .output()
                .expect("promtool");
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        }
        Self::start_in(dir, targets)
    }

    /// Scrapes these targets every second.
    pub fn start(targets: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), targets)
    }

    /// Scrapes and evaluates these rules every so many seconds, and tells this Alertmanager.
    pub fn alerting(targets: &[&str], rules: &str, alertmanager: SocketAddr, every: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("rules.yml"), rules).unwrap();
        let more = format!(
            "rule_files: [rules.yml]\nalerting:\n  alertmanagers:\n  - static_configs:\n    - targets: ['{alertmanager}']\n"
        );
        Self::start_with(dir, targets, &more, every)
    }

    fn start_in(dir: tempfile::TempDir, targets: &[&str]) -> Self {
        Self::start_with(dir, targets, "", 1)
    }

    fn start_with(dir: tempfile::TempDir, targets: &[&str], more: &str, every: u32) -> Self {
        let config = dir.path().join("prometheus.yml");
        let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
        let targets = targets.join(", ");
        fs::write(
            &config,
            format!(
                "global:\n  scrape_interval: {every}s\n  evaluation_interval: {every}s\nscrape_configs:\n- job_name: gb10\n  static_configs:\n  - targets: [{targets}]\n{more}"
            ),
        )
        .unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(tool("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            // What is filled in may be old.
            .arg("--storage.tsdb.retention.time=100y")
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus");
        Self { child, address, _dir: dir }
    }

    /// How many finite samples a query has from one time to another. One that is refused fails.
    pub fn finite_samples(&self, expression: &str, from: u64, to: u64, step: Duration) -> usize {
        let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
        let step = step.as_secs();
        let path = format!("/api/v1/query_range?query={encoded}&start={from}&end={to}&step={step}");
        let answer = request(self.address, "GET", &path, "");
        let text = answer.text();
        let body = text.find('{').zip(text.rfind('}')).map(|(from, to)| &text[from..=to]);
        let json: serde_json::Value = serde_json::from_str(body.unwrap_or_default()).unwrap();
        assert_eq!(json["status"], "success", "{expression}: {text}");
        let series = json["data"]["result"].as_array().unwrap().iter();
        let samples = series.flat_map(|series| series["values"].as_array().unwrap());
        let values = samples.filter_map(|sample| sample[1].as_str()?.parse::<f64>().ok());
        values.filter(|value| value.is_finite()).count()
    }

    /// The value of an instant query that has exactly one result.
    pub fn query(&self, expression: &str) -> Option<f64> {
        TcpStream::connect(self.address).ok()?;
        let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
        let answer = request(self.address, "GET", &format!("/api/v1/query?query={encoded}"), "");
        let text = answer.text();
        let json: serde_json::Value =
            serde_json::from_str(text.get(text.find('{')?..=text.rfind('}')?)?).ok()?;
        let results = json["data"]["result"].as_array()?;
        let [only] = results.as_slice() else { return None };
        only["value"][1].as_str()?.parse().ok()
    }

    /// Asks again and again until that is its value.
    pub fn wait_for(&self, expression: &str, want: f64) {
        let began = Instant::now();
        loop {
            let got = self.query(expression);
            if got.is_some_and(|got| (got - want).abs() < 0.5) {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{expression} is {got:?}, not {want}"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
