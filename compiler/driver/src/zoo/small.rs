//! Small plain nets. As in NITI's experiments they have neither biases nor batch norm.

use super::net::{Activation, Net, Window};
use super::{ZooError, ZooSpec};

/// Three fully connected layers of 128, 64 and `classes`.
pub(super) fn mlp(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, x) = Net::new(spec);
    let x = net.flatten("flatten", &x);
    let x = net.linear("fc1", &x, 128)?;
    let x = net.relu("relu1", &x);
    let x = net.linear("fc2", &x, 64)?;
    let x = net.relu("relu2", &x);
    net.classifier("fc3", &x, false)?;
    net.finish()
}

/// Convolution `conv<i>`, ReLU and a 2x2 maximum.
fn stage(
    net: &mut Net<'_>,
    index: usize,
    x: &Activation,
    channels: usize,
    window: Window,
) -> Result<Activation, ZooError> {
    let x = net.conv(&format!("conv{index}"), x, channels, window)?;
    let x = net.relu(&format!("relu{index}"), &x);
    net.max_pool(&format!("pool{index}"), &x, Window::square(2).stride(2))
}

/// The small net of the quick start.
pub(super) fn digits(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, x) = Net::new(spec);
    let x = stage(&mut net, 1, &x, 16, Window::square(3).padded())?;
    let x = stage(&mut net, 2, &x, 32, Window::square(3).padded())?;
    let x = net.flatten("flatten", &x);
    let x = net.linear("fc1", &x, 128)?;
    let x = net.relu("relu3", &x);
    net.classifier("fc2", &x, false)?;
    net.finish()
}

/// LeNet-5 (LeCun, Bottou, Bengio, Haffner: "Gradient-based learning applied to document recognition", 1998) with
/// ReLU and maxima. Images under 32 pixels are padded by two in the first convolution, as 28 pixels were to 32.
pub(super) fn lenet5(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, x) = Net::new(spec);
    let [_, height, width] = spec.input;
    let padding = [height, width].map(|side| if side < 32 { 2 } else { 0 });
    let x = stage(&mut net, 1, &x, 6, Window::square(5).padding(padding))?;
    let x = stage(&mut net, 2, &x, 16, Window::square(5))?;
    let x = net.flatten("flatten", &x);
    let x = net.linear("fc1", &x, 120)?;
    let x = net.relu("relu3", &x);
    let x = net.linear("fc2", &x, 84)?;
    let x = net.relu("relu4", &x);
    net.classifier("fc3", &x, false)?;
    net.finish()
}

/// The LeNet of NITI's experiments: 20 and 50 channels, 500 features.
pub(super) fn lenet_20_50(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, x) = Net::new(spec);
    let x = stage(&mut net, 1, &x, 20, Window::square(5))?;
    let x = stage(&mut net, 2, &x, 50, Window::square(5))?;
    let x = net.flatten("flatten", &x);
    let x = net.linear("fc1", &x, 500)?;
    let x = net.relu("relu3", &x);
    net.classifier("fc2", &x, false)?;
    net.finish()
}

/// Depthwise-separable convolutions (Howard et al., "MobileNets", 2017) in small: a stem of 16 channels, then
/// separable layers to 32 and, at half the size, 64 channels.
pub(super) fn depthwise(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, x) = Net::new(spec);
    let x = net.conv("stem.conv", &x, 16, Window::square(3).padded())?;
    let mut x = net.relu("stem.relu", &x);
    for (index, (channels, stride)) in [(32, 1), (64, 2)].into_iter().enumerate() {
        let window = Window::square(3).padded().stride(stride);
        let block = format!("blocks.{index}");
        x = net.depthwise(&format!("{block}.depthwise"), &x, window)?;
        x = net.relu(&format!("{block}.relu1"), &x);
        x = net.conv(&format!("{block}.pointwise"), &x, channels, Window::square(1))?;
        x = net.relu(&format!("{block}.relu2"), &x);
    }
    let x = net.global_average_pool("avgpool", &x);
    let x = net.flatten("flatten", &x);
    net.classifier("fc", &x, false)?;
    net.finish()
}
