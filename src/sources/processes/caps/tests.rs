use super::*;
use crate::model::naming::OwnClass;
use crate::sources::processes::command::tests::{any_bytes, line, raw};
use crate::units::{GIB, MIB, Ratio};
use CapSetting::{Fixed, FractionOfFree, KvOnly, Unknown, Whole};
use proptest::prelude::*;

fn of(class: Class, text: &str) -> CapSetting {
    cap(&class.into(), Some(&line(text)), None)
}

const NOTHING: CapSetting = CapSetting::None;

/// Command lines and what bounds them.
const LINES: &[(Class, &str, CapSetting)] = &[
    (Class::Vllm, "vllm serve m --gpu-memory-utilization 0.70", Whole(Ratio(0.7))),
    (Class::Vllm, "vllm serve m --gpu_memory_utilization=0.7", Whole(Ratio(0.7))),
    (Class::Vllm, "vllm serve m --gpu-memory-util 0.7", Whole(Ratio(0.7))),
    (Class::Vllm, "vllm serve m --gpu-memory-utilization 1", Whole(Ratio(1.0))),
    (
        Class::Vllm,
        "python3 -m vllm.entrypoints.openai.api_server --gpu-memory-utilization .5",
        Whole(Ratio(0.5)),
    ),
    (Class::Vllm, "vllm serve m --kv-cache-memory-bytes 36864M", KvOnly(Bytes(36 * GIB))),
    (Class::Vllm, "vllm serve m --kv-cache-memory=5905580032", KvOnly(Bytes(5_905_580_032))),
    (
        Class::Vllm,
        "vllm serve m --gpu-memory-utilization 0.2 --kv-cache-memory-bytes 8G",
        KvOnly(Bytes(8 * GIB)),
    ),
    (Class::Vllm, "vllm serve m --gpu-memory-utilization-gb 103", Unknown),
    (Class::Vllm, "vllm serve m", NOTHING),
    (Class::Vllm, "vllm serve --config a.yaml", Unknown),
    (Class::Vllm, "vllm serve --config a.yaml --gpu-memory-utilization 0.5", Whole(Ratio(0.5))),
    (Class::Vllm, "VLLM::EngineCore", Unknown),
    (Class::Vllm, "python my_llm.py --gpu-memory-utilization 0.5", Unknown),
    (Class::Vllm, "python trl vllm-serve --gpu_memory_utilization 0.5", Whole(Ratio(0.5))),
    (
        Class::Sglang,
        "python3 -m sglang.launch_server --mem-fraction-static 0.8",
        FractionOfFree(Ratio(0.8)),
    ),
    (Class::Sglang, "python3 -m sglang.launch_server --model-path m", NOTHING),
    (Class::Sglang, "python3 -m sglang.launch_server --config a.yaml", Unknown),
    (
        Class::Sglang,
        "sglang serve --config a.yaml --mem-fraction-static 0.8",
        FractionOfFree(Ratio(0.8)),
    ),
    (Class::Sglang, "sglang::scheduler_TP0", Unknown),
    (
        Class::TensorrtLlm,
        "trtllm-serve m --kv_cache_free_gpu_memory_fraction 0.6",
        FractionOfFree(Ratio(0.6)),
    ),
    (
        Class::TensorrtLlm,
        "trtllm-serve m --free_gpu_memory_fraction 0.6",
        FractionOfFree(Ratio(0.6)),
    ),
    (Class::TensorrtLlm, "trtllm-serve m --extra_llm_api_options a.yml", Unknown),
    // The file overwrites the flag.
    (
        Class::TensorrtLlm,
        "trtllm-serve m --kv_cache_free_gpu_memory_fraction 0.6 --config a.yml",
        Unknown,
    ),
    (Class::TensorrtLlm, "trtllm-serve m", NOTHING),
    (Class::Tgi, "text-generation-launcher --cuda-memory-fraction 0.4", Whole(Ratio(0.4))),
    (Class::Tgi, "text-generation-launcher --model-id m", Unknown),
    (Class::LlamaCpp, "llama-server -m a.gguf -c 8192", Fixed),
    (Class::Ollama, "ollama runner --model a --port 1", Fixed),
    (Class::LmStudio, "llama-server", Fixed),
    (Class::Triton, "tritonserver --model-repository=/m", Unknown),
    (Class::Nim, "python3 -m vllm_nvext.entrypoints.openai.api_server", Unknown),
    (
        Class::Nim,
        "python3 -m vllm_nvext.entrypoints.openai.api_server --gpu-memory-utilization 0.95",
        Whole(Ratio(0.95)),
    ),
    (Class::Nim, "vllm serve m --gpu-memory-utilization 0.5", Whole(Ratio(0.5))),
    (Class::Nim, "vllm serve m", Unknown),
    (Class::Nim, "tritonserver", Unknown),
    (Class::LlamaSwap, "llama-swap --config a.yaml", NOTHING),
    (Class::Comfyui, "python main.py --reserve-vram 4", NOTHING),
    (Class::Trl, "trl grpo --vllm_gpu_memory_utilization 0.3", NOTHING),
    (Class::Python, "python a.py --gpu-memory-utilization 0.3", NOTHING),
    (Class::Desktop, "Xorg", NOTHING),
];

