//! Transformers (Vaswani et al.: "Attention is all you need", 2017) with layer normalization before each part (Xiong et al.: "On layer
//! normalization in the transformer architecture", 2020): an encoder that classifies images by their rows, and a causal language
//! model over bytes.

use trainc_onnx_import::write::Attribute;

use super::net::{Activation, INPUT, Net, OUTPUT};
use super::{ZooError, ZooSpec};

/// Features of a position, in the heads together.
const WIDTH: usize = 32;
const HEADS: usize = 4;
const BLOCKS: usize = 2;
/// Features between a block's two last layers.
const WIDE: usize = 64;
/// Data types as ONNX numbers them.
const FLOAT: i64 = 1;
const BOOL: i64 = 9;

/// Activations here are [positions, features] of an example.
struct Transformer<'s> {
    net: Net<'s>,
    positions: usize,
    /// Which positions each may look at, if not all: the value's name, and that of what the others score.
    causal: Option<[String; 2]>,
}

impl Transformer<'_> {
    /// `x W + b`; `fan_in` is what the first weights are drawn by.
    fn linear(
        &mut self,
        layer: &str,
        x: &Activation,
        features: usize,
        fan_in: usize,
    ) -> Result<Activation, ZooError> {
        let inputs = x.shape[1];
        let weight = self.net.weight(layer, &[inputs, features], fan_in)?;
        let bias = self.net.vector(format!("{layer}.bias"), features, 0.0)?;
        let shape = vec![self.positions, features];
        let product = format!("{layer}.product");
        let y = self.net.node("MatMul", &product, &[&x.name, &weight], &[], shape.clone());
        Ok(self.net.node("Add", layer, &[&y.name, &bias], &[], shape))
    }

    fn norm(&mut self, layer: &str, x: &Activation) -> Result<Activation, ZooError> {
        let scale = self.net.vector(format!("{layer}.weight"), x.shape[1], 1.0)?;
        let shift = self.net.vector(format!("{layer}.bias"), x.shape[1], 0.0)?;
        let attributes = [("axis", Attribute::Int(-1)), ("epsilon", Attribute::Float(1e-5))];
        let inputs = [&*x.name, &scale, &shift];
        Ok(self.net.node("LayerNormalization", layer, &inputs, &attributes, x.shape.clone()))
    }

    fn reshape(&mut self, layer: &str, x: &Activation, shape: &[i64]) -> Activation {
        let sizes = format!("{layer}.shape");
        self.net.integers(&sizes, &[shape.len()], shape);
        let shape = shape[1..].iter().map(|&size| size as usize).collect();
        self.net.node("Reshape", layer, &[&x.name, &sizes], &[], shape)
    }

    fn transpose(&mut self, layer: &str, x: &Activation, order: [i64; 4]) -> Activation {
        let shape = order[1..].iter().map(|&axis| x.shape[axis as usize - 1]).collect();
        self.net.node("Transpose", layer, &[&x.name], &[("perm", Attribute::Ints(&order))], shape)
    }

    /// Softmax of queries by keys, by values. The scale of a head is in the first weights of the queries.
    fn attention(&mut self, layer: &str, x: &Activation) -> Result<Activation, ZooError> {
        let head = WIDTH / HEADS;
        let sizes = [0, self.positions as i64, HEADS as i64, head as i64];
        let mut heads = |part: &str, fan_in, order| {
            let name = format!("{layer}.{part}");
            let y = self.linear(&name, x, WIDTH, fan_in)?;
            let y = self.reshape(&format!("{name}.heads"), &y, &sizes);
            Ok::<_, ZooError>(self.transpose(&format!("{name}.first"), &y, order))
        };
        let queries = heads("query", WIDTH * head, [0, 2, 1, 3])?;
        let keys = heads("key", WIDTH, [0, 2, 3, 1])?;
        let values = heads("value", WIDTH, [0, 2, 1, 3])?;
        let square = vec![HEADS, self.positions, self.positions];
        let scores = format!("{layer}.scores");
        let operands = [&*queries.name, &keys.name];
        let mut scores = self.net.node("MatMul", &scores, &operands, &[], square.clone());
        if let Some([seen, hidden]) = &self.causal {
            let name = format!("{layer}.causal");
            let operands = [&**seen, &scores.name, hidden];
            scores = self.net.node("Where", &name, &operands, &[], square.clone());
        }
        let axis = [("axis", Attribute::Int(-1))];
        let shares = format!("{layer}.shares");
        let shares = self.net.node("Softmax", &shares, &[&scores.name], &axis, square);
        let mixed = format!("{layer}.mixed");
        let shape = vec![HEADS, self.positions, head];
        let mixed = self.net.node("MatMul", &mixed, &[&shares.name, &values.name], &[], shape);
        let together = self.transpose(&format!("{layer}.back"), &mixed, [0, 2, 1, 3]);
        let sizes = [0, self.positions as i64, WIDTH as i64];
        let together = self.reshape(&format!("{layer}.together"), &together, &sizes);
        self.linear(&format!("{layer}.output"), &together, WIDTH, WIDTH)
    }

    /// The blocks and the last normalization.
    fn blocks(&mut self, mut x: Activation) -> Result<Activation, ZooError> {
        for i in 0..BLOCKS {
            let name = |part: &str| format!("blocks.{i}.{part}");
            let y = self.norm(&name("norm1"), &x)?;
            let y = self.attention(&name("attention"), &y)?;
            x = self.net.add(&name("sum1"), &x, &y)?;
            let y = self.norm(&name("norm2"), &x)?;
            let y = self.linear(&name("fc1"), &y, WIDE, WIDTH)?;
            let y = self.net.relu(&name("relu"), &y);
            let y = self.linear(&name("fc2"), &y, WIDTH, WIDE)?;
            x = self.net.add(&name("sum2"), &x, &y)?;
        }
        self.norm("norm", &x)
    }

    /// A learnt vector for each position, added.
    fn with_positions(&mut self, x: &Activation) -> Result<Activation, ZooError> {
        let table = self.net.weight("positions", &[self.positions, WIDTH], 6 * WIDTH)?;
        let shape = vec![self.positions, WIDTH];
        Ok(self.net.node("Add", "embedded", &[&x.name, &table], &[], shape))
    }
}

