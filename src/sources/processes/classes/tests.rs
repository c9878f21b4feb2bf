use super::*;
use crate::sources::processes::command::tests::{any_bytes, line, raw};
use proptest::prelude::*;

/// The class of a process of which the thread's name is that of its program.
fn class(comm: &str, text: &str, on_gpu: bool) -> Option<Class> {
    classify(comm, Some(&line(text)), None, None, &[], on_gpu).map(|name| name.class)
}

/// Command lines as they are seen on machines, whether or not the GPU is in use yet.
const HITS: &[(Class, &str, &str)] = &[
    (Class::Vllm, "vllm", "/usr/bin/python3 /usr/local/bin/vllm serve Qwen/Qwen3-32B --port 8000"),
    (Class::Vllm, "pt_main_thread", "/opt/venv/bin/python /opt/venv/bin/vllm serve m -tp 1"),
    (Class::Vllm, "python3", "python3 -m vllm.entrypoints.openai.api_server --model m"),
    (
        Class::Vllm,
        "python3",
        "python3 -u /src/vllm/vllm/entrypoints/openai/api_server.py --model m",
    ),
    (Class::Vllm, "uv", "uv run vllm serve m"),
    (Class::Vllm, "VLLM::EngineCor", "VLLM::EngineCore"),
    (Class::Vllm, "VLLM::Worker_TP", "VLLM::Worker_TP0"),
    (Class::Vllm, "python3", "vllm::Worker"),
    (Class::Vllm, "python", "python /v/bin/trl vllm-serve --model m"),
    (Class::Vllm, "python3", "python3 -m dynamo.vllm --model m"),
    (Class::Sglang, "python3", "python3 -m sglang.launch_server --model-path m --port 30000"),
    (Class::Sglang, "sglang::schedul", "sglang::scheduler_TP0"),
    (Class::Sglang, "sglang::detoken", "sglang::detokenizer"),
    (Class::Sglang, "sglang", "/usr/bin/python3 /usr/local/bin/sglang serve --model-path m"),
    (
        Class::TensorrtLlm,
        "trtllm-serve",
        "/usr/bin/python /usr/local/bin/trtllm-serve m --port 8000",
    ),
    (Class::TensorrtLlm, "python3", "python3 -m tensorrt_llm.commands.serve m"),
    (Class::Nim, "python3", "python3 -m vllm_nvext.entrypoints.openai.api_server"),
    (Class::Nim, "python3", "/opt/nim/llm/.venv/bin/python3 -m nim_llm_sdk.entrypoints.launch"),
    (
        Class::LlamaCpp,
        "llama-server",
        "/src/llama.cpp-b9536/build/bin/llama-server -m q.gguf -ngl 99",
    ),
    (Class::LlamaCpp, "llama-bench", "llama-bench -m q.gguf"),
    (Class::LlamaCpp, "rpc-server", "bin/rpc-server -p 50052"),
    (Class::LlamaCpp, "llama", "llama serve -m q.gguf"),
    (Class::LlamaCpp, "python", "python -m llama_cpp.server --model q.gguf"),
    (Class::LlamaSwap, "llama-swap", "/usr/local/bin/llama-swap --config /etc/llama-swap.yaml"),
    (Class::Ollama, "ollama", "/usr/local/bin/ollama serve"),
    (
        Class::Ollama,
        "ollama",
        "/usr/local/bin/ollama runner --ollama-engine --model /m/blobs/sha256-0 --port 40001",
    ),
    (
        Class::Ollama,
        "ollama_llama_se",
        "/tmp/ollama1/runners/cuda_v12/ollama_llama_server --model m",
    ),
    (Class::Ollama, "llama-server", "/usr/local/lib/ollama/llama-server --port 1"),
    (Class::LmStudio, "node", "/home/u/.lmstudio/.internal/utils/node /x/llmworker.js"),
    (
        Class::LmStudio,
        "llama-server",
        "/home/u/.lmstudio/extensions/backends/llama.cpp-linux-arm64-nvidia-cuda13-2.22.0/llama-server",
    ),
    (Class::LmStudio, "lm-studio", "/opt/lm-studio/lm-studio --type=gpu-process"),
    (Class::LmStudio, "llmster", "/home/u/.lmstudio/llmster/0.0.3/llmster"),
    (Class::Tgi, "text-generation", "text-generation-launcher --model-id m"),
    (Class::Tgi, "text-generation", "text-generation-router --port 80"),
    (
        Class::Tgi,
        "text-generation",
        "/opt/conda/bin/python /opt/conda/bin/text-generation-server serve m",
    ),
    (
        Class::Triton,
        "tritonserver",
        "/opt/tritonserver/bin/tritonserver --model-repository=/models",
    ),
    (
        Class::Triton,
        "triton_python_b",
        "/opt/tritonserver/backends/python/triton_python_backend_stub /models/a/1/model.py",
    ),
    (Class::Comfyui, "python", "python /opt/ComfyUI/main.py --listen"),
    (Class::Comfyui, "python", "/v/bin/python /v/bin/comfy launch"),
    (Class::Ray, "ray::RayWorkerW", "ray::RayWorkerWrapper.execute_method"),
    (Class::Ray, "ray::IDLE", "ray::IDLE"),
    (
        Class::Ray,
        "raylet",
        "/v/lib/python3.12/site-packages/ray/core/src/ray/raylet/raylet --raylet_socket_name=x",
    ),
    (
        Class::Ray,
        "python3",
        "/v/bin/python3 -u /v/lib/python3.12/site-packages/ray/dashboard/dashboard.py",
    ),
    (Class::Trl, "python", "/v/bin/python /v/bin/trl sft --model_name_or_path m"),
    (Class::Trl, "python", "python examples/trl/scripts/dpo.py"),
    (
        Class::Axolotl,
        "accelerate",
        "accelerate launch --num_processes 1 -m axolotl.cli.train cfg.yml",
    ),
    (Class::Axolotl, "axolotl", "/v/bin/python /v/bin/axolotl train cfg.yml"),
    (Class::Unsloth, "python", "python unsloth_sft.py"),
    (Class::Unsloth, "python3", "python3 /workspace/unsloth/unsloth-cli.py --max_steps 400"),
    (Class::LlamaFactory, "llamafactory-cl", "/v/bin/python /v/bin/llamafactory-cli train a.yaml"),
    (Class::LlamaFactory, "python", "python /workspace/LLaMA-Factory/src/train.py a.yaml"),
    (
        Class::Torchtune,
        "tune",
        "/v/bin/python /v/bin/tune run lora_finetune_single_device --config c",
    ),
    (Class::Torchtune, "torchrun", "torchrun --nproc_per_node=1 -m torchtune.recipes.x"),
    (Class::Nemo, "python", "python /opt/NeMo/examples/nlp/megatron_gpt_pretraining.py"),
    (Class::Nemo, "torchrun", "torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 24"),
    (Class::Nemo, "nemo", "/v/bin/python /v/bin/nemo llm finetune --factory llama3_8b"),
    (Class::Nemo, "python", "python -m nemo_run.core.runners.fdl_runner"),
    (Class::Deepspeed, "deepspeed", "/v/bin/python /v/bin/deepspeed --num_gpus=1 train.py"),
    (
        Class::Deepspeed,
        "python",
        "python -u -m deepspeed.launcher.launch --master_port=29500 train.py",
    ),
    (Class::Deepspeed, "python", "python train.py --deepspeed ds_z3.json"),
    (
        Class::Accelerate,
        "accelerate",
        "/v/bin/python /v/bin/accelerate launch --config_file a.yaml train.py",
    ),
    (Class::Torchrun, "torchrun", "/v/bin/python /v/bin/torchrun --standalone train.py"),
    (Class::Torchrun, "python", "python -m torch.distributed.run train.py"),
    (Class::Notebook, "python3", "/v/bin/python3 -m ipykernel_launcher -f /run/kernel-1.json"),
    (Class::Notebook, "jupyter-lab", "/usr/bin/python3 /usr/local/bin/jupyter-lab --no-browser"),
    (Class::Notebook, "jupyter", "/usr/bin/python3 /usr/bin/jupyter lab"),
    (Class::Compiler, "nvcc", "/usr/local/cuda/bin/nvcc -O3 a.cu"),
    (Class::Compiler, "cudafe++", "cudafe++ --c++17 a.cu"),
    (Class::Compiler, "ninja", "ninja -v -j 16"),
    (Class::Compiler, "cc1plus", "/usr/lib/gcc/aarch64-linux-gnu/13/cc1plus -quiet a.cpp"),
];

