//! An Alertmanager of a test's own, and a receiver for its notices.

use super::{Exporter, exporter, request, root, tool};
use gb10_exporter::rules::{Format, Group, Options, render};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Takes Alertmanager's JSON and keeps it, with the path that it came to.
pub struct Webhook {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Webhook {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Some(notice) = take(stream) {
                    kept.lock().unwrap().push(notice);
                }
            }
        });
        Self { address, received }
    }

    /// What came to a path so far.
    pub fn at(&self, path: &str) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|(at, _)| at == path).map(|(_, notice)| notice.clone()).collect()
    }

    /// Waits for a notice at a path.
    pub fn wait_for(&self, path: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.wait_for_long(path, what, Duration::from_secs(90), is)
    }

    /// The same with more patience.
    pub fn wait_for_long(
        &self,
        path: &str,
        what: &str,
        patience: Duration,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let began = Instant::now();
        loop {
            let all = self.at(path);
            if let Some(found) = all.iter().find(|notice| is(notice)) {
                return found.clone();
            }
            assert!(began.elapsed() < patience, "never: {what}\n{all:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn take(stream: TcpStream) -> Option<(String, Value)> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    reader.get_mut().write_all(answer).ok()?;
    Some((path, serde_json::from_slice(&body).ok()?))
}

/// Killed when dropped.
pub struct Alertmanager {
    child: Child,
    pub address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Alertmanager {
    /// With this configuration, its templates beside it; at a port of its own or at this one.
    pub fn start(config: &str, templates: &Path, at: Option<SocketAddr>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("alertmanager.yml"), config).unwrap();
        fs::copy(templates, dir.path().join("gb10.tmpl")).unwrap();
        // Where the fetched program looks for templates of its own (tests/tools.sh); an installed one does not.
        let own =
            root().join("target/tools/prometheus-alertmanager/usr/share/prometheus/alertmanager");
        fs::create_dir(dir.path().join("tmpl")).unwrap();
        for file in fs::read_dir(own).into_iter().flatten().map_while(Result::ok) {
            if file.path().is_file() {
                fs::copy(file.path(), dir.path().join("tmpl").join(file.file_name())).unwrap();
            }
        }
        let address =
            at.unwrap_or_else(|| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let child = Command::new(tool("prometheus-alertmanager"))
            .arg(format!("--config.file={}", dir.path().join("alertmanager.yml").display()))
            .arg(format!("--storage.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--cluster.listen-address=")
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("alertmanager");
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "alertmanager does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { child, address, _dir: dir }
    }

    /// The alerts that it holds.
    pub fn alerts(&self) -> Vec<Value> {
        let answer = request(self.address, "GET", "/api/v2/alerts", "");
        let text = answer.text();
        let begin = text.find('[').unwrap_or(0);
        let end = text.rfind(']').map_or(text.len(), |at| at + 1);
        serde_json::from_str(&text[begin..end]).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// Those of a name.
    pub fn named(&self, name: &str) -> Vec<Value> {
        let all = self.alerts();
        all.into_iter().filter(|alert| alert["labels"]["alertname"] == name).collect()
    }

    /// Posts alerts as anybody may.
    pub fn post(&self, alerts: &Value) {
        let body = alerts.to_string();
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "POST /api/v2/alerts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The example that is shipped.
pub fn example() -> PathBuf {
    root().join("alerts/alertmanager.example.yml")
}

/// Its templates.
pub fn templates() -> PathBuf {
    root().join("alerts/gb10.tmpl")
}

/// The example with its receivers replaced by a test's own, and with this much patience instead of its own.
pub fn config(webhook: &Webhook, patience: Option<&str>) -> String {
    let text = fs::read_to_string(example()).unwrap();
    let mut config: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
    let receiver = |name: &str| {
        format!(
            "- name: {name}\n  webhook_configs:\n  - url: http://{}/{name}\n    send_resolved: true\n",
            webhook.address
        )
    };
    let receivers = receiver("nobody") + &receiver("chat") + &receiver("pager");
    config["receivers"] = serde_yaml::from_str(&receivers).unwrap();
    if let Some(patience) = patience {
        let route = &mut config["route"];
        route["group_wait"] = patience.into();
        route["group_interval"] = patience.into();
        for child in route["routes"].as_sequence_mut().unwrap() {
            if child["receiver"] == "pager" {
                child["group_wait"] = patience.into();
                child["group_interval"] = patience.into();
            }
        }
    }
    serde_yaml::to_string(&config).unwrap()
}

/// A free port; that somebody else takes it before it is used has not been seen.
pub fn port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A story, served as a box at this address.
pub fn replay(story: &str, speed: &str, at: SocketAddr, more: &[String]) -> Exporter {
    let mut command = exporter();
    command.arg("replay").arg(root().join(format!("tests/scenarios/{story}.txt")));
    let at = at.to_string();
    command.args(["--serve", "--speed", speed, "--web.listen-address", &at]).args(more);
    Exporter::spawn(command)
}

/// The usual rules, with their durations multiplied.
pub fn rules_scaled(scale: f64) -> String {
    let groups: Vec<Group> = Group::ALL.iter().copied().filter(|g| !g.optional()).collect();
    let options = Options { scale, ..Options::default() };
    render(&groups, &options, Format::Prometheus).unwrap()
}

/// Whether a notice has an alert of this name in this state.
pub fn holds(notice: &Value, name: &str, status: &str) -> bool {
    let alerts = notice["alerts"].as_array().unwrap();
    alerts.iter().any(|a| a["labels"]["alertname"] == name && a["status"] == status)
}

/// What an exporter at this address is told so that it tells an Alertmanager itself.
pub fn own_notices(instance: SocketAddr, manager: SocketAddr) -> Vec<String> {
    let instance = format!("instance={instance}");
    let url = format!("http://{manager}");
    let label = "--alertmanager.label";
    ["--alertmanager.url", &url, label, "job=gb10", label, &instance].map(str::to_owned).to_vec()
}
