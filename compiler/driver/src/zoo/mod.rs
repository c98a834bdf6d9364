//! The project's reference models: well-known nets, written as ONNX with fresh weights.
//!
//! A model has one input `input` [batch, channels, height, width] and one output `logits` [batch, classes] (a map of boxes where
//! `binary.rs` says so), batch being open; `language` integers [batch, width] and scores [batch, classes, width]. Weights are drawn as
//! `initial` says; biases and shifts are 0, scales 1, running means 0 and
//! variances 1. A convolution has no bias; a fully connected layer has one only where the table says so.
//! The same [`ZooSpec`] gives the same bytes on every machine.

mod binary;
mod boxes;
mod inception;
mod initial;
mod mobilenet;
mod net;
mod resnet;
mod small;
mod transformer;
mod vgg;
mod width;

#[cfg(test)]
mod tests;

use trainc_onnx_import::write::WriteError;

pub use boxes::{ANCHORS, Found, boxes};
pub use net::{INPUT, MAX_WEIGHTS, OPSET, OUTPUT};
pub use width::Width;

/// Largest height and width for which nets that were made for ImageNet take their form for small images.
pub const SMALL_SIDE: usize = 64;
/// Most channels, largest height and width, and most classes.
pub const MAX_DIMENSION: usize = 1 << 16;

/// Models with a width multiplier.
pub const WITH_WIDTHS: &[&str] = &["mobilenetv2"];

/// Which model to build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZooSpec {
    /// One of [`names`].
    pub name: String,
    /// Channels, height and width of an image.
    pub input: [usize; 3],
    /// Number of classes.
    pub classes: usize,
    /// Seed of the weights.
    pub seed: u64,
    /// Whether batch norm is in training form (statistics of the batch, running ones as results).
    pub training: bool,
    /// Whether the input is an image's bytes (UINT8), which the model takes as 0 to 255.
    pub bytes: bool,
    /// Factor of the channels; other than 1 for [`WITH_WIDTHS`] alone.
    pub width: Width,
}

impl ZooSpec {
    /// A model with its usual input and classes, seed 0, in training form.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn new(name: &str) -> Result<ZooSpec, ZooError> {
        let model = find(name)?;
        Ok(ZooSpec {
            name: model.name.to_string(),
            input: model.input,
            classes: model.classes,
            seed: 0,
            training: true,
            bytes: false,
            width: Width::ONE,
        })
    }
}

/// Why a model cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZooError {
    /// No model of that name.
    #[error("there is no model `{0}`; there are {all}", all = NAMES.join(", "))]
    Unknown(String),
    /// The image is smaller than the model's layers need.
    #[error(
        "{model} needs images of at least {s}x{s}, not {h}x{w}",
        s = smallest, h = input[1], w = input[2]
    )]
    InputTooSmall {
        /// The model.
        model: String,
        /// The image asked for.
        input: [usize; 3],
        /// Smallest height and width.
        smallest: usize,
    },
    /// A dimension of the image or the number of classes is 0 or beyond [`MAX_DIMENSION`].
    #[error("{what} must be from 1 to {MAX_DIMENSION}, not {given}")]
    Dimension {
        /// Which.
        what: &'static str,
        /// What was asked for.
        given: usize,
    },
    /// The model has no published form of another width.
    #[error("`{model}` has one width; --width is for {all}", all = WITH_WIDTHS.join(", "))]
    Width {
        /// The model.
        model: String,
    },
    /// The model would have more than [`MAX_WEIGHTS`] weights.
    #[error("{model} of that input and number of classes would have over {MAX_WEIGHTS} weights")]
    TooLarge {
        /// The model.
        model: String,
    },
    /// A layer does not fit its operand.
    #[error("layer `{layer}` does not fit an operand of shape {shape:?}")]
    Layer {
        /// The layer.
        layer: String,
        /// The operand's shape, without the batch.
        shape: Vec<usize>,
    },
    /// The ONNX file could not be made.
    #[error(transparent)]
    Write(WriteError),
}

/// A model of the zoo.
#[derive(Clone, Copy, Debug)]
pub struct ZooModel {
    /// Name.
    pub name: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// Usual input: channels, height, width.
    pub input: [usize; 3],
    /// Smallest height and width.
    pub smallest: usize,
    /// Usual number of classes.
    pub classes: usize,
    /// Trained parameters (no running statistics) for the usual input and classes.
    pub parameters: usize,
    build: fn(&ZooSpec) -> Result<Vec<u8>, ZooError>,
}

/// Declares the table and its names, which an error message lists.
macro_rules! table {
    (
        $($name:literal: $description:literal,
            $input:expr, $smallest:literal, $classes:literal, $parameters:literal, $build:path;)*
    ) => {
        const NAMES: &[&str] = &[$($name),*];
        static TABLE: &[ZooModel] = &[$(ZooModel {
            name: $name,
            description: $description,
            input: $input,
            smallest: $smallest,
            classes: $classes,
            parameters: $parameters,
            build: $build,
        }),*];
    };
}