/// What only looks like it.
const MISSES: &[(&str, &str)] = &[
    ("python", "python vllm_client.py --url http://x"),
    ("grep", "grep vllm"),
    ("vim", "vim llama-server.log"),
    ("tail", "tail -f ollama.log"),
    ("vllm", "/usr/bin/python3 /usr/local/bin/vllm chat --url http://x"),
    ("vllm", "/usr/bin/python3 /usr/local/bin/vllm bench serve --model m"),
    ("python", "python -m vllm_bench"),
    ("docker", "docker run --gpus all nvcr.io/nvidia/vllm:26.06-py3 vllm serve m"),
    ("ssh", "ssh spark vllm serve m"),
    ("pip", "/v/bin/python /v/bin/pip install vllm sglang"),
    ("bash", "bash -c vllm~serve~m"),
    ("bash", "bash /opt/start_vllm.sh serve"),
    ("python3", "python3 -m sglang.bench_serving --backend sglang"),
    ("python3", "python3 -m sglang_router.launch_router"),
    ("less", "less trtllm-serve.txt"),
    ("python", "python -m tensorrt_llm_client"),
    ("cat", "cat nim_llm_sdk"),
    ("llama-serverd", "llama-serverd"),
    ("llama", "llama feed"),
    ("systemctl", "systemctl restart llama-swap"),
    ("ollama", "ollama run llama3"),
    ("ollama", "ollama list"),
    ("lms", "/home/u/.lmstudio/bin/lms ps"),
    ("node", "node /srv/app/server.js"),
    ("curl", "curl text-generation-launcher"),
    ("perf_analyzer", "perf_analyzer -m a --service-kind=triton"),
    ("python", "python main.py"),
    ("ray", "/v/bin/python /v/bin/ray status"),
    ("python", "python x-ray/dashboards.py"),
    ("python", "python control.py"),
    ("pytest", "/home/u/axolotl/.venv/bin/python /home/u/axolotl/.venv/bin/pytest -q"),
    ("python", "python /home/u/unsloth/v/lib/python3.12/site-packages/black/x.py"),
    ("llamafactory", "nano llamafactory.yaml"),
    ("tune", "/usr/bin/tune video.mp4"),
    ("python", "python mnemonic.py"),
    ("python", "python fast_deepspeeding.py"),
    ("accelerate", "/v/bin/python /v/bin/accelerate config"),
    ("rg", "rg torchrun"),
    ("python", "python torchrun_helper.py"),
    ("jupyter", "/usr/bin/python3 /usr/bin/jupyter nbconvert a.ipynb"),
    ("clangd", "clangd --background-index"),
    ("bash", "bash -c nvcc~a.cu"),
    ("Xorg", "/usr/lib/xorg/Xorg vt2"),
    ("gnome-shell", "/usr/bin/gnome-shell"),
    ("python", "python train.py"),
    ("kworker/0:1", ""),
];

