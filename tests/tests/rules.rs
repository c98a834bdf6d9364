//! The proof of every rewrite rule on random instances: both sides of the rule, the same bits from the interpreter.
//!
//! A rule is applied alone to a random graph that holds its left side. Then every e-node of the output's class is
//! extracted as the root in turn and interpreted on random and extreme values. A rule that does not fire, or whose
//! right side differs anywhere, fails.

use trainc_ir::graph::Graph;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::target::Cost;
use trainc_ir::{RunContext, Tensor};
use trainc_opt::egraph::convert::{load, operation_cost};
use trainc_opt::egraph::extract::extract;
use trainc_opt::egraph::saturate::{Limits, Replacement, Rewrite, saturate};
use trainc_opt::optimise::rebuild;
use trainc_opt::rules::instance::Random;
use trainc_opt::rules::{Exactness, Rule, RuleContext, rules};

const INSTANCES: u64 = 48;
const VALUES: u64 = 6;

/// How many alternatives were compared, or the first difference.
fn prove(rule: &Rule) -> Result<usize, String> {
    let mut compared = 0;
    for seed in 0..INSTANCES {
        let mut random = Random::new(seed.wrapping_mul(0x1234_5677) + 1);
        let graph = (rule.instance)(&mut random);
        let context = RuleContext::of(&graph);
        let mut loaded = load(&graph);
        let limits = Limits { iterations: 3, nodes: 2_000 };
        saturate(&mut loaded.egraph, &[rule.rewrite(&context)], limits, false)?;
        let egraph = &loaded.egraph;
        let root = egraph.find(loaded.classes[graph.outputs()[0].value.index()]);
        for alternative in egraph[root].nodes.clone() {
            let extraction = extract(egraph, |egraph, id, node| {
                if id == root && *node != alternative {
                    Cost::INFEASIBLE
                } else {
                    operation_cost(egraph, id, node, |_, _, _| Cost::new(1))
                }
            });
            let Ok(other) = rebuild(&graph, egraph, &loaded.classes, &extraction) else {
                continue;
            };
            if other.nodes() == graph.nodes() {
                continue;
            }
            for _ in 0..VALUES {
                compare(rule, &graph, &other, &mut random)?;
            }
            compared += 1;
        }
    }
    Ok(compared)
}

fn compare(rule: &Rule, a: &Graph, b: &Graph, random: &mut Random) -> Result<(), String> {
    let inputs: Vec<Tensor> = a.inputs().iter().map(|i| random.tensor(a.ty(i.value))).collect();
    let run = RunContext { seed: random.bits(), step: random.bits() as u32 };
    let step =
        |graph: &Graph| Interpreter::new(graph).step(&inputs, &run).map_err(|e| e.to_string());
    for (x, y) in step(a)?.iter().zip(&step(b)?) {
        let equal = match rule.exactness {
            Exactness::Bit => same_bits(x, y),
            Exactness::Ulp(n) => within(x, y, n),
        };
        if !equal {
            return Err(format!("left {x:?}\nright {y:?}\nof {inputs:?}\nleft graph {a:?}"));
        }
    }
    Ok(())
}

/// Equal bits; NaNs of any payload are equal (IEEE leaves the payload open).
fn same_bits(x: &Tensor, y: &Tensor) -> bool {
    if !x.ty().is_f32() || x.ty() != y.ty() {
        return x.bits_equal(y);
    }
    x.as_f32()
        .iter()
        .zip(y.as_f32())
        .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

/// Within `n` units in the last place of the largest magnitude.
fn within(x: &Tensor, y: &Tensor, n: u32) -> bool {
    let largest = x.as_f32().iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let unit = f32::EPSILON * largest;
    x.as_f32().iter().zip(y.as_f32()).all(|(a, b)| (a - b).abs() <= n as f32 * unit)
}

#[test]
fn every_rule_holds_on_random_instances() {
    for rule in rules() {
        match prove(&rule) {
            Ok(0) => panic!("rule `{}` never fired on its own instances", rule.name),
            Ok(_) => {}
            Err(e) => panic!("rule `{}` is wrong:\n{e}", rule.name),
        }
    }
}

/// The classic wrong rule, folding two shifts that round to nearest, must be caught.
#[test]
fn a_wrong_rule_is_caught() {
    use trainc_ir::numeric::Rounding;
    use trainc_ir::ops::ShiftRight;
    use trainc_ir::{Element, Op, TensorType};
    use trainc_opt::egraph::saturate::Term;
    use trainc_opt::rules::instance::Instance;

    fn search(
        _: &RuleContext,
        view: trainc_opt::egraph::saturate::View<'_>,
        id: trainc_opt::egraph::Id,
    ) -> Vec<Replacement> {
        let mut found = Vec::new();
        for (op, operands) in view.operations(id) {
            let Op::ShiftRight(outer) = &op else { continue };
            for (inner_op, inputs) in view.operations(operands[0]) {
                let Op::ShiftRight(inner) = &inner_op else { continue };
                let merged = ShiftRight { amount: inner.amount + outer.amount, ..outer.clone() };
                found.push(Replacement {
                    term: Term::operation(merged, vec![Term::Class(inputs[0])]),
                    replaced: Vec::new(),
                });
            }
        }
        found
    }
    fn instance(r: &mut Random) -> Graph {
        let mut i = Instance::new();
        let shape = r.shape(2);
        let x = i.input(TensorType::shared(shape, Element::I32));
        let shift =
            |amount| ShiftRight { amount, rounding: Rounding::HalfAway, element: Element::I32 };
        let y = i.op(shift(2), &[x]);
        let y = i.op(shift(3), &[y]);
        i.finish(y)
    }
    let wrong = Rule {
        name: "shift-of-shift-to-nearest",
        summary: "wrong",
        exactness: Exactness::Bit,
        search,
        instance,
    };
    assert!(prove(&wrong).is_err());
    let _: Rewrite = wrong.rewrite(&RuleContext::default());
}

#[test]
fn names_of_rules_are_unique() {
    let mut names: Vec<&str> = rules().iter().map(|r| r.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rules().len());
}