#[test]
fn flags_of_each_engine_are_read() {
    for (class, text, expected) in LINES {
        assert_eq!(of(*class, text), *expected, "{class:?}: {text}");
    }
}

#[test]
fn what_makes_no_sense_is_unknown() {
    for value in ["nan", "inf", "-1", "0", "1.5", "\"\"", "90%", "0.9.1", "auto", "--port"] {
        for (class, head) in [
            (Class::Vllm, "vllm serve m --gpu-memory-utilization"),
            (Class::Sglang, "sglang serve --mem-fraction-static"),
            (Class::TensorrtLlm, "trtllm-serve m --kv_cache_free_gpu_memory_fraction"),
            (Class::Tgi, "text-generation-launcher --cuda-memory-fraction"),
        ] {
            assert_eq!(of(class, &format!("{head} {value}")), Unknown, "{head} {value}");
        }
    }
    for text in ["vllm serve m --gpu-memory-utilization", "vllm serve m --gpu-memory-utilization="]
    {
        assert_eq!(of(Class::Vllm, text), Unknown, "{text}");
    }
}

#[test]
fn bytes_are_read_as_vllm_reads_them() {
    let rows = [
        ("1", 1),
        ("12884901888", 12 * GIB),
        ("1k", 1000),
        ("1K", KIB),
        ("25.6k", 25_600),
        ("2m", 2_000_000),
        ("2M", 2 * MIB),
        ("1.5g", 1_500_000_000),
        ("8G", 8 * GIB),
        ("1t", 1_000_000_000_000),
        ("1T", 1024 * GIB),
        (" 8G ", 8 * GIB),
        ("0.0019k", 1),
    ];
    for (text, expected) in rows {
        assert_eq!(bytes(text), Some(Bytes(expected)), "{text}");
    }
    for text in [
        "",
        "0",
        "0G",
        "-1",
        "+1",
        "1.5",
        "1.5G",
        "8GB",
        "8Gi",
        "1kk",
        "k",
        "1e9",
        "nan",
        "inf",
        "1 G",
        "99999999999999999999",
        "99999999T",
        "1.g",
        ".5g",
        "0.0000000000000000000000000000000000000001g",
        "0.0001k",
        "1.2.3k",
        "٣",
    ] {
        assert_eq!(bytes(text), None, "{text}");
    }
    for text in ["0", "1.5G", "8Gi", "-1"] {
        let line =
            format!("vllm serve m --kv-cache-memory-bytes {text} --gpu-memory-utilization 0.5");
        assert_eq!(of(Class::Vllm, &line), Unknown, "{text}");
    }
}

#[test]
fn what_is_cut_off_may_have_held_the_flag() {
    let vllm =
        |text: &str, cut| cap(&Class::Vllm.into(), Some(&CommandLine::new(&raw(text), cut)), None);
    assert_eq!(vllm("vllm serve m", true), Unknown);
    assert_eq!(vllm("vllm serve m", false), NOTHING);
    assert_eq!(vllm("vllm serve m --gpu-memory-utilization 0.5", true), Whole(Ratio(0.5)));
}

#[test]
fn without_a_command_line_nothing_is_assumed() {
    for class in [Class::Vllm, Class::Sglang, Class::TensorrtLlm, Class::Tgi, Class::Nim] {
        assert_eq!(cap(&class.into(), None, None), Unknown, "{class:?}");
    }
    assert_eq!(cap(&Class::Ollama.into(), None, None), Fixed);
    assert_eq!(cap(&Class::Python.into(), None, None), NOTHING);
}

#[test]
fn tgi_hands_its_bound_on_in_the_environment() {
    let tgi = |env: &[u8]| {
        let line = line("python text-generation-server serve m");
        cap(&Class::Tgi.into(), Some(&line), Some(&Environment::new(env)))
    };
    assert_eq!(tgi(b"CUDA_MEMORY_FRACTION=0.4\0"), Whole(Ratio(0.4)));
    assert_eq!(tgi(b"CUDA_MEMORY_FRACTION=4\0"), Unknown);
    assert_eq!(tgi(b"A=b\0"), NOTHING);
}

#[test]
fn what_an_operator_names_keeps_its_bound() {
    let own = [OwnClass::parse("chat=vllm|llama-server|mine").unwrap()];
    let of = |text: &str| {
        let line = line(text);
        let class = classify("x", Some(&line), None, None, &own, true).unwrap();
        assert_eq!(class.as_str(), "chat");
        cap(&class, Some(&line), None)
    };
    assert_eq!(of("vllm serve m --gpu-memory-utilization 0.5"), Whole(Ratio(0.5)));
    assert_eq!(of("llama-server -m a"), Fixed);
    assert_eq!(of("mine --gpu-memory-utilization 0.5"), NOTHING);
    let class = classify("vllm", None, None, None, &own, true).unwrap();
    assert_eq!(cap(&class, None, None), Unknown);
}

proptest! {
    #[test]
    fn no_bytes_panic(args in any_bytes(), cut in any::<bool>(), text in ".{0,20}|[0-9.]{0,50}[kKgG]?") {
        let line = CommandLine::new(&args, cut);
        for class in Class::ALL {
            if let Whole(Ratio(share)) | FractionOfFree(Ratio(share)) = cap(&(*class).into(), Some(&line), None) {
                prop_assert!(share > 0.0 && share <= 1.0);
            }
        }
        let _ = bytes(&text);
    }
}
