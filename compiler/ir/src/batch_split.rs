//! Batch splitting: a product whose operand is a batch, as launches of fewer images each, so that what one touches fits in
//! the memory next to the machine (Mandheling, Xu et al., MobiCom 2022, section 4.4, in its exact form).
//!
//! Products by image (forward, error) are those of parts, for a batch is the outermost dimension; their sums lie beside each
//! other, and what follows (a rounding that looks at all sums) sees them whole. A gradient of weights is the sum of those of
//! parts, in i32, which wraps and so has the same bits in any order. Where a single image is too much for that memory, its output
//! channels are divided in the same way: of one image they lie one behind the other. No bit changes.

use std::fmt;
use std::str::FromStr;

use crate::implementation::{Cost, Signature};
use crate::ops::{Chain, Op};
use crate::types::{Element, Scale, TensorType};

/// How many images a product takes at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MicroBatch {
    /// All.
    #[default]
    Off,
    /// As many as fit, where that costs less by the target's estimates.
    Auto,
    /// As many as fit, whatever that costs.
    Fit,
    /// At most so many.
    Images(usize),
}

impl FromStr for MicroBatch {
    type Err = String;

    fn from_str(text: &str) -> Result<MicroBatch, String> {
        match text {
            "off" => Ok(MicroBatch::Off),
            "auto" => Ok(MicroBatch::Auto),
            "fit" => Ok(MicroBatch::Fit),
            number => match number.parse() {
                Ok(images) if images > 0 => Ok(MicroBatch::Images(images)),
                _ => Err("expected off, auto, fit, or a number of images from 1".to_string()),
            },
        }
    }
}

impl fmt::Display for MicroBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MicroBatch::Off => f.write_str("off"),
            MicroBatch::Auto => f.write_str("auto"),
            MicroBatch::Fit => f.write_str("fit"),
            MicroBatch::Images(images) => write!(f, "{images}"),
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Splitting {
    /// How.
    pub micro_batch: MicroBatch,
    /// Bytes of every machine's local memory, in place of what its target says.
    pub local_bytes: Option<usize>,
}

/// What a machine's local memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// A cache: all that a launch touches.
    Everything,
    /// Memory that a launch's working memory is placed in.
    WorkingMemory,
}

/// Memory next to a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalMemory {
    /// What it is called, such as `L1 cache`.
    pub name: &'static str,
    /// Bytes.
    pub bytes: usize,
    /// What for.
    pub holds: Holds,
    /// What a KiB costs that comes from the memory behind it, in the target's unit: a model.
    pub refill: u64,
}

/// How much of a product a launch takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Images.
    pub images: usize,
    /// Output channels of a convolution: of a single image fewer than all, where one image is too much.
    pub features: usize,
}

/// Along which dimensions parts of a tensor lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axes {
    /// Whether the first is the batch.
    pub images: bool,
    /// The one of output channels.
    pub features: Option<usize>,
}

/// What a loop over parts goes along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Along {
    /// The batch.
    Images,
    /// Output channels.
    Features,
}

/// A product that can be made of parts.
#[derive(Clone, PartialEq, Debug)]
pub struct ByParts<'a> {
    /// The product alone.
    pub product: &'a Op,
    /// Types of its operands.
    pub inputs: &'a [&'a TensorType],
    /// Where their parts lie.
    pub operands: Vec<Axes>,
    /// Where those of its result do. Parts along another dimension are summed.
    pub result: Axes,
    /// Type of its result.
    pub sums: TensorType,
    /// All of it.
    pub whole: Part,
    /// What follows it, if something does.
    pub rest: Option<Op>,
}

