use super::*;
use proptest::prelude::*;
use std::fmt::Debug;
use std::marker::PhantomData;

/// A command line as people write it. "" is an empty argument, `~` a space inside one.
pub(in crate::sources::processes) fn line(text: &str) -> CommandLine {
    CommandLine::new(&raw(text), false)
}

pub(in crate::sources::processes) fn raw(text: &str) -> Vec<u8> {
    let args = text.split_ascii_whitespace();
    args.map(|arg| if arg == "\"\"" { "" } else { arg })
        .flat_map(|arg| format!("{}\0", arg.replace('~', " ")).into_bytes())
        .collect()
}

fn names(line: &CommandLine) -> Vec<String> {
    line.programs()
        .iter()
        .map(|program| {
            let kind = match program.kind {
                Kind::Binary => "",
                Kind::Interpreter => "via ",
                Kind::Script => "script ",
                Kind::Module => "-m ",
            };
            format!("{kind}{}", program.base())
        })
        .collect()
}

#[test]
fn what_really_runs_is_found() {
    let rows: &[(&str, &[&str])] = &[
        (
            "python3 -u -X dev -m vllm.entrypoints.openai.api_server --model m",
            &["via python3", "-m vllm.entrypoints.openai.api_server"],
        ),
        ("/usr/bin/python3 /usr/local/bin/vllm serve m", &["via python3", "script vllm"]),
        ("python3.12 -uBm vllm.x --model m", &["via python3.12", "-m vllm.x"]),
        ("python -Wignore -Xdev train.py --m x", &["via python", "script train.py"]),
        ("uv run vllm serve m", &["vllm"]),
        ("uv run --with vllm --python 3.12 vllm serve m", &["vllm"]),
        (
            "uv run -m vllm.entrypoints.openai.api_server",
            &["-m vllm.entrypoints.openai.api_server"],
        ),
        ("uv run train.py", &["script train.py"]),
        ("uv pip install vllm", &[]),
        (
            "accelerate launch --num_processes 1 -m axolotl.cli.train cfg.yml",
            &["accelerate", "-m axolotl.cli.train"],
        ),
        (
            "/v/bin/python /v/bin/accelerate launch --config_file x.yaml src/train.py",
            &["via python", "script accelerate", "script train.py"],
        ),
        ("torchrun --nproc_per_node=1 -m torchtune.cli run", &["torchrun", "-m torchtune.cli"]),
        ("deepspeed --num_gpus=1 train.py --deepspeed z.json", &["deepspeed", "script train.py"]),
        (
            "python -m torch.distributed.run --standalone --nproc_per_node 1 a/train.py",
            &["via python", "-m torch.distributed.run", "script train.py"],
        ),
        ("nohup nice -n 5 env A=B C=D numactl -N 0 -m 0 timeout -k 5 1h vllm serve m", &["vllm"]),
        ("taskset -c 0-9 llama-server -m x.gguf", &["llama-server"]),
        ("sudo -u ai HF_HOME=/x ollama serve", &["ollama"]),
        ("tini -- vllm serve m", &["vllm"]),
        (
            "conda run -n vllm python -m sglang.launch_server",
            &["via python", "-m sglang.launch_server"],
        ),
        ("bash -c vllm~serve~m", &[]),
        ("-bash", &[]),
        ("/bin/sh -c exec~ollama~serve", &[]),
        (
            "python -c from~multiprocessing.spawn~import~spawn_main --multiprocessing-fork",
            &["via python"],
        ),
        ("python -", &["via python"]),
        ("python", &["via python"]),
        ("node --max-old-space-size=4096 /x/llmworker.js", &["via node", "script llmworker.js"]),
        ("VLLM::EngineCore", &["VLLM::EngineCore"]),
        ("grep vllm", &["grep"]),
        ("env A=B", &[]),
        ("nice -n", &[]),
        ("python -m", &["via python"]),
    ];
    for (text, expected) in rows {
        assert_eq!(names(&line(text)), *expected, "{text}");
    }
}

#[test]
fn a_title_is_split_and_its_padding_dropped() {
    assert_eq!(
        names(&CommandLine::new(b"VLLM::EngineCore\0\0\0\0\0", false)),
        ["VLLM::EngineCore"]
    );
    let title =
        CommandLine::new(b"/usr/bin/python3 -m vllm.entrypoints.cli.main serve\0\0\0", false);
    assert_eq!(names(&title), ["via python3", "-m vllm.entrypoints.cli.main"]);
    assert!(CommandLine::new(b"", false).is_empty());
    assert!(CommandLine::new(b"\0\0", false).is_empty());
}

#[test]
fn half_an_argument_is_none() {
    let cut = CommandLine::new(b"vllm\0serve\0--gpu-memory-utilization\x000.9", true);
    assert!(cut.is_cut());
    let value = |line: &CommandLine| {
        let flag = "--gpu-memory-utilization";
        line.programs()[0].value(flag, flag).map(str::to_owned)
    };
    assert_eq!(value(&cut).as_deref(), Some(""));
    let at_the_end = CommandLine::new(b"vllm\0--gpu-memory-utilization\x000.9\0", true);
    assert_eq!(value(&at_the_end).as_deref(), Some("0.9"));
    let not_cut = CommandLine::new(b"vllm\0--gpu-memory-utilization\x000.9", false);
    assert_eq!(value(&not_cut).as_deref(), Some("0.9"));
}