/// Rows of all channels as positions, their mean to the classes.
pub(super) fn encoder(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let [channels, height, columns] = spec.input;
    let (net, x) = Net::new(spec);
    let positions = channels * height;
    let mut own = Transformer { net, positions, causal: None };
    let x = own.reshape("rows", &x, &[0, positions as i64, columns as i64]);
    let x = own.linear("embedding", &x, WIDTH, columns)?;
    let x = own.with_positions(&x)?;
    let x = own.blocks(x)?;
    let axes = [("axes", Attribute::Ints(&[1])), ("keepdims", Attribute::Int(0))];
    let x = own.net.node("ReduceMean", "mean", &[&x.name], &axes, vec![WIDTH]);
    own.net.classifier("fc", &x, true)?;
    own.net.finish()
}

/// Scores of the next byte at each position, from those up to it: [batch, classes, positions].
pub(super) fn language(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let [_, _, positions] = spec.input;
    let net = Net::of_integers(spec, positions);
    let mut own = Transformer { net, positions, causal: None };
    let seen: Vec<i64> =
        (0..positions * positions).map(|i| i64::from(i % positions <= i / positions)).collect();
    own.net.integers("causal.order", &[positions, positions], &seen);
    own.net.integers("causal.least", &[], &[-10_000]);
    let casts = [("causal.order", "causal.seen", BOOL), ("causal.least", "causal.hidden", FLOAT)];
    for (from, name, to) in casts {
        own.net.node("Cast", name, &[from], &[("to", Attribute::Int(to))], Vec::new());
    }
    own.causal = Some(["causal.seen".to_string(), "causal.hidden".to_string()]);
    let table = own.net.weight("embedding", &[spec.classes, WIDTH], 6 * WIDTH)?;
    let shape = vec![positions, WIDTH];
    let axis = [("axis", Attribute::Int(0))];
    let x = own.net.node("Gather", "bytes", &[&table, INPUT], &axis, shape);
    let x = own.with_positions(&x)?;
    let x = own.blocks(x)?;
    let x = own.linear("head", &x, spec.classes, WIDTH)?;
    let order = [("perm", Attribute::Ints(&[0, 2, 1]))];
    own.net.node("Transpose", OUTPUT, &[&x.name], &order, vec![spec.classes, positions]);
    own.net.output(&[spec.classes, positions]);
    own.net.finish()
}
