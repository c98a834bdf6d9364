//! The walk over a model's nodes: which values lie on a grid, which are sums, and which are FP32.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::graph::{Definition, Graph, Node, ValueId};
use trainc_ir::ops::{
    DequantizeLinear, IntegerAdd, QuantizeLinear, Rounding, ScaleShift, Transpose,
};
use trainc_ir::{Element, Op, OpKind, RunContext, Tensor};

use super::grid::Grid;
use super::scale_shift::stage;
use super::{EightBit, OutputStage, QuantizeError, StoredScales};
use crate::stage::bounds::bounds;
use crate::stage::chain::trace;

/// What is known of a value of the model in the module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Form {
    /// As it is: FP32, or integers of the model's own.
    Plain(ValueId),
    /// Integers of at most 8 bits in the model's layout, with their grid.
    Grid(ValueId, Grid),
}

/// See the module documentation.
pub(super) struct Translator<'m> {
    pub(super) model: &'m Graph,
    eight_bit: EightBit,
    /// The scale of each element of parameters that the model's file stores as integers.
    pub(super) stored_scales: &'m StoredScales,
    pub(super) graph: Graph,
    forms: BTreeMap<ValueId, Form>,
    /// FP32 values of integers, made when first asked for.
    floats: BTreeMap<ValueId, ValueId>,
    /// Values of the model that depend on nothing that is given at run time.
    constants: BTreeMap<ValueId, Arc<Tensor>>,
    pub(super) warnings: Vec<String>,
    pub(super) stages: Vec<OutputStage>,
    pub(super) counts: BTreeMap<&'static str, usize>,
}

