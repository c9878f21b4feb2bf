//! What tests need of the fake NVIDIA library and the fake `nvidia-smi`: where they are, a capture that
//! changes under them, and a process of its own for a test that loads the library.

use super::root;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that `cargo test` builds beside the tests.
fn built(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_gb10-exporter")).parent().expect("a directory");
    let path = directory.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: `cargo test` without --test builds it, and so does `cargo build --examples`",
        path.display()
    );
    path
}

/// The fake library of a current driver.
pub fn nvml() -> PathBuf {
    built("libfake_nvml.so")
}

/// The fake library of an old driver, without the functions that came later.
pub fn nvml_old() -> PathBuf {
    built("libfake_nvml_old.so")
}

/// The fake `nvidia-smi`.
pub fn nvidia_smi() -> PathBuf {
    built("fake_nvidia_smi")
}

/// A program that does nothing, under any name.
pub fn program() -> PathBuf {
    built("fake_program")
}

/// A GPU that a test changes: a copy of a capture, and what the fakes note about themselves.
pub struct Gpu {
    path: PathBuf,
    _dir: Option<tempfile::TempDir>,
}

impl Gpu {
    /// A copy of a capture.
    pub fn new(capture: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("capture.txt");
        let text = fs::read_to_string(root().join(format!("tests/captures/{capture}.txt")));
        fs::write(&path, text.expect("a capture")).expect("writes");
        Self { path, _dir: Some(dir) }
    }

    /// The capture, for `--capture` and for `FAKE_GPU_CAPTURE`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the fakes need in their environment.
    pub fn environment(&self) -> [(&'static str, OsString); 3] {
        [
            ("FAKE_GPU_CAPTURE", self.path.clone().into()),
            ("FAKE_NVML_TRACE", self.beside("trace").into()),
            ("FAKE_SMI_PIDS", self.beside("pids").into()),
        ]
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    /// Puts these values into the GPU section, in one step: the file is replaced by another one.
    pub fn set(&self, values: &[(&str, &str)]) {
        let text = self.without(&values.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        let lines: String =
            values.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        self.replace(&text.replacen("==> gpu\n", &format!("==> gpu\n{lines}"), 1));
    }

    /// Leaves these keys out of the GPU section.
    pub fn leave_out(&self, keys: &[&str]) {
        self.replace(&self.without(keys));
    }

    /// Gives the machine a second GPU, like the first but for its name, address and identity.
    pub fn add_second(&self) {
        let text = fs::read_to_string(&self.path).expect("the capture");
        let (_, section) = text.split_once("==> gpu\n").expect("a GPU");
        let first = section.lines().take_while(|line| !line.starts_with("==> "));
        let second: Vec<(String, String)> = first
            .filter_map(|line| line.strip_prefix("0.")?.split_once('='))
            .map(|(key, value)| (format!("1.{}", key.trim()), value.trim().to_owned()))
            .collect();
        let mut values: Vec<(&str, &str)> =
            second.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        values.retain(|(key, _)| !["1.name", "1.uuid", "1.bus"].contains(key));
        values.push(("1.name", "NVIDIA RTX 6000"));
        values.push(("1.uuid", "GPU-11111111-1111-1111-1111-111111111111"));
        values.push(("1.bus", "00000009:01:00.0"));
        values.push(("count", "2"));
        self.set(&values);
    }

    fn without(&self, keys: &[&str]) -> String {
        let text = fs::read_to_string(&self.path).expect("the capture");
        let is_one =
            |line: &str| line.split_once('=').is_some_and(|(k, _)| keys.contains(&k.trim()));
        text.lines().filter(|line| !is_one(line)).map(|line| format!("{line}\n")).collect()
    }

    fn replace(&self, text: &str) {
        let new = self.beside("capture.new");
        fs::write(&new, text).expect("writes");
        fs::rename(&new, &self.path).expect("renames");
    }

    /// The lines that the fake library has noted: `init`, `shutdown`, and `OVERLAP` for each call that
    /// began while another one was running.
    pub fn trace(&self) -> Vec<String> {
        let text = fs::read_to_string(self.beside("trace")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The processes that a hanging `nvidia-smi` has noted: itself, then what it has started. With two
    /// of them it hangs as it should.
    pub fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.beside("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Lets an unkillable `nvidia-smi` go.
    pub fn let_go(&self) {
        let _ = fs::remove_file(self.beside("pids"));
    }
}

/// Runs a test in a process of its own, because a library reads its environment and keeps its state
/// for a whole process. In that process it returns the test's GPU; in the one that started it, nothing.
pub fn alone(test: &str, capture: &str) -> Option<Gpu> {
    const ALONE: &str = "FAKE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let path = std::env::var_os("FAKE_GPU_CAPTURE").expect("a capture").into();
        return Some(Gpu { path, _dir: None });
    }
    let gpu = Gpu::new(capture);
    let out = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .envs(gpu.environment())
        .output()
        .expect("runs");
    let printed = String::from_utf8_lossy(&out.stdout);
    let ran = printed.contains("1 passed");
    assert!(ran, "{test}:\n{printed}\n{}", String::from_utf8_lossy(&out.stderr));
    None
}
