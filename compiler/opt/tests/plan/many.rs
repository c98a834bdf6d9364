//! Graphs of very many nodes: what takes their number squared would not end here.

use trainc_ir::graph::InputRole;
use trainc_ir::ops::{Add, Concat, Tanh};
use trainc_ir::target::Cost;
use trainc_ir::{Graph, Tensor, TensorType, ValueId};
use trainc_opt::egraph::convert::load;
use trainc_opt::egraph::extract::extract;
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};

use crate::support::Generic;

/// Each value uses the one before it and the input.
fn chain(length: usize) -> Graph {
    let mut graph = Graph::new("chain");
    let x = graph.add_input("x", TensorType::f32([4]), InputRole::Data);
    let mut y = x;
    for i in 0..length {
        y = graph.add1(Tanh {}, &[y], format!("tanh{i}")).expect("types");
        y = graph.add1(Add {}, &[y, x], format!("add{i}")).expect("types");
    }
    graph.add_output("y", y);
    graph
}

#[test]
fn a_long_chain_is_extracted_and_planned() {
    let length = 50_000;
    let graph = chain(length);
    let loaded = load(&graph);
    let best = extract(&loaded.egraph, |_, _, node| match is_leaf(node) {
        true => Cost::ZERO,
        false => Cost::new(3),
    });
    let last = graph.outputs()[0].value;
    let cost = best.cost(&loaded.egraph, loaded.classes[last.index()]);
    assert_eq!(cost, Cost::new(6 * length as u64));
    let entries = [PlanEntry { name: "infer", graph: &graph }];
    let (program, report) =
        plan("chain", &entries, &Generic::new(), &PlanOptions::default()).expect("a plan");
    assert_eq!(report.entries[0].launches, 2 * length);
    assert_eq!(program.memory.arena_bytes, program.memory.arena_lower_bound_bytes);
}

fn is_leaf(node: &trainc_opt::egraph::language::Node) -> bool {
    !matches!(node, trainc_opt::egraph::language::Node::Operation(..))
}

#[test]
fn a_concatenation_of_very_many_is_planned() {
    let parts = 40_000;
    let mut graph = Graph::new("wide");
    let x = graph.add_input("x", TensorType::f32([2]), InputRole::Data);
    let operands: Vec<ValueId> = (0..parts)
        .map(|i| {
            let w = graph.add_parameter(format!("w{i}"), Tensor::f32([2], vec![i as f32; 2]), true);
            let name = format!("add{i}");
            graph.add1(Add {}, &[x, w], name).expect("types")
        })
        .collect();
    let y = graph.add1(Concat { axis: 0 }, &operands, "concat").expect("types");
    graph.add_output("y", y);
    let entries = [PlanEntry { name: "infer", graph: &graph }];
    let (program, report) =
        plan("wide", &entries, &Generic::new(), &PlanOptions::default()).expect("a plan");
    assert_eq!(report.entries[0].launches, parts + 1);
    assert_eq!(program.memory.arena_bytes, 64 * parts);
}
