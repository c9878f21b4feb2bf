use super::{ModelError, config, gguf, read, safetensors};
use crate::model::shape::{Mixer, Mlp, Shape};
use crate::units::Bytes;
use proptest::prelude::*;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A GGUF file that is written piece by piece.
#[derive(Clone, Default)]
struct Gguf {
    entries: Vec<u8>,
    entry_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: u64,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Gguf {
    fn entry(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
        self.entries.extend([text(key), kind.to_le_bytes().to_vec(), value.to_vec()].concat());
        self.entry_count += 1;
        self
    }

    fn number(&mut self, key: &str, number: u32) -> &mut Self {
        self.entry(key, 4, &number.to_le_bytes())
    }

    fn tensor(&mut self, name: &str, sizes: &[u64], kind: u32, bytes: u64) -> &mut Self {
        let count = u32::try_from(sizes.len()).unwrap();
        self.tensors.extend([text(name), count.to_le_bytes().to_vec()].concat());
        self.tensors.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        self.tensors.extend(kind.to_le_bytes());
        self.tensors.extend(self.data.to_le_bytes());
        self.data += bytes;
        self.tensor_count += 1;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.entry_count.to_le_bytes());
        out.extend(&self.entries);
        out.extend(&self.tensors);
        out.resize(out.len().next_multiple_of(32), 0);
        out.resize(out.len() + usize::try_from(self.data).unwrap(), 0);
        out
    }
}

/// A small model in Q4_0.
fn small_gguf() -> Gguf {
    let mut gguf = Gguf::default();
    let words = [8_u32.to_le_bytes().to_vec(), 3_u64.to_le_bytes().to_vec()].concat();
    gguf.entry("general.architecture", 8, &text("llama"))
        .entry("general.name", 8, &text("Small"))
        .number("llama.embedding_length", 64)
        .number("llama.block_count", 2)
        .number("llama.feed_forward_length", 128)
        .number("llama.attention.head_count", 4)
        .number("llama.attention.head_count_kv", 2)
        .entry("tokenizer.ggml.tokens", 9, &[words, text("a"), text("b"), text("c")].concat())
        .tensor("token_embd.weight", &[64, 3], 1, 384)
        .tensor("blk.0.ffn_gate.weight", &[64, 128], 2, 64 * 128 / 32 * 18);
    gguf
}

fn parse(bytes: &[u8]) -> Result<gguf::Header, String> {
    gguf::parse(bytes, bytes.len() as u64)
}

#[test]
fn a_gguf_file_tells_its_shape_and_its_size() {
    let model = parse(&small_gguf().bytes()).unwrap().model().unwrap();
    let Shape { name, hidden, vocab, tied, layers, parameters, .. } = model.shape;
    assert_eq!((name.as_str(), hidden, vocab, tied), ("Small", 64, 3, true));
    assert_eq!(parameters, Some(64 * 3 + 64 * 128));
    assert_eq!(model.weights, Some(Bytes(384 + 4608)));
    assert_eq!((model.stored.as_str(), model.quantised), ("Q4_0", true));
    assert_eq!(layers.len(), 1);
    assert_eq!(layers[0].mlp, Mlp::Dense { ffn: 128, gated: true });
    let Mixer::Attention(a) = layers[0].mixer else { panic!("{layers:?}") };
    assert_eq!((a.heads, a.kv_heads, a.head_dim), (4, 2, 16));
}

