//! What a module is on its way from a model to code.

use trainc_ir::graph::Graph;
use trainc_ir::ops::OpKind;
use trainc_ir::types::Scale;

/// What a module is on its way from a model to code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// A model's FP32 graph, forward.
    Forward,
    /// An FP32 graph with loss, backward pass and update.
    Training,
    /// A module in an algorithm's representation.
    Quantized,
    /// Several forms of one module, of which a rule gives none before the other.
    Alternatives,
    /// A schedule with its memory plan.
    Program,
    /// What a target emitted.
    Files,
}

impl Form {
    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Form::Forward => "forward graph",
            Form::Training => "training graph",
            Form::Quantized => "quantized module",
            Form::Alternatives => "list of alternatives",
            Form::Program => "program",
            Form::Files => "list of files",
        }
    }

    /// What a graph is: quantized if it has scaled values or operations of quantized modules alone, a training graph if it
    /// has an input for the step size, else forward.
    pub fn of(graph: &Graph) -> Form {
        const QUANTIZED: &[OpKind] = &[
            OpKind::IntegerAdd,
            OpKind::IntegerConv2d,
            OpKind::IntegerMaxPool2d,
            OpKind::IntegerSumPool2d,
            OpKind::ScaleShift,
            OpKind::Threshold,
        ];
        let scaled = graph.values().iter().any(|v| v.ty.scale != Scale::None);
        if scaled || graph.nodes().iter().any(|n| QUANTIZED.contains(&n.op.kind())) {
            Form::Quantized
        } else if graph.inputs().iter().any(|input| input.role.is_scheduled()) {
            Form::Training
        } else {
            Form::Forward
        }
    }
}
