//! The eight published vectors, to the byte.

use super::choice::{Dtype, KvDtype, Loader, Loss, Method, Optimizer, Targets};
use super::estimate::estimate;
use super::linears::parameters;
use super::plan::{Estimate, Plan, TermId};
use super::serving::{cache, state};
use super::shapes::find;
use crate::model::shape::Shape;
use crate::thresholds::Thresholds;
use crate::units::Bytes;

fn shape(name: &str) -> Shape {
    find(name).unwrap().shape()
}

fn estimated(plan: &Plan) -> Estimate {
    estimate(plan, None, &Thresholds::default())
}

fn bytes(estimate: &Estimate, id: TermId) -> u64 {
    let all = estimate.terms.iter().chain(&estimate.beside);
    all.filter(|term| term.id == id).map(|term| term.bytes.0).sum()
}

#[test]
fn vector_1_parameters_of_8b() {
    let counted = parameters(&shape("llama-3.1-8b"));
    assert_eq!(counted.all, 8_030_261_248);
    assert_eq!(counted.linears, 6_979_321_856);
    assert_eq!(counted.rest, 1_050_673_152 + 266_240);
    let plan = Plan::of(shape("llama-3.1-8b"), Method::Inference);
    assert_eq!(bytes(&estimated(&plan), TermId::Weights), 16_060_522_496);
}

#[test]
fn vector_2_adapters_of_8b() {
    let mut plan = Plan::of(shape("llama-3.1-8b"), Method::Lora);
    let of = |plan: &Plan| {
        let e = estimated(plan);
        let ids = [TermId::Adapters, TermId::Gradients, TermId::Optimizer];
        ids.iter().map(|id| bytes(&e, *id)).sum::<u64>()
    };
    assert_eq!(bytes(&estimated(&plan), TermId::Adapters), 4 * 41_943_040);
    assert_eq!(of(&plan), 671_088_640);
    plan.adapter_dtype = super::choice::AdapterDtype::Bf16;
    plan.optimizer = Optimizer::Adamw8bit;
    assert_eq!(of(&plan), 251_658_240);
}

#[test]
fn vector_3_lora_of_8b() {
    let plan = Plan::of(shape("llama-3.1-8b"), Method::Lora);
    let e = estimated(&plan);
    assert_eq!(bytes(&e, TermId::Activations), 536_870_912);
    assert_eq!(bytes(&e, TermId::Logits), 3_152_019_456);
    assert_eq!(bytes(&e, TermId::Transient), 812_646_400);
    assert_eq!(e.alloc, Bytes(20_420_501_504));
    let sum: u64 = e.terms.iter().map(|term| term.bytes.0).sum();
    assert_eq!(sum, e.alloc.0);
}

#[test]
fn vector_4_qlora_of_70b() {
    let mut plan = Plan::of(shape("llama-3.1-70b"), Method::Qlora);
    plan.rank = 8;
    let e = estimated(&plan);
    assert_eq!(bytes(&e, TermId::Weights), 35_311_779_840);
    assert_eq!(bytes(&e, TermId::Embeddings), 4_205_330_432);
    assert_eq!(bytes(&e, TermId::Adapters), 4 * 103_546_880);
    assert_eq!(bytes(&e, TermId::Activations), 2_684_354_560);
    assert_eq!(bytes(&e, TermId::Transient), 1_617_533_338);
    assert_eq!(bytes(&e, TermId::Dequantised), 469_762_048);
    assert_eq!(e.alloc, Bytes(47_010_234_368));
    assert_eq!(e.alloc_high, Bytes(51_215_564_800));
    plan.raised = Some(true);
    assert_eq!(estimated(&plan).alloc, Bytes(51_215_564_800));
}

#[test]
fn vector_5_full_fine_tune_of_3b() {
    let mut plan = Plan::of(shape("llama-3.2-3b"), Method::Full);
    let mut fixed = |dtype, optimizer| {
        (plan.dtype, plan.optimizer) = (dtype, optimizer);
        estimated(&plan)
    };
    let usual = fixed(Dtype::Bf16, Optimizer::Adamw);
    assert_eq!(usual.fixed, Bytes(25_701_998_592));
    assert_eq!(bytes(&usual, TermId::StepTemporary), 6_425_499_648);
    assert_eq!(fixed(Dtype::Bf16, Optimizer::AdamwFp32).fixed, Bytes(38_552_997_888));
    assert_eq!(fixed(Dtype::Bf16, Optimizer::Adamw8bit).fixed, Bytes(19_276_498_944));
    let wide = fixed(Dtype::Fp32, Optimizer::AdamwFused);
    let cast = bytes(&wide, TermId::CastCache);
    assert_eq!(wide.fixed.0 - cast, 51_403_997_184);
}

