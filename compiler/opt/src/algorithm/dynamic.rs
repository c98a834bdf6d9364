//! Precisions that each example chooses in each block, as a file has them in `[dynamic]` (DFQ).

use serde::Deserialize;

/// `[dynamic]` of a file. Numbers in quotes may be expressions of parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DynamicText {
    /// Bits of activations, for each option.
    bits: Vec<u32>,
    /// Bits of errors, for each option.
    gradient_bits: Vec<u32>,
    /// Bits of weights.
    pub(super) weight_bits: String,
    /// Features behind a gate's first and second layer; the recurrent layer has the latter.
    gate: [usize; 2],
    /// Percent of FP32's cost.
    pub(super) target: String,
    /// Percent above the target that are as good.
    pub(super) band: String,
    /// Weight of the term of cost in the loss.
    pub(super) weight: String,
}

/// Precisions that each example chooses in each block: options, the gates that choose, and the cost that steers them. Fu et al., NeurIPS
/// 2020, section 3.2.
#[derive(Clone, PartialEq, Debug)]
pub struct Dynamic {
    /// For each option the bits of activations and of errors.
    pub options: Vec<[u32; 2]>,
    /// Bits of weights.
    pub weight_bits: u32,
    /// Features behind a gate's first and second layer; the recurrent layer has the latter.
    pub gate: [usize; 2],
    /// Cost to reach, percent of that of the same products in FP32.
    pub target: f64,
    /// Percent above the target that are as good.
    pub band: f64,
    /// Weight of the term of cost in the loss.
    pub weight: f64,
}

impl Dynamic {
    /// Reads what a file declares; errors are the key and what is wrong with it.
    pub(super) fn read(text: &DynamicText) -> Result<Dynamic, (String, String)> {
        let fail = |key: &str, message: String| Err((format!("dynamic.{key}"), message));
        if text.bits.len() != text.gradient_bits.len() || !(2..=16).contains(&text.bits.len()) {
            let (bits, errors) = (text.bits.len(), text.gradient_bits.len());
            let message = format!(
                "2 to 16 options with `bits` and `gradient_bits` each, here {bits} and {errors}"
            );
            return fail("bits", message);
        }
        for (key, bits) in [("bits", &text.bits), ("gradient_bits", &text.gradient_bits)] {
            if let Some(bits) = bits.iter().find(|bits| !(1..=8).contains(*bits)) {
                return fail(key, format!("1 to 8 bits, here {bits}"));
            }
        }
        if let Some(size) = text.gate.iter().find(|size| !(1..=1024).contains(*size)) {
            return fail("gate", format!("1 to 1024 features, here {size}"));
        }
        let number = |key: &str, text: &str, most: f64| match text.trim().parse::<f64>() {
            Ok(value) if (0.0..=most).contains(&value) => Ok(value),
            _ => {
                let form = format!("expected 0 to {most}, or $(expression), here `{text}`");
                Err((format!("dynamic.{key}"), form))
            }
        };
        let weight_bits = number("weight_bits", &text.weight_bits, 8.0)?;
        if weight_bits < 1.0 || weight_bits.fract() != 0.0 {
            return fail("weight_bits", format!("1 to 8 bits, here {weight_bits}"));
        }
        let options = text.bits.iter().zip(&text.gradient_bits);
        Ok(Dynamic {
            options: options.map(|(&bits, &errors)| [bits, errors]).collect(),
            weight_bits: weight_bits as u32,
            gate: text.gate,
            target: number("target", &text.target, 100.0)?,
            band: number("band", &text.band, 100.0)?,
            weight: number("weight", &text.weight, 1e6)?,
        })
    }

    /// Steps between the least and the largest element in each option, of activations (0) or errors (1).
    pub fn steps(&self, which: usize) -> Vec<usize> {
        self.options.iter().map(|option| (1 << option[which]) - 1).collect()
    }

    /// What a product and its two gradients cost in each option, for each multiplication of the forward product: bits of both operands, each
    /// over 32. In FP32 they cost 3.
    pub fn costs(&self) -> Vec<f64> {
        let weight = f64::from(self.weight_bits);
        let cost = |option: &[u32; 2]| {
            let [bits, errors] = option.map(f64::from);
            (bits * weight + errors * weight + bits * errors) / 1024.0
        };
        self.options.iter().map(cost).collect()
    }

    /// What the gates' parameters and state depend on: another of the same has the same state.
    pub(super) fn shape(&self) -> (usize, [usize; 2]) {
        (self.options.len(), self.gate)
    }
}