impl<'m> Translator<'m> {
    pub(super) fn new(
        model: &'m Graph,
        eight_bit: EightBit,
        stored_scales: &'m StoredScales,
    ) -> Translator<'m> {
        Translator {
            model,
            eight_bit,
            stored_scales,
            graph: Graph::new(model.name()),
            forms: BTreeMap::new(),
            floats: BTreeMap::new(),
            constants: BTreeMap::new(),
            warnings: Vec::new(),
            stages: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn run(&mut self) -> Result<(), QuantizeError> {
        let model = self.model;
        for input in model.inputs() {
            let value = model.value(input.value);
            let new = self.graph.add_input(&value.name, value.ty.clone(), input.role);
            self.forms.insert(input.value, Form::Plain(new));
        }
        for v in model.value_ids() {
            match &model.value(v).definition {
                Definition::Parameter(i) => {
                    self.constants.insert(v, model.parameters()[*i].initial.clone());
                }
                Definition::Constant(tensor) => {
                    self.constants.insert(v, tensor.clone());
                }
                _ => {}
            }
        }
        let live = model.live_nodes();
        for (node, _) in model.nodes().iter().zip(live).filter(|(_, live)| *live) {
            self.node(node)?;
        }
        for output in model.outputs() {
            let value = self.plain(output.value, &output.name)?;
            self.graph.add_output(&output.name, value);
        }
        Ok(())
    }

    pub(super) fn add(
        &mut self,
        op: impl Into<Op>,
        operands: &[ValueId],
        node: &str,
        suffix: &str,
    ) -> Result<ValueId, QuantizeError> {
        let name = if suffix.is_empty() { node.to_string() } else { format!("{node}/{suffix}") };
        let added = self.graph.add1(op, operands, name);
        added.map_err(|source| QuantizeError::Type { node: node.to_string(), source })
    }

    /// The value of a model's value that is known.
    pub(super) fn constant(&self, v: ValueId) -> Option<&Arc<Tensor>> {
        self.constants.get(&v)
    }

    /// The integers and grid of a value, if it lies on one.
    pub(super) fn grid(&self, v: ValueId) -> Option<(ValueId, Grid)> {
        match self.forms.get(&v) {
            Some(Form::Grid(q, grid)) => Some((*q, *grid)),
            _ => None,
        }
    }

    /// Says what a value of the model is.
    pub(super) fn set(&mut self, v: ValueId, form: Form) {
        self.forms.insert(v, form);
    }

    /// Counts a translation.
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// A value as the model has it: FP32 if it is FP32 there.
    pub(super) fn plain(&mut self, v: ValueId, node: &str) -> Result<ValueId, QuantizeError> {
        if let Some(&float) = self.floats.get(&v) {
            return Ok(float);
        }
        let (q, grid) = match self.forms.get(&v) {
            Some(Form::Plain(new)) => return Ok(*new),
            Some(Form::Grid(q, grid)) => (*q, *grid),
            None => {
                let value = self.model.value(v);
                let tensor = match self.constants.get(&v) {
                    Some(tensor) => tensor.clone(),
                    // Every value comes before its use.
                    None => Arc::new(Tensor::zeros(&value.ty)),
                };
                let new = self.graph.add_constant(&value.name, tensor);
                self.floats.insert(v, new);
                return Ok(new);
            }
        };
        let scale = self.graph.add_constant(format!("{node}/scale"), grid.scale_tensor());
        let zero = self.graph.add_constant(format!("{node}/zero_point"), grid.zero_tensor());
        let name = self.graph.value(q).name.clone();
        let float = self.add(DequantizeLinear { axis: 0 }, &[q, scale, zero], &name, "real")?;
        self.floats.insert(v, float);
        Ok(float)
    }

    fn node(&mut self, node: &Node) -> Result<(), QuantizeError> {
        let known: Option<Vec<&Tensor>> =
            node.inputs.iter().map(|v| self.constants.get(v).map(Arc::as_ref)).collect();
        let random = node.op.stream().is_some();
        if let (Some(known), false) = (known, random) {
            let results = node.op.evaluate(&known, &RunContext::default());
            for (&v, tensor) in node.outputs.iter().zip(results) {
                self.constants.insert(v, Arc::new(tensor));
            }
            return Ok(());
        }
        let kind = node.op.kind();
        let done = match &node.op {
            Op::Quant(_) | Op::BipolarQuant(_) | Op::Trunc(_) | Op::QuantizeLinear(_) => {
                self.quantizer(node)?
            }
            Op::DequantizeLinear(_) => self.dequantize(node),
            Op::Conv2d(_) | Op::MatMul(_) => {
                let head = match kind {
                    OpKind::Conv2d => self.convolution(node)?,
                    _ => self.linear(node)?,
                };
                if let Err(reason) = &head {
                    let name = &node.name;
                    self.warnings.push(format!("node `{name}` stays FP32: {reason}"));
                }
                head.is_ok()
            }
            Op::AvgPool2d(_) | Op::ReduceMean(_) => self.average(node)?,
            Op::MaxPool2d(_) => self.max_pool(node)?,
            Op::Add(_) => self.sum(node)?,
            Op::Relu(_) | Op::Clip(_) => self.clamp(node)?,
            Op::Reshape(_) | Op::Transpose(_) | Op::Slice(_) => self.movement(node)?,
            _ => false,
        };
        if !done {
            self.literally(node)?;
        }
        Ok(())
    }

    /// The model's own operation on FP32.
    fn literally(&mut self, node: &Node) -> Result<(), QuantizeError> {
        let mut operands = Vec::with_capacity(node.inputs.len());
        for &v in &node.inputs {
            operands.push(self.plain(v, &node.name)?);
        }
        let outputs = self
            .graph
            .add(node.op.clone(), &operands, &node.name)
            .map_err(|source| QuantizeError::Type { node: node.name.clone(), source })?;
        for (&old, new) in node.outputs.iter().zip(outputs) {
            self.forms.insert(old, Form::Plain(new));
        }
        Ok(())
    }

    /// Reshapes and the like act on integers as on floats.
    fn movement(&mut self, node: &Node) -> Result<bool, QuantizeError> {
        let Some((q, grid)) = self.grid(node.inputs[0]) else { return Ok(false) };
        let q = self.add(node.op.clone(), &[q], &node.name, "")?;
        self.set(node.outputs[0], Form::Grid(q, grid));
        Ok(true)
    }

    /// DequantizeLinear of the model's integers puts them on a grid.
    fn dequantize(&mut self, node: &Node) -> bool {
        let constants: Option<Vec<&Tensor>> =
            node.inputs[1..].iter().map(|v| self.constants.get(v).map(Arc::as_ref)).collect();
        let narrow = self.model.ty(node.inputs[0]).element.bits() <= 8;
        let (Some(constants), true) = (constants, narrow) else { return false };
        let grid = match Grid::of(&node.op, &constants) {
            Ok(grid) => grid,
            Err(reason) => {
                let name = &node.name;
                self.warnings.push(format!("node `{name}` stays FP32: {reason}"));
                return false;
            }
        };
        match self.forms.get(&node.inputs[0]) {
            Some(Form::Plain(q)) => {
                let q = *q;
                self.set(node.outputs[0], Form::Grid(q, grid));
                true
            }
            Some(Form::Grid(q, narrower)) => {
                let form = Form::Grid(*q, *narrower);
                self.set(node.outputs[0], form);
                true
            }
            None => false,
        }
    }

    fn quantizer(&mut self, node: &Node) -> Result<bool, QuantizeError> {
        let constants: Option<Vec<Arc<Tensor>>> =
            node.inputs[1..].iter().map(|v| self.constants.get(v).cloned()).collect();
        let found = match &constants {
            Some(constants) => {
                let constants: Vec<&Tensor> = constants.iter().map(Arc::as_ref).collect();
                Grid::of(&node.op, &constants)
            }
            None => Err("its scale or zero point is known only at run time".to_string()),
        };
        let name = &node.name;
        let grid = match found {
            Ok(grid) => grid,
            Err(reason) => {
                self.warnings.push(format!("node `{name}`: its result stays FP32: {reason}"));
                return Ok(false);
            }
        };
        let own_integers = matches!(node.op, Op::QuantizeLinear(_));
        // A value that is on this grid already.
        if let (Some((q, before)), false) = (self.grid(node.inputs[0]), own_integers) {
            let same = (before.scale, before.zero) == (grid.scale, grid.zero)
                && (grid.low..=grid.high).contains(&before.low)
                && (grid.low..=grid.high).contains(&before.high)
                && !matches!(node.op, Op::Trunc(_) | Op::BipolarQuant(_));
            if same {
                self.set(node.outputs[0], Form::Grid(q, before));
                return Ok(true);
            }
        }
        let mut x = self.plain(node.inputs[0], name)?;
        let scale = self.scale(&grid, name);
        if !own_integers && !is_quantize_linear(&node.op, &grid) {
            let mut operands = vec![x];
            for &v in &node.inputs[1..] {
                // Rules of binary layers see one scale in both.
                let same = matches!(node.op, Op::BipolarQuant(_));
                operands.push(if same { scale } else { self.plain(v, name)? });
            }
            x = self.add(node.op.clone(), &operands, name, "grid")?;
        }
        let mut grid = grid;
        let mut plain = self.quantized(x, scale, &grid, name)?;
        let reach = trace(&self.graph, plain)
            .and_then(|(start, chain)| chain.reach(&bounds(&self.graph, start, chain.axis)?));
        if matches!(&node.op, Op::Trunc(trunc) if !trunc.clamp) {
            let inside = reach.is_some_and(|(low, high)| grid.low <= low && high <= grid.high);
            if !inside {
                let message = "its result is not clamped and may leave its bits";
                self.warnings.push(format!("node `{name}`: its result stays FP32: {message}"));
                return Ok(false);
            }
        }
        let mut narrower = false;
        if own_integers
            && let Some((low, high)) = reach
            && high - low < 127
            && grid.low <= low
            && high <= grid.high
            && self.only_dequantized(node)
            && let Ok(narrow) = Grid::new(grid.scale, grid.zero, low, high)
        {
            // Clamps before it leave it fewer bits than its type has.
            narrower = true;
            grid = narrow;
            plain = self.quantized(x, scale, &grid, name)?;
        }
        let q = self.scaled(plain, &grid, name)?.unwrap_or(plain);
        let integers = own_integers && !narrower;
        self.set(node.outputs[0], if integers { Form::Plain(q) } else { Form::Grid(q, grid) });
        Ok(true)
    }

    fn scale(&mut self, grid: &Grid, name: &str) -> ValueId {
        self.graph.add_constant(format!("{name}/scale"), grid.scale_tensor())
    }

    fn quantized(
        &mut self,
        x: ValueId,
        scale: ValueId,
        grid: &Grid,
        name: &str,
    ) -> Result<ValueId, QuantizeError> {
        let zero = self.graph.add_constant(format!("{name}/zero_point"), grid.zero_tensor());
        self.add(QuantizeLinear { axis: 0 }, &[x, scale, zero], name, "")
    }

    /// Whether the model's integers are used by nothing but dequantize_linear on the same grid.
    fn only_dequantized(&self, node: &Node) -> bool {
        let result = node.outputs[0];
        let mut users = self.model.nodes().iter().filter(|n| n.inputs.contains(&result));
        let same = |i: usize, user: &Node| {
            let known = |v: ValueId| self.constants.get(&v).map(|t| t.data());
            user.inputs.get(i).is_some_and(|&v| known(v) == known(node.inputs[i]))
        };
        let output = self.model.outputs().iter().any(|o| o.value == result);
        !output
            && users.all(|u| matches!(u.op, Op::DequantizeLinear(_)) && same(1, u) && same(2, u))
    }

    /// An 8-bit result as `scale_shift` of its sums, if that is wanted and close enough.
    fn scaled(
        &mut self,
        plain: ValueId,
        grid: &Grid,
        name: &str,
    ) -> Result<Option<ValueId>, QuantizeError> {
        if !grid.is_wide() || self.eight_bit == EightBit::Threshold {
            return Ok(None);
        }
        let Some((start, chain)) = trace(&self.graph, plain) else { return Ok(None) };
        let narrow = self.graph.ty(start).element != Element::I32;
        let found = bounds(&self.graph, start, chain.axis).and_then(|b| stage(&chain, &b));
        let Some(stage) = found else {
            self.count("threshold for 8 bits");
            return Ok(None);
        };
        let rank = self.graph.ty(start).shape.rank();
        let mut to_last: Vec<usize> = (0..rank).filter(|&a| a != chain.axis).collect();
        to_last.push(chain.axis);
        let back: Vec<usize> =
            (0..rank).map(|a| to_last.iter().position(|&p| p == a).unwrap_or(a)).collect();
        let mut sums = self.transposed(start, to_last, name)?;
        if narrow {
            sums = self.add(IntegerAdd { factors: [1, 0] }, &[sums, sums], name, "sums")?;
        }
        let channels = [chain.channels];
        let vector = |values: &[i32]| Tensor::i32(channels, values.to_vec());
        let scale = self.graph.add_constant(format!("{name}/scale"), vector(&stage.scale));
        let offset = self.graph.add_constant(format!("{name}/offset"), vector(&stage.offset));
        let op = ScaleShift {
            shift: stage.shift,
            low: stage.low,
            high: stage.high,
            element: grid.element,
        };
        let q = self.add(op, &[sums, scale, offset], name, "")?;
        let q = self.transposed(q, back, name)?;
        let shape = self.graph.ty(plain).shape.clone();
        let q = match self.graph.ty(q).shape == shape {
            true => q,
            false => self.add(trainc_ir::ops::Reshape { shape }, &[q], name, "")?,
        };
        self.count("scale_shift");
        let (shift, off_by_one) = (stage.shift, stage.off_by_one);
        self.stages.push(OutputStage { node: name.to_string(), shift, off_by_one });
        Ok(Some(q))
    }

    /// A value with its axes permuted; the operand of the opposite transpose itself where it is one.
    pub(super) fn transposed(
        &mut self,
        v: ValueId,
        permutation: Vec<usize>,
        name: &str,
    ) -> Result<ValueId, QuantizeError> {
        if permutation.is_sorted() {
            return Ok(v);
        }
        if let Some(node) = self.graph.producer(v)
            && let Op::Transpose(before) = &node.op
            && permutation.iter().enumerate().all(|(i, &p)| before.permutation[p] == i)
        {
            return Ok(node.inputs[0]);
        }
        // Named after what it moves, so that a stage that takes its place bears the quantizer's name.
        let name =
            self.graph.producer(v).map_or_else(|| name.to_string(), |node| node.name.clone());
        self.add(Transpose { permutation }, &[v], &name, "")
    }

    /// `[B,C,H,W]` as `[B,H,W,C]`.
    pub(super) fn channels_last(
        &mut self,
        v: ValueId,
        name: &str,
    ) -> Result<ValueId, QuantizeError> {
        self.transposed(v, vec![0, 2, 3, 1], name)
    }

    /// `[B,H,W,C]` as `[B,C,H,W]`.
    pub(super) fn channels_first(
        &mut self,
        v: ValueId,
        name: &str,
    ) -> Result<ValueId, QuantizeError> {
        self.transposed(v, vec![0, 3, 1, 2], name)
    }
}

/// Whether a quantizer's integers are those of `quantize_linear` on its grid.
fn is_quantize_linear(op: &Op, grid: &Grid) -> bool {
    let Op::Quant(quant) = op else { return false };
    let whole = grid.element.integer_range() == Some((grid.low, grid.high));
    // With a zero point QONNX rounds after it is added.
    quant.rounding == Rounding::HalfEven && grid.zero == 0 && whole && !quant.is_bipolar()
}