#[test]
fn vector_6_caches() {
    let of = |name: &str| {
        let plan = Plan::of(shape(name), Method::Inference);
        assert_eq!(plan.serving.kv, KvDtype::Bf16);
        cache(&plan.shape, 131_072, &plan.serving)
    };
    assert_eq!(of("llama-3.1-8b"), Bytes(17_179_869_184));
    assert_eq!(of("gpt-oss-120b"), Bytes(4_836_556_800));
    assert_eq!(of("deepseek-v3"), Bytes(9_210_691_584));
    assert_eq!(of("qwen3.8-27b"), Bytes(8_589_934_592));
    assert_eq!(state(&shape("qwen3.8-27b")), Bytes(150_994_944 + 2_949_120));
    // 46.8 MiB are published for it.
    assert_eq!(state(&shape("nemotron-3-nano-30b-a3b")).0 / 1024 * 10 / 1024, 468);
}

/// The options of vector 7.
fn of_27b() -> Plan {
    let mut plan = Plan::of(shape("qwen3.8-27b"), Method::Lora);
    (plan.targets, plan.seq) = (Targets::Attention, 10_592);
    plan
}

#[test]
fn vector_7_lora_of_27b() {
    let mut plan = of_27b();
    let e = estimated(&plan);
    assert_eq!(bytes(&e, TermId::Weights), 56_588_988_608);
    assert_eq!(bytes(&e, TermId::Adapters), 4 * 39_583_744);
    assert_eq!(bytes(&e, TermId::Activations), 6_941_573_120);
    assert_eq!(bytes(&e, TermId::Transient), 4_838_493_389);
    assert_eq!(e.alloc, Bytes(95_726_366_912));
    plan.loss = Loss::Chunked;
    let e = estimated(&plan);
    assert_eq!(bytes(&e, TermId::Logits), 6_102_712_320);
    assert_eq!(e.alloc, Bytes(70_266_613_952));
}

#[test]
fn vector_8_loads() {
    let mut plan = Plan::of(shape("llama-3.1-8b"), Method::Inference);
    plan.shape.parameters = Some(31_000_000_000);
    plan.loader = Loader::CpuFirst;
    assert_eq!(estimated(&plan).load.alloc, Bytes(124_000_000_000));
    plan.loader = Loader::Streamed;
    assert_eq!(estimated(&plan).load.alloc, Bytes(67_000_000_000));
}

mod properties {
    use super::*;
    use crate::model::pool::Reader;
    use crate::model::shape::{Attention, Delta, Latent, Layers, Mixer, Mlp, StateSpace};
    use crate::planning::choice::{Engine, Targets};
    use crate::planning::compare::anchors;
    use crate::planning::ladder::{RungId, ladder};
    use crate::planning::verdict::{Budget, verdicts};
    use crate::units::Ratio;
    use proptest::prelude::*;