table! {
    "digits": "two 3x3 convolutions and two fully connected layers, the net of the quick start",
        [1, 8, 8], 4, 10, 22_416, small::digits;
    "mlp": "three fully connected layers: 128, 64 and the classes",
        [1, 28, 28], 1, 10, 109_184, small::mlp;
    "lenet5": "LeNet-5 with ReLU and max pooling, without biases",
        [1, 28, 28], 12, 10, 61_470, small::lenet5;
    "lenet20-50": "LeNet of NITI's experiments: 20 and 50 channels, 500 features, without biases",
        [1, 28, 28], 16, 10, 430_500, small::lenet_20_50;
    "vgg11": "VGG-11, one fully connected layer, without biases and batch norm",
        [3, 32, 32], 32, 10, 9_222_848, vgg::vgg11;
    "vgg16": "VGG-16, one fully connected layer, without biases and batch norm",
        [3, 32, 32], 32, 10, 14_715_584, vgg::vgg16;
    "vgg19": "VGG-19, one fully connected layer, without biases and batch norm",
        [3, 32, 32], 32, 10, 20_024_000, vgg::vgg19;
    "resnet8": "residual net of three blocks (16, 32, 64 channels) with batch norm, the size of MLPerf Tiny's",
        [3, 32, 32], 1, 10, 78_042, resnet::resnet8;
    "resnet38": "ResNet-38 for small images: 18 blocks of 16, 32 and 64 channels with batch norm",
        [3, 32, 32], 1, 10, 564_122, resnet::resnet38;
    "resnet74": "ResNet-74 for small images: 36 blocks of 16, 32 and 64 channels with batch norm",
        [3, 32, 32], 1, 10, 1_147_418, resnet::resnet74;
    "resnet18": "ResNet-18 with batch norm; up to 64 pixels with the small stem (3x3, no pooling)",
        [3, 32, 32], 1, 10, 11_173_962, resnet::resnet18;
    "resnet34": "ResNet-34 with batch norm; up to 64 pixels with the small stem (3x3, no pooling)",
        [3, 32, 32], 1, 10, 21_282_122, resnet::resnet34;
    "residual": "the smallest residual net with batch norm: two blocks, identity and projection",
        [1, 8, 8], 1, 10, 5_122, resnet::residual;
    "depthwise": "two depthwise-separable layers, without biases and batch norm",
        [1, 8, 8], 1, 10, 3_776, small::depthwise;
    "mobilenetv2": "MobileNetV2 with batch norm and ReLU6; up to 64 pixels it halves three times, not five",
        [3, 32, 32], 1, 10, 2_236_682, mobilenet::mobilenet_v2;
    "inceptionv3": "InceptionV3 with batch norm, without the auxiliary classifier",
        [3, 299, 299], 75, 10, 21_806_058, inception::inception_v3;
    "encoder": "transformer encoder of two blocks over an image's rows",
        [1, 8, 8], 1, 10, 18_026, transformer::encoder;
    "language": "causal transformer of two blocks: scores of the next byte at each position of a text",
        [1, 1, 32], 1, 256, 34_816, transformer::language;
    "lenet-binary": "LeNet of 32 and 64 channels and 512 features for bnn-ste: batch norm and a sign behind each layer but the last",
        [1, 28, 28], 16, 10, 582_634, binary::lenet;
    "alexnet-binary": "AlexNet in one tower for bnn-ste, as lenet-binary",
        [3, 224, 224], 63, 1000, 62_387_912, binary::alexnet;
    "vgg16-binary": "VGG-16 with three fully connected layers for bnn-ste, as lenet-binary",
        [3, 224, 224], 32, 1000, 138_369_960, binary::vgg16;
    "yolov2-tiny-binary": "YOLOv2-Tiny for bnn-ste: five boxes a cell of a map of 1/32 of the image",
        [3, 416, 416], 32, 20, 15_861_773, binary::yolov2_tiny;
}

/// The models, small ones first.
pub fn names() -> &'static [ZooModel] {
    TABLE
}

/// The model of that name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static ZooModel, ZooError> {
    TABLE.iter().find(|m| m.name == name).ok_or_else(|| ZooError::Unknown(name.to_string()))
}

/// Builds a model: the bytes of an ONNX file.
///
/// # Errors
/// If there is no such model, the image is too small for it, a dimension is out of range, or it has no such width.
pub fn build(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let model = find(&spec.name)?;
    let [channels, height, width] = spec.input;
    for (what, given) in [
        ("the number of channels", channels),
        ("the height", height),
        ("the width", width),
        ("the number of classes", spec.classes),
    ] {
        if !(1..=MAX_DIMENSION).contains(&given) {
            return Err(ZooError::Dimension { what, given });
        }
    }
    if spec.width != Width::ONE && !WITH_WIDTHS.contains(&model.name) {
        return Err(ZooError::Width { model: spec.name.clone() });
    }
    if height.min(width) < model.smallest {
        return Err(ZooError::InputTooSmall {
            model: spec.name.clone(),
            input: spec.input,
            smallest: model.smallest,
        });
    }
    (model.build)(spec)
}
