//! The layers of lib.rs, held by reading the sources as syntax trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// What each layer may use of this crate, besides itself. The same table stands in lib.rs, and
/// [`the_table_is_the_one_in_the_documentation`] compares them.
const MAY_USE: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("thresholds", &["units"]),
    ("model", &["units", "thresholds"]),
    ("derive", &["model", "units", "thresholds"]),
    ("planning", &["model", "units", "thresholds"]),
    ("catalog", &["model", "units"]),
    ("sources", &["model", "units"]),
    ("capture", &["model", "units", "sources"]),
    ("config", &["model", "thresholds", "units"]),
    ("export", &["catalog", "model", "units"]),
    ("rules", &["catalog", "model", "thresholds", "units"]),
    ("docs", &["catalog", "config", "planning", "rules", "thresholds", "model", "units"]),
    ("grafana", &["catalog", "model", "thresholds", "units"]),
    ("clock", &["model"]),
    (
        "engine",
        &["sources", "derive", "capture", "model", "thresholds", "config", "clock", "units"],
    ),
    ("server", &["engine", "export", "model", "config"]),
    ("client", &[]),
    ("alertmanager", &["catalog", "client", "clock", "config", "engine", "rules"]),
    ("otlp", &["catalog", "clock", "config", "engine", "model", "sources"]),
];

/// Layers without input, output, clock, processes and threads.
const PURE: &[&str] = &[
    "units",
    "thresholds",
    "model",
    "derive",
    "planning",
    "catalog",
    "export",
    "grafana",
    "rules",
    "docs",
];
const IMPURE_STD: &[&str] = &["fs", "net", "process", "env", "thread", "io"];
const CLOCKS: &[&str] = &["Instant", "SystemTime", "clock_gettime"];
/// The files with unsafe code.
const UNSAFE: [&str; 2] = ["src/sources/gpu/nvml/raw.rs", "src/sources/gpu/cuda.rs"];
/// Longest file.
const MAX_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// One source file: its layer, its module path, what it uses.
struct Source {
    path: PathBuf,
    layer: String,
    module: Vec<String>,
    text: String,
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let all: Vec<_> = rust_files(&src)
        .into_iter()
        .map(|path| {
            let mut module: Vec<String> = path
                .strip_prefix(&src)
                .unwrap()
                .with_extension("")
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            if module.last().is_some_and(|last| last == "mod") {
                module.pop();
            }
            let text = fs::read_to_string(&path).unwrap();
            Source { layer: module[0].clone(), path, module, text }
        })
        .collect();
    assert!(all.len() > 40, "found {} files", all.len());
    all
}

/// Every path that a file mentions outside its tests, with `crate`, `self` and `super` resolved.
#[derive(Default)]
struct Paths {
    module: Vec<String>,
    found: BTreeSet<Vec<String>>,
    literals: Vec<String>,
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("test")
            || (a.path().is_ident("cfg") && a.parse_args::<syn::Ident>().is_ok_and(|i| i == "test"))
    })
}

impl Paths {
    fn note(&mut self, segments: &[String]) {
        let mut at = self.module.clone();
        let mut rest = segments;
        match rest.first().map(String::as_str) {
            Some("crate") => {
                at.clear();
                rest = &rest[1..];
            }
            Some("self") => rest = &rest[1..],
            Some("super") => {
                while rest.first().is_some_and(|s| s == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            _ => {
                self.found.insert(segments.to_vec());
                return;
            }
        }
        at.extend(rest.iter().cloned());
        self.found.insert([vec!["crate".to_owned()], at].concat());
    }

    fn tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(p) => self.tree(&with(&p.ident), &p.tree),
            syn::UseTree::Name(n) => self.note(&with(&n.ident)),
            syn::UseTree::Rename(r) => self.note(&with(&r.ident)),
            syn::UseTree::Glob(_) => self.note(prefix),
            syn::UseTree::Group(g) => g.items.iter().for_each(|item| self.tree(prefix, item)),
        }
    }

