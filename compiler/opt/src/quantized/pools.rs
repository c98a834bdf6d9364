//! Pools, sums and clamps of gridded values.

use trainc_ir::graph::{Node, ValueId};
use trainc_ir::ops::{
    DequantizeLinear, Div, IntegerAdd, IntegerMaxPool2d, IntegerSumPool2d, Reshape, ScaleShift,
};
use trainc_ir::{Element, Op, Shape, Tensor};

use super::QuantizeError;
use super::grid::Grid;
use super::translator::{Form, Translator};
use crate::stage::bounds::bounds;

/// Largest factor of a sum whose scales have no small ratio: its rounding is 2^-21 of the larger scale.
const LARGEST_FACTOR: f64 = (1 << 20) as f64;
/// Largest denominator of an exact ratio of scales.
const LARGEST_RATIO: i64 = 1 << 10;

impl Translator<'_> {
    /// The FP32 value of sums: `(sums - zero) * scale`.
    fn real(
        &mut self,
        sums: ValueId,
        scale: f32,
        zero: i64,
        name: &str,
    ) -> Result<ValueId, QuantizeError> {
        let scale = Tensor::f32(Shape::scalar(), vec![scale]);
        let scale = self.graph.add_constant(format!("{name}/scale"), scale);
        let zero = Tensor::i32(Shape::scalar(), vec![zero as i32]);
        let zero = self.graph.add_constant(format!("{name}/zero_point"), zero);
        self.add(DequantizeLinear { axis: 0 }, &[sums, scale, zero], name, "real")
    }

    /// Average pools and means of maps: sums, and a division in FP32 as the model has it.
    pub(super) fn average(&mut self, node: &Node) -> Result<bool, QuantizeError> {
        let Some((q, grid)) = self.grid(node.inputs[0]) else { return Ok(false) };
        let shape = self.model.ty(node.inputs[0]).shape.clone();
        let [_, _, height, width] = shape[..] else { return Ok(false) };
        let result = self.model.ty(node.outputs[0]).shape.clone();
        let op = match &node.op {
            Op::AvgPool2d(pool) if pool.count_include_pad || pool.pads == [0; 4] => {
                IntegerSumPool2d {
                    kernel: pool.kernel,
                    strides: pool.strides,
                    pads: pool.pads,
                    padding: grid.zero as i32,
                }
            }
            Op::ReduceMean(mean) if mean.axes == [2, 3] => IntegerSumPool2d {
                kernel: [height, width],
                strides: [1, 1],
                pads: [0; 4],
                padding: grid.zero as i32,
            },
            _ => {
                self.warn_pool(node);
                return Ok(false);
            }
        };
        let taps = op.kernel[0] * op.kernel[1];
        let x = self.channels_last(q, &node.name)?;
        let sums = self.add(op, &[x], &node.name, "")?;
        let sums = self.channels_first(sums, &node.name)?;
        // A last, partial window has another count.
        if self.graph.ty(sums).count() != result.count() {
            self.warn_pool(node);
            return Ok(false);
        }
        let mut y = self.real(sums, grid.scale, grid.zero * taps as i64, &node.name)?;
        let count = Tensor::f32(Shape::scalar(), vec![taps as f32]);
        let count = self.graph.add_constant(format!("{}/count", node.name), count);
        y = self.add(Div {}, &[y, count], &node.name, "mean")?;
        if self.graph.ty(y).shape != result {
            y = self.add(Reshape { shape: result }, &[y], &node.name, "")?;
        }
        self.set(node.outputs[0], Form::Plain(y));
        self.count("average pool");
        Ok(true)
    }

    fn warn_pool(&mut self, node: &Node) {
        let name = &node.name;
        self.warnings.push(format!(
            "node `{name}` stays FP32: its windows do not all have the same count, or it is no pool of maps"
        ));
    }

    pub(super) fn max_pool(&mut self, node: &Node) -> Result<bool, QuantizeError> {
        let (Some((q, grid)), Op::MaxPool2d(pool)) = (self.grid(node.inputs[0]), &node.op) else {
            return Ok(false);
        };
        let op = IntegerMaxPool2d { kernel: pool.kernel, strides: pool.strides, pads: pool.pads };
        let x = self.channels_last(q, &node.name)?;
        let y = self.add(op, &[x], &node.name, "")?;
        let y = self.channels_first(y, &node.name)?;
        if pool.dilations != [1, 1]
            || self.graph.ty(y).shape != self.model.ty(node.outputs[0]).shape
        {
            let name = &node.name;
            self.warnings.push(format!(
                "node `{name}` stays FP32: dilated and partial windows have no integer form"
            ));
            return Ok(false);
        }
        self.set(node.outputs[0], Form::Grid(y, grid));
        self.count("max pool");
        Ok(true)
    }

    /// A sum of two gridded values of one shape.
    pub(super) fn sum(&mut self, node: &Node) -> Result<bool, QuantizeError> {
        let operands = (self.grid(node.inputs[0]), self.grid(node.inputs[1]));
        let (Some((a, first)), Some((b, second))) = operands else { return Ok(false) };
        if self.graph.ty(a).shape != self.graph.ty(b).shape {
            return Ok(false);
        }
        let (factors, scale) = factors(first.scale, second.scale);
        let last = self.graph.ty(a).shape.rank() == 4;
        let (mut x, mut y) = (a, b);
        if last {
            (x, y) = (self.channels_last(a, &node.name)?, self.channels_last(b, &node.name)?);
        }
        let mut sums = self.add(IntegerAdd { factors }, &[x, y], &node.name, "")?;
        if last {
            sums = self.channels_first(sums, &node.name)?;
        }
        let [f, g] = factors.map(i64::from);
        let zero = first.zero * f + second.zero * g;
        let y = self.real(sums, scale, zero, &node.name)?;
        self.set(node.outputs[0], Form::Plain(y));
        self.count("add");
        Ok(true)
    }

    /// ReLU and clips whose bounds lie on the grid.
    pub(super) fn clamp(&mut self, node: &Node) -> Result<bool, QuantizeError> {
        let Some((q, grid)) = self.grid(node.inputs[0]) else { return Ok(false) };
        let (min, max) = match &node.op {
            Op::Clip(clip) => (clip.min.get(), clip.max.get()),
            _ => (0.0, f32::INFINITY),
        };
        let real = |q: i64| (q - grid.zero) as f32 * grid.scale;
        let low = if min <= real(grid.low) { Some(grid.low) } else { grid.integer(min) };
        let high = if max >= real(grid.high) { Some(grid.high) } else { grid.integer(max) };
        let (Some(low), Some(high)) = (low, high) else { return Ok(false) };
        if low > high || low > grid.high || high < grid.low {
            return Ok(false);
        }
        let held = bounds(&self.graph, q, usize::MAX).unwrap_or_default();
        let inside = held.iter().all(|&(a, b)| low <= a && b <= high);
        let clamped = Grid { low, high, ..grid };
        if (low, high) == (grid.low, grid.high) || inside {
            self.set(node.outputs[0], Form::Grid(q, clamped));
            return Ok(true);
        }
        let rank = self.graph.ty(q).shape.rank();
        let x = if rank == 4 { self.channels_last(q, &node.name)? } else { q };
        let sums = self.add(IntegerAdd { factors: [1, 0] }, &[x, x], &node.name, "sums")?;
        let channels = self.graph.ty(sums).shape.last().copied().unwrap_or(1);
        let vector = |value: i32| Tensor::i32([channels], vec![value; channels]);
        let one = self.graph.add_constant(format!("{}/scale", node.name), vector(1));
        let zero = self.graph.add_constant(format!("{}/offset", node.name), vector(0));
        let element: Element = grid.element;
        let op = ScaleShift { shift: 0, low: low as i32, high: high as i32, element };
        let mut y = self.add(op, &[sums, one, zero], &node.name, "")?;
        if rank == 4 {
            y = self.channels_first(y, &node.name)?;
        }
        self.set(node.outputs[0], Form::Grid(y, clamped));
        self.count("clamp");
        Ok(true)
    }
}

