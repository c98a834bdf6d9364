//! MobileNetV2 (Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018), without
//! dropout.

use super::net::{Activation, Convolution, Net, Window};
use super::{SMALL_SIDE, ZooError, ZooSpec};

/// Expansion, channels, repetitions, stride of the first: the paper's Table 2.
const STAGES: [(usize, usize, usize, usize); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

/// Convolution, batch norm, ReLU6.
fn unit(
    net: &mut Net<'_>,
    name: &str,
    x: &Activation,
    convolution: Convolution,
) -> Result<Activation, ZooError> {
    let x = net.convolution(&format!("{name}.0"), x, convolution)?;
    let x = net.batch_norm(&format!("{name}.1"), &x)?;
    Ok(net.relu6(&format!("{name}.2"), &x))
}

fn inverted_residual(
    net: &mut Net<'_>,
    name: &str,
    x: &Activation,
    (expansion, channels, stride): (usize, usize, usize),
) -> Result<Activation, ZooError> {
    let inputs = x.shape[0];
    let hidden = inputs * expansion;
    let pointwise = |channels| Convolution { channels, window: Window::square(1), groups: 1 };
    let mut part = 0;
    let mut next = || {
        part += 1;
        format!("{name}.conv.{}", part - 1)
    };
    let mut y = x.clone();
    if expansion != 1 {
        y = unit(net, &next(), &y, pointwise(hidden))?;
    }
    let window = Window::square(3).padded().stride(stride);
    y = unit(net, &next(), &y, Convolution { channels: hidden, window, groups: hidden })?;
    y = net.convolution(&next(), &y, pointwise(channels))?;
    y = net.batch_norm(&next(), &y)?;
    if stride == 1 && inputs == channels {
        y = net.add(&format!("{name}.add"), x, &y)?;
    }
    Ok(y)
}

/// The net. Small images are halved three times and not five: the stem and the second stage keep the size.
pub(super) fn mobilenet_v2(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, x) = Net::new(spec);
    let small = spec.input[1].max(spec.input[2]) <= SMALL_SIDE;
    let window = Window::square(3).padded().stride(if small { 1 } else { 2 });
    let stem = Convolution { channels: spec.width.of(32), window, groups: 1 };
    let mut x = unit(&mut net, "features.0", &x, stem)?;
    let mut index = 0;
    for (stage, (expansion, channels, repetitions, first)) in STAGES.into_iter().enumerate() {
        let channels = spec.width.of(channels);
        let first = if small && stage == 1 { 1 } else { first };
        for repetition in 0..repetitions {
            let stride = if repetition == 0 { first } else { 1 };
            index += 1;
            let name = format!("features.{index}");
            x = inverted_residual(&mut net, &name, &x, (expansion, channels, stride))?;
        }
    }
    // Section 3: a width below 1 leaves the last convolution as it is.
    let channels = spec.width.of_last(1280);
    let last = Convolution { channels, window: Window::square(1), groups: 1 };
    x = unit(&mut net, &format!("features.{}", index + 1), &x, last)?;
    x = net.global_average_pool("avgpool", &x);
    x = net.flatten("flatten", &x);
    net.classifier("classifier.1", &x, true)?;
    net.finish()
}
