//! Products of gridded values with known weights: convolutions and linear layers as integer convolutions.

use trainc_ir::graph::{Node, ValueId};
use trainc_ir::ops::{Broadcast, DequantizeLinear, IntegerConv2d, Reshape, Transpose};
use trainc_ir::{Element, Op, RunContext, ScaleData, Shape, Tensor, TensorType};

use super::QuantizeError;
use super::grid::{Grid, Weights};
use super::translator::{Form, Translator};
use crate::stage::bounds::{bounds, hull};

/// Done, or why not.
pub(super) type Outcome = Result<(), String>;

const NO_GRID: &str = "its operand is on no grid: no quantizer stands before it";

impl Translator<'_> {
    pub(super) fn convolution(&mut self, node: &Node) -> Result<Outcome, QuantizeError> {
        let Op::Conv2d(conv) = &node.op else { return Ok(Err("not a convolution".into())) };
        let Some((q, grid, pads, padding)) = self.bordered(node.inputs[0], conv.pads) else {
            return Ok(Err(NO_GRID.into()));
        };
        let weights = match self.weights(node.inputs[1], false) {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        let shape = self.model.ty(node.inputs[1]).shape.clone();
        let [o, i, h, w] = shape[..] else {
            return Ok(Err("its weights have no rank of 4".into()));
        };
        // [O,I,H,W] to [O,H,W,I].
        let source = (0..o * h * w * i).map(|n| {
            let (rest, c) = (n / i, n % i);
            let (rest, x) = (rest / w, rest % w);
            let (feature, y) = (rest / h, rest % h);
            ((feature * i + c) * h + y) * w + x
        });
        let integers: Vec<i64> = source.map(|n| weights.integers[n]).collect();
        let op = IntegerConv2d {
            strides: conv.strides,
            pads,
            dilations: conv.dilations,
            groups: conv.groups,
            padding,
        };
        let x = self.channels_last(q, &node.name)?;
        let sums = self.product(op, x, &grid, [o, h, w, i], &integers, &weights, &node.name)?;
        let Some((sums, scale, zero)) = sums else {
            return Ok(Err("its sums may leave 32 bits".into()));
        };
        let sums = self.channels_first(sums, &node.name)?;
        let y = self.add(DequantizeLinear { axis: 1 }, &[sums, scale, zero], &node.name, "real")?;
        self.set(node.outputs[0], Form::Plain(y));
        self.count("conv2d");
        Ok(Ok(()))
    }

    /// The integers of a convolution's maps with their grid, the border that it adds and the integer there. A border that a `pad` before
    /// it adds is its own, if the value there is on the grid.
    fn bordered(&self, v: ValueId, pads: [usize; 4]) -> Option<(ValueId, Grid, [usize; 4], i32)> {
        if let Some((q, grid)) = self.grid(v) {
            return Some((q, grid, pads, grid.zero as i32));
        }
        let node = self.model.producer(v)?;
        let Op::Pad(pad) = &node.op else { return None };
        let (q, grid) = self.grid(node.inputs[0])?;
        let ([0, 0, top, left], [0, 0, bottom, right]) = (&pad.before[..], &pad.after[..]) else {
            return None;
        };
        let code = f64::from(pad.value.get()) / f64::from(grid.scale) + grid.zero as f64;
        let on_grid = (grid.low..=grid.high).any(|integer| integer as f64 == code);
        // Two borders are one if both hold the value 0.
        let one = pads == [0; 4] || code == grid.zero as f64;
        let inner = [*top, *left, *bottom, *right];
        let pads = [0, 1, 2, 3].map(|side| pads[side] + inner[side]);
        (on_grid && one).then_some((q, grid, pads, code as i32))
    }

    pub(super) fn linear(&mut self, node: &Node) -> Result<Outcome, QuantizeError> {
        let Op::MatMul(product) = &node.op else { return Ok(Err("not a product".into())) };
        let Some((q, grid)) = self.grid(node.inputs[0]) else { return Ok(Err(NO_GRID.into())) };
        let weights = match self.weights(node.inputs[1], !product.transpose_b) {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        let shape = self.model.ty(node.inputs[1]).shape.clone();
        if product.transpose_a || shape.rank() != 2 {
            return Ok(Err("it is not a product of rows with a matrix of weights".into()));
        }
        let (n, k) = if product.transpose_b { (shape[0], shape[1]) } else { (shape[1], shape[0]) };
        let mut integers = weights.integers.clone();
        let rows = self.model.ty(node.inputs[0]).count() / k.max(1);
        let mut x = q;
        // Flattened maps are taken with their channels last: the weights' columns move instead.
        let flattened = self.graph.producer(q).and_then(|reshape| {
            let Op::Reshape(_) = reshape.op else { return None };
            let maps = self.graph.ty(reshape.inputs[0]).shape.clone();
            let whole =
                maps.rank() == 4 && maps[0] == rows && maps[1..].iter().product::<usize>() == k;
            whole.then(|| (reshape.inputs[0], maps))
        });
        if let Some((maps, shape)) = flattened {
            x = self.channels_last(maps, &node.name)?;
            let (c, h, w) = (shape[1], shape[2], shape[3]);
            let source = (0..n * k).map(|at| {
                let (row, column) = (at / k, at % k);
                let (position, channel) = (column / c, column % c);
                row * k + channel * (h * w) + position
            });
            integers = source.map(|at| weights.integers[at]).collect();
        }
        let x = self.add(Reshape { shape: [rows, 1, 1, k].into() }, &[x], &node.name, "rows")?;
        let op = IntegerConv2d {
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            groups: 1,
            padding: grid.zero as i32,
        };
        let sums = self.product(op, x, &grid, [n, 1, 1, k], &integers, &weights, &node.name)?;
        let Some((sums, scale, zero)) = sums else {
            return Ok(Err("its sums may leave 32 bits".into()));
        };
        let shape = self.model.ty(node.outputs[0]).shape.clone();
        let axis = shape.rank() - 1;
        let sums = self.add(Reshape { shape }, &[sums], &node.name, "sums")?;
        let y = self.add(DequantizeLinear { axis }, &[sums, scale, zero], &node.name, "real")?;
        self.set(node.outputs[0], Form::Plain(y));
        self.count("linear");
        Ok(Ok(()))
    }

    /// The integer convolution with its sums' scale and zero point as constants; `None` if the sums can wrap.
    #[expect(clippy::too_many_arguments, reason = "the parts of one product")]
    fn product(
        &mut self,
        op: IntegerConv2d,
        x: ValueId,
        grid: &Grid,
        shape: [usize; 4],
        integers: &[i64],
        weights: &Weights,
        name: &str,
    ) -> Result<Option<(ValueId, ValueId, ValueId)>, QuantizeError> {
        let ty = TensorType::new(shape, weights.element());
        let w = Tensor::from_i64(&ty, integers, ScaleData::None);
        let w = self.graph.add_constant(format!("{name}/weights"), w);
        let sums = self.add(op, &[x, w], name, "")?;
        let (low, high) = hull(&bounds(&self.graph, sums, 3).unwrap_or_default());
        if (low, high) == Element::I32.integer_range().unwrap_or_default() {
            return Ok(None);
        }
        let taps = integers.len() / shape[0].max(1);
        let zeros: Vec<i64> = match grid.zero {
            0 => vec![0],
            zero => integers.chunks(taps.max(1)).map(|w| zero * w.iter().sum::<i64>()).collect(),
        };
        let count = weights.scales.len().max(zeros.len());
        let shape = if count == 1 { Shape::scalar() } else { [shape[0]].into() };
        let at = |i: usize| weights.scales.get(i).unwrap_or(&weights.scales[0]);
        let scales: Vec<f32> = (0..shape.count()).map(|i| grid.scale * at(i)).collect();
        let zeros: Vec<i32> = (0..shape.count())
            .map(|i| zeros.get(i).or(zeros.first()).copied().unwrap_or(0) as i32)
            .collect();
        let scale =
            self.graph.add_constant(format!("{name}/scale"), Tensor::f32(shape.clone(), scales));
        let zero = self.graph.add_constant(format!("{name}/zero_point"), Tensor::i32(shape, zeros));
        Ok(Some((sums, scale, zero)))
    }

    /// The integers of a known weight with output channels along its first axis (after a transpose, if asked for).
    fn weights(&self, v: ValueId, transposed: bool) -> Result<Weights, String> {
        let values = self.constant(v).ok_or("its weights are known only at run time")?;
        if !values.ty().is_f32() || values.ty().count() == 0 {
            return Err("its weights are no FP32 numbers".into());
        }
        let scales = self.scales(v);
        let turn = |tensor: &Tensor| match transposed && tensor.shape().rank() == 2 {
            true => evaluate(&Transpose { permutation: vec![1, 0] }.into(), tensor),
            false => tensor.clone(),
        };
        let values = turn(values);
        let scales = scales.ok_or("its weights are on no grid: no quantizer stands before them")?;
        Weights::of(&values, &turn(&scales), 0)
    }

    /// The scale of each element of a known tensor that a quantizer gave.
    fn scales(&self, v: ValueId) -> Option<Tensor> {
        let Some(node) = self.model.producer(v) else {
            return self.stored_scales.get(&self.model.value(v).name).cloned();
        };
        let shape = self.model.ty(v).shape.clone();
        let position = match &node.op {
            Op::Quant(_) | Op::BipolarQuant(_) | Op::DequantizeLinear(_) => 1,
            Op::Trunc(_) => 3,
            Op::Reshape(_) | Op::Transpose(_) => {
                return Some(evaluate(&node.op, &self.scales(node.inputs[0])?));
            }
            // These keep what is on a grid there.
            Op::Clip(_) | Op::Relu(_) => return self.scales(node.inputs[0]),
            _ => return None,
        };
        let mut scale = self.constant(node.inputs[position])?.as_ref().clone();
        if let Op::DequantizeLinear(op) = &node.op
            && scale.ty().count() > 1
        {
            let mut dims = vec![1; shape.rank()];
            *dims.get_mut(op.axis)? = scale.ty().count();
            scale = scale.reshaped(dims);
        }
        Some(evaluate(&Broadcast { shape }.into(), &scale))
    }
}

fn evaluate(op: &Op, x: &Tensor) -> Tensor {
    let result = op.evaluate(&[x], &RunContext::default()).into_iter().next();
    result.unwrap_or_else(|| x.clone())
}