#[test]
fn programs_are_known_by_their_command_lines() {
    for (expected, comm, text) in HITS {
        for on_gpu in [false, true] {
            assert_eq!(class(comm, text, on_gpu), Some(*expected), "{text}");
        }
    }
    let without = [Class::Python, Class::Desktop, Class::Other];
    for class in Class::ALL.iter().filter(|class| !without.contains(class)) {
        assert!(HITS.iter().any(|(hit, ..)| hit == class), "{class:?} has no example");
    }
}

#[test]
fn what_only_looks_like_one_is_none() {
    for (comm, text) in MISSES {
        assert_eq!(class(comm, text, false), None, "{text}");
    }
}

#[test]
fn whatever_uses_the_gpu_has_a_class() {
    let rows = [
        (Class::Python, "python", "python train.py"),
        (Class::Python, "python3", "python3 -c from~multiprocessing.spawn~import~spawn_main"),
        (Class::Python, "pt_main_thread", "/v/bin/python infer.py"),
        (Class::Desktop, "Xorg", "/usr/lib/xorg/Xorg vt2"),
        (Class::Desktop, "gnome-shell", "/usr/bin/gnome-shell"),
        (Class::Desktop, "Isolated Web Co", "/snap/firefox/1/usr/lib/firefox/firefox -contentproc"),
        (Class::Vllm, "python3", "python3 -m vllm.benchmarks.throughput"),
        (Class::Vllm, "vllm", "python3 /usr/local/bin/vllm bench latency"),
        (Class::Sglang, "python3", "python3 -m sglang.bench_one_batch"),
        (Class::Other, "dgx-spark-stres", "./dgx-spark-stress"),
        (Class::Other, "bash", "bash"),
        (Class::Other, "", ""),
    ];
    for (expected, comm, text) in rows {
        assert_eq!(class(comm, text, true), Some(expected), "{text}");
    }
}