#[test]
fn flags_are_found_as_argparse_finds_them() {
    let rows = [
        ("x --max-len 5", Some("5")),
        ("x --max-len=5", Some("5")),
        ("x --max_len 5", Some("5")),
        ("x --max_len=5", Some("5")),
        ("x --max-len 5 --max_len 6", Some("6")),
        ("x --max-len=5=6", Some("5=6")),
        ("x --max 5", Some("5")),
        ("x --ma 5", None),
        ("x --max-len-gb 5", None),
        ("x -- --max-len 5", None),
        ("x --max-len \"\"", Some("")),
        ("x --max-len", Some("")),
        ("x --max-len=", Some("")),
        ("x max-len 5", None),
        ("x", None),
    ];
    for (text, expected) in rows {
        let line = line(text);
        assert_eq!(line.programs()[0].value("--max-len", "--max"), expected, "{text}");
    }
    assert_eq!(line("x -c 5").programs()[0].value("-c", "-c"), Some("5"));
    assert_eq!(line("x -cc 5").programs()[0].value("-c", "-c"), None);
}

#[test]
fn a_launchers_flags_are_not_the_programs() {
    let line = line("uv run --config a.toml vllm serve m");
    assert_eq!(line.programs()[0].value("--config", "--config"), None);
}

#[test]
fn an_environment_keeps_what_is_listed_and_nothing_else() {
    let env = Environment::new(b"PATH=/bin\0HF_TOKEN=hf_x\0");
    assert!(!env.is_nim() && !env.is_torchrun() && !env.has_managed_memory());
    assert!(env.cuda_fraction() == Share::Unset);
    for name in ["NIM_MODEL_NAME", "NIM_CACHE_PATH", "NIM_MODEL_PROFILE"] {
        assert!(Environment::new(format!("A=1\0{name}=x\0").as_bytes()).is_nim(), "{name}");
    }
    assert!(!Environment::new(b"LOCAL_NIM_CACHE=/x\0NIM_MODEL_NAME\0").is_nim());
    assert!(Environment::new(b"LOCAL_RANK=0\0").is_torchrun());
    assert!(Environment::new(b"GGML_CUDA_ENABLE_UNIFIED_MEMORY=\0").has_managed_memory());
    let fraction = |text: &[u8]| Environment::new(text).cuda_fraction();
    assert!(fraction(b"CUDA_MEMORY_FRACTION=0.5\0") == Share::Of(Ratio(0.5)));
    assert!(fraction(b"CUDA_MEMORY_FRACTION=50%\0") == Share::Malformed);
    assert!(fraction(b"CUDA_MEMORY_FRACTION=\xff\0") == Share::Malformed);
    // What is kept of an environment of any size.
    assert!(size_of::<Environment>() <= 32);
}

#[test]
fn shares_are_above_zero_and_not_above_one() {
    for (text, expected) in [("0.9", 0.9), ("1", 1.0), (".5", 0.5), ("9e-1", 0.9), (" 0.5 ", 0.5)] {
        assert_eq!(share(text), Some(Ratio(expected)), "{text}");
    }
    for text in ["nan", "inf", "-1", "0", "-0", "1.5", "", "90%", "0.9x", "0,9", "1.0000001"] {
        assert_eq!(share(text), None, "{text}");
    }
}

/// Answers whether a type has a trait: the inherent method is there only when it has.
struct Has<T>(PhantomData<T>);
trait Lacks {
    fn debug(&self) -> bool {
        false
    }
    fn serialize(&self) -> bool {
        false
    }
    fn clone_it(&self) -> bool {
        false
    }
}
impl<T> Lacks for Has<T> {}
impl<T: Debug> Has<T> {
    #[expect(clippy::unused_self, reason = "stands in front of the trait's method")]
    fn debug(&self) -> bool {
        true
    }
}
impl<T: serde::Serialize> Has<T> {
    #[expect(clippy::unused_self, reason = "stands in front of the trait's method")]
    fn serialize(&self) -> bool {
        true
    }
}
impl<T: Clone> Has<T> {
    #[expect(clippy::unused_self, reason = "stands in front of the trait's method")]
    fn clone_it(&self) -> bool {
        true
    }
}

#[test]
fn what_may_hold_secrets_cannot_be_printed() {
    let line = Has::<CommandLine>(PhantomData);
    let env = Has::<Environment>(PhantomData);
    let program = Has::<Program<'static>>(PhantomData);
    assert!(!line.debug() && !line.serialize() && !line.clone_it());
    assert!(!env.debug() && !env.serialize() && !env.clone_it());
    assert!(!program.debug() && !program.serialize() && !program.clone_it());
    // The question can be answered with yes.
    let text = Has::<String>(PhantomData);
    assert!(text.debug() && text.serialize() && text.clone_it());
}

/// Arguments in which the pieces that the walk looks at are frequent.
pub(in crate::sources::processes) fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"python3",
        b"-m",
        b"-um",
        b"-X",
        b"-",
        b"--",
        b"-c",
        b"uv",
        b"run",
        b"vllm",
        b"serve",
        b"torchrun",
        b"env",
        b"A=B",
        b"timeout",
        b"node",
        b"bash",
        b"x.py",
        b"",
        b"\xff\xfe",
        b"--config",
        b"--gpu-memory-utilization",
        b"0.9",
        b"sudo",
        b"-u",
        b"\xc3\xa9=\xc3\xbc",
    ];
    let piece = prop_oneof![
        proptest::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|args| args.join(&0))
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in any_bytes(), cut in any::<bool>()) {
        let line = CommandLine::new(&bytes, cut);
        let programs = line.programs();
        prop_assert!(programs.len() <= MAX_PROGRAMS + 1);
        for program in programs {
            let _ = (program.base(), program.verb(), program.value("--config", "--c"));
        }
        let _ = Environment::new(&bytes);
    }
}