impl<'a> ByParts<'a> {
    /// The product at the head of a signature; `None` if it starts with another operation.
    ///
    /// # Errors
    /// Why it cannot be of parts.
    pub fn of(signature: &Signature<'a>) -> Option<Result<ByParts<'a>, String>> {
        let product = signature.ops().first()?;
        let axes = |images, features| Axes { images, features };
        let (batch, none) = (axes(true, None), axes(false, None));
        let both = axes(true, Some(1));
        let weights = axes(false, Some(0));
        let way = match product {
            Op::Conv2d(op) if op.groups == 1 => Ok(([batch, weights], both)),
            Op::Conv2dGradientInput(op) if op.groups == 1 => Ok(([both, weights], batch)),
            Op::Conv2dGradientWeight(op) if op.groups == 1 => Ok(([batch, both], weights)),
            Op::Conv2d(_) | Op::Conv2dGradientInput(_) | Op::IntegerConv2d(_) => {
                Ok(([batch, none], batch))
            }
            Op::Conv2dGradientWeight(_) => Ok(([batch, batch], none)),
            Op::MatMul(op) => match (op.transpose_a, op.transpose_b) {
                _ if signature.inputs.iter().take(2).any(|ty| ty.shape.rank() != 2) => {
                    Err("its matrices are more than one".to_string())
                }
                (false, _) => Ok(([batch, none], batch)),
                (true, false) => Ok(([batch, batch], none)),
                (true, true) => Err("its batch is the innermost dimension".to_string()),
            },
            _ => return None,
        };
        Some(way.and_then(|(operands, result)| ByParts::new(signature, product, operands, result)))
    }

    fn new(
        signature: &Signature<'a>,
        product: &'a Op,
        first: [Axes; 2],
        result: Axes,
    ) -> Result<ByParts<'a>, String> {
        let (inputs, sums, rest) = match signature.op {
            Op::Chain(chain) => {
                let parts = chain.parts(signature.inputs).map_err(|e| e.to_string())?;
                let (_, operands, sums) = parts.first().ok_or("it is empty")?;
                let rest = match &chain.ops[1..] {
                    [] => None,
                    [one] => Some(one.clone()),
                    ops => Some(Op::from(Chain { ops: ops.to_vec() })),
                };
                (&signature.inputs[..operands.len()], sums.clone(), rest)
            }
            _ => (signature.inputs, signature.outputs[0].clone(), None),
        };
        if inputs.len() < 2 || sums.count() == 0 || inputs.iter().any(|ty| ty.count() == 0) {
            return Err("a tensor has no elements".to_string());
        }
        if !result.images && sums.element != Element::I32 {
            return Err("its sums are of floats, whose order is fixed".to_string());
        }
        let mut operands = vec![Axes { images: false, features: None }; inputs.len()];
        operands[..2].copy_from_slice(&first);
        let images = inputs[0].shape[0];
        // Floats are summed over all output channels in their order.
        let integers = sums.element == Element::I32 || result.features.is_some();
        let features = (inputs.iter().zip(&operands))
            .filter(|_| integers)
            .find_map(|(ty, axes)| Some(ty.shape[axes.features?]));
        let features = features.unwrap_or(1);
        let tensors = inputs.iter().copied().zip(&operands).chain([(&sums, &result)]);
        for (ty, axes) in tensors {
            let one = matches!(ty.scale, Scale::None | Scale::Exponent);
            let divided = axes.images || axes.features.is_some();
            if divided && !one || axes.images && ty.shape[0] != images {
                return Err(format!("the batch is not the outermost dimension of {ty}"));
            }
        }
        let whole = Part { images, features };
        Ok(ByParts { product, inputs, operands, result, sums, whole, rest })
    }

    /// All parts that it can be made of, the largest first.
    pub fn parts(&self) -> Vec<Part> {
        let divisors = |n: usize| (1..n).rev().filter(move |d| n.is_multiple_of(*d));
        let Part { images, features } = self.whole;
        let batches = divisors(images).map(|images| Part { images, features });
        batches.chain(divisors(features).map(|features| Part { images: 1, features })).collect()
    }