#[test]
fn a_name_alone_is_enough_when_it_has_to_be() {
    let of = |comm| classify(comm, None, None, None, &[], false).map(|name| name.class);
    let rows = [
        ("VLLM::EngineCor", Some(Class::Vllm)),
        ("vllm", Some(Class::Vllm)),
        ("ollama", Some(Class::Ollama)),
        ("llama-server", Some(Class::LlamaCpp)),
        ("text-generation", Some(Class::Tgi)),
        ("ollama_llama_se", Some(Class::Ollama)),
        ("cc1plus", Some(Class::Compiler)),
        ("tune", None),
        ("python3", None),
        ("bash", None),
        ("vllm-client", None),
        ("", None),
    ];
    for (comm, expected) in rows {
        assert_eq!(of(comm), expected, "{comm}");
        let gone = classify(comm, Some(&line("")), None, None, &[], false);
        assert_eq!(gone.map(|name| name.class), expected, "{comm} without arguments");
    }
}

#[test]
fn a_directory_tells_comfyui() {
    let of = |cwd| {
        classify("python", Some(&line("python main.py")), None, cwd, &[], false)
            .map(|name| name.class)
    };
    for cwd in ["/opt/ComfyUI", "/opt/comfyui/"] {
        assert_eq!(of(Some(cwd)), Some(Class::Comfyui), "{cwd}");
    }
    for cwd in [None, Some("/opt/ComfyUI/models"), Some("/"), Some("")] {
        assert_eq!(of(cwd), None, "{cwd:?}");
    }
}

#[test]
fn an_environment_tells_nim_and_torchrun() {
    let nim = Environment::new(b"NIM_MODEL_NAME=x\0LOCAL_RANK=0\0");
    let rank = Environment::new(b"LOCAL_RANK=0\0");
    let none = Environment::new(b"A=b\0");
    let of = |text: &str, env, on_gpu| {
        classify("x", Some(&line(text)), Some(env), None, &[], on_gpu).map(|name| name.class)
    };
    assert_eq!(of("vllm serve m", &nim, false), Some(Class::Nim));
    assert_eq!(of("tritonserver", &nim, false), Some(Class::Nim));
    assert_eq!(of("python serve.py", &nim, true), Some(Class::Nim));
    assert_eq!(of("/opt/riva/bin/riva_server", &nim, true), Some(Class::Nim));
    assert_eq!(of("bash", &nim, false), None);
    assert_eq!(of("nvcc a.cu", &nim, false), Some(Class::Compiler));
    assert_eq!(of("python train.py", &rank, true), Some(Class::Torchrun));
    assert_eq!(of("python train.py", &rank, false), Some(Class::Torchrun));
    assert_eq!(of("python unsloth_train.py", &rank, true), Some(Class::Unsloth));
    assert_eq!(of("sleep 1", &rank, false), None);
    assert_eq!(of("python train.py", &none, true), Some(Class::Python));
    assert_eq!(of("vllm serve m", &none, true), Some(Class::Vllm));
}

#[test]
fn command_lines_are_read_of_few() {
    for (class, comm, text) in HITS {
        // The one that starts it is left to wait; what it starts is found by itself.
        if *class != Class::Compiler && *comm != "uv" {
            assert!(wants_command_line(comm), "{comm} of {text}");
        }
    }
    for comm in ["python3.12", "pypy3", "ipython3", "node", "MainThread"] {
        assert!(wants_command_line(comm), "{comm}");
    }
    for comm in [
        "bash",
        "sh",
        "zsh",
        "systemd",
        "kworker/0:1",
        "nv_queue",
        "Xorg",
        "gnome-shell",
        "firefox",
        "nvcc",
        "cicc",
        "ptxas",
        "cc1plus",
        "ninja",
        "sshd",
        "grep",
        "",
        "pythonista",
        "dockerd",
        "containerd-shim",
        "code",
        "sudo",
    ] {
        assert!(!wants_command_line(comm), "{comm}");
    }
}

