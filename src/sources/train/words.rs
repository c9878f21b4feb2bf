//! Lines of words and figures: NeMo and Megatron, torchtune, llama.cpp.

use super::scan::{after, duration, interval, number, only, rate, ratio, step_time, value, whole};
use crate::model::training::Step;
use crate::units::Seconds;

/// What NeMo and Megatron call a step's time, and a second in its unit.
const MEGATRON_TIMES: [(&str, f64); 4] = [
    // Megatron-LM's training_log, 2019 to core 0.15; Megatron-DeepSpeed and Megatron-Bridge print the same.
    ("elapsed time per iteration (ms):", 1e-3),
    // Forks of it.
    ("elapsed time per iteration (s):", 1.0),
    // NeMo 2, and in a progress bar NeMo 1.
    ("train_step_timing in s:", 1.0),
    ("train_step_timing in s=", 1.0),
];
const MEGATRON_TOKENS: [&str; 4] = [
    "tokens_per_sec_per_gpu:",
    "tokens per gpu per second (tgs):",
    "tokens per second per GPU:",
    "tokens/sec/gpu:",
];

/// ` iteration       10/    1000 | consumed samples: ... | elapsed time per iteration (ms): 1234.5 | ...`,
/// where the time is the mean since the line before; NeMo 2's `Training epoch 0, iteration 10/999 | ... |
/// global_step: 10 | ... | train_step_timing in s: 5.47`, which counts from 0.
pub(super) fn megatron(text: &str) -> Option<Step> {
    let seconds =
        MEGATRON_TIMES.iter().find_map(|(name, factor)| step_time(value(text, name)? * factor))?;
    let count = after(text, "iteration ").and_then(ratio);
    let global = value(text, "global_step:").or_else(|| value(text, "global_step="));
    let number = global.and_then(count_of).or(count.map(|(number, ..)| number));
    let tokens = MEGATRON_TOKENS.iter().find_map(|name| rate(value(text, name)?));
    // NeMo's total is of the epoch, and its last number one less than that; only Megatron's is of the run.
    let of = count.filter(|_| global.is_none()).map(|(_, of, _)| of);
    number?;
    Some(Step { number, of, seconds: Some(seconds), tokens_per_second: tokens, ..Step::default() })
}

/// A whole number that is written as `50.0`.
fn count_of(value: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and below what a float holds exactly"
    )]
    (value < 9e15).then_some(value as u64)
}

/// torchtune's metrics file (DiskLogger, 0.1 to 0.6): `Step 1 | loss:1.23 lr:2e-05
/// tokens_per_second_per_gpu:1234.5 peak_memory_active:9.9 `. No blank behind the colon, which others have.
pub(super) fn torchtune(text: &str) -> Option<Step> {
    let (number, rest) = whole(text.strip_prefix("Step ")?)?;
    let rest = rest.strip_prefix(" | ")?;
    let mut step = Step { number: Some(number), ..Step::default() };
    let mut pairs = 0;
    for word in rest.split_ascii_whitespace() {
        let Some((name, text)) = word.split_once(':') else { continue };
        if text.is_empty() {
            return None;
        }
        pairs += 1;
        let Some(value) = only(text) else { continue };
        match name {
            "tokens_per_second_per_gpu" | "tokens_per_second" => {
                step.tokens_per_second = rate(value);
            }
            "time_per_step" | "step_time" | "time_per_step_s" | "iteration_time" => {
                step.seconds = step_time(value);
            }
            _ => {}
        }
    }
    (pairs > 0).then_some(step)
}

/// torchtune's bars are described by epoch, step over all epochs, and loss: `1|25|Loss: 1.23`.
pub(super) fn torchtune_step(about: &str) -> Option<u64> {
    let (_, rest) = whole(about)?;
    let (step, rest) = whole(rest.strip_prefix('|')?)?;
    rest.strip_prefix('|')?.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(step)
}

