//! What a person says of a job, as a plan.

use crate::model::shape::{ModelFiles, Shape};
use crate::planning::choice::{
    AdapterDtype, Dtype, Engine, KvDtype, Loader, Loss, Method, Optimizer, Targets,
};
use crate::planning::estimate::grouped;
use crate::planning::plan::{Plan, Serving};
use crate::planning::shapes::{NAMED, find, nearest};
use crate::sources::models::{self, ModelError};
use crate::units::{Bytes, Ratio, Unit};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::Path;

/// Longer sequences and larger batches than any are a mistake.
const MAX_TOKENS: u64 = 1 << 28;
const MAX_BATCH: u64 = 1 << 20;
const MAX_RANK: u64 = 1 << 16;
/// More parameters than any model.
const MAX_PARAMETERS: f64 = 1e14;
/// Less than this is no size of anything here: a kibibyte.
const LEAST_SIZE: f64 = 1024.0;

/// A word of a closed set.
fn word<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let first = all[0];
    PossibleValuesParser::new(all.iter().map(move |t| name(*t)))
        .map(move |text| all.iter().copied().find(|t| name(*t) == text).unwrap_or(first))
}

/// A job that is planned.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct JobArgs {
    /// The model: a name (llama-3.1-8b), a directory with config.json and safetensors, a config.json, or a
    /// GGUF file.
    #[arg(long, value_name = "NAME|PATH", conflicts_with = "params")]
    model: Option<String>,
    /// Where only its size is known: 8b, 350m. What follows from its shape is a range then.
    #[arg(long, value_name = "COUNT", value_parser = parameters)]
    params: Option<u64>,
    /// What is to be done with it [default: lora; inference for a GGUF file]
    #[arg(long, value_parser = word(Method::ALL, Method::as_str))]
    method: Option<Method>,
    /// How its weights are held [default: as its files have them, otherwise bf16; nf4 for qlora]
    #[arg(long, value_parser = word(Dtype::ALL, Dtype::as_str))]
    dtype: Option<Dtype>,
    /// Sequences in a step; pairs for dpo [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_BATCH), help_heading = "Training")]
    batch: Option<u64>,
    /// Tokens in a sequence: 4096, 4k [default: 2048]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, help_heading = "Training")]
    seq: Option<u64>,
    /// Rank of adapters [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RANK), help_heading = "Training")]
    rank: Option<u64>,
    /// Which matrices are given adapters [default: all]
    #[arg(long, value_parser = word(Targets::ALL, Targets::as_str), help_heading = "Training")]
    targets: Option<Targets>,
    /// How adapters are held [default: fp32, as PEFT does]
    #[arg(long, value_parser = word(AdapterDtype::ALL, AdapterDtype::as_str), help_heading = "Training")]
    adapter_dtype: Option<AdapterDtype>,
    /// The optimizer [default: adamw]
    #[arg(long, value_parser = word(Optimizer::ALL, Optimizer::as_str), help_heading = "Training")]
    optimizer: Option<Optimizer>,
    /// Keep all activations.
    #[arg(long, help_heading = "Training")]
    no_checkpointing: bool,
    /// Gradients are kept over several batches.
    #[arg(long, help_heading = "Training")]
    accumulation: bool,
    /// How the loss is taken [default: default]
    #[arg(long, value_parser = word(Loss::ALL, Loss::as_str), help_heading = "Training")]
    loss: Option<Loss>,
    /// Tokens in a piece of --loss chunked [default: 2048]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, help_heading = "Training")]
    chunk: Option<u64>,
    /// torch's allocator may grow its segments.
    #[arg(long, help_heading = "Training")]
    expandable_segments: bool,
    /// Embedding, head and norms of quantised weights are raised to fp32 (PEFT's preparation), or not. Not said:
    /// either.
    #[arg(long, value_name = "true|false", help_heading = "Training")]
    raised: Option<bool>,
    /// How weights get into memory [default: auto]
    #[arg(long, value_parser = word(Loader::ALL, Loader::as_str))]
    loader: Option<Loader>,
    /// What the loader holds beside the weights while it streams [default: its largest file, or 5GB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    staging: Option<Bytes>,
    /// What serves it, or trains it: decides by which figure it judges what is left [default: torch]
    #[arg(long, value_parser = word(Engine::ALL, Engine::as_str))]
    engine: Option<Engine>,
    /// Sequences at a time [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_BATCH), help_heading = "Inference")]
    sequences: Option<u64>,
    /// Tokens in each: 131072, 128k [default: 8192]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, help_heading = "Inference")]
    context: Option<u64>,
    /// How the cache of keys and values is held [default: bf16]
    #[arg(long, value_parser = word(KvDtype::ALL, KvDtype::as_str), help_heading = "Inference")]
    kv_dtype: Option<KvDtype>,
    /// The share of the pool that vLLM takes: 0.8, 80%
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Inference")]
    utilization: Option<Ratio>,
    /// Tokens that the engine works on at once [default: 2048; 512 for llama.cpp]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, help_heading = "Inference")]
    batched_tokens: Option<u64>,
}