/// What is wrong with each, and what must be said of it.
#[test]
fn bad_gguf_files_are_refused_with_one_clear_sentence() {
    let whole = small_gguf().bytes();
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let huge = 1_000_000_000_000_000_000_u64.to_le_bytes();
    let mut nested = small_gguf();
    let array = [9_u32.to_le_bytes().to_vec(), 1_u64.to_le_bytes().to_vec()].concat();
    nested.entry("x", 9, &array);
    let mut kind = small_gguf();
    kind.entry("x", 77, &[]);
    let mut overflow = small_gguf();
    overflow.tensor("big", &[u64::MAX, u64::MAX], 0, 0);
    let mut unknown = small_gguf();
    unknown.tensor("odd", &[32], 4, 0);
    let mut dimensions = small_gguf();
    dimensions.tensor("deep", &[1; 9], 0, 4);
    let mut alignment = small_gguf();
    alignment.number("general.alignment", 0);
    for (bytes, expected) in [
        (Vec::new(), "the mark of a GGUF file"),
        (b"GGML0000".to_vec(), "does not begin with GGUF"),
        (with(4, &99_u32.to_le_bytes()), "version 99; expected 2 or 3"),
        (with(8, &huge), "claims 1000000000000000000 tensors; there is room for"),
        (with(16, &huge), "claims 1000000000000000000 entries; there is room for"),
        (with(24, &huge), "the name of an entry at byte 32 takes 1000000000000000000 bytes"),
        (whole[..40].to_vec(), "claims 2 tensors; there is room for 0 at most"),
        (whole[..200].to_vec(), "cut short"),
        (whole[..whole.len() - 1].to_vec(), "tells 4992 bytes of tensors and has 4991"),
        (nested.bytes(), "an array of arrays"),
        (kind.bytes(), "is of the type 77"),
        (overflow.bytes(), "more numbers than can be counted"),
        (unknown.bytes(), "is of the type 4, which is not known"),
        (dimensions.bytes(), "has 9 dimensions"),
        (alignment.bytes(), "general.alignment: expected 1 to 65536, found 0"),
    ] {
        let error = parse(&bytes).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn a_gguf_header_without_what_is_needed_says_which_entry() {
    let mut bare = Gguf::default();
    assert!(parse(&bare.bytes()).unwrap().model().unwrap_err().contains("general.architecture"));
    bare.entry("general.architecture", 8, &text("llama"));
    assert!(parse(&bare.bytes()).unwrap().model().unwrap_err().contains("llama.embedding_length"));
    let mut states = small_gguf();
    states.number("llama.ssm.state_size", 16);
    assert!(parse(&states.bytes()).unwrap().model().unwrap_err().contains("layers with a state"));
}

fn safetensors_file(header: &str, data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.resize(out.len() + data, 0);
    out
}

fn sum(bytes: &[u8]) -> Result<safetensors::Header, String> {
    safetensors::parse(bytes, bytes.len() as u64)
}

#[test]
fn a_safetensors_header_is_summed_up() {
    let header = r#"{"__metadata__":{"format":"pt"},
        "a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},
        "b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}}"#;
    let told = sum(&safetensors_file(header, 16)).unwrap();
    assert_eq!((told.bytes, told.tensors), (16, 2));
}

#[test]
fn bad_safetensors_headers_are_refused() {
    let one = r#"{"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}}"#;
    let long = [u64::MAX.to_le_bytes().to_vec(), vec![0; 64]].concat();
    for (bytes, expected) in [
        (vec![1, 2, 3], "has 3 bytes; a safetensors file begins with 8"),
        (long, "tells a header of 18446744073709551615 bytes and has 72"),
        (safetensors_file(one, 15), "tells 16 bytes of tensors and has 15"),
        (safetensors_file("[]", 0), "its header is broken"),
        (safetensors_file("{\"a\":{}}", 0), "missing field `data_offsets`"),
        (safetensors_file(r#"{"a":{"data_offsets":[5,1]}}"#, 9), "ends before it begins"),
        (
            safetensors_file(
                r#"{"a":{"data_offsets":[0,18446744073709551615]},"b":{"data_offsets":[0,2]}}"#,
                9,
            ),
            "more bytes than can be counted",
        ),
        // Two tensors on the same bytes.
        (
            safetensors_file(r#"{"a":{"data_offsets":[0,9]},"b":{"data_offsets":[0,9]}}"#, 9),
            "tells 18 bytes of tensors and has 9",
        ),
    ] {
        let error = sum(&bytes).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_index_names_files_beside_it_and_nothing_else() {
    let index = |file: &str, total: &str| {
        safetensors::index(
            format!(r#"{{"metadata":{{"total_size":{total}}},"weight_map":{{"a":"{file}"}}}}"#)
                .as_bytes(),
        )
    };
    assert_eq!(index("model-1.safetensors", "16060522496").unwrap().total, 16_060_522_496);
    assert_eq!(index("model-1.safetensors", "1.6e10").unwrap().total, 16_000_000_000);
    for (file, total) in [("../../etc/shadow", "1"), ("/etc/shadow", "1"), ("", "1"), ("a", "-1")] {
        assert!(index(file, total).is_err(), "{file} {total}");
    }
    assert!(safetensors::index(b"{\"metadata\":{\"total_size\":1},\"weight_map\":{}}").is_err());
}

const LLAMA: &str = r#"{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,
    "intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,
    "tie_word_embeddings":false,"torch_dtype":"bfloat16"}"#;

#[test]
fn a_config_gives_the_shape_of_the_table() {
    let model = config::parse(LLAMA.as_bytes()).unwrap();
    assert_eq!(
        (model.shape.depth(), model.stored.as_str(), model.quantised),
        (32, "bfloat16", false)
    );
    assert_eq!(model.shape.attention().unwrap().head_dim, 128);
    assert!(model.notes.is_empty(), "{:?}", model.notes);
    let other = LLAMA.replace("\"llama\"", r#""ll\u001b[31mama\n""#);
    let model = config::parse(other.as_bytes()).unwrap();
    assert_eq!(model.shape.name, "ll[31mama");
    assert!(model.notes[0].starts_with("model_type \"ll[31mama\" is not known here"));
    let windows = LLAMA.replace("\"vocab_size\"", "\"sliding_window\":4096,\"vocab_size\"");
    let model = config::parse(windows.as_bytes()).unwrap();
    assert_eq!(model.shape.attention().unwrap().window, Some(4096));
}

#[test]
fn configs_of_every_kind_of_layer() {
    let oss = r#"{"model_type":"gpt_oss","hidden_size":2880,"num_hidden_layers":2,"intermediate_size":2880,
        "num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"vocab_size":201088,"num_local_experts":128,
        "num_experts_per_tok":4,"sliding_window":128,"attention_bias":true,"tie_word_embeddings":false,
        "layer_types":["sliding_attention","full_attention"],"quantization_config":{"quant_method":"mxfp4"}}"#;
    let model = config::parse(oss.as_bytes()).unwrap();
    assert_eq!((model.shape.layers.len(), model.stored.as_str()), (2, "mxfp4"));
    assert!(model.quantised && model.shape.experts());
    let deepseek = r#"{"model_type":"deepseek_v3","hidden_size":7168,"num_hidden_layers":61,"intermediate_size":18432,
        "moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,
        "first_k_dense_replace":3,"num_attention_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,"qk_rope_head_dim":64,
        "qk_nope_head_dim":128,"v_head_dim":128,"vocab_size":129280}"#;
    let layers = config::parse(deepseek.as_bytes()).unwrap().shape.layers;
    assert_eq!(layers.iter().map(|l| l.count).collect::<Vec<_>>(), [3, 58]);
    let nano = r#"{"model_type":"nemotron_h","hidden_size":2688,"hybrid_override_pattern":"ME*-","vocab_size":131072,
        "intermediate_size":1856,"mlp_hidden_act":"relu2","num_attention_heads":32,"num_key_value_heads":2,"head_dim":128,
        "mamba_num_heads":64,"mamba_head_dim":64,"n_groups":8,"ssm_state_size":128,"conv_kernel":4,"n_routed_experts":128,
        "moe_intermediate_size":1856,"moe_shared_expert_intermediate_size":3712,"num_experts_per_tok":6}"#;
    let shape = config::parse(nano.as_bytes()).unwrap().shape;
    assert!(shape.hybrid() && shape.experts() && !shape.gated());
    let next = r#"{"model_type":"qwen3_5","text_config":{"model_type":"qwen3_5_text","hidden_size":5120,"num_hidden_layers":4,
        "intermediate_size":17408,"num_attention_heads":24,"num_key_value_heads":4,"head_dim":256,"vocab_size":248320,
        "full_attention_interval":4,"linear_num_key_heads":16,"linear_num_value_heads":48,"linear_key_head_dim":128,
        "linear_value_head_dim":128,"linear_conv_kernel_dim":4}}"#;
    let shape = config::parse(next.as_bytes()).unwrap().shape;
    assert_eq!(shape.layers.iter().map(|l| l.count).collect::<Vec<_>>(), [3, 1]);
    assert!(shape.attention().unwrap().gated);
}

#[test]
fn a_config_that_lacks_something_says_what() {
    for (from, to, expected) in [
        ("\"hidden_size\":4096", "\"other\":1", "expected the key hidden_size"),
        ("4096", "\"wide\"", "hidden_size: expected a whole number up to 16777216, found \"wide\""),
        ("4096", "1e30", "hidden_size: expected a whole number"),
        ("\"num_hidden_layers\":32", "\"num_hidden_layers\":0", "expected 1 or more, found 0"),
        ("\"num_attention_heads\":32", "\"x\":1", "expected the key num_attention_heads"),
        (
            "\"tie_word",
            "\"layer_types\":[\"odd\"],\"tie_word",
            "layer_types: expected 32 of them, found 1",
        ),
        ("{", "[{", "expected an object of JSON"),
    ] {
        let error = config::parse(LLAMA.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

fn write(path: &Path, bytes: &[u8]) {
    File::create(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_directory_is_read_and_a_download_that_broke_off_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    assert!(read(place).unwrap_err().to_string().contains("has no config.json"));
    write(&dir.path().join("config.json"), LLAMA.as_bytes());
    let bare = read(place).unwrap();
    assert_eq!((bare.weights, bare.notes.len()), (None, 1));
    let index =
        r#"{"metadata":{"total_size":100},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#;
    write(&dir.path().join("model.safetensors.index.json"), index.as_bytes());
    write(&dir.path().join("1.safetensors"), &[0; 70]);
    let partly = read(place).unwrap();
    assert_eq!((partly.weights, partly.largest), (Some(Bytes(100)), Some(Bytes(70))));
    assert!(partly.notes[0].contains("1 of 2 files of weights are not there"));
    write(&dir.path().join("2.safetensors"), &[0; 10]);
    assert!(read(place).unwrap_err().to_string().contains("one is cut short"));
    write(&dir.path().join("2.safetensors"), &[0; 40]);
    assert_eq!(read(place).unwrap().weights, Some(Bytes(100)));
}

#[test]
fn parts_of_a_gguf_are_added_up() {
    let dir = tempfile::tempdir().unwrap();
    let part = |n: u32| dir.path().join(format!("m-0000{n}-of-00002.gguf"));
    write(&part(1), &small_gguf().bytes());
    let first = part(1);
    let error = read(first.to_str().unwrap()).unwrap_err();
    assert!(error.to_string().contains("m-00002-of-00002.gguf cannot be read"), "{error}");
    write(&part(2), Gguf::default().tensor("output.weight", &[64, 3], 1, 384).bytes().as_slice());
    let model = read(first.to_str().unwrap()).unwrap();
    assert_eq!(model.weights, Some(Bytes(384 + 4608 + 384)));
    assert!(!model.shape.tied);
    assert!(read(part(2).to_str().unwrap()).unwrap_err().to_string().contains("give the first"));
    assert_eq!(read(dir.path().to_str().unwrap()).unwrap().weights, model.weights);
}

#[test]
fn what_is_no_model_on_this_machine_is_refused_at_once() {
    for place in ["hf://meta-llama/Llama-3.1-8B", "https://huggingface.co/x", "hf:x", "s3://b/k"] {
        assert!(matches!(read(place), Err(ModelError::Remote(_))), "{place}");
    }
    assert!(matches!(read("/dev/zero"), Err(ModelError::Special(_))));
    let missing = read("/nowhere/model").unwrap_err();
    assert_eq!(missing.to_string(), "/nowhere/model cannot be read");
    assert!(missing.source().is_some());
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("model.bin");
    write(&odd, b"x");
    assert!(read(odd.to_str().unwrap()).unwrap_err().to_string().contains("expected a directory"));
    // A file of a petabyte that holds nothing, and one that claims everything.
    let sparse = dir.path().join("sparse.gguf");
    File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    assert!(
        read(sparse.to_str().unwrap())
            .unwrap_err()
            .to_string()
            .contains("does not begin with GGUF")
    );
    let mut claims = b"GGUF\x03\0\0\0".to_vec();
    claims.extend(u64::MAX.to_le_bytes());
    claims.extend(1_u64.to_le_bytes());
    write(&sparse, &claims);
    assert!(read(sparse.to_str().unwrap()).unwrap_err().to_string().contains("claims"));
    let long = dir.path().join("config.json");
    File::create(&long).unwrap().set_len(1 << 30).unwrap();
    assert!(read(long.to_str().unwrap()).unwrap_err().to_string().contains("expected at most"));
}

proptest! {
    /// Whatever a file says, it is read or refused.
    #[test]
    fn no_change_of_a_gguf_file_is_fatal(
        at in 0_usize..400, bytes in proptest::collection::vec(any::<u8>(), 1..12), cut in 0_usize..6000,
    ) {
        let mut whole = small_gguf().bytes();
        let end = (at + bytes.len()).min(whole.len());
        whole[at..end].copy_from_slice(&bytes[..end - at]);
        whole.truncate(cut.max(1));
        if let Ok(header) = parse(&whole) {
            prop_assert!(header.bytes <= whole.len() as u64);
            let _ = header.model();
        }
    }

    #[test]
    fn no_bytes_are_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = parse(&[b"GGUF\x03\0\0\0".as_slice(), &bytes].concat());
        let _ = sum(&bytes);
        let _ = sum(&[&(bytes.len() as u64).to_le_bytes(), bytes.as_slice()].concat());
        let _ = config::parse(&bytes);
        let _ = safetensors::index(&bytes);
    }

    /// Any number for any key: no product of them overflows on its way to an estimate.
    #[test]
    fn no_number_of_a_config_is_fatal(
        key in proptest::sample::select(vec!["hidden_size", "num_hidden_layers", "intermediate_size",
            "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim", "num_local_experts",
            "num_experts_per_tok", "n_shared_experts", "sliding_window"]),
        number in prop_oneof![Just(0_u64), Just(1), Just(u64::MAX), 0_u64..1 << 27],
    ) {
        let Ok(serde_json::Value::Object(mut whole)) = serde_json::from_str(LLAMA) else { unreachable!() };
        whole.insert("num_experts_per_tok".to_owned(), 2.into());
        whole.insert(key.to_owned(), number.into());
        if let Ok(model) = config::parse(serde_json::Value::Object(whole).to_string().as_bytes()) {
            prop_assert!(model.shape.depth() >= 1);
        }
    }
}
