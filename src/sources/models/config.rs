//! config.json of a model on Hugging Face: its shape.

use super::plain;
use crate::model::shape::{
    Attention, Delta, Latent, Layers, Mixer, Mlp, ModelFiles, Shape, StateSpace,
};
use serde_json::{Map, Value};

/// Wider than any layer.
const MAX_WIDTH: u64 = 1 << 24;
/// More than any vocabulary.
const MAX_VOCAB: u64 = 1 << 26;
/// Deeper than any model.
const MAX_DEPTH: u64 = 4096;
/// More than any model has experts or heads.
const MAX_MANY: u64 = 1 << 16;

/// Architectures whose MLP has no gate.
const UNGATED: &[&str] =
    &["gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "phi", "starcoder2"];
/// Architectures whose head is the embedding unless they say otherwise.
const TIED: &[&str] = &["gemma", "gemma2", "gemma3", "gemma3_text", "gpt2"];

/// Architectures whose layers are made of what is counted here. Another may have the same keys and more.
const KNOWN: &[&str] = &[
    "llama",
    "mistral",
    "mixtral",
    "ministral",
    "gpt2",
    "gpt_neox",
    "gptj",
    "opt",
    "phi",
    "phi3",
    "falcon",
    "starcoder2",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_text",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gpt_oss",
    "glm",
    "glm4",
    "glm4_moe",
    "olmo",
    "olmo2",
    "granite",
    "smollm3",
    "nemotron",
    "nemotron_h",
    "deepseek_v2",
    "deepseek_v3",
];

/// The keys of one object, with what they must be.
struct Keys<'a>(&'a Map<String, Value>);

impl Keys<'_> {
    /// A number within bounds under one of several names; `None` when none is there.
    fn maybe(&self, names: &[&str], most: u64) -> Result<Option<u64>, String> {
        let Some((name, value)) = names
            .iter()
            .find_map(|name| self.0.get(*name).filter(|v| !v.is_null()).map(|v| (name, v)))
        else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(number) if number <= most => Ok(Some(number)),
            _ => {
                Err(format!("{name}: expected a whole number up to {most}, found {}", shown(value)))
            }
        }
    }

    /// The same, which must not be 0 where it is there.
    fn some(&self, names: &[&str], most: u64) -> Result<Option<u64>, String> {
        match self.maybe(names, most)? {
            Some(0) => Err(format!("{}: expected 1 or more, found 0", names[0])),
            other => Ok(other),
        }
    }

    /// The same, which must be there.
    fn need(&self, names: &[&str], most: u64) -> Result<u64, String> {
        self.some(names, most)?.ok_or_else(|| format!("expected the key {}", names.join(" or ")))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    fn kind(&self) -> &str {
        self.text("model_type").unwrap_or("")
    }
}

/// A value for a message: its beginning, if it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// Reads a config.json.
///
/// # Errors
/// Which key, and what was expected.
pub fn parse(bytes: &[u8]) -> Result<ModelFiles, String> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|e| format!("expected an object of JSON: {e}"))?;
    let Value::Object(whole) = &value else {
        return Err("expected an object of JSON".to_owned());
    };
    let mut notes = Vec::new();
    let outer = Keys(whole);
    let keys = match whole.get("text_config") {
        Some(Value::Object(text)) => {
            notes.push(
                "what it has beside its language is in its weights and not in its activations"
                    .to_owned(),
            );
            Keys(text)
        }
        _ => Keys(whole),
    };
    let shape = shape(&keys, &outer)?;
    let quantised = whole.get("quantization_config").and_then(|q| q.get("quant_method"));
    let method = quantised.and_then(Value::as_str);
    let dtype =
        ["torch_dtype", "dtype"].iter().find_map(|k| outer.text(k).or_else(|| keys.text(k)));
    let stored = plain(method.or(dtype).unwrap_or("not told"), 40);
    if !KNOWN.contains(&keys.kind()) {
        notes.push(format!(
            "model_type {:?} is not known here: it is counted as a usual decoder, by the keys that it has",
            plain(keys.kind(), 40)
        ));
    }
    Ok(ModelFiles {
        shape,
        weights: None,
        largest: None,
        stored,
        quantised: method.is_some(),
        serves_only: false,
        notes,
    })
}

