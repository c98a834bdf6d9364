//! VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015) in the
//! form that is common for CIFAR: one fully connected layer. As in NITI's experiments, without biases and batch norm.

use super::net::{Net, Window};
use super::{ZooError, ZooSpec};

/// Channels of the five stages.
const CHANNELS: [usize; 5] = [64, 128, 256, 512, 512];

fn vgg(spec: &ZooSpec, convolutions: [usize; 5]) -> Result<Vec<u8>, ZooError> {
    let (mut net, mut x) = Net::new(spec);
    let mut layer = 0;
    let mut next = || {
        layer += 1;
        format!("features.{}", layer - 1)
    };
    for (channels, count) in CHANNELS.into_iter().zip(convolutions) {
        for _ in 0..count {
            x = net.conv(&next(), &x, channels, Window::square(3).padded())?;
            x = net.relu(&next(), &x);
        }
        x = net.max_pool(&next(), &x, Window::square(2).stride(2))?;
    }
    // 32 pixels leave one element a channel; more are averaged.
    if x.shape[1..] != [1, 1] {
        x = net.global_average_pool("avgpool", &x);
    }
    x = net.flatten("flatten", &x);
    net.classifier("classifier", &x, false)?;
    net.finish()
}

/// Configuration A: 8 convolutions.
pub(super) fn vgg11(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    vgg(spec, [1, 1, 2, 2, 2])
}

/// Configuration D: 13 convolutions.
pub(super) fn vgg16(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    vgg(spec, [2, 2, 3, 3, 3])
}

/// Configuration E: 16 convolutions.
pub(super) fn vgg19(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    vgg(spec, [2, 2, 4, 4, 4])
}
