//! The proof of every rewrite rule on random instances: both sides of the rule, the same bits from the interpreter.
//!
//! A rule is applied alone to random graphs that hold its left side, each of its forms in turn. What each application put
//! into a class is extracted there and interpreted on random and extreme values. A form that does not fire, and what does
//! not build or differs anywhere, fails. Formulas that operations are gathered into, which is no rule, are proved so, too.

use trainc_driver::targets;
use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::formula::Function;
use trainc_ir::ops::{OpKind, ShiftRight};
use trainc_ir::target::Cost;
use trainc_ir::verify::{Stage, verify};
use trainc_ir::{Element, RunContext, Tensor, TensorType};
use trainc_opt::egraph::convert::{load, operation_cost};
use trainc_opt::egraph::extract::extract;
use trainc_opt::egraph::language::canonical;
use trainc_opt::egraph::saturate::{Limits, Term, saturate};
use trainc_opt::gather_formulas::gather_formulas;
use trainc_opt::optimise::rebuild;
use trainc_opt::rules::instance::{Instance, Random, Value};
use trainc_opt::rules::{Exactness, Patterns, Rule, RuleContext, Sides, rules};

const INSTANCES: usize = 48;
const VALUES: usize = 6;

/// Proves each of the rule's forms; the first difference, or a form that does not apply or does not rebuild.
fn prove(rule: &Rule) -> Result<(), String> {
    let forms = rule.forms();
    for form in 0..forms {
        for instance in 0..(INSTANCES / forms).max(8) {
            let seed = (instance * forms + form) as u64;
            let mut random = Random::new(seed.wrapping_mul(0x1234_5677) + 1);
            let graph = rule.instance(form, &mut random).ok_or_else(|| {
                format!("form {form} of {forms} never fires: no random graph holds its left side")
            })?;
            prove_on(rule, &graph, &mut random)?;
        }
    }
    Ok(())
}

/// Compares a graph with each form of it that the rule alone gives.
fn prove_on(rule: &Rule, graph: &Graph, random: &mut Random) -> Result<(), String> {
    let context = RuleContext::of(graph);
    let mut loaded = load(graph);
    let limits = Limits { iterations: 3, nodes: 2_000 };
    let run = saturate(&mut loaded.egraph, &[rule.rewrite(&context)], limits, false)?;
    let egraph = &loaded.egraph;
    if run.applications.is_empty() {
        return Err(format!("it does not fire on {graph:?}"));
    }
    for application in &run.applications {
        let class = egraph.find(application.class);
        // What it made is in the class: an operation, or one that was there already.
        let added = application.added.as_ref().map(|node| canonical(egraph, node));
        let alternative = added.ok_or("it adds nothing")?;
        let extraction = extract(egraph, |egraph, id, node| {
            if id == class && *node != alternative {
                Cost::INFEASIBLE
            } else {
                operation_cost(egraph, id, node, |_, _, _| Cost::new(1))
            }
        });
        let other = rebuild(graph, egraph, &loaded.classes, &extraction)
            .map_err(|e| format!("{alternative:?} does not rebuild: {e}\nof {graph:?}"))?;
        for _ in 0..VALUES {
            compare(rule, graph, &other, random)?;
        }
    }
    Ok(())
}

fn compare(rule: &Rule, a: &Graph, b: &Graph, random: &mut Random) -> Result<(), String> {
    compare_as(rule.exactness, a, b, random)
}