    /// Macro bodies are not syntax trees: what looks like a path in their tokens counts as one.
    fn tokens(&mut self, text: &str) {
        let words: Vec<&str> = text
            .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
            .filter(|w| !w.is_empty())
            .collect();
        let joined =
            words.join(" ").replace(" :: ", "::").replace(" ::", "::").replace(":: ", "::");
        for word in joined.split(' ').filter(|w| w.contains("::")) {
            self.note(
                &word.split("::").filter(|s| !s.is_empty()).map(str::to_owned).collect::<Vec<_>>(),
            );
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Mod(m) => &m.attrs,
            syn::Item::Fn(f) => &f.attrs,
            syn::Item::Impl(i) => &i.attrs,
            syn::Item::Use(u) => &u.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.tokens(&mac.tokens.to_string());
        for part in mac.tokens.to_string().split('"').skip(1).step_by(2) {
            self.literals.push(part.to_owned());
        }
        visit::visit_macro(self, mac);
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.literals.push(literal.value());
    }
}

fn paths(source: &Source) -> Paths {
    let mut paths = Paths { module: source.module.clone(), ..Paths::default() };
    // A file of tests beside its module.
    if source.module.last().is_some_and(|last| last == "tests") {
        return paths;
    }
    let file =
        syn::parse_file(&source.text).unwrap_or_else(|e| panic!("{}: {e}", source.path.display()));
    paths.visit_file(&file);
    paths
}

#[test]
fn layers_use_only_what_they_may() {
    let table: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    let layers: BTreeSet<&str> = table.keys().copied().chain(["cli"]).collect();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for source in sources() {
        if ["main", "lib", "cli"].contains(&source.layer.as_str()) {
            continue;
        }
        let may = table
            .get(source.layer.as_str())
            .unwrap_or_else(|| panic!("{} is in no layer", source.path.display()));
        for path in &paths(&source).found {
            let [first, layer, ..] = path.as_slice() else { continue };
            if first != "crate" || !layers.contains(layer.as_str()) || *layer == source.layer {
                continue;
            }
            seen += 1;
            if !may.contains(&layer.as_str()) {
                wrong.push(format!("{} uses {}", source.path.display(), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "the test sees only {seen} uses");
}

#[test]
fn pure_layers_touch_neither_the_machine_nor_the_clock() {
    let mut wrong = Vec::new();
    for source in sources() {
        let pure = PURE.contains(&source.layer.as_str());
        for path in &paths(&source).found {
            let joined = path.join("::");
            let clock = path.iter().any(|segment| CLOCKS.contains(&segment.as_str()));
            if clock && source.layer != "clock" {
                wrong.push(format!(
                    "{}: {joined}: the time comes from clock.rs",
                    source.path.display()
                ));
            }
            let impure =
                path.len() > 1 && path[0] == "std" && IMPURE_STD.contains(&path[1].as_str());
            let logs = path[0] == "tracing";
            if pure && (impure || logs || path[0] == "tokio" || path[0] == "rustix") {
                wrong.push(format!("{}: {joined} in a pure layer", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn metric_names_are_written_in_the_catalog_only() {
    let mut in_catalog = 0;
    let name = |l: &str| l.starts_with("gb10_") || l.starts_with("process_");
    for source in sources() {
        let found = paths(&source);
        let names: Vec<_> = found.literals.iter().filter(|l| name(l)).collect();
        if source.layer == "catalog" {
            in_catalog += names.len();
        } else {
            assert!(names.is_empty(), "{}: {names:?}", source.path.display());
        }
    }
    assert!(in_catalog > 30, "the test sees only {in_catalog} names");
}

#[test]
fn files_are_short_and_say_what_they_are() {
    for dir in ["src", "tests", "benches"] {
        for path in rust_files(&root().join(dir)) {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().count();
            assert!(lines <= MAX_LINES, "{} has {lines} lines", path.display());
            let has_doc = text.lines().take(3).any(|line| line.starts_with("//!"));
            let beside = path.file_name().is_some_and(|name| name == "tests.rs");
            assert!(has_doc || beside, "{} does not say what it is", path.display());
            let unsafe_code = ["unsafe", " {"].concat();
            // A stand-in for a C library speaks C, and so do the calls that NVML's wrapper lacks and the
            // one question to CUDA.
            let speaks_c = path.starts_with(root().join("tests/fakes"))
                || UNSAFE.iter().any(|file| path == root().join(file));
            assert!(speaks_c || !text.contains(&unsafe_code), "{}", path.display());
        }
    }
}

/// The first table row of each layer in lib.rs names exactly what the table above does.
#[test]
fn the_table_is_the_one_in_the_documentation() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for (layer, may) in MAY_USE {
        let row = lib
            .lines()
            .filter_map(|line| line.strip_prefix("//! | [`"))
            .find(|row| row.starts_with(&format!("{layer}`]")))
            .unwrap_or_else(|| panic!("lib.rs has no row for {layer}"));
        let cell = row.split(" | ").nth(1).unwrap();
        let documented: BTreeSet<&str> = cell.split(", ").filter(|w| *w != "nothing").collect();
        assert_eq!(documented, may.iter().copied().collect(), "{layer}");
    }
}

/// The project speaks of itself alone.
#[test]
fn nothing_points_outside_the_project() {
    let mut files = rust_files(&root().join("src"));
    for extra in [
        "README.md",
        "CHANGELOG.md",
        "Makefile",
        "docs",
        "alerts",
        "alerts/runbooks",
        "tests/captures",
        "deploy/systemd",
        "deploy/prometheus",
        "grafana",
        "grafana/provisioning/dashboards",
        "grafana/provisioning/datasources",
    ] {
        let path = root().join(extra);
        if path.is_dir() {
            files.extend(
                fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file()),
            );
        } else {
            files.push(path);
        }
    }
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for word in ["/work/", "../shared", "/root/"] {
            assert!(!text.contains(word), "{} mentions {word}", path.display());
        }
    }
}