fn shape(keys: &Keys<'_>, outer: &Keys<'_>) -> Result<Shape, String> {
    let hidden = keys.need(&["hidden_size", "n_embd", "d_model"], MAX_WIDTH)?;
    let vocab = keys.need(&["vocab_size"], MAX_VOCAB)?;
    let tied = keys.flag("tie_word_embeddings").or_else(|| outer.flag("tie_word_embeddings"));
    let name = outer.text("_name_or_path").filter(|n| !n.is_empty()).unwrap_or(outer.kind());
    let dropout = ["resid_pdrop", "attn_pdrop"]
        .iter()
        .any(|key| keys.0.get(*key).and_then(Value::as_f64).is_some_and(|share| share > 0.0));
    Ok(Shape {
        name: plain(name, 80),
        hidden,
        vocab,
        tied: tied.unwrap_or(TIED.contains(&keys.kind())),
        dropout,
        layers: gather(each_layer(keys, hidden)?),
        parameters: None,
    })
}

/// Like layers together.
fn gather(each: Vec<(Mixer, Mlp)>) -> Vec<Layers> {
    let mut out: Vec<Layers> = Vec::new();
    for (mixer, mlp) in each {
        match out.iter_mut().find(|layers| layers.mixer == mixer && layers.mlp == mlp) {
            Some(layers) => layers.count += 1,
            None => out.push(Layers { count: 1, mixer, mlp }),
        }
    }
    out
}

fn each_layer(keys: &Keys<'_>, hidden: u64) -> Result<Vec<(Mixer, Mlp)>, String> {
    if let Some(pattern) = keys.text("hybrid_override_pattern") {
        return turns(keys, hidden, pattern);
    }
    let depth = keys.need(&["num_hidden_layers", "n_layer", "num_layers"], MAX_DEPTH)?;
    let dense_first = keys.maybe(&["first_k_dense_replace"], MAX_DEPTH)?.unwrap_or(0);
    let experts = experts(keys)?;
    let mixers = mixers(keys, hidden, depth)?;
    let mlp = |layer: u64| match experts {
        Some(experts) if layer >= dense_first => Ok(experts),
        _ => dense(keys, hidden),
    };
    mixers.into_iter().zip(0..).map(|(mixer, layer)| Ok((mixer, mlp(layer)?))).collect()
}

/// A layer carries the past or works on tokens, by a letter for each.
fn turns(keys: &Keys<'_>, hidden: u64, pattern: &str) -> Result<Vec<(Mixer, Mlp)>, String> {
    if pattern.is_empty() || pattern.len() as u64 > MAX_DEPTH {
        return Err(format!("hybrid_override_pattern: expected 1 to {MAX_DEPTH} letters"));
    }
    let letter = |letter| match letter {
        'M' => Ok((Mixer::StateSpace(state_space(keys)?), Mlp::None)),
        '*' => Ok((Mixer::Attention(attention(keys, hidden, None)?), Mlp::None)),
        '-' => Ok((Mixer::None, dense(keys, hidden)?)),
        'E' => experts(keys)?.map(|mlp| (Mixer::None, mlp)).ok_or_else(|| {
            "hybrid_override_pattern has layers of experts; expected the key n_routed_experts"
                .to_owned()
        }),
        other => Err(format!("hybrid_override_pattern: expected M, *, - and E, found {other:?}")),
    };
    pattern.chars().map(letter).collect()
}

fn mixers(keys: &Keys<'_>, hidden: u64, depth: u64) -> Result<Vec<Mixer>, String> {
    if keys.maybe(&["kv_lora_rank"], MAX_WIDTH)?.is_some() {
        let latent = Mixer::Latent(latent(keys)?);
        return Ok((0..depth).map(|_| latent).collect());
    }
    let window = match keys.flag("use_sliding_window") {
        Some(false) => None,
        _ => keys.maybe(&["sliding_window"], u64::MAX)?,
    };
    let full = || attention(keys, hidden, None).map(Mixer::Attention);
    let sliding = || attention(keys, hidden, window).map(Mixer::Attention);
    if let Some(Value::Array(kinds)) = keys.0.get("layer_types") {
        if kinds.len() as u64 != depth {
            return Err(format!("layer_types: expected {depth} of them, found {}", kinds.len()));
        }
        let kind = |kind: &Value| match kind.as_str() {
            Some("full_attention" | "attention") => full(),
            Some("sliding_attention" | "chunked_attention") => sliding(),
            Some("linear_attention") => delta(keys).map(Mixer::Delta),
            Some("mamba" | "mamba2") => state_space(keys).map(Mixer::StateSpace),
            _ => Err(format!(
                "layer_types: expected full_attention, sliding_attention, linear_attention or mamba, found {}",
                shown(kind)
            )),
        };
        return kinds.iter().map(kind).collect();
    }
    let every = keys.maybe(&["full_attention_interval", "sliding_window_pattern"], MAX_DEPTH)?;
    let linear = keys.maybe(&["linear_num_value_heads"], MAX_MANY)?.is_some();
    (0..depth)
        .map(|layer| match every {
            Some(n) if n > 0 && (layer + 1) % n == 0 => full(),
            Some(_) if linear => delta(keys).map(Mixer::Delta),
            _ => sliding(),
        })
        .collect()
}

