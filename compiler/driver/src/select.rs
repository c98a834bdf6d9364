//! Copies of a graph with fewer results, or other initial values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainc_ir::graph::{Definition, Graph, InputRole, Update, ValueId};
use trainc_ir::{Op, Tensor, TypeError};

/// A copy of the graph that computes only these results (and updates, if `updates`). Nodes, constants, parameters and
/// inputs that nothing needs any more are left out, but for data inputs: callers find them by name.
pub(crate) fn select(
    graph: &Graph,
    outputs: &[(String, ValueId)],
    updates: bool,
) -> Result<Graph, TypeError> {
    let mut roots: Vec<ValueId> = outputs.iter().map(|(_, v)| *v).collect();
    if updates {
        let updated = |u: &Update| [u.value, graph.parameters()[u.parameter].value];
        roots.extend(graph.updates().iter().flat_map(updated));
    }
    let needed = graph.needed(roots);
    let data = graph.inputs().iter().filter(|i| i.role == InputRole::Data);
    let data: BTreeSet<ValueId> = data.map(|i| i.value).collect();
    let mut fresh = Graph::new(graph.name());
    let mut new: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    graph.copy_into(&mut fresh, &mut new, |v| needed.contains(&v) || data.contains(&v))?;
    for (name, value) in outputs {
        fresh.add_output(name, new[value]);
    }
    if updates {
        graph.copy_updates(&mut fresh, &new);
    }
    Ok(fresh)
}

/// A copy of the graph whose parameters start with other values of the same types.
pub(crate) fn with_initial(
    graph: &Graph,
    initial: impl Fn(&str, &Arc<Tensor>) -> Arc<Tensor>,
) -> Graph {
    let mut fresh = graph.clone();
    for (i, parameter) in graph.parameters().iter().enumerate() {
        let name = &graph.value(parameter.value).name;
        fresh.set_initial(i, initial(name, &parameter.initial));
    }
    fresh
}

/// Whether a value depends on class labels.
pub(crate) fn depends_on_labels(graph: &Graph, value: ValueId) -> bool {
    let mut seen = BTreeSet::new();
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        if !seen.insert(value) {
            continue;
        }
        match &graph.value(value).definition {
            Definition::Input(i) if graph.inputs()[*i].role == InputRole::Labels => return true,
            Definition::Result { node, .. } => stack.extend(&graph.node(*node).inputs),
            _ => {}
        }
    }
    false
}

/// The class scores behind a final softmax or log-softmax over the classes; other values are themselves.
pub(crate) fn before_softmax(graph: &Graph, value: ValueId) -> ValueId {
    match graph.producer(value).map(|node| (&node.op, node.inputs[0])) {
        Some((Op::Softmax(softmax), scores)) if softmax.axis == 1 => scores,
        Some((Op::LogSoftmax(softmax), scores)) if softmax.axis == 1 => scores,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::interpreter::Interpreter;
    use trainc_ir::ops::{Add, Mul, Softmax};
    use trainc_ir::{RunContext, TensorType};

    fn graph() -> (Graph, ValueId, ValueId) {
        let mut g = Graph::new("g");
        let x = g.add_input("x", TensorType::f32([1, 2]), InputRole::Data);
        let labels = TensorType::f32([1, 2]);
        let y = g.add_input("y", labels, InputRole::Labels);
        let w = g.add_parameter("w", Tensor::f32([1, 2], vec![3.0, 4.0]), true);
        let unused = g.add_parameter("unused", Tensor::f32([1, 2], vec![0.0; 2]), true);
        let sum = g.add1(Add {}, &[x, w], "sum").unwrap();
        let product = g.add1(Mul {}, &[sum, y], "product").unwrap();
        let softmax = g.add1(Softmax { axis: 1 }, &[sum], "softmax").unwrap();
        g.add1(Add {}, &[unused, y], "dead").unwrap();
        g.add_output("product", product);
        g.add_output("softmax", softmax);
        g.add_update(0, sum);
        (g, sum, product)
    }

    #[test]
    fn only_what_is_asked_for_remains() {
        let (g, sum, product) = graph();
        let small = select(&g, &[("scores".to_string(), sum)], false).unwrap();
        assert_eq!(small.inputs().len(), 1);
        assert_eq!(small.parameters().len(), 1);
        assert_eq!(small.nodes().len(), 1);
        assert!(small.updates().is_empty());
        let x = Tensor::f32([1, 2], vec![1.0, 2.0]);
        let found = Interpreter::new(&small).step(&[x], &RunContext::default()).unwrap();
        assert_eq!(found[0].as_f32(), [4.0, 6.0]);
        let full = select(&g, &[("product".to_string(), product)], true).unwrap();
        assert_eq!((full.inputs().len(), full.updates().len(), full.nodes().len()), (2, 1, 2));
    }

    #[test]
    fn initial_values_are_replaced() {
        let (g, _, _) = graph();
        let ones = with_initial(&g, |name, old| match name {
            "w" => Arc::new(Tensor::f32([1, 2], vec![1.0, 1.0])),
            _ => old.clone(),
        });
        assert_eq!(ones.parameters()[0].initial.as_f32(), [1.0, 1.0]);
        assert_eq!(ones.parameters()[1].initial, g.parameters()[1].initial);
        assert_eq!(ones.nodes(), g.nodes());
    }

    #[test]
    fn labels_and_softmax() {
        let (g, sum, product) = graph();
        assert!(depends_on_labels(&g, product) && !depends_on_labels(&g, sum));
        assert_eq!(before_softmax(&g, g.outputs()[1].value), sum);
        assert_eq!(before_softmax(&g, sum), sum);
    }
}
