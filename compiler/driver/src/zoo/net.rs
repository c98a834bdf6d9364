//! Layers over the ONNX writer: one call a layer, names in PyTorch's manner, shapes followed along.
//!
//! A node and its result bear the layer's name (`layer1.0.conv1`), a parameter the layer's and its own
//! (`layer1.0.conv1.weight`).

use trainc_onnx_import::write::{Attribute, ModelWriter};

use super::initial::he_uniform;
use super::{ZooError, ZooSpec};

/// Name of the model's input, [batch, channels, height, width].
pub const INPUT: &str = "input";
/// Name of the model's output, [batch, classes].
pub const OUTPUT: &str = "logits";
/// Version of ONNX's operator set that the models use.
pub const OPSET: i64 = 17;
/// Most weights of a model: 1 GiB of FP32.
pub const MAX_WEIGHTS: usize = 1 << 28;

const BATCH: &str = "batch";
/// ONNX's number of FP32.
const FLOAT: i64 = 1;

/// An activation: its name and its shape without the batch, [channels, height, width] or [features].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Activation {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
}

/// A square or rectangular window: kernel, strides and padding (height, width; padding on both sides, and more behind).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    kernel: [usize; 2],
    stride: usize,
    padding: [usize; 2],
    behind: usize,
}

impl Window {
    /// A square window, stride 1, no padding.
    pub(super) fn square(kernel: usize) -> Window {
        Window::rectangle(kernel, kernel)
    }

    /// A window of `height` by `width`, stride 1, no padding.
    pub(super) fn rectangle(height: usize, width: usize) -> Window {
        Window { kernel: [height, width], stride: 1, padding: [0, 0], behind: 0 }
    }

    /// The same with this stride.
    pub(super) fn stride(self, stride: usize) -> Window {
        Window { stride, ..self }
    }

    /// The same with as much padding as keeps the size at stride 1 (for odd kernels).
    pub(super) fn padded(self) -> Window {
        self.padding(self.kernel.map(|k| k / 2))
    }

    /// The same with this padding.
    pub(super) fn padding(self, padding: [usize; 2]) -> Window {
        Window { padding, ..self }
    }

    /// The same with one more row and column of padding below and at the right.
    pub(super) fn behind(self) -> Window {
        Window { behind: 1, ..self }
    }

    /// The height and width that the window makes of these; nothing if it does not fit.
    fn apply(self, sides: [usize; 2]) -> Option<[usize; 2]> {
        let side = |i: usize| {
            let room =
                (sides[i] + 2 * self.padding[i] + self.behind).checked_sub(self.kernel[i])?;
            Some(room / self.stride + 1)
        };
        Some([side(0)?, side(1)?])
    }
}

/// How a convolution connects and what follows its product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Convolution {
    pub(super) channels: usize,
    pub(super) window: Window,
    pub(super) groups: usize,
}

/// A model being built.
#[derive(Debug)]
pub(super) struct Net<'s> {
    spec: &'s ZooSpec,
    writer: ModelWriter,
    weights: usize,
    /// Added to a batch norm's variance; PyTorch's default, which some nets change.
    pub(super) epsilon: f32,
}

impl<'s> Net<'s> {
    /// An empty net and its input.
    pub(super) fn new(spec: &'s ZooSpec) -> (Net<'s>, Activation) {
        let mut writer = ModelWriter::new(&spec.name, OPSET);
        let [channels, height, width] = spec.input;
        let shape = [BATCH.into(), channels.into(), height.into(), width.into()];
        let mut name = INPUT;
        if spec.bytes {
            writer.input_u8(INPUT, &shape);
            name = "pixels";
            let float = [("to", Attribute::Int(FLOAT))];
            writer.node("Cast", &[INPUT], &[name], &float, name);
        } else {
            writer.input(INPUT, &shape);
        }
        let net = Net { spec, writer, weights: 0, epsilon: 1e-5 };
        (net, Activation { name: name.to_string(), shape: spec.input.to_vec() })
    }