    /// The type of a part of a tensor.
    fn part(&self, ty: &TensorType, axes: Axes, part: Part) -> TensorType {
        let mut dims = ty.shape.dims().to_vec();
        if axes.images {
            dims[0] = part.images;
        }
        if let Some(axis) = axes.features.filter(|_| part.features < self.whole.features) {
            dims[axis] = part.features;
        }
        TensorType { shape: dims.into(), ..ty.clone() }
    }

    /// The types of a part's operands.
    pub fn inputs_of(&self, part: Part) -> Vec<TensorType> {
        let tensors = self.inputs.iter().zip(&self.operands);
        tensors.map(|(ty, axes)| self.part(ty, *axes, part)).collect()
    }

    /// The type of a part's result.
    pub fn sums_of(&self, part: Part) -> TensorType {
        self.part(&self.sums, self.result, part)
    }

    /// What is looped over, the inner loop last; parts along a dimension that the result has not are summed in the inner one.
    pub fn loops(&self, part: Part) -> Vec<Along> {
        // Without sums, weights stay for all images.
        let order = match self.result.features {
            None => [Along::Images, Along::Features],
            Some(_) => [Along::Features, Along::Images],
        };
        let divides = |along: &Along| match along {
            Along::Images => part.images < self.whole.images,
            Along::Features => part.features < self.whole.features,
        };
        order.into_iter().filter(divides).collect()
    }

    /// Whether parts along a dimension are summed.
    pub fn is_summed(&self, along: Along) -> bool {
        match along {
            Along::Images => !self.result.images,
            Along::Features => self.result.features.is_none(),
        }
    }

    /// Elements of a tensor from an image, or an output channel, to the next; 0 where it has none.
    pub fn stride(ty: &TensorType, axes: Axes, along: Along) -> usize {
        let behind = |axis: usize| ty.shape.dims()[axis + 1..].iter().product();
        match along {
            Along::Images if axes.images => behind(0),
            Along::Images => 0,
            Along::Features => axes.features.map_or(0, behind),
        }
    }
}

/// What a product costs in parts of a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Of all of it, without what memory takes.
    pub cost: Cost,
    /// What one launch has in the local memory.
    pub local_bytes: usize,
    /// What goes between the local memory and the one behind.
    pub moved_bytes: usize,
}

/// The parts that a product is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice<T> {
    /// Their size.
    pub part: Part,
    /// What was made for them.
    pub made: T,
    /// Why they are.
    pub reason: String,
}

