//! Whatever a machine's files say, the exporter says only what is so: no panic, finite numbers, parts
//! that add up, a scrape that parses. Real captures are torn, cut and filled with nonsense.

mod support;

use gb10_exporter::capture::Capture;
use gb10_exporter::export::{prometheus, status::Status, terminal};
use gb10_exporter::model::fields;
use gb10_exporter::model::gpu::Gpus;
use gb10_exporter::model::pool::Segment;
use gb10_exporter::model::reading::Value;
use gb10_exporter::sources::{FileError, Files, Machine, ReadError, gpu};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// What is done to a file.
#[derive(Clone, Debug)]
enum Damage {
    Cut(prop::sample::Index),
    Replace(prop::sample::Index, String),
    Number(prop::sample::Index, String),
    Whole(String),
    Twice,
    Gone(u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    let number = prop_oneof![
        Just("18446744073709551615".to_owned()),
        Just("99999999999999999999999".to_owned()),
        Just("-1".to_owned()),
        Just("nan".to_owned()),
        Just("1e308".to_owned()),
        Just("0".to_owned()),
        "[0-9]{1,20}",
    ];
    prop_oneof![
        at().prop_map(Damage::Cut),
        (at(), "\\PC{0,12}").prop_map(|(i, s)| Damage::Replace(i, s)),
        (at(), number).prop_map(|(i, n)| Damage::Number(i, n)),
        "(?s).{0,80}".prop_map(Damage::Whole),
        Just(Damage::Twice),
        (0_u8..4).prop_map(Damage::Gone),
    ]
}

/// A capture with some of its files damaged.
#[derive(Clone)]
struct Damaged {
    capture: &'static Capture,
    files: Vec<(String, Damage)>,
    /// To a value of the GPU section.
    gpu: Vec<(prop::sample::Index, Damage)>,
}

fn spoil(text: &str, damage: &Damage) -> Result<String, FileError> {
    let boundary = |i: &prop::sample::Index| {
        let mut at = i.index(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    Ok(match damage {
        Damage::Cut(i) => text[..boundary(i)].to_owned(),
        Damage::Replace(i, with) => {
            let at = boundary(i);
            format!("{}{with}{}", &text[..at], &text[at..])
        }
        Damage::Number(i, with) => {
            let words: Vec<&str> = text.split_inclusive(' ').collect();
            let at = i.index(words.len().max(1));
            words
                .iter()
                .enumerate()
                .map(|(n, w)| if n == at { format!("{with} ") } else { (*w).to_owned() })
                .collect()
        }
        Damage::Whole(with) => with.clone(),
        Damage::Twice => format!("{text}{text}"),
        Damage::Gone(0) => return Err(FileError::NotPresent),
        Damage::Gone(1) => return Err(FileError::Denied),
        Damage::Gone(2) => return Err(FileError::TooLarge),
        Damage::Gone(_) => return Err(FileError::Failed("broken".to_owned())),
    })
}

/// A failing case is told by what was done, not by the whole machine.
impl std::fmt::Debug for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?} {:?}", self.capture.title, self.files, self.gpu)
    }
}

impl Files for Damaged {
    fn text(&self, path: &str) -> Result<String, FileError> {
        let mut text = self.capture.text(path)?;
        for (_, damage) in self.files.iter().filter(|(file, _)| file == path) {
            text = spoil(&text, damage)?;
        }
        Ok(text)
    }
    fn names(&self, path: &str) -> Result<Vec<String>, FileError> {
        self.capture.names(path)
    }
}

impl Machine for Damaged {
    fn gpu(&self, pace: &gpu::Pace<'_>, into: &mut Gpus) -> Result<(), ReadError> {
        let mut pairs = self.capture.gpu.clone();
        for (at, damage) in self.gpu.iter().filter(|_| !self.capture.gpu.is_empty()) {
            let at = at.index(pairs.len());
            match spoil(&pairs[at].1, damage) {
                Ok(value) => pairs[at].1 = value,
                Err(_) => "!999".clone_into(&mut pairs[at].1),
            }
        }
        gpu::recorded::read(&pairs, pace, into)
    }
}

fn machines() -> &'static [Capture] {
    static ALL: OnceLock<Vec<Capture>> = OnceLock::new();
    ALL.get_or_init(|| {
        support::captures().iter().map(|(_, path)| Capture::load(path).unwrap()).collect()
    })
}

fn damaged() -> impl Strategy<Value = Damaged> {
    let files = prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..6);
    let gpu = prop::collection::vec((any::<prop::sample::Index>(), damage()), 0..4);
    (any::<prop::sample::Index>(), files, gpu).prop_map(|(machine, damages, gpu)| {
        let capture = machine.get(machines());
        let paths: Vec<&str> = capture.paths().map(|(path, _)| path).collect();
        // The kernel's tables carry most of the weight: every other damage is to one of them.
        let tables = ["/proc/meminfo", "/proc/vmstat", "/proc/buddyinfo", "/proc/pressure/memory"];
        let files = damages
            .into_iter()
            .enumerate()
            .map(|(n, (at, damage))| {
                let path = if n % 2 == 0 { *at.get(&tables) } else { *at.get(&paths) };
                (path.to_owned(), damage)
            })
            .collect();
        Damaged { capture, files, gpu }
    })
}

/// The scrape's own rules: each sample is `name{labels} number`, finite, and no series is there twice.
fn check_scrape(text: &str) -> Result<(), TestCaseError> {
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let (series, number) =
            line.rsplit_once(' ').ok_or_else(|| TestCaseError::fail(line.to_owned()))?;
        let number: f64 = number.parse().map_err(|_| TestCaseError::fail(line.to_owned()))?;
        prop_assert!(number.is_finite(), "{}", line);
        prop_assert!(seen.insert(series.to_owned()), "twice: {}", series);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_damaged_machine_is_told_truthfully(machine in damaged()) {
        let f = support::frame(&machine);
        for field in fields::all() {
            let mut wild = None;
            (field.visit)(&f.snapshot, &mut |key, reading| {
                if let Ok(Value::Float(x)) = reading && !x.is_finite() {
                    wild = Some(format!("{}[{key}] is {x}", field.id));
                }
            });
            prop_assert_eq!(wild, None);
        }
        if let Ok(p) = &f.verdicts.pool.partition {
            let sum: u128 = p.parts.iter().flatten().map(|bytes| u128::from(bytes.0)).sum();
            prop_assert_eq!(sum, u128::from(p.size.0));
            let held = &f.verdicts.unaccounted.parts;
            if held[0].is_ok() {
                let held: u128 = held.iter().flatten().map(|bytes| u128::from(bytes.0)).sum();
                let whole = p.part(Segment::Unaccounted).unwrap();
                prop_assert_eq!(held, u128::from(whole.0));
            }
        }
        check_scrape(&String::from_utf8(prometheus::encode(&f, None)).unwrap())?;
        let status = Status::of(&f);
        let back: Status = serde_json::from_slice(&status.to_json()).unwrap();
        // Floats may lose their last digit on the way; the text is what people and scripts see.
        prop_assert_eq!(back.to_json(), status.to_json());
        prop_assert!(terminal::render(&status, true).contains("Pool "));
    }
}
