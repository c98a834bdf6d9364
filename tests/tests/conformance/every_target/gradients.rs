//! Gradients: the backward graph of every case of every differentiable operation, as its rule builds it.

use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::ops::{self, Differentiated, GradientError};
use trainc_ir::{OpKind, Tensor, ValueId};
use trainc_tests::cases::{GraphCase, copied};
use trainc_tests::random::Random;

/// Cases of an operation, the first ones: the operations that their gradients are made of have their own.
const CASES: usize = 3;

/// The graph of a case; none if the operation has no gradient.
fn backward(case: &ops::Case, what: String, random: &mut Random) -> Option<GraphCase> {
    let mut graph = Graph::new("backward");
    let mut operands = case.inputs.clone();
    let add = |graph: &mut Graph, name: String, tensor: &Tensor| {
        graph.add_input(name, tensor.ty().clone(), InputRole::Data)
    };
    let inputs: Vec<ValueId> = operands
        .iter()
        .enumerate()
        .map(|(i, tensor)| add(&mut graph, format!("x{i}"), tensor))
        .collect();
    let outputs = graph.add(case.op.clone(), &inputs, "node").expect("the case types");
    if !outputs.iter().all(|y| graph.ty(*y).is_f32()) {
        return None;
    }
    let mut output_gradients = Vec::new();
    for (k, &y) in outputs.iter().enumerate() {
        let (shape, count) = (graph.ty(y).shape.clone(), graph.ty(y).count());
        let tensor = Tensor::f32(shape, (0..count).map(|_| random.float()).collect::<Vec<_>>());
        output_gradients.push(Some(add(&mut graph, format!("dy{k}"), &tensor)));
        operands.push(tensor);
    }
    let wanted: Vec<bool> = inputs.iter().map(|x| graph.ty(*x).is_f32()).collect();
    let (inputs, outputs, output_gradients, wanted) =
        (&inputs[..], &outputs[..], &output_gradients[..], &wanted[..]);
    let node = Differentiated { inputs, outputs, output_gradients, wanted };
    let gradients = match case.op.gradient(&mut graph, &node) {
        Err(GradientError::NotDifferentiable(_)) => return None,
        // Of nothing there is no mean.
        Err(GradientError::Type(_)) if operands.iter().any(|x| x.ty().count() == 0) => return None,
        gradients => gradients.unwrap_or_else(|error| panic!("{what}: {error}")),
    };
    for (i, gradient) in gradients.into_iter().enumerate().filter(|(i, _)| wanted[*i]) {
        // It may be an operand itself.
        let Some(gradient) = gradient.map(|value| copied(&mut graph, value, "copy")) else {
            continue;
        };
        graph.add_output(format!("dx{i}"), gradient);
    }
    for (k, &y) in outputs.iter().enumerate() {
        graph.add_output(format!("y{k}"), y);
    }
    Some(GraphCase { what, graph, operands })
}

/// Of every differentiable operation.
pub(crate) fn all() -> Vec<GraphCase> {
    let (mut random, mut all, mut differentiable) = (Random(13), Vec::new(), 0);
    for &kind in OpKind::ALL {
        let before = all.len();
        for (n, case) in kind.cases().iter().enumerate().take(CASES) {
            all.extend(backward(
                case,
                format!("gradient of {} case {n}", kind.name()),
                &mut random,
            ));
        }
        differentiable += usize::from(all.len() > before);
    }
    assert!(differentiable > 40, "{differentiable} differentiable operations");
    all
}