/// Decides what parts a product is made of; `parts` are those that there can be, the largest first, and `of` estimates one.
///
/// # Errors
/// Why it is none.
pub fn choose<T>(
    splitting: &Splitting,
    local: Option<LocalMemory>,
    unit: &str,
    (whole, parts): (Part, &[Part]),
    unsplit: Estimate,
    of: impl Fn(Part) -> Result<(Estimate, T), String>,
) -> Result<Choice<T>, String> {
    if let MicroBatch::Images(most) = splitting.micro_batch {
        if most >= whole.images {
            return Err(format!("the batch is of {}", images(whole.images)));
        }
        let mut refused = String::new();
        let allowed = |part: &&Part| part.features == whole.features && part.images <= most;
        for &part in parts.iter().filter(allowed) {
            match of(part) {
                Ok((estimate, made)) => {
                    let bytes = [estimate.local_bytes, unsplit.local_bytes].map(kib);
                    let reason =
                        format!("as asked for; {} at a time, {} unsplit", bytes[0], bytes[1]);
                    return Ok(Choice { part, made, reason });
                }
                Err(reason) => refused = reason,
            }
        }
        return Err(refused);
    }
    let local = local.map(|local| (splitting.local_bytes.unwrap_or(local.bytes), local));
    let Some((bytes, local)) = local else {
        return Err("the target names no local memory".to_string());
    };
    let place = format!("{} of {}", kib(bytes), local.name);
    if unsplit.local_bytes <= bytes {
        return Err(format!("{} are within {place}", kib(unsplit.local_bytes)));
    }
    let total = |estimate: &Estimate| {
        estimate.cost + Cost::new((estimate.moved_bytes as u64).saturating_mul(local.refill) / 1024)
    };
    let mut best: Option<(Part, Estimate, T)> = None;
    let (mut refused, mut least) = (None, None::<(usize, Part)>);
    for &part in parts {
        match of(part) {
            Ok((estimate, made)) => {
                if least.is_none_or(|(bytes, _)| estimate.local_bytes < bytes) {
                    least = Some((estimate.local_bytes, part));
                }
                let fits = estimate.local_bytes <= bytes;
                if fits && best.as_ref().is_none_or(|(_, b, _)| total(&estimate) < total(b)) {
                    best = Some((part, estimate, made));
                }
            }
            Err(reason) => refused = Some(reason),
        }
    }
    let Some((part, estimate, made)) = best else {
        let none = || format!("the batch is of {}", images(whole.images));
        return Err(match least {
            None => refused.unwrap_or_else(none),
            Some((least, part)) => {
                let why = refused.map_or_else(String::new, |reason| format!("; {reason}"));
                let (part, least) = (part.words(whole), kib(least));
                format!("even {part} at a time would take {least}, and there are {place}{why}")
            }
        });
    };
    let number = |cost: Cost| cost.cycles().map_or("unknown".to_string(), |n| n.to_string());
    let costs = [&estimate, &unsplit].map(total);
    let reason = format!(
        "{} at a time, {} unsplit, within {place}; {} {unit} with what memory takes, {} unsplit",
        kib(estimate.local_bytes),
        kib(unsplit.local_bytes),
        number(costs[0]),
        number(costs[1])
    );
    if splitting.micro_batch == MicroBatch::Auto && costs[0] >= costs[1] {
        return Err(format!("{} would cost more: {reason}", part.words(whole)));
    }
    Ok(Choice { part, made, reason })
}

impl Part {
    /// As words: `8 images`, `1 image, 32 of 512 features`.
    pub fn words(self, whole: Part) -> String {
        if self.features == whole.features {
            return images(self.images);
        }
        format!("{}, {} of {} features", images(self.images), self.features, whole.features)
    }
}

fn images(count: usize) -> String {
    if count == 1 { "1 image".to_string() } else { format!("{count} images") }
}

