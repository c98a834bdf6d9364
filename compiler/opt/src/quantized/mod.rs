//! Quantized inference: from a model with quantizers to integers.
//!
//! A model says where its values lie on grids of integers: by QONNX's Quant, BipolarQuant and Trunc, or by ONNX's
//! QuantizeLinear and DequantizeLinear. [`quantize`] computes with those integers: products, pools and sums of values
//! on grids give i32 sums (channels last), and what stands between the sums and the next quantizer becomes one output
//! stage. What is on no grid stays FP32, with a warning that names the node and says why.
//!
//! The translation writes each output stage as the chain of FP32 operations that the model has, from
//! `dequantize_linear` of the sums to `quantize_linear`, and rewrite rules that keep every bit fold the chains into
//! thresholds. Only the form of 8-bit results, a scale, an offset and a shift, is not exact: the translation chooses
//! it, and reports how close it comes.

pub(crate) mod affine;
mod fold;
mod grid;
mod heads;
mod pools;
pub mod precision;
pub(crate) mod scale_shift;
mod translator;

use std::collections::BTreeMap;

use trainc_ir::graph::Graph;
use trainc_ir::verify::{Stage, VerifyErrors, verify};
use trainc_ir::{Tensor, TypeError};

pub use crate::algorithm::EightBit;
use crate::egraph::convert::BuildError;
use crate::translate::Translation;

/// What was found about the result of one quantizer.
#[derive(Clone, PartialEq, Debug)]
pub struct OutputStage {
    /// The quantizer's node.
    pub node: String,
    /// The shift, where the stage is a `scale_shift`.
    pub shift: u32,
    /// The share of the sums tried whose result is one level off, among those that are not clamped.
    pub off_by_one: f64,
}

/// A model in integers.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantized {
    /// The module. It has no parameters: weights are constants.
    pub module: Graph,
    /// How often each translation took place.
    pub report: Translation,
    /// The `scale_shift` stages.
    pub stages: Vec<OutputStage>,
    /// What stays FP32 and why, by node.
    pub warnings: Vec<String>,
}

/// Why a model could not be translated. Each is a bug: what cannot be quantized stays FP32.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QuantizeError {
    /// An operation does not type.
    #[error("node `{node}`: {source}")]
    Type {
        /// The model's node.
        node: String,
        /// Why.
        source: TypeError,
    },
    /// The rewritten graph cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A rule joined two types.
    #[error("{0}")]
    Rule(String),
    /// The module does not verify.
    #[error(transparent)]
    Verify(#[from] VerifyErrors),
}

/// For each parameter that a model's file stores as integers, by name, the scale of each of its elements.
pub type StoredScales = BTreeMap<String, Tensor>;

/// Translates a model's inference graph. Inputs and outputs keep names, order and types.
///
/// # Errors
/// See [`QuantizeError`].
pub fn quantize(
    model: &Graph,
    eight_bit: EightBit,
    stored_scales: &StoredScales,
) -> Result<Quantized, QuantizeError> {
    let mut translator = translator::Translator::new(model, eight_bit, stored_scales);
    translator.run()?;
    let translator::Translator { graph, mut warnings, stages, counts, .. } = translator;
    let folded = fold::fold(&graph)?;
    verify(&folded.graph, &Stage::Quantized { float_operations: None })?;
    warnings.extend(fold::left_over(&folded.graph));
    let fired = counts.into_iter().map(|(name, n)| (name.to_string(), n)).chain(folded.fired);
    let report = Translation {
        fired: fired.collect(),
        floated: Vec::new(),
        iterations: folded.iterations,
        nodes: folded.nodes,
    };
    Ok(Quantized { module: folded.graph, report, stages, warnings })
}
