//! Random graphs: planned, checked and executed; and programs broken on purpose, which must be found out.

use trainc_ir::attributes::F32;
use trainc_ir::batch_split::Splitting;
use trainc_ir::graph::{InputRole, ValueId};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Add, BatchStatistics, Dequantize, Dropout, MatMul, Mul, ProductRole, QuantizeExponent,
    ReduceSum, Relu, ReluGradient, Requantize, Reshape, SaturatingSubtract, SgdUpdate, Tanh,
    Transpose,
};
use trainc_ir::program::{Program, Region, Step};
use trainc_ir::program_verify::verify_program;
use trainc_ir::{Element, Graph, Op, TensorType};
use trainc_opt::plan::{PlanEntry, PlanError, PlanOptions, check_program, plan};

use crate::support::{Generic, Random, difference};

/// Parameters: the same for all graphs of a program.
fn parameters() -> Vec<(&'static str, TensorType)> {
    let f32 = |shape: &[usize]| TensorType::f32(shape);
    vec![
        ("w.0", f32(&[2, 3])),
        ("w.1", f32(&[2, 3])),
        ("w.2", f32(&[3])),
        ("q.0", TensorType::shared([2, 3], Element::I8)),
        ("q.1", TensorType::shared([2, 3], Element::I8)),
    ]
}

/// Appends a random node if its operands fit.
fn grow(graph: &mut Graph, random: &mut Random) {
    let count = graph.values().len();
    // The latest values are the likeliest operands, so that graphs are deep as well as wide.
    let pick = |random: &mut Random| {
        let back =
            if random.below(2) == 0 { random.below(count) } else { random.below(count.min(5)) };
        ValueId::from_index(count - 1 - back)
    };
    let (a, b, c) = (pick(random), pick(random), pick(random));
    let shapes: [&[usize]; 4] = [&[2, 3], &[6], &[3, 2], &[1, 6]];
    let product = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
    let (op, operands): (Op, Vec<ValueId>) = match random.below(19) {
        0 => (Relu {}.into(), vec![a]),
        1 => (Tanh {}.into(), vec![a]),
        2 | 3 => (Add {}.into(), vec![a, b]),
        4 => (Mul {}.into(), vec![a, b]),
        5 => (ReluGradient {}.into(), vec![a, b]),
        6 | 7 | 18 => (Reshape { shape: shapes[random.below(4)].into() }.into(), vec![a]),
        8 => (Transpose { permutation: vec![1, 0] }.into(), vec![a]),
        9 | 10 => (BatchStatistics {}.into(), vec![a]),
        11 => (SgdUpdate {}.into(), vec![a, b, c]),
        12 => (Dropout { ratio: F32::new(0.5), stream: random.below(3) as u32 }.into(), vec![a]),
        13 => (ReduceSum { axes: vec![0], keep_dims: false }.into(), vec![a]),
        14 => (product.into(), vec![a, b]),
        15 => (QuantizeExponent {}.into(), vec![a]),
        16 => match random.below(2) {
            0 => (
                Requantize { bits: 7, rounding: Rounding::PseudoStochastic, low: -127 }.into(),
                vec![a],
            ),
            _ => (Dequantize {}.into(), vec![a]),
        },
        _ => (SaturatingSubtract {}.into(), vec![a, b]),
    };
    let name = format!("{}/{}", op.kind().name(), graph.nodes().len());
    let _ = graph.add(op, &operands, name);
}

fn random_graph(name: &str, random: &mut Random) -> Graph {
    let mut graph = Graph::new(name);
    let all = parameters();
    let first = random.below(all.len());
    // Another order in each graph, and sometimes one missing.
    for i in 0..all.len() {
        let (name, ty) = &all[(first + i) % all.len()];
        if random.below(8) > 0 {
            let initial = Random::new(name.len() as u64 + ty.count() as u64).tensor(ty);
            graph.add_parameter(*name, initial, true);
        }
    }
    graph.add_input("x", TensorType::f32([2, 3]), InputRole::Data);
    graph.add_input("unused?", TensorType::f32([6]), InputRole::Data);
    graph.add_input("rate", TensorType::f32([0; 0]), InputRole::LearningRate);
    let constant = random.tensor(&TensorType::f32([2, 3]));
    graph.add_constant("c", constant.clone());
    graph.add_constant("the same", constant);
    graph.add_constant("q", random.tensor(&TensorType::shared([2, 3], Element::I8)));
    let nodes = random.below(60);
    for _ in 0..nodes * 4 {
        if graph.nodes().len() < nodes {
            grow(&mut graph, random);
        }
    }
    let count = graph.values().len();
    let any = |random: &mut Random| ValueId::from_index(random.below(count));
    for i in 0..random.below(5) {
        let value = any(random);
        graph.add_output(format!("y{i}"), value);
        if random.below(4) == 0 {
            graph.add_output(format!("again{i}"), value);
        }
    }
    for parameter in 0..graph.parameters().len() {
        let ty = graph.ty(graph.parameters()[parameter].value).clone();
        let fitting: Vec<ValueId> = graph.value_ids().filter(|&v| *graph.ty(v) == ty).collect();
        if random.below(4) > 0 {
            graph.add_update(parameter, fitting[random.below(fitting.len())]);
        }
    }
    graph
}