#[test]
fn an_operators_class_wins() {
    let own = [
        OwnClass::parse("chat=vllm|my_server.py| corp.serve*").unwrap(),
        OwnClass::parse("render=blender|very-long-program-name").unwrap(),
    ];
    let of = |comm, text: Option<&str>| {
        let line = text.map(line);
        classify(comm, line.as_ref(), None, None, &own, false).map(|name| name.as_str().to_owned())
    };
    assert_eq!(of("x", Some("/bin/python3 /v/bin/vllm serve m")).as_deref(), Some("chat"));
    assert_eq!(of("x", Some("python /srv/my_server.py")).as_deref(), Some("chat"));
    assert_eq!(of("x", Some("python -m corp.serve.main")).as_deref(), Some("chat"));
    assert_eq!(of("blender", None).as_deref(), Some("render"));
    assert_eq!(of("very-long-progr", None).as_deref(), Some("render"));
    assert_eq!(of("very-long-progr", Some("very-long-program-other")), None);
    assert_eq!(of("x", Some("python -m corp.client")), None);
    assert_eq!(of("x", Some("cat my_server.py vllm")), None);
    assert_eq!(of("x", Some("ollama serve")).as_deref(), Some("ollama"));
    assert_eq!(&*own[0].name, "chat");
}

#[test]
fn an_operators_class_that_makes_no_sense_says_why() {
    let rows = [
        ("chat", "expected NAME=PATTERN[|PATTERN...], found \"chat\""),
        ("=a", "lower-case letters, digits and _, at most 32 of them, found \"\""),
        ("Chat=a", "found \"Chat\""),
        ("my-chat=a", "found \"my-chat\""),
        ("vllm=a", "\"vllm\" is taken"),
        ("other=a", "\"other\" is taken"),
        ("total=a", "\"total\" is taken"),
        ("nobody=a", "\"nobody\" is taken"),
        ("chat=", "found \"\" for \"chat\""),
        ("chat=a||b", "found \"\" for \"chat\""),
        ("chat=*", "found \"*\" for \"chat\""),
        ("chat=a*b", "found \"a*b\" for \"chat\""),
    ];
    for (text, expected) in rows {
        let error = OwnClass::parse(text).err().unwrap();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(OwnClass::parse(&format!("{}=a", "x".repeat(32))).is_ok());
    assert!(OwnClass::parse(&format!("{}=a", "x".repeat(33))).is_err());
}

proptest! {
    #[test]
    fn no_bytes_panic(
        bytes in any_bytes(), env in any_bytes(), comm in ".{0,15}", cwd in ".{0,20}",
        on_gpu in any::<bool>(),
    ) {
        let own = [OwnClass::parse("chat=a*|é").unwrap()];
        let line = CommandLine::new(&bytes, false);
        let env = Environment::new(&env);
        let class = classify(&comm, Some(&line), Some(&env), Some(&cwd), &own, on_gpu);
        prop_assert!(class.is_some() || !on_gpu);
        let _ = wants_command_line(&comm);
    }

    /// A secret among the arguments, in the environment or in the directory shows nowhere.
    #[test]
    fn arguments_do_not_leak(at in 1_usize..4, which in 0..HITS.len(), glued in any::<bool>()) {
        const SECRET: &str = "hf_s3cr3tvalue";
        let (_, comm, text) = HITS[which];
        let mut args: Vec<&str> = text.split(' ').collect();
        let secret = if glued { "--token=hf_s3cr3tvalue" } else { SECRET };
        args.insert(at.min(args.len()), secret);
        let line = CommandLine::new(&raw(&args.join(" ")), false);
        let env = Environment::new(format!("HF_TOKEN={SECRET}\0NIM_MODEL_NAME={SECRET}\0").as_bytes());
        let class = classify(comm, Some(&line), Some(&env), Some(SECRET), &[], true).unwrap();
        let cap = crate::sources::processes::caps::cap(&class, Some(&line), Some(&env));
        let shown = format!("{class:?} {} {cap:?}", class.as_str());
        prop_assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}
