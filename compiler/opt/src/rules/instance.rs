//! Random instances for the proofs of rules: a small deterministic generator of shapes, types and values.

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::types::{Scale, Shape, TensorType};
use trainc_ir::{Data, Element, Op, ScaleData, Tensor};

/// A deterministic generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low..=high`.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    /// One of the choices.
    pub fn choose<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.range(0, choices.len() - 1)].clone()
    }

    /// A small shape of that rank.
    pub fn shape(&mut self, rank: usize) -> Shape {
        (0..rank).map(|_| self.range(1, 4)).collect::<Vec<_>>().into()
    }

    /// A tensor of that type: small, wide and extreme values mixed.
    pub fn tensor(&mut self, ty: &TensorType) -> Tensor {
        let count = ty.count();
        let style = self.range(0, 3);
        let scale = match ty.scale {
            Scale::Exponent => ScaleData::Exponent(self.range(0, 24) as i32 - 16),
            Scale::None | Scale::Fixed { .. } => ScaleData::None,
            Scale::Affine { .. } | Scale::Block { .. } => Tensor::zeros(ty).scale().clone(),
        };
        if ty.element == Element::F32 {
            let data = (0..count).map(|_| self.float(style)).collect();
            return Tensor::new(ty.clone(), Data::F32(data), scale);
        }
        let (low, high) = ty.element.integer_range().unwrap_or((0, 1));
        let values: Vec<i64> = (0..count)
            .map(|_| {
                let bits = self.bits();
                match style {
                    0 => ((bits % 17) as i64 - 8).clamp(low, high),
                    1 => self.choose(&[low, high, 0, low + 1, high - 1]),
                    // A random width, so that every magnitude occurs.
                    2 => {
                        let width = (bits >> 32) % u64::from(ty.element.bits());
                        ((bits as i64) & ((1i64 << width) - 1))
                            .wrapping_mul(if bits >> 63 == 1 { -1 } else { 1 })
                            .clamp(low, high)
                    }
                    _ => low + (bits % (high - low + 1) as u64) as i64,
                }
            })
            .collect();
        Tensor::from_i64(ty, &values, scale)
    }

    fn float(&mut self, style: usize) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1u32 << 24) as f32 * 2.0 - 1.0;
        match style {
            0 => unit,
            1 => self.choose(&[0.0, -0.0, 1.0, -1.0, 0.5, 255.0, 1e-30, -1e30]),
            2 => (unit * 16.0).round(),
            _ => unit * f32::from_bits((self.range(64, 190) as u32) << 23),
        }
    }
}

/// Builds instance graphs; operations that do not type are bugs of the instance.
#[derive(Debug)]
pub struct Instance {
    graph: Graph,
    inputs: usize,
}

impl Instance {
    /// An empty instance.
    pub fn new() -> Instance {
        Instance { graph: Graph::new("instance"), inputs: 0 }
    }

    /// An input of that type; the test draws its value.
    pub fn input(&mut self, ty: TensorType) -> ValueId {
        self.inputs += 1;
        self.graph.add_input(format!("x{}", self.inputs), ty, InputRole::Data)
    }

    /// A constant.
    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.graph.add_constant("constant", tensor)
    }

    /// An operation.
    pub fn op(&mut self, op: impl Into<Op>, operands: &[ValueId]) -> ValueId {
        let op = op.into();
        let name = op.kind().name();
        match self.graph.add1(op, operands, name) {
            Ok(value) => value,
            Err(e) => panic!("the instance does not type: {e}"),
        }
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        self.graph.ty(value)
    }

    /// The graph with that output.
    pub fn finish(mut self, output: ValueId) -> Graph {
        self.graph.add_output("y", output);
        self.graph
    }
}

impl Default for Instance {
    fn default() -> Instance {
        Instance::new()
    }
}