    /// Sizes of real models and sizes that none has.
    fn size() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..64, 64_u64..100_000, Just(1 << 24), Just(u64::MAX)]
    }

    fn mixer() -> impl Strategy<Value = Mixer> {
        let bits = (any::<bool>(), any::<bool>(), any::<bool>());
        prop_oneof![
            (size(), size(), size(), bits, proptest::option::of(size())).prop_map(
                |(heads, kv_heads, head_dim, (gated, qk_norm, bias), window)| {
                    Mixer::Attention(Attention {
                        heads,
                        kv_heads,
                        head_dim,
                        gated,
                        qk_norm,
                        bias,
                        window,
                    })
                }
            ),
            (size(), proptest::option::of(size()), size(), size()).prop_map(
                |(heads, q_rank, kv_rank, wide)| {
                    let latent =
                        Latent { heads, q_rank, kv_rank, rope: wide, nope: wide, value: wide };
                    Mixer::Latent(latent)
                }
            ),
            (size(), size(), size()).prop_map(|(heads, dim, conv)| Mixer::Delta(Delta {
                key_heads: heads,
                value_heads: heads,
                key_dim: dim,
                value_dim: dim,
                conv,
            })),
            (size(), size(), size()).prop_map(|(heads, state, conv)| Mixer::StateSpace(
                StateSpace { heads, head_dim: state, groups: heads, state, conv }
            )),
            Just(Mixer::None),
        ]
    }

    fn mlp() -> impl Strategy<Value = Mlp> {
        prop_oneof![
            (size(), any::<bool>()).prop_map(|(ffn, gated)| Mlp::Dense { ffn, gated }),
            (size(), size(), size(), size(), any::<bool>()).prop_map(
                |(count, active, ffn, shared, gated)| Mlp::Experts {
                    count,
                    active,
                    ffn,
                    shared,
                    gated
                }
            ),
            Just(Mlp::None),
        ]
    }

    fn any_shape() -> impl Strategy<Value = Shape> {
        let layers =
            (size(), mixer(), mlp()).prop_map(|(count, mixer, mlp)| Layers { count, mixer, mlp });
        let layers = proptest::collection::vec(layers, 0..4);
        (size(), size(), any::<bool>(), layers, proptest::option::of(size())).prop_map(
            |(hidden, vocab, tied, layers, parameters)| Shape {
                name: "any".to_owned(),
                hidden,
                vocab,
                tied,
                dropout: false,
                layers,
                parameters,
            },
        )
    }

    fn any_plan() -> impl Strategy<Value = Plan> {
        let words = (
            proptest::sample::select(Method::ALL),
            proptest::sample::select(Dtype::ALL),
            proptest::sample::select(Loss::ALL),
            proptest::sample::select(Optimizer::ALL),
            proptest::sample::select(Loader::ALL),
            proptest::sample::select(Engine::ALL),
        );
        let bits = (any::<bool>(), any::<bool>(), any::<bool>());
        (any_shape(), words, size(), size(), bits, proptest::option::of(0.01_f64..1.0)).prop_map(
            |(shape, words, batch, seq, (checkpointing, accumulation, attention), share)| {
                let (method, dtype, loss, optimizer, loader, engine) = words;
                let mut plan = Plan::of(shape, method);
                (plan.dtype, plan.loss, plan.optimizer) = (dtype, loss, optimizer);
                (plan.loader, plan.batch, plan.seq) = (loader, batch, seq);
                (plan.checkpointing, plan.accumulation) = (checkpointing, accumulation);
                plan.targets = if attention { Targets::Attention } else { Targets::All };
                (plan.serving.engine, plan.serving.context) = (engine, seq);
                (plan.serving.sequences, plan.serving.utilization) = (batch, share.map(Ratio));
                plan
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Whatever a file claims a model to be: the terms add up, and nothing wraps around.
        #[test]
        fn any_plan_has_an_estimate_and_a_ladder(plan in any_plan(), gib in 0_u64..200) {
            let t = Thresholds::default();
            let pool = Bytes::from_gib(120);
            let e = estimate(&plan, Some(pool), &t);
            let sum = e.terms.iter().fold(0_u64, |sum, term| sum.saturating_add(term.bytes.0));
            prop_assert_eq!(e.alloc.0, sum);
            prop_assert!(e.pool >= e.alloc && e.pool_high >= e.pool && e.alloc_high >= e.alloc);
            prop_assert!(e.load.pool_high >= e.load.pool);
            let budget = Budget { size: Ok(pool), ..Budget::given(Bytes::from_gib(gib)) };
            let _ = verdicts(&e, Reader::Available, &budget, &t).whole();
            let _ = anchors(&plan, &e, &t);
            let rungs = ladder(&plan, &budget, &t);
            prop_assert_eq!(rungs[0].id, RungId::Flush);
            prop_assert_eq!(rungs[rungs.len() - 1].id, RungId::Machines);
        }

        /// A larger pool is never worse.
        #[test]
        fn more_room_never_makes_it_worse(plan in any_plan(), gib in 1_u64..200) {
            let t = Thresholds::default();
            let e = estimate(&plan, None, &t);
            let at = |gib| verdicts(&e, Reader::Available, &Budget::given(Bytes::from_gib(gib)), &t).whole();
            prop_assert!(at(gib + 1).rank() <= at(gib).rank());
        }
    }
}