    /// An empty net whose input is integers, [batch, positions].
    pub(super) fn of_integers(spec: &'s ZooSpec, positions: usize) -> Net<'s> {
        let mut writer = ModelWriter::new(&spec.name, OPSET);
        writer.input_i64(INPUT, &[BATCH.into(), positions.into()]);
        Net { spec, writer, weights: 0, epsilon: 1e-5 }
    }

    /// Integers that are no weights: sizes, masks.
    pub(super) fn integers(&mut self, name: &str, shape: &[usize], data: &[i64]) {
        self.writer.initializer_i64(name, shape, data);
    }

    /// Makes [`OUTPUT`] the model's output, of that shape behind the batch.
    pub(super) fn output(&mut self, shape: &[usize]) {
        let sizes = shape.iter().map(|&size| size.into());
        let sizes: Vec<_> = std::iter::once(BATCH.into()).chain(sizes).collect();
        self.writer.output(OUTPUT, &sizes);
    }

    /// The encoded model.
    pub(super) fn finish(self) -> Result<Vec<u8>, ZooError> {
        self.writer.finish().map_err(ZooError::Write)
    }

    fn count(&mut self, shape: &[usize]) -> Result<usize, ZooError> {
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let total = count.and_then(|n| self.weights.checked_add(n));
        match (count, total) {
            (Some(count), Some(total)) if total <= MAX_WEIGHTS => {
                self.weights = total;
                Ok(count)
            }
            _ => Err(ZooError::TooLarge { model: self.spec.name.clone() }),
        }
    }

    /// A weight [outputs, inputs, window...].
    pub(super) fn weight(
        &mut self,
        layer: &str,
        shape: &[usize],
        fan_in: usize,
    ) -> Result<String, ZooError> {
        let count = self.count(shape)?;
        let name = format!("{layer}.weight");
        let data = he_uniform(self.spec.seed, &name, count, fan_in);
        self.writer.initializer_f32(&name, shape, &data);
        Ok(name)
    }

    /// A parameter of one number throughout.
    pub(super) fn vector(
        &mut self,
        name: String,
        length: usize,
        value: f32,
    ) -> Result<String, ZooError> {
        let count = self.count(&[length])?;
        self.writer.initializer_f32(&name, &[length], &vec![value; count]);
        Ok(name)
    }

    fn sides(&self, layer: &str, x: &Activation) -> Result<[usize; 2], ZooError> {
        match x.shape[..] {
            [_, height, width] => Ok([height, width]),
            _ => Err(ZooError::Layer { layer: layer.to_string(), shape: x.shape.clone() }),
        }
    }

    fn slide(&self, layer: &str, x: &Activation, window: Window) -> Result<[usize; 2], ZooError> {
        window
            .apply(self.sides(layer, x)?)
            .ok_or_else(|| ZooError::Layer { layer: layer.to_string(), shape: x.shape.clone() })
    }

    /// Any node, which bears the layer's name; its shape is the caller's word.
    pub(super) fn node(
        &mut self,
        op: &str,
        layer: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute<'_>)],
        shape: Vec<usize>,
    ) -> Activation {
        self.writer.node(op, inputs, &[layer], attributes, layer);
        Activation { name: layer.to_string(), shape }
    }

    /// A convolution without bias.
    pub(super) fn convolution(
        &mut self,
        layer: &str,
        x: &Activation,
        convolution: Convolution,
    ) -> Result<Activation, ZooError> {
        let Convolution { channels, window, groups } = convolution;
        let [height, width] = self.slide(layer, x, window)?;
        let inputs = x.shape[0] / groups;
        let [kernel_height, kernel_width] = window.kernel;
        let area = kernel_height * kernel_width;
        let shape = [channels, inputs, kernel_height, kernel_width];
        let weight = self.weight(layer, &shape, inputs * area)?;
        let (kernel, strides, pads) = attributes(window);
        let attributes = [
            ("kernel_shape", Attribute::Ints(&kernel)),
            ("strides", Attribute::Ints(&strides)),
            ("pads", Attribute::Ints(&pads)),
            ("group", Attribute::Int(groups as i64)),
        ];
        let shape = vec![channels, height, width];
        Ok(self.node("Conv", layer, &[&x.name, &weight], &attributes, shape))
    }

    /// The last layer: a 1x1 convolution with a bias, the model's output.
    pub(super) fn head(
        &mut self,
        layer: &str,
        x: &Activation,
        channels: usize,
    ) -> Result<(), ZooError> {
        let [height, width] = self.sides(layer, x)?;
        let inputs = x.shape[0];
        let weight = self.weight(layer, &[channels, inputs, 1, 1], inputs)?;
        let bias = self.vector(format!("{layer}.bias"), channels, 0.0)?;
        self.writer.node("Conv", &[&x.name, &weight, &bias], &[OUTPUT], &[], layer);
        let shape = [BATCH.into(), channels.into(), height.into(), width.into()];
        self.writer.output(OUTPUT, &shape);
        Ok(())
    }

    /// [`Net::convolution`] in one group.
    pub(super) fn conv(
        &mut self,
        layer: &str,
        x: &Activation,
        channels: usize,
        window: Window,
    ) -> Result<Activation, ZooError> {
        self.convolution(layer, x, Convolution { channels, window, groups: 1 })
    }

    /// A depthwise convolution: one group a channel.
    pub(super) fn depthwise(
        &mut self,
        layer: &str,
        x: &Activation,
        window: Window,
    ) -> Result<Activation, ZooError> {
        let channels = x.shape[0];
        self.convolution(layer, x, Convolution { channels, window, groups: channels })
    }

    /// Batch norm in the form that the spec asks for.
    pub(super) fn batch_norm(
        &mut self,
        layer: &str,
        x: &Activation,
    ) -> Result<Activation, ZooError> {
        let channels = x.shape[0];
        let scale = self.vector(format!("{layer}.weight"), channels, 1.0)?;
        let shift = self.vector(format!("{layer}.bias"), channels, 0.0)?;
        let mean = self.vector(format!("{layer}.running_mean"), channels, 0.0)?;
        let variance = self.vector(format!("{layer}.running_var"), channels, 1.0)?;
        let (new_mean, new_variance) = (format!("{mean}.next"), format!("{variance}.next"));
        let outputs = [layer, &new_mean, &new_variance];
        let mut attributes =
            vec![("epsilon", Attribute::Float(self.epsilon)), ("momentum", Attribute::Float(0.9))];
        let results = if self.spec.training {
            attributes.push(("training_mode", Attribute::Int(1)));
            3
        } else {
            1
        };
        let inputs = [&*x.name, &scale, &shift, &mean, &variance];
        self.writer.node("BatchNormalization", &inputs, &outputs[..results], &attributes, layer);
        Ok(Activation { name: layer.to_string(), shape: x.shape.clone() })
    }

    /// max(x, 0).
    pub(super) fn relu(&mut self, layer: &str, x: &Activation) -> Activation {
        self.node("Relu", layer, &[&x.name], &[], x.shape.clone())
    }

    /// min(max(x, 0), 6).
    pub(super) fn relu6(&mut self, layer: &str, x: &Activation) -> Activation {
        let [low, high] = [("min", 0.0), ("max", 6.0)].map(|(bound, value)| {
            let name = format!("{layer}.{bound}");
            self.writer.initializer_f32(&name, &[], &[value]);
            name
        });
        self.node("Clip", layer, &[&x.name, &low, &high], &[], x.shape.clone())
    }

    fn pool(
        &mut self,
        op: &str,
        layer: &str,
        x: &Activation,
        window: Window,
    ) -> Result<Activation, ZooError> {
        let [height, width] = self.slide(layer, x, window)?;
        let (kernel, strides, pads) = attributes(window);
        let mut attributes = vec![
            ("kernel_shape", Attribute::Ints(&kernel)),
            ("strides", Attribute::Ints(&strides)),
            ("pads", Attribute::Ints(&pads)),
        ];
        if op == "AveragePool" {
            // PyTorch's default: zeros of the padding count.
            attributes.push(("count_include_pad", Attribute::Int(1)));
        }
        Ok(self.node(op, layer, &[&x.name], &attributes, vec![x.shape[0], height, width]))
    }

    /// The largest of each window.
    pub(super) fn max_pool(
        &mut self,
        layer: &str,
        x: &Activation,
        window: Window,
    ) -> Result<Activation, ZooError> {
        self.pool("MaxPool", layer, x, window)
    }

    /// The mean of each window, padding included.
    pub(super) fn average_pool(
        &mut self,
        layer: &str,
        x: &Activation,
        window: Window,
    ) -> Result<Activation, ZooError> {
        self.pool("AveragePool", layer, x, window)
    }

    /// The mean of each channel, [channels, 1, 1].
    pub(super) fn global_average_pool(&mut self, layer: &str, x: &Activation) -> Activation {
        self.node("GlobalAveragePool", layer, &[&x.name], &[], vec![x.shape[0], 1, 1])
    }

    /// All features in one dimension.
    pub(super) fn flatten(&mut self, layer: &str, x: &Activation) -> Activation {
        let shape = vec![x.shape.iter().product()];
        self.node("Flatten", layer, &[&x.name], &[("axis", Attribute::Int(1))], shape)
    }

    fn gemm(
        &mut self,
        layer: &str,
        x: &Activation,
        features: usize,
        bias: bool,
        result: &str,
    ) -> Result<Activation, ZooError> {
        let [inputs] = x.shape[..] else {
            return Err(ZooError::Layer { layer: layer.to_string(), shape: x.shape.clone() });
        };
        let weight = self.weight(layer, &[features, inputs], inputs)?;
        let bias = bias.then(|| self.vector(format!("{layer}.bias"), features, 0.0)).transpose()?;
        let operands: Vec<&str> =
            [Some(&*x.name), Some(&*weight), bias.as_deref()].into_iter().flatten().collect();
        let attributes = [("transB", Attribute::Int(1))];
        self.writer.node("Gemm", &operands, &[result], &attributes, layer);
        Ok(Activation { name: result.to_string(), shape: vec![features] })
    }

    /// A fully connected layer without bias; its weight is [features, inputs].
    pub(super) fn linear(
        &mut self,
        layer: &str,
        x: &Activation,
        features: usize,
    ) -> Result<Activation, ZooError> {
        self.gemm(layer, x, features, false, layer)
    }

    /// The last layer: fully connected to the spec's classes, the model's output.
    pub(super) fn classifier(
        &mut self,
        layer: &str,
        x: &Activation,
        bias: bool,
    ) -> Result<(), ZooError> {
        let classes = self.spec.classes;
        self.gemm(layer, x, classes, bias, OUTPUT)?;
        self.writer.output(OUTPUT, &[BATCH.into(), classes.into()]);
        Ok(())
    }

    /// The sum of two activations of one shape.
    pub(super) fn add(
        &mut self,
        layer: &str,
        x: &Activation,
        y: &Activation,
    ) -> Result<Activation, ZooError> {
        if x.shape != y.shape {
            return Err(ZooError::Layer { layer: layer.to_string(), shape: y.shape.clone() });
        }
        Ok(self.node("Add", layer, &[&x.name, &y.name], &[], x.shape.clone()))
    }

    /// The channels of all operands, one after the other.
    pub(super) fn concat(
        &mut self,
        layer: &str,
        operands: &[Activation],
    ) -> Result<Activation, ZooError> {
        let mut shape = vec![0, 0, 0];
        for (i, x) in operands.iter().enumerate() {
            let sides = self.sides(layer, x)?;
            if i > 0 && shape[1..] != sides {
                return Err(ZooError::Layer { layer: layer.to_string(), shape: x.shape.clone() });
            }
            shape = vec![shape[0] + x.shape[0], sides[0], sides[1]];
        }
        let names: Vec<&str> = operands.iter().map(|x| &*x.name).collect();
        Ok(self.node("Concat", layer, &names, &[("axis", Attribute::Int(1))], shape))
    }
}

/// Kernel, strides and pads as ONNX's attributes.
fn attributes(window: Window) -> ([i64; 2], [i64; 2], [i64; 4]) {
    let [top, left] = window.padding.map(|p| p as i64);
    let behind = window.behind as i64;
    let pads = [top, left, top + behind, left + behind];
    (window.kernel.map(|k| k as i64), [window.stride as i64; 2], pads)
}