/// Two entries over the same parameters.
fn graphs(seed: u64) -> (Graph, Graph) {
    let mut random = Random::new(seed);
    (random_graph("train", &mut random), random_graph("infer", &mut random))
}

fn entries<'g>((train, infer): &'g (Graph, Graph)) -> [PlanEntry<'g>; 2] {
    [PlanEntry { name: "train_step", graph: train }, PlanEntry { name: "infer", graph: infer }]
}

/// Each combination of options.
fn all_options() -> Vec<PlanOptions> {
    let bit = |n: u32, i: u32| n >> i & 1 == 1;
    let options = |n| PlanOptions {
        views: bit(n, 0),
        argument_views: bit(n, 1),
        in_place: bit(n, 2),
        search: bit(n, 3),
        recompute: bit(n, 4),
        arena_limit: None,
        splitting: Splitting::default(),
    };
    (0..32).map(options).collect()
}

/// Arenas below what they would be: within the limit, or refused with a reason.
#[test]
fn limits_change_memory_and_no_value() {
    let target = Generic::new();
    let (mut fitted, mut refused, mut again) = (0, 0, 0);
    for seed in 0..400 {
        let graphs = graphs(seed);
        let entries = entries(&graphs);
        let options = all_options()[(seed as usize * 7) % 32];
        let plan = |options: &PlanOptions| plan("random", &entries, &target, options);
        let natural = plan(&options).expect("plans").0.memory.arena_bytes;
        let Some(limit) = natural.checked_sub(1) else { continue };
        match plan(&PlanOptions { arena_limit: Some(limit), ..options }) {
            Ok((program, report)) => {
                let found = difference(&program, &entries, 3, &mut Random::new(seed + 1));
                assert_eq!(found, None, "seed {seed}, {options:?}\n{program}");
                assert!(program.memory.arena_bytes <= limit, "seed {seed}");
                for (id, kernel) in program.kernels.iter().enumerate() {
                    let steps = program.entries.iter().flat_map(|e| &e.steps);
                    let launched =
                        |s: &Step| matches!(s, Step::Launch(launch) if launch.kernel.0 == id);
                    assert!(steps.clone().any(launched), "seed {seed}: {}", kernel.name);
                }
                let limited = report.entries.iter().filter_map(|entry| entry.limited.as_ref());
                again += limited.map(|limited| limited.again.len()).sum::<usize>();
                fitted += 1;
            }
            Err(PlanError::ArenaLimit { least, limit: said, natural: before, .. }) => {
                assert!(said == limit && least > limit && before <= natural, "seed {seed}");
                refused += 1;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(fitted > 40 && refused > 100 && again > 50, "{fitted} {refused} {again}");
}

#[test]
fn random_programs_do_what_their_graphs_mean() {
    let target = Generic::new();
    let (mut views, mut in_place, mut updates, mut copies) = (0, 0, 0, 0);
    for seed in 0..300 {
        let graphs = graphs(seed);
        let entries = entries(&graphs);
        let all = all_options();
        let few = [PlanOptions::default(), all[seed as usize % all.len()]];
        for options in few {
            let (program, report) = plan("random", &entries, &target, &options)
                .unwrap_or_else(|e| panic!("seed {seed}, {options:?}: {e}"));
            for entry in &report.entries {
                assert!(entry.peak_bytes >= entry.lower_bound_bytes, "seed {seed}");
                views += entry.views;
                in_place += entry.in_place;
                updates += entry.updates_in_place;
                copies += entry.copies;
            }
            let found = difference(&program, &entries, 3, &mut Random::new(seed + 1));
            assert_eq!(found, None, "seed {seed}, {options:?}\n{program}");
        }
    }
    assert!(
        views > 100 && in_place > 100 && updates > 100 && copies > 100,
        "the graphs do not reach every case: {views} {in_place} {updates} {copies}"
    );
}

#[test]
fn plans_are_deterministic() {
    let target = Generic::new();
    for seed in 0..20 {
        let graphs = graphs(seed);
        let entries = entries(&graphs);
        let text = || {
            let result = plan("random", &entries, &target, &PlanOptions::default());
            let (program, report) = result.expect("a plan");
            format!("{program}{report:?}")
        };
        assert_eq!(text(), text());
    }
}

/// A program with a defect: whether its results differ, whether the check finds it, whether its verifier alone does.
fn judge(broken: &Program, entries: &[PlanEntry<'_>], seed: u64) -> [bool; 3] {
    let differs = difference(broken, entries, 1, &mut Random::new(seed)).is_some();
    let found = check_program(broken.clone(), entries).is_err();
    assert!(found || !differs, "seed {seed}: not found\n{broken}");
    [differs, found, verify_program(broken.clone()).is_err()]
}

/// Breaks one program a seed. Where it then computes anything else, the check must say so (it may also refuse one
/// that happens to be right); and that must be so often enough, for the verifier alone too.
fn break_programs(defect: impl Fn(&mut Program, &mut Random)) {
    let target = Generic::new();
    let mut counts = [0; 3];
    for seed in 0..300 {
        let graphs = graphs(seed);
        let entries = entries(&graphs);
        let options = PlanOptions::default();
        let (program, _) = plan("random", &entries, &target, &options).expect("a plan");
        let mut program = program.into_inner();
        assert!(check_program(program.clone(), &entries).is_ok());
        defect(&mut program, &mut Random::new(seed + 5));
        for (count, yes) in counts.iter_mut().zip(judge(&program, &entries, seed)) {
            *count += usize::from(yes);
        }
    }
    println!("wrong, found, found by the verifier alone: {counts:?}");
    assert!(counts.iter().all(|&count| count > 30), "{counts:?}");
}

/// A buffer of the arena lands on another.
#[test]
fn overlapping_buffers_are_found() {
    break_programs(|program, random| {
        let arena: Vec<usize> = (0..program.buffers.len())
            .filter(|&i| program.buffers[i].region == Region::Arena)
            .collect();
        if arena.len() > 1 {
            let to = program.buffers[arena[random.below(arena.len())]].offset;
            program.buffers[arena[random.below(arena.len())]].offset = to;
        }
    });
}

/// Two launches change places: a value is read before it is written, or once it is gone.
#[test]
fn disordered_launches_are_found() {
    break_programs(|program, random| {
        let entry = random.below(2);
        let steps = &mut program.entries[entry].steps;
        if steps.len() > 1 {
            let at = random.below(steps.len() - 1);
            let other = (at + 1 + random.below(4)).min(steps.len() - 1);
            steps.swap(at, other);
        }
    });
}

/// A launch reads another buffer of the same type.
#[test]
fn exchanged_operands_are_found() {
    let target = Generic::new();
    let (mut differing, mut refused) = (0, 0);
    for seed in 0..300 {
        let graphs = graphs(seed);
        let entries = entries(&graphs);
        let options = PlanOptions::default();
        let (program, _) = plan("random", &entries, &target, &options).expect("a plan");
        let mut program = program.into_inner();
        let mut random = Random::new(seed);
        let (entry, buffers) = (random.below(2), program.buffers.clone());
        let steps = &mut program.entries[entry].steps;
        let at = random.below(steps.len());
        let Some(Step::Launch(launch)) = steps.get_mut(at) else { continue };
        let operand = random.below(launch.inputs.len());
        let ty = &buffers[launch.inputs[operand].0].ty;
        let same: Vec<usize> = (0..buffers.len()).filter(|&i| buffers[i].ty == *ty).collect();
        launch.inputs[operand].0 = same[random.below(same.len())];
        let [differs, found, _] = judge(&program, &entries, seed);
        differing += usize::from(differs);
        refused += usize::from(found);
    }
    assert!(differing > 30 && refused > 30, "{differing} differ, {refused} refused");
}