fn attention(keys: &Keys<'_>, hidden: u64, window: Option<u64>) -> Result<Attention, String> {
    let heads = keys.need(&["num_attention_heads", "n_head"], MAX_MANY)?;
    let kind = keys.kind();
    let kv_heads = keys.some(&["num_key_value_heads"], MAX_MANY)?.unwrap_or(heads);
    Ok(Attention {
        heads,
        kv_heads,
        head_dim: keys.some(&["head_dim"], MAX_WIDTH)?.unwrap_or(hidden / heads),
        gated: keys
            .flag("attn_output_gate")
            .unwrap_or(kind.starts_with("qwen3_next") || kind.starts_with("qwen3_5")),
        qk_norm: keys
            .flag("use_qk_norm")
            .unwrap_or(kind.starts_with("qwen3") || kind.starts_with("gemma3")),
        bias: keys.flag("attention_bias").unwrap_or(kind.starts_with("qwen2")),
        window,
    })
}

fn latent(keys: &Keys<'_>) -> Result<Latent, String> {
    Ok(Latent {
        heads: keys.need(&["num_attention_heads"], MAX_MANY)?,
        q_rank: keys.maybe(&["q_lora_rank"], MAX_WIDTH)?,
        kv_rank: keys.need(&["kv_lora_rank"], MAX_WIDTH)?,
        rope: keys.need(&["qk_rope_head_dim"], MAX_WIDTH)?,
        nope: keys.need(&["qk_nope_head_dim"], MAX_WIDTH)?,
        value: keys.need(&["v_head_dim"], MAX_WIDTH)?,
    })
}

fn delta(keys: &Keys<'_>) -> Result<Delta, String> {
    Ok(Delta {
        key_heads: keys.need(&["linear_num_key_heads"], MAX_MANY)?,
        value_heads: keys.need(&["linear_num_value_heads"], MAX_MANY)?,
        key_dim: keys.need(&["linear_key_head_dim"], MAX_WIDTH)?,
        value_dim: keys.need(&["linear_value_head_dim"], MAX_WIDTH)?,
        conv: keys.need(&["linear_conv_kernel_dim"], MAX_MANY)?,
    })
}

fn state_space(keys: &Keys<'_>) -> Result<StateSpace, String> {
    Ok(StateSpace {
        heads: keys.need(&["mamba_num_heads", "mamba_n_heads"], MAX_MANY)?,
        head_dim: keys.need(&["mamba_head_dim", "mamba_d_head"], MAX_WIDTH)?,
        groups: keys.need(&["n_groups", "mamba_n_groups"], MAX_MANY)?,
        state: keys.need(&["ssm_state_size", "mamba_d_state"], MAX_WIDTH)?,
        conv: keys.need(&["conv_kernel", "mamba_d_conv"], MAX_MANY)?,
    })
}

fn gated(keys: &Keys<'_>) -> bool {
    let act = keys.text("mlp_hidden_act").or_else(|| keys.text("hidden_act"));
    !UNGATED.contains(&keys.kind()) && act != Some("relu2")
}

fn dense(keys: &Keys<'_>, hidden: u64) -> Result<Mlp, String> {
    let names = ["intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"];
    let ffn = match keys.some(&names, MAX_WIDTH)? {
        // GPT-2 writes none where it means four times the width.
        None if keys.kind() == "gpt2" => 4 * hidden,
        None => return Err("expected the key intermediate_size".to_owned()),
        Some(ffn) => ffn,
    };
    Ok(Mlp::Dense { ffn, gated: gated(keys) })
}

fn experts(keys: &Keys<'_>) -> Result<Option<Mlp>, String> {
    let names = ["n_routed_experts", "num_local_experts", "num_experts"];
    let Some(count) = keys.maybe(&names, MAX_MANY)?.filter(|count| *count > 0) else {
        return Ok(None);
    };
    let ffn = keys.need(&["moe_intermediate_size", "intermediate_size"], MAX_WIDTH)?;
    let wide = ["moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"];
    let shared = match keys.maybe(&wide, MAX_WIDTH)? {
        Some(width) => width,
        None => ffn * keys.maybe(&["n_shared_experts"], MAX_MANY)?.unwrap_or(0),
    };
    let active = keys.need(&["num_experts_per_tok", "top_k_experts"], MAX_MANY)?;
    Ok(Some(Mlp::Experts { count, active, ffn, shared, gated: gated(keys) }))
}
