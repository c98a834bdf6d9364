//! Corner cases, each small enough to state what the plan must be.

use trainc_ir::graph::InputRole;
use trainc_ir::ops::{
    Add, BatchStatistics, Dequantize, Neg, QuantizeExponent, Relu, Reshape, SgdUpdate, Sub, Tanh,
};
use trainc_ir::program::{Program, Region, Step};
use trainc_ir::{Graph, Tensor, TensorType, Verified};
use trainc_opt::plan::{EntryReport, PlanEntry, PlanError, PlanOptions, plan};

use crate::support::{Generic, Random, difference, node, zeros};

/// Plans one graph and compares it with its meaning over three steps.
fn planned(graph: &Graph) -> (Verified<Program>, EntryReport) {
    let entries = [PlanEntry { name: "train_step", graph }];
    let (program, report) = plan("corner", &entries, &Generic::new(), &PlanOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let found = difference(&program, &entries, 3, &mut Random::new(1));
    assert_eq!(found, None, "{program}");
    (program, report.entries.into_iter().next().expect("one entry"))
}

fn weight(graph: &mut Graph, name: &str, seed: u64) -> trainc_ir::ValueId {
    let tensor = Random::new(seed).tensor(&TensorType::f32([4, 4]));
    graph.add_parameter(name, tensor, true)
}

fn input(graph: &mut Graph) -> trainc_ir::ValueId {
    graph.add_input("x", TensorType::f32([4, 4]), InputRole::Data)
}

#[test]
fn entry_without_nodes() {
    let (program, report) = planned(&Graph::new("empty"));
    assert_eq!((report.launches, program.memory.arena_bytes), (0, 0));
}

#[test]
fn inputs_parameters_and_constants_as_results_are_copied() {
    let mut graph = Graph::new("g");
    let (x, w) = (input(&mut graph), weight(&mut graph, "w", 1));
    let c = graph.add_constant("c", Random::new(9).tensor(&TensorType::f32([4, 4])));
    for (name, value) in [("a", x), ("b", w), ("c", c), ("d", w)] {
        graph.add_output(name, value);
    }
    let (program, report) = planned(&graph);
    assert_eq!((report.copies, report.launches, program.memory.arena_bytes), (4, 4, 0));
}

#[test]
fn old_value_as_result_beside_an_update() {
    let mut graph = Graph::new("g");
    let (x, w) = (input(&mut graph), weight(&mut graph, "w", 1));
    let new = node(&mut graph, Sub {}, &[w, x]);
    graph.add_output("old", w);
    graph.add_update(0, new);
    let (program, report) = planned(&graph);
    assert_eq!((report.updates_in_place, report.copies), (1, 1));
    assert_eq!(program.memory.arena_bytes, 0, "the new weight goes straight into its place");
}

#[test]
fn new_value_as_result_too() {
    let mut graph = Graph::new("g");
    let (x, w) = (input(&mut graph), weight(&mut graph, "w", 1));
    let new = node(&mut graph, Sub {}, &[w, x]);
    graph.add_output("new", new);
    graph.add_update(0, new);
    let (_, report) = planned(&graph);
    assert_eq!((report.launches, report.copies), (2, 1));
}

#[test]
fn one_value_for_two_results_and_a_later_node() {
    let mut graph = Graph::new("g");
    let x = input(&mut graph);
    let y = node(&mut graph, Relu {}, &[x]);
    let z = node(&mut graph, Tanh {}, &[y]);
    graph.add_output("first", y);
    graph.add_output("second", y);
    graph.add_output("third", z);
    let (program, report) = planned(&graph);
    assert_eq!((report.launches, report.copies, program.memory.arena_bytes), (3, 1, 0));
}

#[test]
fn a_value_that_needs_old_and_new_weight_forbids_in_place() {
    let mut graph = Graph::new("g");
    let (x, w) = (input(&mut graph), weight(&mut graph, "w", 1));
    let new = node(&mut graph, Sub {}, &[w, x]);
    let change = node(&mut graph, Sub {}, &[new, w]);
    graph.add_output("change", change);
    graph.add_update(0, new);
    let (_, report) = planned(&graph);
    assert_eq!((report.updates_in_place, report.copies), (0, 1));
}

#[test]
fn floats_of_bytes_are_computed_again_where_they_are_used_much_later() {
    let mut graph = Graph::new("g");
    let x = graph.add_input("x", TensorType::f32([64, 64]), InputRole::Data);
    let q = node(&mut graph, QuantizeExponent {}, &[x]);
    let floats = node(&mut graph, Dequantize {}, &[q]);
    let mut y = node(&mut graph, Add {}, &[floats, x]);
    for _ in 0..10 {
        let bytes = node(&mut graph, QuantizeExponent {}, &[y]);
        let again = node(&mut graph, Dequantize {}, &[bytes]);
        y = node(&mut graph, Add {}, &[again, x]);
    }
    let last = node(&mut graph, Add {}, &[y, floats]);
    graph.add_output("y", last);
    let (program, report) = planned(&graph);
    assert_eq!(report.recomputed, 1);
    // Bytes and two values of floats at a time, not three.
    assert!(program.memory.arena_bytes < 3 * 4 * 64 * 64, "{}", program.memory.arena_bytes);
}

/// `tanh(x)` is used at first and at last, and in between there is a sum of four values: four wait at once, and one in the
/// caller's memory.
fn waiting() -> Graph {
    let mut graph = Graph::new("g");
    let x = graph.add_input("x", TensorType::f32([64]), InputRole::Data);
    let first = node(&mut graph, Tanh {}, &[x]);
    let mut values = vec![node(&mut graph, Neg {}, &[first])];
    for _ in 0..3 {
        let last = values[values.len() - 1];
        values.push(node(&mut graph, Tanh {}, &[last]));
    }
    let sums = [values[0], values[1], values[2]];
    let mut sum = values[3];
    for value in sums {
        sum = node(&mut graph, Add {}, &[value, sum]);
    }
    let last = node(&mut graph, Sub {}, &[sum, first]);
    graph.add_output("y", last);
    graph
}

#[test]
fn a_limit_has_waiting_values_computed_again() {
    let (graph, bytes) = (waiting(), 4 * 64);
    let (program, report) = planned(&graph);
    assert_eq!((program.memory.arena_bytes, report.limited), (4 * bytes, None));
    let entries = [PlanEntry { name: "train_step", graph: &graph }];
    let within = |arena_limit: usize| {
        let options = PlanOptions { arena_limit: Some(arena_limit), ..PlanOptions::default() };
        plan("corner", &entries, &Generic::new(), &options)
    };
    // The first value again from the input, which waits for nothing.
    let (program, report) = within(3 * bytes).expect("a plan");
    let limited = report.entries[0].limited.clone().expect("it was limited");
    assert_eq!((limited.natural_bytes, limited.again.len()), (4 * bytes, 1));
    assert_eq!(report.entries[0].recomputed, 1);
    assert_eq!(program.memory.arena_bytes, 3 * bytes);
    assert_eq!(difference(&program, &entries, 3, &mut Random::new(1)), None, "{program}");
    // As large as it is: nothing to do. Less than the operand that a sum in the caller's memory takes: no way.
    assert_eq!(within(4 * bytes).expect("a plan").1.entries[0].limited, None);
    let refusal = within(bytes - 1).expect_err("an addition has another operand");
    let PlanError::ArenaLimit { entry, least, limit, natural, .. } = &refusal else {
        panic!("{refusal}");
    };
    assert_eq!((entry.as_str(), *limit, *natural), ("train_step", bytes - 1, 4 * bytes));
    assert!((bytes..4 * bytes).contains(least), "{least}");
    assert!(refusal.to_string().contains("It is fullest in `"), "{refusal}");
}

#[test]
fn readers_of_the_old_weight_are_scheduled_first() {
    let mut graph = Graph::new("g");
    let (x, w) = (input(&mut graph), weight(&mut graph, "w", 1));
    let new = node(&mut graph, Sub {}, &[w, x]);
    // After the update in the graph.
    let y = node(&mut graph, Add {}, &[w, x]);
    graph.add_output("y", y);
    graph.add_update(0, new);
    let (program, report) = planned(&graph);
    assert_eq!((report.updates_in_place, report.copies), (1, 0));
    let Some(Step::Launch(last)) = program.entries[0].steps.last() else { panic!("a launch") };
    assert_eq!(program.kernel(last.kernel).op.kind().name(), "sub");
}

#[test]
fn weights_that_change_places() {
    let mut graph = Graph::new("g");
    let ws: Vec<_> = (0..3).map(|i| weight(&mut graph, &format!("w{i}"), i + 1)).collect();
    graph.add_update(0, ws[1]);
    graph.add_update(1, ws[2]);
    graph.add_update(2, ws[0]);
    planned(&graph);
}

#[test]
fn one_new_value_for_two_weights_and_an_update_to_itself() {
    let mut graph = Graph::new("g");
    let x = input(&mut graph);
    let ws: Vec<_> = (0..3).map(|i| weight(&mut graph, &format!("w{i}"), i + 1)).collect();
    let new = node(&mut graph, Sub {}, &[ws[0], x]);
    graph.add_update(0, new);
    graph.add_update(1, new);
    graph.add_update(2, ws[2]);
    let (_, report) = planned(&graph);
    assert_eq!((report.updates_in_place, report.copies, report.launches), (1, 1, 2));
}

#[test]
fn updates_by_inputs_and_constants() {
    let mut graph = Graph::new("g");
    let x = input(&mut graph);
    weight(&mut graph, "w0", 1);
    weight(&mut graph, "w1", 2);
    let c = graph.add_constant("c", Random::new(9).tensor(&TensorType::f32([4, 4])));
    graph.add_update(0, x);
    graph.add_update(1, c);
    planned(&graph);
}

#[test]
fn reshapes_are_views_in_the_arena_and_of_inputs() {
    let mut graph = Graph::new("g");
    let (x, w) = (input(&mut graph), weight(&mut graph, "w", 1));
    let flat = node(&mut graph, Reshape { shape: [16].into() }, &[x]);
    let y = node(&mut graph, Tanh {}, &[flat]);
    let square = node(&mut graph, Reshape { shape: [4, 4].into() }, &[y]);
    let sum = node(&mut graph, Add {}, &[square, w]);
    let result = node(&mut graph, Reshape { shape: [2, 8].into() }, &[sum]);
    graph.add_output("y", result);
    let (program, report) = planned(&graph);
    assert_eq!((report.views, report.launches), (3, 2));
    assert_eq!(program.memory.arena_bytes, 0, "all of it is computed in the result's memory");
    let entries = [PlanEntry { name: "train_step", graph: &graph }];
    let options = PlanOptions { argument_views: false, ..PlanOptions::default() };
    let (program, _) = plan("g", &entries, &Generic::new(), &options).expect("a plan");
    for region in [Region::Input(0), Region::Output(0)] {
        assert_eq!(program.buffers.iter().filter(|b| b.region == region).count(), 1);
    }
}

#[test]
fn constants_are_stored_once() {
    let mut graph = Graph::new("g");
    let x = input(&mut graph);
    let tensor = Random::new(9).tensor(&TensorType::f32([4, 4]));
    let c = graph.add_constant("c", tensor.clone());
    let d = graph.add_constant("d", tensor.reshaped([16]));
    let e = graph.add_constant("e", tensor);
    let d = node(&mut graph, Reshape { shape: [4, 4].into() }, &[d]);
    let a = node(&mut graph, Add {}, &[x, c]);
    let b = node(&mut graph, Add {}, &[a, d]);
    let b = node(&mut graph, Sub {}, &[b, e]);
    graph.add_output("y", b);
    let (program, _) = planned(&graph);
    assert_eq!(program.memory.constant_bytes, 64);
    // Both additions and the subtraction run in the result's memory.
    assert_eq!(program.memory.arena_bytes, 0);
    assert_eq!(program.kernels.len(), 2, "the two additions share a kernel");
}

#[test]
fn unused_results_have_memory_while_they_are_written() {
    let mut graph = Graph::new("g");
    let x = input(&mut graph);
    let results = graph.add(BatchStatistics {}, &[x], "statistics").expect("types");
    graph.add_output("variance", results[1]);
    let (program, report) = planned(&graph);
    assert_eq!(report.launches, 1);
    // The unused mean, and 100 bytes of working memory.
    assert_eq!(program.memory.arena_bytes, 64 + 128);
}

#[test]
fn a_chain_of_operations_runs_in_one_place() {
    let mut graph = Graph::new("g");
    let x = input(&mut graph);
    let mut y = node(&mut graph, Relu {}, &[x]);
    for _ in 0..5 {
        y = node(&mut graph, Neg {}, &[y]);
    }
    // A result of another shape, so that the chain itself stays in the arena.
    let results = graph.add(BatchStatistics {}, &[y], "statistics").expect("types");
    graph.add_output("mean", results[0]);
    graph.add_output("variance", results[1]);
    let (program, report) = planned(&graph);
    // The chain's place, and the working memory of the last launch.
    assert_eq!((report.in_place, program.memory.arena_bytes), (5, 64 + 128));
    assert_eq!(report.lower_bound_bytes, 64 + 128);
}

#[test]
fn an_operand_used_twice_may_be_overwritten_only_if_both_uses_allow_it() {
    let mut graph = Graph::new("g");
    let (x, w) = (input(&mut graph), weight(&mut graph, "w", 1));
    let rate = graph.add_input("rate", TensorType::f32([0; 0]), InputRole::LearningRate);
    // The gradient is the weight itself: the update reads its place twice.
    let new = node(&mut graph, SgdUpdate {}, &[w, w, rate]);
    graph.add_update(0, new);
    let twice = node(&mut graph, Add {}, &[x, x]);
    let twice = node(&mut graph, Add {}, &[twice, twice]);
    let results = graph.add(BatchStatistics {}, &[twice], "statistics").expect("types");
    graph.add_output("mean", results[0]);
    graph.add_output("variance", results[1]);
    let (_, report) = planned(&graph);
    assert_eq!((report.updates_in_place, report.copies, report.in_place), (0, 1, 1));
}

#[test]
fn empty_tensors_take_no_memory() {
    let mut graph = Graph::new("g");
    let x = graph.add_input("x", TensorType::f32([0, 4]), InputRole::Data);
    let w = graph.add_parameter("w", zeros(&[0, 4]), true);
    let y = node(&mut graph, Add {}, &[x, w]);
    let z = node(&mut graph, Tanh {}, &[y]);
    graph.add_output("z", z);
    graph.add_update(0, y);
    let (program, _) = planned(&graph);
    assert_eq!(program.memory.arena_bytes, 0);
}

#[test]
fn state_is_shared_by_name_in_order_of_appearance() {
    let mut train = Graph::new("train");
    let (x, b) = (input(&mut train), weight(&mut train, "b", 1));
    let y = node(&mut train, Add {}, &[x, b]);
    train.add_update(0, y);
    let mut infer = Graph::new("infer");
    let (a, b) = (weight(&mut infer, "a", 2), weight(&mut infer, "b", 1));
    let y = node(&mut infer, Add {}, &[a, b]);
    infer.add_output("y", y);
    let entries = [
        PlanEntry { name: "train_step", graph: &train },
        PlanEntry { name: "infer", graph: &infer },
    ];
    let options = PlanOptions::default();
    let (program, _) = plan("two", &entries, &Generic::new(), &options).expect("a plan");
    let names: Vec<&str> = program.state().iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(program.kernels.len(), 1);
    assert_eq!(difference(&program, &entries, 3, &mut Random::new(3)), None);
}

#[test]
fn differing_parameters_and_entries_are_refused() {
    let mut first = Graph::new("first");
    first.add_parameter("w", zeros(&[2, 3]), true);
    let mut second = Graph::new("second");
    second.add_parameter("w", zeros(&[3, 2]), true);
    let mut third = Graph::new("third");
    third.add_parameter("w", Tensor::f32([2, 3], vec![1.0; 6]), true);
    let mut fourth = Graph::new("fourth");
    fourth.add_parameter("w", zeros(&[2, 3]), true);
    fourth.add_parameter("w", zeros(&[2, 3]), true);
    let error = |a: &Graph, b: &Graph, name: &str| {
        let entries = [PlanEntry { name: "train_step", graph: a }, PlanEntry { name, graph: b }];
        plan("g", &entries, &Generic::new(), &PlanOptions::default()).expect_err("no plan")
    };
    assert_eq!(
        error(&first, &second, "infer").to_string(),
        "parameter `w` is f32[2,3] in `train_step` but f32[3,2] in `infer`"
    );
    assert!(matches!(error(&first, &third, "infer"), PlanError::ParameterValue { .. }));
    assert!(matches!(error(&first, &first, "train_step"), PlanError::EntryTwice(_)));
    assert!(matches!(error(&first, &fourth, "infer"), PlanError::ParameterTwice { .. }));
}

#[test]
fn names_are_identifiers_and_unique() {
    let mut graph = Graph::new("g");
    let x = graph.add_input("input.1", TensorType::f32([4, 4]), InputRole::Data);
    let w = weight(&mut graph, "float", 1);
    let a = node(&mut graph, Add {}, &[x, w]);
    graph.set_name(a, "/block/Add_output_0");
    let b = node(&mut graph, Tanh {}, &[a]);
    graph.set_name(b, "block_Add_output_0");
    graph.add_output("y", b);
    graph.add_output("a", a);
    let (program, _) = planned(&graph);
    let names: Vec<&str> = program.buffers.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["float_", "input_1", "block_Add_output_0", "train_step_block_Add_output_0"]);
    let kernels: Vec<&str> = program.kernels.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(kernels, ["add_f32_4x4", "tanh_f32_4x4"]);
}