/// 8b, 350m, 8030261248.
fn parameters(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_lowercase();
    let units = [("k", 1e3), ("m", 1e6), ("b", 1e9), ("t", 1e12)];
    let (digits, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)))
        .unwrap_or((lower.as_str(), 1.0));
    let count = digits.trim().parse::<f64>().ok().map(|number| (number * factor).round());
    match count {
        Some(count) if (1e6..=MAX_PARAMETERS).contains(&count) => Ok(whole(count)),
        _ => Err(format!("expected a number of parameters such as 8b or 350m, found {text:?}")),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive and below 2^53, as its caller has seen to"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

/// 4096, 4k.
fn tokens(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_lowercase();
    let (digits, factor) = lower.strip_suffix('k').map_or((lower.as_str(), 1), |d| (d, 1024));
    let tokens = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    tokens
        .filter(|tokens| (1..=MAX_TOKENS).contains(tokens))
        .ok_or_else(|| format!("expected a number of tokens such as 4096 or 4k, found {text:?}"))
}

/// 48GiB, 5GB, 123904000000.
pub(in crate::cli) fn size(text: &str) -> Result<Bytes, String> {
    let bytes = Unit::Bytes.parse(text, "B")?;
    // Past a petabyte it is a mistake, and so is a number of GiB without its unit.
    if bytes == 0.0 || (LEAST_SIZE..1e15).contains(&bytes) {
        return Ok(Bytes(whole(bytes.round())));
    }
    Err(format!("expected a size with its unit such as 48GiB, found {text:?}"))
}

fn share(text: &str) -> Result<Ratio, String> {
    let share = Unit::Ratio.parse(text, "")?;
    if share > 0.0 && share <= 1.0 {
        return Ok(Ratio(share));
    }
    Err(format!("expected a share such as 0.8 or 80%, found {text:?}"))
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum PlanError {
    /// Asked wrongly.
    #[error("{0}")]
    Usage(String),
    /// The model's files.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// A plan, and what was not said about it.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Job {
    pub(in crate::cli) plan: Plan,
    /// What was taken because nothing was said.
    pub(in crate::cli) assumed: Vec<String>,
    /// What should be known about the model.
    pub(in crate::cli) notes: Vec<String>,
}

/// Takes what was said, or notes what is taken instead.
struct Assume(Vec<String>);

impl Assume {
    fn or<T>(&mut self, said: Option<T>, default: T, words: impl FnOnce(&T) -> String) -> T {
        said.unwrap_or_else(|| {
            self.0.push(words(&default));
            default
        })
    }
}

impl JobArgs {
    /// Whether a model was named.
    pub(in crate::cli) const fn is_given(&self) -> bool {
        self.model.is_some() || self.params.is_some()
    }

    /// The plan.
    pub(in crate::cli) fn job(&self) -> Result<Job, PlanError> {
        let (shape, alike, files) = self.model()?;
        let gguf = files.as_ref().is_some_and(|files| files.serves_only);
        let mut assume = Assume(Vec::new());
        let usual = if gguf { Method::Inference } else { Method::Lora };
        let method = assume.or(self.method, usual, |m| format!("--method {}", m.as_str()));
        self.belongs(method)?;
        self.copies(method)?;
        if gguf && method != Method::Inference {
            let what = "a GGUF file is for inference: no trainer goes on from it".to_owned();
            return Err(PlanError::Usage(what));
        }
        let mut plan = Plan::of(shape, method);
        plan.alike = alike;
        self.weights(&mut plan, files.as_ref(), &mut assume)?;
        if plan.trains() {
            self.training(&mut plan, &mut assume);
        } else {
            self.serving(&mut plan, &mut assume);
        }
        plan.loader = assume.or(self.loader, plan.loader, |l| format!("--loader {}", l.as_str()));
        plan.staging = self.staging;
        Ok(Job { plan, assumed: assume.0, notes: files.map(|f| f.notes).unwrap_or_default() })
    }

    /// Options that say nothing about this method are a mistake, not noise.
    fn belongs(&self, method: Method) -> Result<(), PlanError> {
        let inference = method == Method::Inference;
        let adapters = !matches!(method, Method::Full | Method::Inference);
        let training = [
            ("--batch", self.batch.is_some()),
            ("--seq", self.seq.is_some()),
            ("--optimizer", self.optimizer.is_some()),
            ("--no-checkpointing", self.no_checkpointing),
            ("--accumulation", self.accumulation),
            ("--loss", self.loss.is_some()),
            ("--chunk", self.chunk.is_some()),
            ("--expandable-segments", self.expandable_segments),
        ];
        let of_adapters = [
            ("--rank", self.rank.is_some()),
            ("--targets", self.targets.is_some()),
            ("--adapter-dtype", self.adapter_dtype.is_some()),
            ("--raised", self.raised.is_some()),
        ];
        let serving = [
            ("--sequences", self.sequences.is_some()),
            ("--context", self.context.is_some()),
            ("--kv-dtype", self.kv_dtype.is_some()),
            ("--utilization", self.utilization.is_some()),
            ("--batched-tokens", self.batched_tokens.is_some()),
        ];
        let wrong = |options: &[(&'static str, bool)], applies: bool, what: &str| match options
            .iter()
            .find(|(_, given)| *given && !applies)
        {
            Some((name, _)) => Err(PlanError::Usage(format!(
                "{name} is for {what}; the method is {}",
                method.as_str()
            ))),
            None => Ok(()),
        };
        wrong(&training, !inference, "training (full, lora, qlora, dpo, grpo)")?;
        wrong(&of_adapters, adapters, "adapters (lora, qlora, dpo, grpo)")?;
        wrong(&serving, inference, "inference")?;
        if self.utilization.is_some() && !self.engine.is_some_and(Engine::takes_a_share) {
            let what = "--utilization is vLLM's: give --engine vllm or vllm-old, too".to_owned();
            return Err(PlanError::Usage(what));
        }
        if self.chunk.is_some() && self.loss != Some(Loss::Chunked) {
            return Err(PlanError::Usage("--chunk needs --loss chunked".to_owned()));
        }
        Ok(())
    }

    /// A copy in fp32 of what is in fp32 is nobody's optimizer.
    fn copies(&self, method: Method) -> Result<(), PlanError> {
        let (fp32, instead) = match method {
            Method::Full => (self.dtype == Some(Dtype::Fp32), "--dtype bf16"),
            _ => (self.adapter_dtype != Some(AdapterDtype::Bf16), "--adapter-dtype bf16"),
        };
        if fp32 && self.optimizer == Some(Optimizer::AdamwMaster) {
            return Err(PlanError::Usage(format!(
                "--optimizer adamw-master keeps an fp32 copy of what is trained in bf16: give {instead}"
            )));
        }
        Ok(())
    }

    /// The model's shape, others like it, and its files.
    fn model(&self) -> Result<(Shape, Vec<Shape>, Option<ModelFiles>), PlanError> {
        if let Some(count) = self.params {
            let mut all = nearest(count).into_iter().map(|named| Shape {
                name: format!("a model of {} parameters", grouped(count)),
                parameters: Some(count),
                ..named.shape()
            });
            let first = all.next();
            let first = first
                .ok_or_else(|| PlanError::Usage("--params: no shape is like it".to_owned()))?;
            return Ok((first, all.collect(), None));
        }
        let Some(model) = self.model.as_deref() else {
            return Err(PlanError::Usage(
                "expected --model NAME|PATH or --params COUNT".to_owned(),
            ));
        };
        let path = Path::new(model);
        // owner/name may be a directory, too.
        let here = model.contains('/') && path.exists();
        if let Some(named) = find(model).filter(|_| !here) {
            return Ok((named.shape(), Vec::new(), None));
        }
        let told = path.extension().is_some_and(|e| e == "gguf" || e == "json");
        // A link that leads nowhere is a path all the same.
        if !told && !model.contains(['/', ':']) && path.symlink_metadata().is_err() {
            let names: Vec<_> = NAMED.iter().map(|named| named.name).collect();
            return Err(PlanError::Usage(format!(
                "--model: {model:?} is neither a path that exists nor a known name; known are {} (or --params 8b)",
                names.join(", ")
            )));
        }
        let files = models::read(model)?;
        Ok((files.shape.clone(), Vec::new(), Some(files)))
    }

    fn weights(
        &self,
        plan: &mut Plan,
        files: Option<&ModelFiles>,
        assume: &mut Assume,
    ) -> Result<(), PlanError> {
        if let Some(files) = files {
            plan.largest_file = files.largest;
            // What lies in files of one type for all tells the number of parameters, towers included.
            let bytes = match files.stored.as_str() {
                "bfloat16" | "float16" => Some(2),
                "float32" => Some(4),
                _ => None,
            };
            if let (None, Some(weights), Some(bytes)) =
                (plan.shape.parameters, files.weights, bytes)
            {
                plan.shape.parameters = Some(weights.0 / bytes);
            }
            let as_stored = self.dtype.is_none()
                && (files.quantised || !matches!(plan.method, Method::Full | Method::Qlora));
            if as_stored && files.weights.is_some() {
                plan.stored = files.weights;
                plan.packed = files.quantised;
                assume.0.push(format!("weights as stored ({})", files.stored));
                return Ok(());
            }
        }
        plan.dtype = assume.or(self.dtype, plan.dtype, |d| format!("--dtype {}", d.as_str()));
        if plan.method == Method::Full && plan.dtype.quantised() {
            return Err(PlanError::Usage(format!(
                "--dtype {}: a full fine-tune needs fp32 or bf16",
                plan.dtype.as_str()
            )));
        }
        Ok(())
    }

    fn training(&self, plan: &mut Plan, assume: &mut Assume) {
        plan.batch = assume.or(self.batch, plan.batch, |n| format!("--batch {n}"));
        plan.seq = assume.or(self.seq, plan.seq, |n| format!("--seq {n}"));
        if plan.method != Method::Full {
            plan.rank = assume.or(self.rank, plan.rank, |n| format!("--rank {n}"));
            plan.targets =
                assume.or(self.targets, plan.targets, |t| format!("--targets {}", t.as_str()));
            plan.adapter_dtype = assume.or(self.adapter_dtype, plan.adapter_dtype, |d| {
                format!("--adapter-dtype {}", d.as_str())
            });
        }
        plan.optimizer =
            assume.or(self.optimizer, plan.optimizer, |o| format!("--optimizer {}", o.as_str()));
        plan.loss = assume.or(self.loss, plan.loss, |l| format!("--loss {}", l.as_str()));
        plan.chunk = self.chunk.unwrap_or(plan.chunk);
        plan.checkpointing = !self.no_checkpointing;
        if plan.checkpointing {
            assume.0.push("checkpointing".to_owned());
        }
        plan.accumulation = self.accumulation;
        plan.expandable = self.expandable_segments;
        plan.raised = self.raised;
        plan.serving.engine = self.engine.unwrap_or(Engine::Torch);
    }

    fn serving(&self, plan: &mut Plan, assume: &mut Assume) {
        let Serving { engine, sequences, context, kv, .. } = plan.serving;
        plan.serving = Serving {
            engine: assume.or(self.engine, engine, |e| format!("--engine {}", e.as_str())),
            sequences: assume.or(self.sequences, sequences, |n| format!("--sequences {n}")),
            context: assume.or(self.context, context, |n| format!("--context {n}")),
            kv: assume.or(self.kv_dtype, kv, |k| format!("--kv-dtype {}", k.as_str())),
            utilization: self.utilization,
            batched_tokens: self.batched_tokens,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_lengths_are_read_as_people_write_them() {
        assert_eq!(parameters("70b"), Ok(70_000_000_000));
        assert_eq!(parameters("0.6B"), Ok(600_000_000));
        assert_eq!(parameters("8030261248"), Ok(8_030_261_248));
        assert_eq!(tokens("4k"), Ok(4096));
        assert_eq!(tokens("10592"), Ok(10_592));
        assert_eq!(size("48GiB"), Ok(Bytes::from_gib(48)));
        assert_eq!(share("80%"), Ok(Ratio(0.8)));
        for text in ["", "b", "-8b", "1e30b", "nan", "inf"] {
            assert!(parameters(text).is_err(), "{text}");
        }
        for text in ["0", "4g", "18446744073709551615k"] {
            assert!(tokens(text).is_err(), "{text}");
        }
        assert!(size("1e18").is_err() && size("48").is_err() && share("1.2").is_err());
        assert_eq!(size("0"), Ok(Bytes(0)));
    }
}