fn kib(bytes: usize) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::Rounding;
    use crate::ops::{Conv2d, Conv2dGradientWeight, Relu, Requantize};

    const LOCAL: LocalMemory =
        LocalMemory { name: "cache", bytes: 4096, holds: Holds::Everything, refill: 1024 };
    const WHOLE: Part = Part { images: 16, features: 64 };

    /// A launch has 8 bytes a feature's weights and 512 an image; calls cost 10 and images 100.
    fn estimate(part: Part) -> Estimate {
        let launches = 16 / part.images * 64 / part.features;
        let local_bytes = 8 * part.features + 512 * part.images;
        let moved_bytes = if part == WHOLE { local_bytes } else { 0 };
        Estimate { cost: Cost::new((launches * 10 + 1600) as u64), local_bytes, moved_bytes }
    }

    fn ask(micro_batch: MicroBatch, bytes: usize, refill: u64) -> Result<[usize; 2], String> {
        let splitting = Splitting { micro_batch, local_bytes: Some(bytes) };
        let local = LocalMemory { refill, ..LOCAL };
        let parts = [8, 4, 2, 1].map(|images| Part { images, ..WHOLE });
        let fewer = [32, 16, 8].map(|features| Part { images: 1, features });
        let parts = [&parts[..], &fewer[..]].concat();
        let of = |part: Part| match part.images {
            8 => Err("8 is odd".to_string()),
            _ => Ok((estimate(part), ())),
        };
        let whole = estimate(WHOLE);
        let chosen = choose(&splitting, Some(local), "units", (WHOLE, &parts), whole, of)?;
        Ok([chosen.part.images, chosen.part.features])
    }

    #[test]
    fn the_largest_that_fits_is_cheapest() {
        // 4 images take 2560 bytes, 2 take 1536.
        assert_eq!(ask(MicroBatch::Auto, 4096, 1024), Ok([4, 64]));
        assert_eq!(ask(MicroBatch::Auto, 2000, 1024), Ok([2, 64]));
        // 1 image and the weights of 16 features are 640.
        assert_eq!(ask(MicroBatch::Auto, 700, 1024), Ok([1, 16]));
        // 16 images and weights are 8704 bytes.
        assert!(ask(MicroBatch::Auto, 8704, 1024).unwrap_err().contains("8.5 KiB are within"));
        let none = ask(MicroBatch::Auto, 512, 1024).unwrap_err();
        assert!(
            none.starts_with("even 1 image, 8 of 64 features at a time would take 0.6 KiB"),
            "{none}"
        );
    }

    #[test]
    fn what_costs_more_is_for_those_who_ask() {
        // 40 for four calls in place of 10, and nothing that moves.
        let refused = ask(MicroBatch::Auto, 4096, 0).unwrap_err();
        assert!(refused.contains("1640 units") && refused.contains("1610 unsplit"), "{refused}");
        assert_eq!(ask(MicroBatch::Fit, 4096, 0), Ok([4, 64]));
    }

    #[test]
    fn a_number_is_a_bound() {
        assert_eq!(ask(MicroBatch::Images(4), 1, 0), Ok([4, 64]));
        assert_eq!(ask(MicroBatch::Images(9), 1, 0), Ok([4, 64]), "8 is refused");
        assert_eq!(ask(MicroBatch::Images(3), 1, 0), Ok([2, 64]));
        assert!(ask(MicroBatch::Images(16), 1, 0).unwrap_err().contains("16 images"));
    }

    #[test]
    fn parts_have_the_types_of_their_operation() {
        let (x, w) = (TensorType::shared([6, 3, 8, 8], Element::I8), [4usize, 3, 3, 3]);
        let w = TensorType::shared(w, Element::I8);
        let conv = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 };
        let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
        let ops = vec![conv.into(), requantize.into(), Relu {}.into()];
        let chain = Op::from(Chain { ops });
        let y = TensorType::shared([6, 4, 8, 8], Element::I8);
        let inputs = [&x, &w];
        let outputs = [&y];
        let found = ByParts::of(&Signature::new(&chain, &inputs, &outputs)).unwrap().unwrap();
        assert_eq!(found.whole, Part { images: 6, features: 4 });
        assert!(matches!(&found.rest, Some(Op::Chain(rest)) if rest.ops.len() == 2));
        let parts: Vec<[usize; 2]> =
            found.parts().iter().map(|part| [part.images, part.features]).collect();
        assert_eq!(parts, [[3, 4], [2, 4], [1, 4], [1, 2], [1, 1]]);
        for part in found.parts() {
            let of_part = found.inputs_of(part);
            let types: Vec<&TensorType> = of_part.iter().collect();
            assert_eq!(found.product.infer(&types).unwrap(), [found.sums_of(part)]);
            let Part { images, features } = part;
            let sums = TensorType::shared([images, features, 8, 8], Element::I32);
            assert_eq!(found.sums_of(part), sums);
        }
        assert!([Along::Images, Along::Features].iter().all(|along| !found.is_summed(*along)));
    }

    #[test]
    fn sums_of_floats_keep_their_order() {
        let (x, dy) = (TensorType::f32([2, 3, 8, 8]), TensorType::f32([2, 4, 6, 6]));
        let gradient = Op::from(Conv2dGradientWeight {
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            groups: 1,
            kernel_size: [3, 3],
        });
        let (inputs, dw) = ([&x, &dy], TensorType::f32([4, 3, 3, 3]));
        let outputs = [&dw];
        let refused = ByParts::of(&Signature::new(&gradient, &inputs, &outputs)).unwrap();
        assert!(refused.unwrap_err().contains("order is fixed"));
        assert!(ByParts::of(&Signature::new(&Relu {}.into(), &[&x], &[&x])).is_none());
    }
}
