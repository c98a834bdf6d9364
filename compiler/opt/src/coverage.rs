//! Which operations of models an algorithm trains: found by translating each one's FP32 examples.

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::{Differentiated, MatMul, ProductRole};
use trainc_ir::types::{Scale, TensorType};
use trainc_ir::{OpKind, Tensor};

use crate::algorithm::Algorithm;
use crate::training::training_graph_under;
use crate::translate::translate;

/// What an algorithm makes of an operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Coverage {
    /// Rules for neither pass.
    None,
    /// A rule for the forward pass, none for the backward pass.
    Forward,
    /// Trains, computing it in FP32.
    Float,
    /// Left out of the model.
    Removed,
    /// Trains in the algorithm's own numbers.
    Trains,
}

/// Most examples of an operation that are tried.
const EXAMPLES: usize = 12;

/// Every operation that FP32 models hold and that has a gradient, with what the algorithm makes of it: the best over
/// the operation's examples, since rules are about operations and examples include odd types.
pub fn coverage(algorithm: &Algorithm) -> Vec<(OpKind, Coverage)> {
    let of = |&kind: &OpKind| {
        let examples: Vec<Example> =
            kind.cases().iter().filter_map(Example::of).take(EXAMPLES).collect();
        if examples.is_empty() {
            return None;
        }
        if algorithm.remove.contains(&kind) {
            return Some((kind, Coverage::Removed));
        }
        examples.iter().map(|example| example.under(algorithm, kind)).max().map(|c| (kind, c))
    };
    OpKind::ALL.iter().filter_map(of).collect()
}

/// Names of what the algorithm keeps beside each weight, from step to step.
pub fn state_of_weights(algorithm: &Algorithm) -> Vec<String> {
    let mut model = Graph::new("net");
    let one = || TensorType::f32([1, 1]);
    let x = model.add_input("x", one(), InputRole::Data);
    let w = model.add_parameter("w", Tensor::zeros(&one()), true);
    let op = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
    let Ok(y) = model.add1(op, &[x, w], "y") else { return Vec::new() };
    model.add_output("y", y);
    let Ok(graph) = training_graph_under(&model, None, algorithm) else { return Vec::new() };
    let names = graph.parameters().iter().map(|p| graph.value(p.value).name.as_str());
    names.filter_map(|name| name.strip_prefix("w.")).map(String::from).collect()
}

/// An operation applied to inputs, alone and with its backward pass.
struct Example {
    forward: Graph,
    both: Graph,
}

impl Example {
    /// `None` for examples that are not FP32, or have no gradient.
    fn of(case: &trainc_ir::ops::Case) -> Option<Example> {
        let plain = |x: &Tensor| x.ty().scale == Scale::None && x.ty().count() > 0;
        if !case.inputs.iter().all(plain) || !case.inputs.first()?.ty().is_f32() {
            return None;
        }
        let mut forward = Graph::new("example");
        let mut inputs: Vec<ValueId> = Vec::new();
        for (i, tensor) in case.inputs.iter().enumerate() {
            let role = if tensor.ty().is_f32() { InputRole::Data } else { InputRole::Labels };
            inputs.push(forward.add_input(format!("x{i}"), tensor.ty().clone(), role));
        }
        let outputs = forward.add(case.op.clone(), &inputs, "example").ok()?;
        let float = outputs.iter().all(|&y| forward.ty(y).is_f32() && forward.ty(y).count() > 0);
        if !float {
            return None;
        }
        let mut both = forward.clone();
        let mut gradients: Vec<Option<ValueId>> = Vec::new();
        for (i, &y) in outputs.iter().enumerate() {
            let ty = both.ty(y).clone();
            // A loss is where the backward pass starts.
            gradients.push(Some(match ty.shape.rank() {
                0 => both.add_constant("one", Tensor::f32([], vec![1.0])),
                _ => both.add_input(format!("dy{i}"), ty, InputRole::Data),
            }));
        }
        let wanted: Vec<bool> = inputs.iter().map(|&x| both.ty(x).is_f32()).collect();
        let view = Differentiated {
            inputs: &inputs,
            outputs: &outputs,
            output_gradients: &gradients,
            wanted: &wanted,
        };
        let errors = case.op.gradient(&mut both, &view).ok()?;
        for (graph, suffix) in [(&mut forward, "y"), (&mut both, "y")] {
            for (i, &y) in outputs.iter().enumerate() {
                graph.add_output(format!("{suffix}{i}"), y);
            }
        }
        for (i, error) in errors.into_iter().enumerate() {
            if let Some(error) = error {
                both.add_output(format!("dx{i}"), error);
            }
        }
        (both.outputs().len() > outputs.len()).then_some(Example { forward, both })
    }

    fn under(&self, algorithm: &Algorithm, kind: OpKind) -> Coverage {
        match (translate(&self.both, algorithm), translate(&self.forward, algorithm)) {
            (Ok((module, _)), _) => {
                let float = |n: &trainc_ir::graph::Node| {
                    n.op.kind() == kind && n.inputs.iter().any(|&v| module.ty(v).is_f32())
                };
                match !algorithm.is_identity() && module.nodes().iter().any(float) {
                    true => Coverage::Float,
                    false => Coverage::Trains,
                }
            }
            (Err(_), Ok(_)) => Coverage::Forward,
            (Err(_), Err(_)) => Coverage::None,
        }
    }
}
