//! Residual nets (He, Zhang, Ren, Sun: "Deep residual learning for image recognition", 2016) of basic blocks, with
//! 1x1 projections where the shape changes.

use super::net::{Activation, Net, Window};
use super::{SMALL_SIDE, ZooError, ZooSpec};

/// What comes before the first block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stem {
    /// A 3x3 convolution, as is common for CIFAR.
    Small,
    /// A 7x7 convolution and a maximum, each of stride 2, as for ImageNet.
    Large,
}

fn block(
    net: &mut Net<'_>,
    name: &str,
    x: &Activation,
    channels: usize,
    stride: usize,
) -> Result<Activation, ZooError> {
    let layer = |part: &str| format!("{name}.{part}");
    let window = Window::square(3).padded();
    let y = net.conv(&layer("conv1"), x, channels, window.stride(stride))?;
    let y = net.batch_norm(&layer("bn1"), &y)?;
    let y = net.relu(&layer("relu1"), &y);
    let y = net.conv(&layer("conv2"), &y, channels, window)?;
    let y = net.batch_norm(&layer("bn2"), &y)?;
    let sum = if stride != 1 || x.shape[0] != channels {
        let window = Window::square(1).stride(stride);
        let shortcut = net.conv(&layer("downsample.0"), x, channels, window)?;
        let shortcut = net.batch_norm(&layer("downsample.1"), &shortcut)?;
        net.add(&layer("add"), &y, &shortcut)?
    } else {
        net.add(&layer("add"), &y, x)?
    };
    Ok(net.relu(&layer("relu2"), &sum))
}

/// `stages` are channels and number of blocks; all but the first halve the size.
fn resnet(spec: &ZooSpec, stem: Stem, stages: &[(usize, usize)]) -> Result<Vec<u8>, ZooError> {
    let (mut net, mut x) = Net::new(spec);
    let window = match stem {
        Stem::Small => Window::square(3).padded(),
        Stem::Large => Window::square(7).padded().stride(2),
    };
    let first = stages.first().map_or(0, |stage| stage.0);
    x = net.conv("conv1", &x, first, window)?;
    x = net.batch_norm("bn1", &x)?;
    x = net.relu("relu", &x);
    if stem == Stem::Large {
        x = net.max_pool("maxpool", &x, Window::square(3).padded().stride(2))?;
    }
    for (stage, &(channels, blocks)) in stages.iter().enumerate() {
        for index in 0..blocks {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            x = block(&mut net, &format!("layer{}.{index}", stage + 1), &x, channels, stride)?;
        }
    }
    x = net.global_average_pool("avgpool", &x);
    x = net.flatten("flatten", &x);
    net.classifier("fc", &x, true)?;
    net.finish()
}

fn stem(spec: &ZooSpec) -> Stem {
    let [_, height, width] = spec.input;
    if height.max(width) <= SMALL_SIDE { Stem::Small } else { Stem::Large }
}

/// Two blocks a stage.
pub(super) fn resnet18(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    resnet(spec, stem(spec), &[(64, 2), (128, 2), (256, 2), (512, 2)])
}

/// 3, 4, 6 and 3 blocks.
pub(super) fn resnet34(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    resnet(spec, stem(spec), &[(64, 3), (128, 4), (256, 6), (512, 3)])
}

/// The size of MLPerf Tiny's image classification: three blocks of 16, 32 and 64 channels.
pub(super) fn resnet8(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    resnet(spec, Stem::Small, &[(16, 1), (32, 1), (64, 1)])
}

/// ResNet-38 of section 4.2: 6 blocks a stage.
pub(super) fn resnet38(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    resnet(spec, Stem::Small, &[(16, 6), (32, 6), (64, 6)])
}

/// ResNet-74 of section 4.2: 12 blocks a stage.
pub(super) fn resnet74(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    resnet(spec, Stem::Small, &[(16, 12), (32, 12), (64, 12)])
}

/// The smallest net with both kinds of shortcut.
pub(super) fn residual(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    resnet(spec, Stem::Small, &[(8, 1), (16, 1)])
}
