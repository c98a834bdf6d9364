//! Weights in the integers that the model's file stores them in: the trained parameter counts steps, and products see its
//! rounded value times the size of a step. Gradients pass the rounding straight, so they are those of the integers.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainc_ir::graph::{Copied, Definition, Graph, ValueId};
use trainc_ir::ops::{Mul, Quant, Rounding, TypeError};
use trainc_ir::{Element, Op, Tensor};

/// Ending of the name of a parameter that is kept in integers.
pub const CODES: &str = ".codes";

/// How a file stores a parameter: its values are `integer * scale`.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredCodes {
    /// The integers, row-major.
    pub integers: Vec<i64>,
    /// Their element.
    pub element: Element,
    /// The axis that has a scale for each index, if there are several.
    pub axis: usize,
    /// The scales.
    pub scale: Vec<f32>,
}

/// What a parameter that is kept in integers stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grid {
    /// The size of a step: FP32, broadcasts to the parameter.
    pub scale: ValueId,
    /// The least integer.
    pub least: f64,
    /// The largest.
    pub largest: f64,
}

/// The forward graph with each parameter of that name in its integers, as FP32 numbers, called `NAME.codes`. Their products'
/// operand is `quant(codes) * scale`, where the scale is a constant of the parameter's rank. Positions of parameters stay.
///
/// # Errors
/// None that integers of the parameter's shape give.
pub fn in_codes(graph: &Graph, stored: &BTreeMap<String, StoredCodes>) -> Result<Graph, TypeError> {
    let mut result = Graph::new(graph.name());
    let mut new = BTreeMap::new();
    graph.copy_changed(&mut result, &mut new, |target, _, v| {
        let value = graph.value(v);
        let name = &value.name;
        let (Definition::Parameter(position), Some(own)) = (&value.definition, stored.get(name))
        else {
            return Ok(Copied::AsItIs);
        };
        let (low, high) = own.element.integer_range().unwrap_or_default();
        let (signed, bits) = (low < 0, own.element.bits());
        let values = own.integers.iter().map(|&q| q as f32).collect();
        let initial = Tensor::f32(value.ty.shape.clone(), values);
        let trains = graph.parameters()[*position].trainable;
        let codes = target.add_parameter(format!("{name}{CODES}"), Arc::new(initial), trains);
        let number = |target: &mut Graph, part: &str, value: f32| {
            let tensor = Tensor::f32([], vec![value]);
            target.add_constant(format!("{name}/{part}"), Arc::new(tensor))
        };
        let (one, zero) = (number(target, "one", 1.0), number(target, "zero_point", 0.0));
        let mut dims = vec![1; value.ty.shape.rank()];
        if own.scale.len() > 1 {
            dims[own.axis] = own.scale.len();
        }
        let scale = Tensor::f32(dims, own.scale.clone());
        let scale = target.add_constant(format!("{name}/scale"), Arc::new(scale));
        let quant = Quant { signed, narrow: false, rounding: Rounding::HalfEven, bits };
        debug_assert_eq!(quant.bounds(), [low as f32, high as f32]);
        let rounded = target.add1(quant, &[codes, one, zero], format!("{name}/rounded"))?;
        Ok(Copied::As(target.add1(Mul {}, &[rounded, scale], name)?))
    })?;
    graph.copy_roots(&mut result, &new);
    Ok(result)
}

/// What [`in_codes`] put behind a parameter; `None` if it did not.
pub fn grid(graph: &Graph, parameter: ValueId) -> Option<Grid> {
    if !graph.value(parameter).name.ends_with(CODES) {
        return None;
    }
    let of = |v: ValueId| graph.nodes().iter().find(move |node| node.inputs.first() == Some(&v));
    let rounded = of(parameter)?;
    let Op::Quant(quant) = &rounded.op else { return None };
    let scaled = of(rounded.outputs[0]).filter(|node| matches!(node.op, Op::Mul(_)))?;
    let [least, largest] = quant.bounds().map(f64::from);
    Some(Grid { scale: scaled.inputs[1], least, largest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::graph::InputRole;
    use trainc_ir::interpreter::Interpreter;
    use trainc_ir::ops::{MatMul, ProductRole};
    use trainc_ir::{RunContext, TensorType};

    #[test]
    fn the_meaning_stays() {
        let mut g = Graph::new("g");
        let x = g.add_input("x", TensorType::f32([1, 2]), InputRole::Data);
        let real = [0.5, -1.0, 0.75, 0.0, -32.0, 31.75];
        let w = g.add_parameter("w", Arc::new(Tensor::f32([3, 2], real.to_vec())), true);
        let op = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
        let y = g.add1(op, &[x, w], "y").unwrap();
        g.add_output("y", y);
        let own = StoredCodes {
            integers: vec![1, -2, 3, 0, -128, 127],
            element: Element::I8,
            axis: 0,
            scale: vec![0.5, 0.25, 0.25],
        };
        let found = in_codes(&g, &BTreeMap::from([("w".to_string(), own)])).unwrap();
        let codes = found.parameters()[0].value;
        assert_eq!(found.value(codes).name, "w.codes");
        let grid = grid(&found, codes).unwrap();
        assert_eq!((grid.least, grid.largest), (-128.0, 127.0));
        assert_eq!(found.ty(grid.scale).shape.dims(), [3, 1]);
        let input = Tensor::f32([1, 2], vec![3.0, -5.0]);
        let run = RunContext::default();
        let [before, after] = [&g, &found].map(|g| {
            let mut interpreter = Interpreter::new(g);
            interpreter.step(std::slice::from_ref(&input), &run).unwrap().remove(0)
        });
        assert!(before.bits_equal(&after));
    }
}