fn compare_as(
    exactness: Exactness,
    a: &Graph,
    b: &Graph,
    random: &mut Random,
) -> Result<(), String> {
    let inputs: Vec<Tensor> = a.inputs().iter().map(|i| random.tensor(a.ty(i.value))).collect();
    let run = RunContext { seed: random.bits(), step: random.bits() as u32 };
    let step =
        |graph: &Graph| Interpreter::new(graph).step(&inputs, &run).map_err(|e| e.to_string());
    for (x, y) in step(a)?.iter().zip(&step(b)?) {
        let equal = match exactness {
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
        prove(&rule).unwrap_or_else(|e| panic!("rule `{}`: {e}", rule.name));
    }
}

/// Two shifts that round, each to nearest or as `rounding` says.
fn shifts(forms: &'static [(&'static str, &'static str)], draws: Instance) -> Rule {
    let sides = Sides::Patterns(Patterns { forms, ..SUM_OF_SHIFTS });
    Rule { name: "wrong", summary: "", exactness: Exactness::Bit, sides, instance: draws }
}

const SUM_OF_SHIFTS: Patterns = Patterns {
    computed: (&["both"], |m| {
        let (a, b) = (m.op::<ShiftRight>("a")?, m.op::<ShiftRight>("b")?);
        let both = ShiftRight { amount: a.amount + b.amount, ..b.clone() };
        Some(vec![Term::Attributes(both.into())])
    }),
    ..Patterns::NONE
};

const TO_NEAREST: Instance = Instance::Drawn(&[
    ("x", |r, _| TensorType::shared(r.shape(2), Element::I32).into()),
    ("a", |_, _| to_nearest(2)),
    ("b", |_, _| to_nearest(3)),
]);

fn to_nearest(amount: u8) -> Value {
    ShiftRight { amount, rounding: Rounding::HalfAway, element: Element::I32 }.into()
}

/// The classic wrong rule, folding two shifts that round to nearest, must be caught.
#[test]
fn a_wrong_rule_is_caught() {
    let error = prove(&shifts(FOLDED, TO_NEAREST)).expect_err("it is wrong");
    assert!(error.contains("left graph"), "{error}");
}

const ADDED: &[(&str, &str)] = &[(FOLDED[0].0, "(add ?x ?x)")];

const FOLDED: &[(&str, &str)] =
    &[("(shift_right ?b (shift_right ?a ?x))", "(shift_right ?both ?x)")];

/// A rule with a form that nothing satisfies, and one whose right side is none of the type's.
#[test]
fn rules_that_cannot_fire_or_do_not_build_are_caught() {
    let error =
        prove(&shifts(&[("(shift_right ?a (relu (shift_right ?b ?x)))", "?x")], TO_NEAREST));
    let error = error.expect_err("there is no relu of i32");
    assert!(error.contains("never fires"), "{error}");
    let error = prove(&shifts(ADDED, TO_NEAREST));
    let error = error.expect_err("there is no addition of i32");
    assert!(error.contains("does not rebuild"), "{error}");
}

#[test]
fn names_of_rules_are_unique() {
    let mut names: Vec<&str> = rules().iter().map(|r| r.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rules().len());
}

/// A graph of operations that formulas have, on tensors of one shape or another, scalars, numbers and statistics; values are read
/// several times or never, and leave the step anywhere.
fn elementwise(random: &mut Random) -> Graph {
    let mut graph = Graph::new("elementwise");
    let shapes = [random.shape(2), random.shape(1)].map(|shape| shape.dims().to_vec());
    let mut values: Vec<ValueId> = Vec::new();
    for (i, shape) in [&shapes[0][..], &shapes[0], &shapes[1], &[], &[]].into_iter().enumerate() {
        let ty = TensorType::f32(shape);
        values.push(match random.range(0, 2) {
            0 => graph.add_parameter(format!("p{i}"), random.tensor(&ty), false),
            1 => graph.add_constant(format!("c{i}"), random.tensor(&ty)),
            _ => graph.add_input(format!("x{i}"), ty, InputRole::Data),
        });
    }
    for n in 0..random.range(2, 14) {
        let function = random.choose(Function::ALL);
        let operands: Vec<ValueId> =
            (0..function.arity()).map(|_| random.choose(&values)).collect();
        let op = function.operation().expect("it has no attributes");
        if let Ok(result) = graph.add1(op, &operands, format!("n{n}")) {
            values.push(result);
            if random.range(0, 3) == 0 {
                graph.add_output(format!("y{n}"), result);
            }
        }
    }
    let last = values[values.len() - 1];
    graph.add_output("last", last);
    for parameter in 0..graph.parameters().len() {
        let ty = graph.ty(graph.parameters()[parameter].value).clone();
        let next = values.iter().copied().find(|&v| *graph.ty(v) == ty && v.index() % 2 == 0);
        if let Some(next) = next {
            graph.add_update(parameter, next);
        }
    }
    graph
}

/// Formulas give the bits of what they are made of, on every target's choices, and there are fewer nodes.
#[test]
fn gathered_formulas_keep_every_bit() {
    let mut gathered = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed * 77 + 5);
        let graph = elementwise(&mut random);
        let target = targets::TARGETS[seed as usize % targets::TARGETS.len()];
        let (other, formulas) = gather_formulas(&graph, &Stage::Float, target);
        verify(&other, &Stage::Float).expect("what comes of it is a graph");
        let live = |graph: &Graph| graph.live_nodes().into_iter().filter(|live| *live).count();
        let fewer: usize = formulas.iter().map(|formula| formula.operations - 1).sum();
        assert_eq!(live(&other) + fewer, live(&graph), "{graph:?}");
        gathered += formulas.len();
        for _ in 0..VALUES {
            compare_as(Exactness::Bit, &graph, &other, &mut random)
                .unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", target.description().name));
        }
    }
    assert!(gathered > 100, "{gathered} formulas");
}

/// What an algorithm has no FP32 form of is no step of a formula, either.
#[test]
fn formulas_are_made_of_what_a_stage_allows() {
    let mut graph = Graph::new("average");
    let ty = TensorType::f32([4]);
    let x = graph.add_input("x", ty.clone(), InputRole::Data);
    let half = graph.add_constant("half", Tensor::f32([], vec![0.5]));
    let op = |function: Function| function.operation().expect("it has no attributes");
    let less = graph.add1(op(Function::Mul), &[x, half], "less").expect("it fits");
    let sum = graph.add1(op(Function::Add), &[less, x], "sum").expect("it fits");
    graph.add_output("y", sum);
    let target = targets::find("c").expect("a target");
    let count = |allowed: &[OpKind]| {
        let stage = Stage::Quantized { float_operations: Some(allowed.iter().copied().collect()) };
        gather_formulas(&graph, &stage, target).1.len()
    };
    assert_eq!(count(&[OpKind::Mul, OpKind::Add]), 1);
    assert_eq!(count(&[OpKind::Formula]), 1);
    assert_eq!(count(&[OpKind::Mul]), 0);
}