/// Integer factors of two scales and the scale of their sum: exact where the scales have a small ratio that FP32 holds.
fn factors(a: f32, b: f32) -> ([i32; 2], f32) {
    let (x, y) = (f64::from(a), f64::from(b));
    for denominator in 1..=LARGEST_RATIO {
        let numerator = (x / y * denominator as f64).round();
        let unit = b / denominator as f32;
        let exact = numerator >= 1.0
            && numerator <= LARGEST_RATIO as f64
            && f64::from(unit) * numerator == x
            && f64::from(unit) * denominator as f64 == y;
        if exact {
            return ([numerator as i32, denominator as i32], unit);
        }
    }
    let unit = (x.max(y) / LARGEST_FACTOR) as f32;
    let factor = |v: f64| (v / f64::from(unit)).round() as i32;
    ([factor(x), factor(y)], unit)
}

#[cfg(test)]
mod tests {
    use super::factors;

    #[test]
    fn factors_are_exact_where_they_can_be() {
        assert_eq!(factors(0.3, 0.3), ([1, 1], 0.3));
        assert_eq!(factors(0.25, 0.0625), ([4, 1], 0.0625));
        assert_eq!(factors(0.375, 0.25), ([3, 2], 0.125));
        let ([f, g], unit) = factors(0.1, 0.017);
        assert!((f64::from(f) * f64::from(unit) - 0.1f32 as f64).abs() < 1e-7);
        assert!((f64::from(g) * f64::from(unit) - 0.017f32 as f64).abs() < 1e-7);
    }
}
