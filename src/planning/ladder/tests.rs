//! The ladder for plans that do not fit, and for those that do.

use super::*;
use crate::planning::shapes::find;

fn of(plan: &Plan, available: u64) -> Vec<Rung> {
    ladder(plan, &Budget::given(Bytes::from_gib(available)), &Thresholds::default())
}

#[test]
fn the_batch_is_never_the_first_step_and_packing_comes_before_it() {
    let mut plan = Plan::of(find("llama-3.1-8b").unwrap().shape(), Method::Lora);
    (plan.batch, plan.seq) = (16, 4096);
    let ids: Vec<RungId> = of(&plan, 60).iter().map(|rung| rung.id).collect();
    assert_eq!(ids[..3], [RungId::Flush, RungId::Packing, RungId::Batch]);
    let at = |id| ids.iter().position(|one| *one == id).unwrap();
    assert!(at(RungId::Loss) < at(RungId::Qlora) && at(RungId::Qlora) < at(RungId::Model));
    assert_eq!(ids.last(), Some(&RungId::Machines));
}

#[test]
fn each_rung_says_what_it_does_for_this_plan() {
    let mut plan = Plan::of(find("llama-3.1-8b").unwrap().shape(), Method::Lora);
    (plan.batch, plan.seq) = (16, 4096);
    let rungs = of(&plan, 90);
    let rung = |id| rungs.iter().find(|rung| rung.id == id).unwrap();
    assert_eq!(rung(RungId::Packing).alone, Outcome::Tight);
    assert!(rung(RungId::Batch).remark.starts_with("the most that fits is "));
    assert_eq!(rung(RungId::Loss).alone, Outcome::Fits);
    assert!(rung(RungId::Loss).effect.0 > 40 << 30);
    assert!(!rung(RungId::Checkpointing).helps);
    assert_eq!(rung(RungId::Machines).action, "at least 2 machines like this one");
}

/// A job of preferences stays one on weights of four bits, and files in bf16 can be quantised.
#[test]
fn four_bits_keep_the_method_and_replace_files_in_bf16() {
    let of = |method, packed| {
        let mut plan = Plan::of(find("llama-3.1-8b").unwrap().shape(), method);
        (plan.stored, plan.packed) = (Some(Bytes(16_060_522_496)), packed);
        of(&plan, 30).into_iter().find(|rung| rung.id == RungId::Qlora).unwrap()
    };
    let dpo = of(Method::Dpo, false);
    assert!(dpo.helps && dpo.action == "--dtype nf4", "{dpo:?}");
    assert!(of(Method::Lora, false).effect.0 > 5 << 30);
    assert!(!of(Method::Lora, true).helps);
}

#[test]
fn a_fused_optimizer_spares_a_full_fine_tune_its_temporary() {
    let rung = |method| {
        let plan = Plan::of(find("llama-3.2-3b").unwrap().shape(), method);
        of(&plan, 40).into_iter().find(|rung| rung.id == RungId::Fused).unwrap()
    };
    // A quarter more is set aside by the allocator.
    assert_eq!(rung(Method::Full).effect.0, 6_425_499_648 / 4 * 5);
    assert!(!rung(Method::Lora).helps);
}

#[test]
fn a_length_that_fits_is_not_called_too_long() {
    let mut plan = Plan::of(find("llama-3.1-8b").unwrap().shape(), Method::Lora);
    plan.seq = 4100;
    let packing = |plan: &Plan, gib| {
        of(plan, gib).into_iter().find(|rung| rung.id == RungId::Packing).unwrap().remark
    };
    assert!(packing(&plan, 110).starts_with("it fits as it is"));
    plan.loader = Loader::Streamed;
    assert!(packing(&plan, 30).starts_with("the most that fits is "));
    assert_eq!(packing(&plan, 10), "no value fits by itself");
}

#[test]
fn bf16_is_offered_to_qlora_only_where_it_fits() {
    let words = |name: &str, gib| {
        let plan = Plan::of(find(name).unwrap().shape(), Method::Qlora);
        let rungs = of(&plan, gib);
        rungs.into_iter().find(|rung| rung.id == RungId::Lora).unwrap().remark
    };
    assert!(words("llama-3.1-8b", 117).contains("fits: no dequantised"));
    assert!(words("llama-3.1-70b", 117).contains("stay with four bits"));
}

#[test]
fn a_flush_helps_those_that_go_by_free_memory() {
    use crate::planning::choice::Engine;
    let mut plan = Plan::of(find("llama-3.1-8b").unwrap().shape(), Method::Inference);
    let budget = Budget {
        free: Ok(Bytes::from_gib(10)),
        flushable: Ok(Bytes::from_gib(70)),
        ..Budget::given(Bytes::from_gib(85))
    };
    let mut first = |engine| {
        plan.serving.engine = engine;
        ladder(&plan, &budget, &Thresholds::default()).remove(0)
    };
    let old = first(Engine::VllmOld);
    assert!(old.helps && old.alone == Outcome::Fits);
    let new = first(Engine::Vllm);
    assert!(!new.helps && new.remark.contains("counts it already"));
}
