//! Binary networks: AlexNet, VGG-16 and YOLOv2-Tiny as PhoneBit (Chen et al., DATE 2020) runs them, and a LeNet. Made for `bnn-ste`: each product
//! but the last is followed by batch norm and by the ReLU in whose place the algorithm has a hard tanh and a sign; maxima are
//! taken before the norm (Courbariaux et al., 2016), so that a gain's sign does not matter. The first layer takes the image as
//! it is, the last has FP32 weights and a bias.

use super::boxes::ANCHORS;
use super::net::{Activation, Net, Window};
use super::{SMALL_SIDE, ZooError, ZooSpec};

/// Features of the fully connected layers: as published, and of images of at most [`SMALL_SIDE`] pixels.
const FEATURES: [usize; 2] = [4096, 512];

/// Numbers layers as PyTorch's `Sequential` does.
struct Sequence<'n> {
    name: &'n str,
    layers: usize,
}

impl Sequence<'_> {
    fn next(&mut self) -> String {
        self.layers += 1;
        format!("{}.{}", self.name, self.layers - 1)
    }
}

fn normalized(
    net: &mut Net<'_>,
    sequence: &mut Sequence<'_>,
    x: &Activation,
) -> Result<Activation, ZooError> {
    let x = net.batch_norm(&sequence.next(), x)?;
    Ok(net.relu(&sequence.next(), &x))
}

/// A convolution, its maxima, batch norm and ReLU.
fn layer(
    net: &mut Net<'_>,
    sequence: &mut Sequence<'_>,
    x: &Activation,
    channels: usize,
    windows: [Option<Window>; 2],
) -> Result<Activation, ZooError> {
    let [window, pool] = windows;
    let window = window.unwrap_or(Window::square(3).padded());
    let mut x = net.conv(&sequence.next(), x, channels, window)?;
    if let Some(pool) = pool {
        x = net.max_pool(&sequence.next(), &x, pool)?;
    }
    normalized(net, sequence, &x)
}

/// Two fully connected layers and the classes.
fn classified(mut net: Net<'_>, spec: &ZooSpec, x: &Activation) -> Result<Vec<u8>, ZooError> {
    let [_, height, width] = spec.input;
    let features = FEATURES[usize::from(height.max(width) <= SMALL_SIDE)];
    let mut x = net.flatten("flatten", x);
    let mut sequence = Sequence { name: "classifier", layers: 0 };
    for _ in 0..2 {
        x = net.linear(&sequence.next(), &x, features)?;
        x = normalized(&mut net, &mut sequence, &x)?;
    }
    net.classifier(&sequence.next(), &x, true)?;
    net.finish()
}

/// LeNet with 32 and 64 channels and 512 features: whole words of bits.
pub(super) fn lenet(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, mut x) = Net::new(spec);
    let mut sequence = Sequence { name: "features", layers: 0 };
    let windows = [Some(Window::square(5)), Some(Window::square(2).stride(2))];
    for channels in [32, 64] {
        x = layer(&mut net, &mut sequence, &x, channels, windows)?;
    }
    x = net.flatten("flatten", &x);
    let mut sequence = Sequence { name: "classifier", layers: 0 };
    x = net.linear(&sequence.next(), &x, 512)?;
    x = normalized(&mut net, &mut sequence, &x)?;
    net.classifier(&sequence.next(), &x, true)?;
    net.finish()
}

/// AlexNet (Krizhevsky, Sutskever, Hinton, 2012) in one tower, without groups.
pub(super) fn alexnet(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, mut x) = Net::new(spec);
    let mut sequence = Sequence { name: "features", layers: 0 };
    let pool = Some(Window::square(3).stride(2));
    for (channels, window, pool) in [
        (96, Some(Window::square(11).stride(4).padding([2, 2])), pool),
        (256, Some(Window::square(5).padded()), pool),
        (384, None, None),
        (384, None, None),
        (256, None, pool),
    ] {
        x = layer(&mut net, &mut sequence, &x, channels, [window, pool])?;
    }
    classified(net, spec, &x)
}

/// VGG-16: configuration D.
pub(super) fn vgg16(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, mut x) = Net::new(spec);
    let mut sequence = Sequence { name: "features", layers: 0 };
    for (channels, count) in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)] {
        for at in 1..=count {
            let pool = (at == count).then_some(Window::square(2).stride(2));
            x = layer(&mut net, &mut sequence, &x, channels, [None, pool])?;
        }
    }
    classified(net, spec, &x)
}

/// YOLOv2-Tiny (Redmon, Farhadi: "YOLO9000", 2017; darknet's yolov2-tiny-voc). The output has for each of five anchors x, y, width,
/// height, objectness and a score a class, [batch, 5 * (5 + classes), height / 32, width / 32].
pub(super) fn yolov2_tiny(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, mut x) = Net::new(spec);
    let mut sequence = Sequence { name: "features", layers: 0 };
    let half = Window::square(2).stride(2);
    for (channels, pool) in [
        (16, Some(half)),
        (32, Some(half)),
        (64, Some(half)),
        (128, Some(half)),
        (256, Some(half)),
        // At stride 1, with a row and a column of padding behind: the map keeps its size.
        (512, Some(Window::square(2).behind())),
        (1024, None),
        (1024, None),
    ] {
        x = layer(&mut net, &mut sequence, &x, channels, [None, pool])?;
    }
    net.head(&sequence.next(), &x, ANCHORS.len() * (5 + spec.classes))?;
    net.finish()
}
