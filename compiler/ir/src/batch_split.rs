//! Batch splitting: a product whose operand is a batch, as launches of fewer images each, so that what one touches fits in
//! the memory next to the machine (Mandheling, Xu et al., MobiCom 2022, section 4.4, in its exact form).
//!
//! Products by image (forward, error) are those of slices, for a batch is the outermost dimension; their sums lie beside each
//! other, and what follows (a rounding that looks at all sums) sees them whole. A gradient of weights is the sum of those of
//! slices, in i32, which wraps and so has the same bits in any order. No bit changes.

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

/// A product as one of slices of its batch.
#[derive(Clone, PartialEq, Debug)]
pub struct ByImages<'a> {
    /// The product alone.
    pub product: &'a Op,
    /// Types of its operands.
    pub inputs: &'a [&'a TensorType],
    /// How many of them, from the first on, are slices.
    pub sliced: usize,
    /// Whether the results of slices are summed; else they lie beside each other.
    pub summed: bool,
    /// Type of its result.
    pub sums: TensorType,
    /// What follows it, if something does.
    pub rest: Option<Op>,
}

impl<'a> ByImages<'a> {
    /// The product at the head of a signature; `None` if it starts with another operation.
    ///
    /// # Errors
    /// Why it cannot be of slices.
    pub fn of(signature: &Signature<'a>) -> Option<Result<ByImages<'a>, String>> {
        let product = signature.ops().first()?;
        let way = match product {
            Op::Conv2d(_) | Op::Conv2dGradientInput(_) | Op::IntegerConv2d(_) => Ok((1, false)),
            Op::Conv2dGradientWeight(_) => Ok((2, true)),
            Op::MatMul(op) => match (op.transpose_a, op.transpose_b) {
                _ if signature.inputs.iter().take(2).any(|ty| ty.shape.rank() != 2) => {
                    Err("its matrices are more than one".to_string())
                }
                (false, _) => Ok((1, false)),
                (true, false) => Ok((2, true)),
                (true, true) => Err("its batch is the innermost dimension".to_string()),
            },
            _ => return None,
        };
        Some(way.and_then(|(sliced, summed)| ByImages::new(signature, product, sliced, summed)))
    }

    fn new(
        signature: &Signature<'a>,
        product: &'a Op,
        sliced: usize,
        summed: bool,
    ) -> Result<ByImages<'a>, String> {
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
        if summed && sums.element != Element::I32 {
            return Err("its sums are of floats, whose order is fixed".to_string());
        }
        let whole = |ty: &TensorType| matches!(ty.scale, Scale::None | Scale::Exponent);
        let slices = inputs[..sliced].iter().copied().chain((!summed).then_some(&sums));
        for ty in slices {
            if !whole(ty) || ty.shape.rank() < 2 || ty.shape[0] != inputs[0].shape[0] {
                return Err(format!("a batch is not the outermost dimension of {ty}"));
            }
        }
        if sums.count() == 0 || inputs.iter().any(|ty| ty.count() == 0) {
            return Err("a tensor has no elements".to_string());
        }
        Ok(ByImages { product, inputs, sliced, summed, sums, rest })
    }

    /// Images of the batch.
    pub fn images(&self) -> usize {
        self.inputs[0].shape[0]
    }

    /// A type with a batch of that many images.
    pub fn slice(ty: &TensorType, images: usize) -> TensorType {
        let mut dims = ty.shape.dims().to_vec();
        dims[0] = images;
        TensorType { shape: dims.into(), ..ty.clone() }
    }

    /// The types of a slice's operands.
    pub fn sliced_inputs(&self, images: usize) -> Vec<TensorType> {
        let slice = |(i, ty): (usize, &&TensorType)| match i < self.sliced {
            true => ByImages::slice(ty, images),
            false => (*ty).clone(),
        };
        self.inputs.iter().enumerate().map(slice).collect()
    }

    /// The type of a slice's result.
    pub fn sliced_sums(&self, images: usize) -> TensorType {
        if self.summed { self.sums.clone() } else { ByImages::slice(&self.sums, images) }
    }
}

/// What a product costs at some images a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Of the whole batch, without what memory takes.
    pub cost: Cost,
    /// What one launch has in the local memory.
    pub local_bytes: usize,
    /// Of these, what no micro-batch makes fewer.
    pub fixed_bytes: usize,
    /// What goes between the local memory and the one behind.
    pub moved_bytes: usize,
}

