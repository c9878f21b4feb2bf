//! `plan` as a person and a script meet it: the published vectors to the byte, verdicts and exit codes, what
//! is said of wrong options and of files that are no models.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write files")]

mod support;

use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use support::{Exporter, exporter, root};

/// Enough for anything that is not judged.
const ROOMY: [&str; 2] = ["--available", "1000GiB"];

fn run(args: &[&str]) -> (i32, String, String) {
    let output = exporter().arg("plan").args(args).output().expect("runs");
    let Output { status, stdout, stderr } = output;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

fn document(args: &[&str]) -> Value {
    let (code, out, err) = run(&[args, &["--json"]].concat());
    assert!(code < 2, "{args:?}: {err}");
    serde_json::from_str(&out).expect("JSON")
}

fn bytes(document: &Value, id: &str) -> u64 {
    let lists = [&document["terms"], &document["beside"]];
    let mut all = lists.iter().flat_map(|list| list.as_array().expect("a list"));
    let term = all.find(|term| term["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    term["bytes"].as_u64().expect("bytes")
}

fn estimated(args: &[&str]) -> Value {
    document(&[args, &ROOMY].concat())
}

#[test]
fn the_published_vectors_come_out_to_the_byte() {
    let lora = ["--model", "llama-3.1-8b", "--method", "lora"];
    let e = estimated(&[&lora[..], &["--rank", "16", "--seq", "2048"]].concat());
    assert_eq!(e["plan"]["parameters"], 8_030_261_248_u64);
    assert_eq!(bytes(&e, "weights"), 16_060_522_496);
    assert_eq!(
        bytes(&e, "adapters") + bytes(&e, "gradients") + bytes(&e, "optimizer"),
        671_088_640
    );
    assert_eq!(bytes(&e, "transient"), 812_646_400);
    assert_eq!(e["alloc_bytes"], 20_420_501_504_u64);
    let terms = e["terms"].as_array().unwrap().iter().map(|term| term["bytes"].as_u64().unwrap());
    assert_eq!(terms.sum::<u64>(), 20_420_501_504);
    let whole = ["alloc_bytes", "slack_bytes", "context_bytes"].map(|key| e[key].as_u64().unwrap());
    assert_eq!(e["pool_bytes"], whole.iter().sum::<u64>());

    let small = ["--rank", "16", "--adapter-dtype", "bf16", "--optimizer", "adamw-8bit"];
    let e = estimated(&[&lora[..], &small].concat());
    assert_eq!(
        bytes(&e, "adapters") + bytes(&e, "gradients") + bytes(&e, "optimizer"),
        251_658_240
    );

    let e = estimated(&["--model", "llama-3.1-70b", "--method", "qlora", "--rank", "8"]);
    assert_eq!(e["alloc_bytes"], 47_010_234_368_u64);
    assert_eq!(e["alloc_high_bytes"], 51_215_564_800_u64);
    let raised =
        ["--model", "llama-3.1-70b", "--method", "qlora", "--rank", "8", "--raised", "true"];
    assert_eq!(estimated(&raised)["alloc_bytes"], 51_215_564_800_u64);

    for (more, fixed) in [
        (vec![], 25_701_998_592_u64),
        (vec!["--optimizer", "adamw-fp32-states"], 38_552_997_888),
        (vec!["--optimizer", "adamw-8bit"], 19_276_498_944),
    ] {
        let args = [vec!["--model", "llama-3.2-3b", "--method", "full"], more].concat();
        assert_eq!(estimated(&args)["static_bytes"], fixed, "{args:?}");
    }

    for (model, cache) in [
        ("llama-3.1-8b", 17_179_869_184_u64),
        ("gpt-oss-120b", 4_836_556_800),
        ("deepseek-v3", 9_210_691_584),
        ("qwen3.8-27b", 8_589_934_592),
    ] {
        let e = estimated(&["--model", model, "--method", "inference", "--context", "128k"]);
        assert_eq!(bytes(&e, "kv_cache"), cache, "{model}");
    }
    let e = estimated(&["--model", "qwen3.8-27b", "--method", "inference"]);
    assert_eq!(bytes(&e, "state"), 150_994_944 + 2_949_120);

    let long =
        ["--model", "qwen3.8-27b", "--method", "lora", "--targets", "attention", "--seq", "10592"];
    assert_eq!(estimated(&long)["alloc_bytes"], 95_726_366_912_u64);
    let chunked = [&long[..], &["--loss", "chunked"]].concat();
    assert_eq!(estimated(&chunked)["alloc_bytes"], 70_266_613_952_u64);
}

/// The remedy is the loader, not a smaller model.
#[test]
fn a_load_that_does_not_fit_is_told_from_a_job_that_does_not() {
    let of = |loader: &str, more: &[&str]| {
        let args =
            ["--params", "31b", "--method", "inference", "--context", "1k", "--loader", loader];
        let pool = ["--available", "123904000000"];
        run(&[&args[..], &pool, more].concat())
    };
    let (code, out, _) = of("cpu-first", &[]);
    assert_eq!(code, 1);
    assert!(out.contains("It is the load that does not fit: the remedy is the loader"), "{out}");
    let (code, out, _) = of("streamed", &["--json"]);
    let streamed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &streamed["verdict"]["outcome"]), (0, &Value::from("fits")));
    assert_eq!(streamed["load"]["alloc_bytes"], 67_000_000_000_u64);
    assert_eq!(streamed["budget"]["room_bytes"], 119_609_032_704_u64);
}

#[test]
fn exit_codes_say_whether_it_fits() {
    let args = |available| {
        ["--model", "llama-3.1-8b", "--seq", "4k", "--loader", "streamed", "--available", available]
    };
    let (code, out, err) = run(&args("60GiB"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("Verdict: fits"), "{out}");
    let (code, out, err) = run(&args("32GiB"));
    assert_eq!(code, 0);
    assert!(out.contains("Verdict: tight") && err.contains("warning: it is tight"), "{out}{err}");
    let (code, out, _) = run(&args("20GiB"));
    assert_eq!(code, 1);
    assert!(out.contains("Verdict: does not fit"), "{out}");
}

/// A name and "LoRA, 4k" is all that most people say.
#[test]
fn a_name_is_enough_and_what_is_assumed_is_said() {
    let (code, out, _) = run(&[
        "--model",
        "Qwen/Qwen3-8B",
        "--method",
        "lora",
        "--seq",
        "4k",
        "--available",
        "110GiB",
    ]);
    assert_eq!(code, 0);
    for part in [
        "Not said, so taken: --dtype bf16, --batch 1, --rank 16, --targets all",
        "lora of qwen3-8b (8.19 billion parameters)\nVerdict: fits (by available memory, which torch goes by)",
        "8,190,735,360 x 2 (bf16)",
        "4,096 x 151,936 x 12",
        "Known combinations, nearest first",
        "If it does not fit, in this order\n  1. gb10-exporter flush",
        "  2. --seq 2048",
        "  3. --batch 1",
    ] {
        assert!(out.contains(part), "{part}:\n{out}");
    }
}

#[test]
fn a_size_alone_gives_a_range() {
    let e = estimated(&["--params", "8b", "--method", "lora"]);
    assert_eq!(bytes(&e, "weights"), 16_000_000_000);
    let (usual, high) =
        (e["alloc_bytes"].as_u64().unwrap(), e["alloc_high_bytes"].as_u64().unwrap());
    assert!(high > usual, "{usual} {high}");
    let (_, out, _) = run(&["--params", "9b", "--available", "110GiB"]);
    assert!(out.contains("only its size is known"), "{out}");
}

/// Every line fits a terminal, and a person can multiply what stands there.
#[test]
fn each_term_has_its_inputs_and_each_line_a_hundred_columns() {
    let free = ["--available", "110GiB", "--free", "90GiB", "--pool", "121GiB"];
    for (args, part) in [
        (
            vec!["--model", "meta-llama/Llama-3.1-8B-Instruct", "--seq", "4k"],
            "= f 3.5, q 1, k 0.25: 96.875 x 16,777,216",
        ),
        (vec!["--model", "llama-3.1-8b", "--method", "lora"], "= 16 x 2,621,440 x 4"),
        (vec!["--model", "qwen3.8-27b", "--method", "dpo"], "+ 4(q/2+k)"),
        (
            vec!["--model", "llama-3.1-8b", "--method", "inference"],
            "= 1 x (32 x 2 x 8,192 x 8 x 128) x 2 (bf16)",
        ),
        (
            vec!["--model", "deepseek-v3", "--method", "inference", "--engine", "sglang"],
            "= 1 x (61 x 8,192 x 576) x 2 (bf16)",
        ),
        (
            vec!["--model", "llama-3.2-3b", "--method", "full", "--optimizer", "adamw-8bit"],
            "the states of the embedding",
        ),
    ] {
        let (_, out, _) = run(&[&args[..], &free].concat());
        assert!(out.contains(part), "{part}:\n{out}");
        for line in out.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

/// An engine that goes by free memory cannot be judged by what is available.
#[test]
fn no_verdict_without_the_figure_that_the_engine_goes_by() {
    let args = ["--model", "llama-3.1-8b", "--method", "inference", "--engine", "sglang"];
    let (code, out, err) = run(&[&args[..], &["--available", "110GiB"]].concat());
    assert_eq!(code, 2);
    assert!(out.contains("Verdict: unknown"), "{out}");
    assert!(
        err.contains("sglang goes by free memory: without --free there is no verdict"),
        "{err}"
    );
}

#[test]
fn wrong_options_say_which_are_valid() {
    for (args, says) in [
        (
            vec!["--method", "lroa", "--model", "llama-3.1-8b"],
            "[possible values: full, lora, qlora, dpo, grpo, inference]",
        ),
        (vec!["--model", "llama-9"], "known are tinyllama-1.1b, "),
        (vec![], "expected --model NAME|PATH or --params COUNT"),
        (
            vec!["--params", "many"],
            "expected a number of parameters such as 8b or 350m, found \"many\"",
        ),
        (vec!["--params", "8b", "--seq", "0"], "expected a number of tokens such as 4096 or 4k"),
        (
            vec!["--params", "8b", "--method", "full", "--rank", "8"],
            "--rank is for adapters (lora, qlora, dpo, grpo); the method is full",
        ),
        (
            vec!["--params", "8b", "--method", "inference", "--batch", "8"],
            "--batch is for training",
        ),
        (
            vec!["--params", "8b", "--method", "lora", "--context", "8k"],
            "--context is for inference",
        ),
        (
            vec!["--params", "8b", "--method", "inference", "--utilization", "0.5"],
            "give --engine vllm or vllm-old",
        ),
        (vec!["--params", "8b", "--chunk", "512"], "--chunk needs --loss chunked"),
        (
            vec!["--params", "8b", "--method", "full", "--dtype", "fp8"],
            "a full fine-tune needs fp32 or bf16",
        ),
        (
            vec!["--params", "8b", "--optimizer", "adamw-master"],
            "keeps an fp32 copy of what is trained in bf16: give --adapter-dtype bf16",
        ),
        (vec!["--params", "8b", "--available", "much"], "expected a number with one of GiB"),
        (vec!["--params", "8b", "--available", "1GiB", "--url", "http://x"], "cannot be used with"),
    ] {
        let (code, out, err) = run(&args);
        assert_eq!((code, out.as_str()), (64, ""), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

#[test]
fn files_that_are_no_models_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let pipe = path("pipe.gguf");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let broken = path("broken.gguf");
    fs::write(&broken, b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0")
        .unwrap();
    let huge = path("huge.gguf");
    File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let empty = path("empty");
    fs::create_dir(&empty).unwrap();
    let looped = path("looped.gguf");
    std::os::unix::fs::symlink(&looped, &looped).unwrap();
    for (model, says) in [
        (pipe.as_str(), "is neither a file nor a directory"),
        (&broken, "claims 18446744073709551615 tensors; there is room for 0 at most"),
        (&huge, "does not begin with GGUF"),
        (&empty, "has no config.json"),
        (&looped, "cannot be read"),
        ("/nowhere/at/all", "cannot be read: No such file or directory"),
        ("hf://meta-llama/Llama-3.1-8B", "is a remote address"),
        ("https://huggingface.co/meta-llama/Llama-3.1-8B", "is a remote address"),
        ("/dev/zero", "is neither a file nor a directory"),
        ("http://a/\u{1b}[2J", "http://a/[2J is a remote address"),
    ] {
        let (code, out, err) = run(&["--model", model, "--available", "1GiB"]);
        assert_eq!((code, out.as_str()), (2, ""), "{model}: {err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{model}: {err}");
    }
}

/// What a file leaves out or claims to be nothing is not taken for a small model.
#[test]
fn files_that_tell_nothing_are_no_small_models() {
    let dir = tempfile::tempdir().unwrap();
    model_directory(dir.path());
    let index = dir.path().join("model.safetensors.index.json");
    let weights = dir.path().join("model.safetensors");
    let refused = |says: &str| {
        let (code, out, err) =
            run(&["--model", dir.path().to_str().unwrap(), "--available", "1GiB"]);
        assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{says}: {err}");
        assert!(err.contains(says) && err.len() < 500, "{says}: {err}");
    };
    for total in ["0", "18446744073709551615"] {
        let text = format!(
            r#"{{"metadata":{{"total_size":{total}}},"weight_map":{{"a":"b.safetensors"}}}}"#
        );
        fs::write(&index, text).unwrap();
        refused(&format!("metadata.total_size: expected 1 to 1000000000000000, found {total}"));
    }
    fs::remove_file(&index).unwrap();
    let header = |text: &str| {
        fs::write(&weights, [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat())
            .unwrap();
    };
    header("{}");
    refused("has no tensors in it");
    header(&format!(r#"{{"{}":{{"data_offsets":[5,2]}}}}"#, "x".repeat(100_000)));
    refused("xxx\" ends before it begins");
    fs::remove_file(&weights).unwrap();
    let config = dir.path().join("config.json");
    let whole = fs::read_to_string(&config).unwrap();
    for key in ["num_key_value_heads", "intermediate_size", "num_attention_heads"] {
        let (begin, rest) = whole.split_once(&format!("\"{key}\":")).unwrap();
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        fs::write(&config, format!("{begin}\"{key}\":0{rest}")).unwrap();
        refused(&format!("{key}: expected 1 or more, found 0"));
    }
    // A link that leads nowhere is a path, and no name that is not known.
    std::os::unix::fs::symlink("round", dir.path().join("round")).unwrap();
    let command = exporter().current_dir(dir.path()).args(["plan", "--model", "round"]).output();
    let Output { status, stderr, .. } = command.unwrap();
    let err = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{err}");
    assert!(err.contains("round cannot be read: Too many levels of symbolic links"), "{err}");
}

fn model_directory(dir: &Path) {
    let config = r#"{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"intermediate_size":14336,
        "num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"tie_word_embeddings":false,
        "torch_dtype":"bfloat16"}"#;
    fs::write(dir.join("config.json"), config).unwrap();
    let index = r#"{"metadata":{"total_size":16060522496},"weight_map":{"a":"model-00001-of-00001.safetensors"}}"#;
    fs::write(dir.join("model.safetensors.index.json"), index).unwrap();
}

#[test]
fn a_models_own_files_give_what_its_name_gives() {
    let dir = tempfile::tempdir().unwrap();
    model_directory(dir.path());
    for place in [dir.path().to_owned(), dir.path().join("config.json")] {
        let e = estimated(&["--model", place.to_str().unwrap(), "--method", "lora"]);
        assert_eq!(e["alloc_bytes"], 20_420_501_504_u64);
        assert_eq!(e["plan"]["stored_bytes"], 16_060_522_496_u64);
        assert!(e["notes"][0].as_str().unwrap().contains("1 of 1 files of weights are not there"));
    }
    let full = estimated(&["--model", dir.path().to_str().unwrap(), "--method", "full"]);
    assert_eq!(full["static_bytes"], 8 * 8_030_261_248_u64);
}

/// The smallest GGUF file that is a model: one matrix in Q4_0.
fn gguf() -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    out.extend([1_u64.to_le_bytes(), 7_u64.to_le_bytes()].concat());
    out.extend(
        [text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text("llama")].concat(),
    );
    for (key, number) in [
        ("llama.embedding_length", 1024_u32),
        ("llama.block_count", 2),
        ("llama.feed_forward_length", 2048),
        ("llama.attention.head_count", 8),
        ("llama.attention.head_count_kv", 2),
        ("llama.vocab_size", 32_000),
    ] {
        out.extend(
            [text(key), 4_u32.to_le_bytes().to_vec(), number.to_le_bytes().to_vec()].concat(),
        );
    }
    out.extend([text("blk.0.ffn_gate.weight"), 2_u32.to_le_bytes().to_vec()].concat());
    out.extend([1024_u64.to_le_bytes(), 2048_u64.to_le_bytes()].concat());
    out.extend([2_u32.to_le_bytes().to_vec(), 0_u64.to_le_bytes().to_vec()].concat());
    out.resize(out.len().next_multiple_of(32) + 1024 * 2048 / 32 * 18, 0);
    out
}

#[test]
fn a_gguf_file_is_for_inference() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("model.gguf");
    fs::write(&file, gguf()).unwrap();
    let path = file.to_str().unwrap();
    let e = estimated(&["--model", path, "--engine", "llama.cpp", "--context", "4k"]);
    assert_eq!(e["plan"]["method"], "inference");
    assert_eq!(bytes(&e, "weights"), 1024 * 2048 / 32 * 18);
    assert_eq!(bytes(&e, "kv_cache"), 2 * 2 * 4096 * 2 * 128 * 2);
    assert_eq!(e["assumed"][1], "weights as stored (Q4_0)");
    let (code, _, err) = run(&["--model", path, "--method", "lora", "--available", "8GiB"]);
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("a GGUF file is for inference"), "{err}");
    let whole = gguf();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let (code, _, err) = run(&["--model", path, "--available", "8GiB"]);
    assert_eq!(code, 2);
    assert!(err.contains("it is cut short"), "{err}");
}

fn capture(name: &str) -> String {
    root().join(format!("tests/captures/{name}.txt")).to_str().unwrap().to_owned()
}

/// The same job on an idle box and beside a server.
#[test]
fn what_is_left_comes_from_the_machine() {
    let job = ["--model", "llama-3.1-8b", "--method", "lora", "--seq", "4k"];
    let on = |name: &str| document(&[&job[..], &["--capture", &capture(name)]].concat());
    let idle = on("gb10-580.126.09-idle");
    assert_eq!(idle["verdict"]["outcome"], "fits");
    assert_eq!(idle["verdict"]["reader"], "available");
    let serving = on("spark-fe-llm-server");
    assert_eq!(serving["verdict"]["outcome"], "does_not_fit");
    // The server is what is in the way.
    assert_eq!(serving["without_others"]["outcome"], "fits");
    assert_eq!(serving["budget"]["watched"], false);
    let (_, out, err) = run(&[&job[..], &["--capture", &capture("spark-fe-llm-server")]].concat());
    for part in [
        "Without the jobs that hold 97.90 GiB on the GPU it would fit",
        "does not fit: stop what holds the memory",
        "not known from one look",
        "One look cannot tell",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(err.contains("one look cannot tell; ask a running exporter (--url)"), "{err}");
    // Page cache is in the way of those that go by free memory, and of nobody else.
    let full = on("spark-page-cache-2-full");
    assert_eq!(full["budget"]["free_bytes"].as_u64().unwrap() >> 30, 41);
    let engine = |engine| {
        let args = [
            "--model",
            "llama-3.1-70b",
            "--method",
            "inference",
            "--dtype",
            "fp8",
            "--engine",
            engine,
            "--loader",
            "streamed",
        ];
        document(&[&args[..], &["--capture", &capture("spark-page-cache-2-full")]].concat())
    };
    assert_eq!(engine("vllm")["verdict"]["outcome"], "fits");
    let old = engine("vllm-old");
    assert_eq!(old["verdict"]["outcome"], "does_not_fit");
    let flush = &old["ladder"][0];
    assert_eq!((&flush["rung"], &flush["helps"]), (&Value::from("flush"), &Value::from(true)));
    assert_eq!(flush["alone"], "fits");
}

#[test]
fn a_running_exporter_is_asked() {
    let exporter = Exporter::start(&["--capture", &capture("gb10-580.126.09-idle")]);
    exporter.wait_for_metrics("a frame", |metrics| metrics.contains("gb10_pool_available_bytes"));
    let url = format!("http://{}", exporter.address);
    let asked = document(&["--model", "llama-3.1-8b", "--url", &url]);
    assert_eq!(
        (&asked["budget"]["of"], &asked["budget"]["watched"]),
        (&url.clone().into(), &true.into())
    );
    assert!(asked["budget"]["available_bytes"].as_u64().unwrap() > 100 << 30);
    let (code, _, err) = run(&["--model", "llama-3.1-8b", "--url", "http://127.0.0.1:1"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn a_share_that_is_too_small_is_refused_by_its_engine() {
    let of = |share: &str| {
        let args = [
            "--model",
            "llama-3.1-8b",
            "--method",
            "inference",
            "--engine",
            "vllm",
            "--context",
            "64k",
        ];
        document(
            &[&args[..], &["--utilization", share, "--available", "117GiB", "--pool", "121GiB"]]
                .concat(),
        )
    };
    let small = of("0.1");
    assert_eq!(small["verdict"]["outcome"], "does_not_fit");
    let rung = small["ladder"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rung| rung["rung"] == "smaller_share")
        .unwrap();
    assert_eq!((&rung["helps"], &rung["alone"]), (&Value::from(true), &Value::from("fits")));
    let half = of("50%");
    assert_eq!(half["verdict"]["outcome"], "fits");
    assert_eq!(half["alloc_bytes"].as_u64().unwrap() >> 20, 121 * 512);
    // Starts took all memory at this share; the range of that is no plain yes, and a smaller share is.
    let large = of("0.7");
    assert_eq!(large["verdict"]["outcome"], "tight");
    assert_eq!(bytes(&large, "start"), 0);
    let ladder = large["ladder"].as_array().unwrap();
    let share = ladder.iter().find(|rung| rung["rung"] == "smaller_share").unwrap();
    assert_eq!(share["action"], "--utilization 0.65");
    assert_eq!(share["alone"], "fits");
}