/// llama.cpp: the time of a token while it generates, and fine-tuning.
///
/// `eval time = 1234.56 ms / 100 tokens ( 12.34 ms per token, 81.01 tokens per second)`, behind
/// `llama_print_timings:` (to 2024-09), `llama_perf_context_print:` (since, with `runs` for `tokens`),
/// `slot print_timing: id  0 | task 7 |` (the server, in the line before until 2025) or `generation` (the
/// server of 2023). That of the prompt is another kind of work and no step.
pub(super) fn llama(text: &str) -> Option<Step> {
    if let Some(step) = finetune(text) {
        return Some(step);
    }
    let (before, rest) = text.split_once("eval time =")?;
    if before.trim_end().ends_with("prompt") {
        return None;
    }
    let (millis, rest) = number(rest.trim_start())?;
    let (tokens, rest) = number(rest.trim_start().strip_prefix("ms /")?.trim_start())?;
    let count = count_of(tokens).filter(|count| *count > 0);
    // The program's own mean, as the newest one leaves out the first token; two decimals do for slow ones.
    let told = after(rest, "(").and_then(number).map(|(value, _)| value).filter(|ms| *ms >= 1.0);
    let per_token = told.or((tokens > 0.0).then(|| millis / tokens))?;
    let seconds = step_time(per_token / 1e3)?;
    let told = rest.split_once("per token,").and_then(|(_, rest)| number(rest.trim_start()));
    let tokens = told.and_then(|(value, _)| rate(value)).or_else(|| rate(1.0 / seconds.0));
    Some(Step { seconds: Some(seconds), tokens_per_second: tokens, count, ..Step::default() })
}

/// ggml's fine-tuning bar (since 2024-11), which counts samples and not batches, in an epoch:
/// `train: [===>   ] data=000128/001024, loss=..., t=00:00:12, ETA=00:01:24]`.
fn finetune(text: &str) -> Option<Step> {
    // The last one, where carriage returns were lost.
    let (_, rest) = text.rsplit_once("train: [")?;
    let (number, of, rest) = ratio(after(rest, "data=")?)?;
    let (elapsed, _) = interval(after(rest, " t=")?)?;
    Some(Step { number: Some(number), of: Some(of), elapsed: Some(elapsed), ..Step::default() })
}

/// A step with what a running mean says of it.
pub(super) fn smoothed(value: f64) -> Option<Seconds> {
    duration(value).and(step_time(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: Option<Step>) -> Option<(Option<u64>, Option<f64>, Option<f64>)> {
        step.map(|s| (s.number, s.seconds.map(|s| s.0), s.tokens_per_second))
    }

    #[test]
    fn megatron_and_nemo() {
        let line = "iteration       10/    1000 | consumed samples:          160 | elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 80.2 | lm loss: 1.0E+01 |";
        assert_eq!(told(megatron(line)), Some((Some(10), Some(1.2345), None)));
        let line = "Training epoch 0, iteration 97/99 | lr: 1.4e-05 | global_step: 197 | train_step_timing in s: 12.22 | tokens_per_sec_per_gpu: 1.073e+04";
        assert_eq!(told(megatron(line)), Some((Some(197), Some(12.22), Some(10_730.0))));
        let line = "Epoch 0: : 100%|██| 50/50 [31:51<00:00, reduced_train_loss=6.130, global_step=50.0, train_step_timing in s=5.900]";
        assert_eq!(told(megatron(line)), Some((Some(50), Some(5.9), None)));
        assert_eq!(megatron("validation loss at iteration 10 | lm loss value: 1.0"), None);
        assert_eq!(megatron("iteration 1/ 9 | elapsed time per iteration (ms): nan |"), None);
    }

    #[test]
    fn llama_generates() {
        let line = "slot print_timing: id  0 | task 7 |        eval time =  137254.90 ms /   700 tokens (  196.08 ms per token,     5.10 tokens per second)";
        assert_eq!(told(llama(line)), Some((None, Some(0.196_08), Some(5.1))));
        assert_eq!(llama(line).unwrap().count, Some(700));
        let line = "llama_perf_context_print:        eval time =       0.00 ms /     1 runs   (    0.00 ms per token,      inf tokens per second)";
        assert_eq!(llama(line), None);
        assert_eq!(llama("prompt eval time =     990.30 ms /    33 tokens"), None);
        assert_eq!(
            told(llama("eval time =   20000.00 ms /   100 tokens")),
            Some((None, Some(0.2), Some(5.0)))
        );
        let line = "train: [======>   ] data=000128/001024, loss=2.1+-0.1, accuracy=50.00+-1.00%, t=00:00:12, ETA=00:01:24]";
        assert_eq!(llama(line).unwrap().elapsed.unwrap().as_secs(), 12);
    }

    #[test]
    fn torchtune_writes_no_blank() {
        let line =
            "Step 7 | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:1234.5 peak_memory_active:9.9";
        assert_eq!(told(torchtune(line)), Some((Some(7), None, Some(1234.5))));
        assert_eq!(torchtune("Step 7 | Train Loss: 1.2"), None);
        assert_eq!(torchtune_step("1|25|Loss: 1.2"), Some(25));
        assert_eq!(torchtune_step("1|25"), None);
    }
}