/// Decides how many images at a time a product takes; `of` estimates that many, which divide the batch.
///
/// # Errors
/// Why it takes all at once.
pub fn choose<T>(
    splitting: &Splitting,
    local: Option<LocalMemory>,
    unit: &str,
    images: usize,
    whole: Estimate,
    of: impl Fn(usize) -> Result<(Estimate, T), String>,
) -> Result<(usize, T, String), String> {
    // Largest first.
    let smaller = (1..images).rev().filter(|b| images.is_multiple_of(*b));
    if let MicroBatch::Images(most) = splitting.micro_batch {
        if most >= images {
            return Err(format!("it has {}", counted(images)));
        }
        let mut refused = String::new();
        for micro_batch in smaller.filter(|b| *b <= most) {
            match of(micro_batch) {
                Ok((estimate, made)) => {
                    let bytes = [estimate.local_bytes, whole.local_bytes].map(kib);
                    let reason =
                        format!("as asked for; {} at a time, {} unsplit", bytes[0], bytes[1]);
                    return Ok((micro_batch, made, reason));
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
    if whole.local_bytes <= bytes {
        return Err(format!("{} are within {place}", kib(whole.local_bytes)));
    }
    let total = |estimate: &Estimate| {
        estimate.cost + Cost::new((estimate.moved_bytes as u64).saturating_mul(local.refill) / 1024)
    };
    let mut best: Option<(usize, Estimate, T)> = None;
    let (mut refused, mut least) = (None, usize::MAX);
    for micro_batch in smaller {
        match of(micro_batch) {
            Ok((estimate, made)) => {
                least = least.min(estimate.local_bytes);
                let fits = estimate.local_bytes <= bytes;
                if fits && best.as_ref().is_none_or(|(_, b, _)| total(&estimate) < total(b)) {
                    best = Some((micro_batch, estimate, made));
                }
            }
            Err(reason) => refused = Some(reason),
        }
    }
    let Some((micro_batch, estimate, made)) = best else {
        return Err(match (least, refused) {
            (usize::MAX, Some(reason)) => reason,
            (usize::MAX, None) => format!("it has {}", counted(images)),
            (least, _) => format!(
                "even the fewest images take {}, {} of them whatever the images, and there are {place}",
                kib(least),
                kib(whole.fixed_bytes)
            ),
        });
    };
    let number = |cost: Cost| cost.cycles().map_or("unknown".to_string(), |n| n.to_string());
    let costs = [&estimate, &whole].map(total);
    let reason = format!(
        "{} at a time, {} unsplit, within {place}; {} {unit} with what memory takes, {} unsplit",
        kib(estimate.local_bytes),
        kib(whole.local_bytes),
        number(costs[0]),
        number(costs[1])
    );
    if splitting.micro_batch == MicroBatch::Auto && costs[0] >= costs[1] {
        return Err(format!("{} would cost more: {reason}", counted(micro_batch)));
    }
    Ok((micro_batch, made, reason))
}

fn counted(images: usize) -> String {
    if images == 1 { "one image".to_string() } else { format!("{images} images") }
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

    /// A launch has 512 bytes of weights and 512 an image; calls cost 10 and images 100.
    fn estimate(images: usize) -> Estimate {
        let launches = 16 / images;
        let bytes = 512 + 512 * images;
        Estimate {
            cost: Cost::new((launches * 10 + 1600) as u64),
            local_bytes: bytes,
            fixed_bytes: 512,
            moved_bytes: if images == 16 { bytes } else { 0 },
        }
    }

    fn ask(micro_batch: MicroBatch, bytes: usize, refill: u64) -> Result<usize, String> {
        let splitting = Splitting { micro_batch, local_bytes: Some(bytes) };
        let local = LocalMemory { refill, ..LOCAL };
        let of = |b: usize| if b == 8 { Err("8 is odd".into()) } else { Ok((estimate(b), ())) };
        choose(&splitting, Some(local), "units", 16, estimate(16), of).map(|(b, ..)| b)
    }

    #[test]
    fn the_largest_that_fits_is_cheapest() {
        // 4 images take 2560 bytes, 2 take 1536.
        assert_eq!(ask(MicroBatch::Auto, 4096, 1024), Ok(4));
        assert_eq!(ask(MicroBatch::Auto, 2000, 1024), Ok(2));
        // 16 images and weights are 8704 bytes.
        assert!(ask(MicroBatch::Auto, 8704, 1024).unwrap_err().contains("8.5 KiB are within"));
        assert!(ask(MicroBatch::Auto, 700, 1024).unwrap_err().contains("1.0 KiB, 0.5 KiB of them"));
    }

    #[test]
    fn what_costs_more_is_for_those_who_ask() {
        // 40 for four calls in place of 10, and nothing that moves.
        let refused = ask(MicroBatch::Auto, 4096, 0).unwrap_err();
        assert!(refused.contains("1640 units") && refused.contains("1610 unsplit"), "{refused}");
        assert_eq!(ask(MicroBatch::Fit, 4096, 0), Ok(4));
    }

    #[test]
    fn a_number_is_a_bound() {
        assert_eq!(ask(MicroBatch::Images(4), 1, 0), Ok(4));
        assert_eq!(ask(MicroBatch::Images(9), 1, 0), Ok(4), "8 is refused");
        assert_eq!(ask(MicroBatch::Images(3), 1, 0), Ok(2));
        assert!(ask(MicroBatch::Images(16), 1, 0).unwrap_err().contains("16 images"));
    }

    #[test]
    fn slices_have_the_types_of_their_operation() {
        let (x, w) = (TensorType::shared([6, 3, 8, 8], Element::I8), [4usize, 3, 3, 3]);
        let w = TensorType::shared(w, Element::I8);
        let conv = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 };
        let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
        let ops = vec![conv.into(), requantize.into(), Relu {}.into()];
        let chain = Op::from(Chain { ops });
        let y = TensorType::shared([6, 4, 8, 8], Element::I8);
        let inputs = [&x, &w];
        let outputs = [&y];
        let found = ByImages::of(&Signature::new(&chain, &inputs, &outputs)).unwrap().unwrap();
        assert_eq!((found.images(), found.sliced, found.summed), (6, 1, false));
        assert!(matches!(&found.rest, Some(Op::Chain(rest)) if rest.ops.len() == 2));
        let of_slice = found.sliced_inputs(2);
        let types: Vec<&TensorType> = of_slice.iter().collect();
        assert_eq!(found.product.infer(&types).unwrap(), [found.sliced_sums(2)]);
        assert_eq!(found.sliced_sums(2), TensorType::shared([2, 4, 8, 8], Element::I32));
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
        let refused = ByImages::of(&Signature::new(&gradient, &inputs, &outputs)).unwrap();
        assert!(refused.unwrap_err().contains("order is fixed"));
        assert!(ByImages::of(&Signature::new(&Relu {}.into(), &[&x], &[&x])).is_none());
    }
}
