//! The networks that choose: one for each block, with a recurrent layer that all share. They are made of FP32 operations that no
//! algorithm's rules take: a product by a matrix is written as products and sums.

use std::sync::Arc;

use trainc_ir::graph::{Graph, ValueId};
use trainc_ir::ops::{
    Add, Mul, OneHotLargest, ReduceMean, ReduceSum, Relu, Reshape, Sigmoid, Softmax, Tanh,
};
use trainc_ir::{Op, Shape, TypeError};

use crate::algorithm::dynamic::Dynamic;
use crate::model_rules::{Added, First};

/// Names of what all gates share begin so.
const SHARED: &str = "gates";

/// The gates of a model, in the order in which they are added.
pub(super) struct Gates<'a> {
    /// The model without them.
    model: &'a Graph,
    dynamic: &'a Dynamic,
    /// Draws first weights.
    seed: u64,
    /// Result and memory of the recurrent layer behind the block before.
    before: Option<[ValueId; 2]>,
}

/// One of the recurrent layer's parts.
#[derive(Clone, Copy)]
enum Part {
    Input,
    Forget,
    Candidate,
    Output,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Input => "input",
            Part::Forget => "forget",
            Part::Candidate => "candidate",
            Part::Output => "output",
        }
    }
}

impl<'a> Gates<'a> {
    pub(super) fn new(model: &'a Graph, dynamic: &'a Dynamic, seed: u64) -> Gates<'a> {
        Gates { model, dynamic, seed, before: None }
    }

    /// The choice of a block's examples, [batch, options], one 1 in each row: the mean over space of `x` [batch, channels, ...], a layer with
    /// ReLU, a second one, the recurrent layer (whose state begins at 0 in each batch), a layer with a softmax, and its first largest.
    ///
    /// # Errors
    /// If a parameter would have the name of one of the model.
    pub(super) fn add(
        &mut self,
        graph: &mut Graph,
        block: &str,
        x: ValueId,
    ) -> Result<ValueId, TypeError> {
        let name = format!("{block}.gate");
        let shape = graph.ty(x).shape.clone();
        let pooled = match shape.rank() {
            0 | 1 => return Err(TypeError::new(format!("`{block}` has no channels"))),
            2 => x,
            rank => {
                let mean = ReduceMean { axes: (2..rank).collect(), keep_dims: false };
                graph.add1(mean, &[x], format!("{name}/pool"))?
            }
        };
        let [first, second] = self.dynamic.gate;
        let hidden = self.linear(graph, pooled, &format!("{name}.first"), first, true)?;
        let hidden = graph.add1(Relu {}, &[hidden], format!("{name}/relu"))?;
        let seen = self.linear(graph, hidden, &format!("{name}.second"), second, true)?;
        let state = self.recurrent(graph, seen, &name)?;
        let shared = format!("{SHARED}.choice");
        let options = self.dynamic.options.len();
        let scores = self.linear(graph, state, &shared, options, true)?;
        let soft = graph.add1(Softmax { axis: 1 }, &[scores], format!("{name}/softmax"))?;
        graph.add1(OneHotLargest { axis: 1 }, &[soft], format!("{name}/choice"))
    }

    /// One step of the recurrent layer (LSTM), from the state behind the block before: memory `c = f c + i g`, result `h = o tanh(c)`, with
    /// i, f, o = sigmoid and g = tanh of linear functions of `x` and the result before. The first step has no state.
    fn recurrent(
        &mut self,
        graph: &mut Graph,
        x: ValueId,
        name: &str,
    ) -> Result<ValueId, TypeError> {
        let size = self.dynamic.gate[1];
        let part = |graph: &mut Graph, part: Part| {
            let own = format!("{SHARED}.{}", part.name());
            let mut sum = self.linear(graph, x, &own, size, true)?;
            if let Some([before, _]) = self.before {
                let own = format!("{own}.before");
                let more = self.linear(graph, before, &own, size, false)?;
                sum = graph.add1(Add {}, &[sum, more], format!("{name}/{}", part.name()))?;
            }
            let bent: Op = match part {
                Part::Candidate => Tanh {}.into(),
                _ => Sigmoid {}.into(),
            };
            graph.add1(bent, &[sum], format!("{name}/{}", part.name()))
        };
        let [input, candidate, output] =
            [Part::Input, Part::Candidate, Part::Output].map(|own| part(graph, own));
        let mut memory = graph.add1(Mul {}, &[input?, candidate?], format!("{name}/memory"))?;
        if self.before.is_some() {
            let forget = part(graph, Part::Forget)?;
            let [_, before] = self.before.unwrap_or([memory; 2]);
            let kept = graph.add1(Mul {}, &[forget, before], format!("{name}/kept"))?;
            memory = graph.add1(Add {}, &[kept, memory], format!("{name}/memory"))?;
        }
        let bent = graph.add1(Tanh {}, &[memory], format!("{name}/tanh"))?;
        let result = graph.add1(Mul {}, &[output?, bent], format!("{name}/result"))?;
        self.before = Some([result, memory]);
        Ok(result)
    }

    /// A linear layer of `x` [batch, inputs], with a bias or without: each result the sum over the inputs in order, from +0.
    fn linear(
        &self,
        graph: &mut Graph,
        x: ValueId,
        name: &str,
        outputs: usize,
        bias: bool,
    ) -> Result<ValueId, TypeError> {
        let [batch, inputs] = graph.ty(x).shape[..] else {
            return Err(TypeError::new(format!("`{name}` takes rows, here {}", graph.ty(x))));
        };
        let bound = 1.0 / (inputs as f64).sqrt();
        let weight = format!("{name}.weight");
        let weight = self.parameter(graph, &weight, [outputs, inputs].into(), bound)?;
        let node = name.replace('.', "/");
        let shape: Shape = [batch, 1, inputs].into();
        let rows = graph.add1(Reshape { shape }, &[x], format!("{node}/rows"))?;
        let products = graph.add1(Mul {}, &[rows, weight], format!("{node}/products"))?;
        let sum = ReduceSum { axes: vec![2], keep_dims: false };
        let sum = graph.add1(sum, &[products], format!("{node}/sum"))?;
        if !bias {
            return Ok(sum);
        }
        let bias = self.parameter(graph, &format!("{name}.bias"), [outputs].into(), bound)?;
        graph.add1(Add {}, &[sum, bias], format!("{node}/bias"))
    }

    /// A trained parameter, uniform within a bound at first; that of the name if it is there.
    fn parameter(
        &self,
        graph: &mut Graph,
        name: &str,
        shape: Shape,
        bound: f64,
    ) -> Result<ValueId, TypeError> {
        if self.model.parameter_named(name).is_some() {
            return Err(TypeError::new(format!(
                "the model has a parameter `{name}`, as one of a gate would be called"
            )));
        }
        if let Some(known) = graph.parameter_named(name) {
            return Ok(graph.parameters()[known].value);
        }
        let added = Added {
            name: name.to_string(),
            of: None,
            single: Vec::new(),
            initial: First::Uniform(bound),
            trains: true,
        };
        let first = added.first(name, &shape, self.seed);
        Ok(graph.add_parameter(name, Arc::new(first), true))
    }
}
