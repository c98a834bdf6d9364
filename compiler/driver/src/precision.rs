//! Precisions assigned by a file, with ranges by calibration.

use std::path::Path;

use trainc_ir::graph::Graph;
use trainc_opt::quantized::EightBit;
use trainc_opt::quantized::precision::{Plan, Precision};

use crate::config::Config;
use crate::error::{Context, InFile, Result};
use crate::hash::Fingerprint;

/// What a precision file assigns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Assigned {
    /// Fingerprint of the file.
    pub(crate) hash: String,
    /// How 8-bit results are made, if it says so.
    pub(crate) eight_bit: Option<EightBit>,
}

/// The graph with the quantizers that the file assigns.
///
/// # Errors
/// If the file cannot be read or does not fit the model, or a range is neither in it nor to be had by calibration.
pub(crate) fn assigned(config: &Config, graph: &Graph, path: &Path) -> Result<(Graph, Assigned)> {
    let in_file = |message: String| InFile::new(path, message);
    let text = std::fs::read_to_string(path).map_err(|e| in_file(format!("cannot read: {e}")))?;
    let file = Precision::parse(&text).map_err(|e| in_file(e.to_string()))?;
    let plan = Plan::new(graph, &file).map_err(|e| in_file(e.to_string()))?;
    let hash = Fingerprint::new().add(text.as_bytes()).text();
    let missing = plan.missing(graph);
    let ranges = match (&config.calibrate, missing.first_key_value()) {
        (_, None) => Default::default(),
        (None, Some((_, layer))) => {
            let message = format!(
                "layer `{layer}`: the file gives no range of its activations; add `input_range` or `output_range`, or \
                 calibrate on data (`--calibrate`)"
            );
            return Err(in_file(message).into());
        }
        (Some(data), Some(_)) => ranges::ranges(config, graph, data, missing.keys().copied())
            .with_context(|| format!("calibration on {}", data.display()))?,
    };
    Ok((plan.apply(graph, &ranges)?, Assigned { hash, eight_bit: file.eight_bit }))
}

#[cfg(feature = "host")]
mod ranges {
    //! Ranges of activations over some batches of data, by the FP32 interpreter.

    use std::collections::BTreeMap;
    use std::path::Path;

    use trainc_data::Dataset;
    use trainc_ir::graph::{Graph, ValueId};
    use trainc_ir::interpreter::Interpreter;
    use trainc_ir::{RunContext, Tensor};

    use crate::config::Config;
    use crate::error::{Context, Result, ensure};
    use crate::image_layout::ImageLayout;
    use crate::model::data_input;

    /// Most training images that are looked at.
    const IMAGES: usize = 256;

    pub(super) fn ranges(
        config: &Config,
        graph: &Graph,
        data: &Path,
        wanted: impl Iterator<Item = ValueId>,
    ) -> Result<BTreeMap<ValueId, [f32; 2]>> {
        let data = Dataset::open(data)?;
        let input = data_input(graph).context("the model does not have exactly one data input")?;
        let ty = graph.ty(input).clone();
        let batch = ty.shape.first().copied().unwrap_or(1).max(1);
        let length = data.train.image_len();
        let layout = ImageLayout::check(&ty, &data)?;
        ensure!(ty.is_f32(), "calibration needs a model that takes f32, here {ty}");
        let normalizer = config.normalizer(&data.train)?;
        let images = data.train.len().min(IMAGES.max(batch));
        let mut found: BTreeMap<ValueId, [f32; 2]> = wanted.map(|v| (v, [0.0, 0.0])).collect();
        let mut interpreter = Interpreter::new(graph);
        for start in (0..images).step_by(batch) {
            // The last batch is filled with its last image.
            let indices: Vec<usize> = (start..start + batch).map(|i| i.min(images - 1)).collect();
            let (mut pixels, mut labels) = (vec![0f32; batch * length], vec![0i32; batch]);
            data.train.fill_batch(&indices, &normalizer, &mut pixels, &mut labels);
            layout.arrange(&mut pixels, data.train.shape);
            let x = Tensor::f32(ty.shape.clone(), pixels);
            let mut widen = |v: ValueId, tensor: &Tensor| {
                if let Some([low, high]) = found.get_mut(&v) {
                    for &x in tensor.as_f32().iter().filter(|x| x.is_finite()) {
                        (*low, *high) = (low.min(x), high.max(x));
                    }
                }
            };
            widen(input, &x);
            interpreter.step_watching(&[x], &RunContext::default(), widen)?;
        }
        Ok(found)
    }
}

#[cfg(not(feature = "host"))]
mod ranges {
    use std::collections::BTreeMap;
    use std::path::Path;

    use trainc_ir::graph::{Graph, ValueId};

    use crate::config::Config;
    use crate::error::{Result, bail};

    pub(super) fn ranges(
        _: &Config,
        _: &Graph,
        _: &Path,
        _: impl Iterator<Item = ValueId>,
    ) -> Result<BTreeMap<ValueId, [f32; 2]>> {
        bail!("calibration needs the cargo feature `host`")
    }
}
