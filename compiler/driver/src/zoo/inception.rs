//! InceptionV3 (Szegedy et al., "Rethinking the Inception architecture for computer vision", 2016) with the layers
//! and names of torchvision, without the auxiliary classifier and dropout.

use super::net::{Activation, Net, Window};
use super::{ZooError, ZooSpec};

/// A chain of convolutions: layer, channels, window.
type Chain<'a> = &'a [(&'a str, usize, Window)];

fn square(side: usize) -> Window {
    Window::square(side)
}

/// A window of `height` by `width` that keeps the size.
fn keep(height: usize, width: usize) -> Window {
    Window::rectangle(height, width).padded()
}

/// Convolution, batch norm, ReLU.
fn unit(
    net: &mut Net<'_>,
    name: &str,
    x: &Activation,
    channels: usize,
    window: Window,
) -> Result<Activation, ZooError> {
    let x = net.conv(&format!("{name}.conv"), x, channels, window)?;
    let x = net.batch_norm(&format!("{name}.bn"), &x)?;
    Ok(net.relu(&format!("{name}.relu"), &x))
}

/// One Inception block: named branches over one operand.
struct Block<'n, 's, 'b> {
    net: &'n mut Net<'s>,
    name: &'b str,
    x: &'b Activation,
    branches: Vec<Activation>,
}

impl<'n, 's, 'b> Block<'n, 's, 'b> {
    fn new(net: &'n mut Net<'s>, name: &'b str, x: &'b Activation) -> Self {
        Block { net, name, x, branches: Vec::new() }
    }

    fn layer(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    fn apply(&mut self, chain: Chain<'_>, x: &Activation) -> Result<Activation, ZooError> {
        let mut x = x.clone();
        for &(part, channels, window) in chain {
            let name = self.layer(part);
            x = unit(self.net, &name, &x, channels, window)?;
        }
        Ok(x)
    }

    /// Adds a chain of convolutions of the operand.
    fn chain(&mut self, chain: Chain<'_>) -> Result<(), ZooError> {
        let y = self.apply(chain, self.x)?;
        self.branches.push(y);
        Ok(())
    }

    /// Adds a chain that ends in two convolutions side by side.
    fn fork(&mut self, chain: Chain<'_>, ends: [(&str, usize, Window); 2]) -> Result<(), ZooError> {
        let y = self.apply(chain, self.x)?;
        for end in ends {
            let y = self.apply(&[end], &y)?;
            self.branches.push(y);
        }
        Ok(())
    }

    /// Adds averages of 3x3 and a 1x1 convolution.
    fn average(&mut self, channels: usize) -> Result<(), ZooError> {
        let pool = self.layer("avg_pool");
        let y = self.net.average_pool(&pool, self.x, square(3).padded())?;
        let y = self.apply(&[("branch_pool", channels, square(1))], &y)?;
        self.branches.push(y);
        Ok(())
    }

    /// Adds maxima of 3x3 at half the size.
    fn maximum(&mut self) -> Result<(), ZooError> {
        let pool = self.layer("max_pool");
        let y = self.net.max_pool(&pool, self.x, square(3).stride(2))?;
        self.branches.push(y);
        Ok(())
    }

    fn concat(self) -> Result<Activation, ZooError> {
        self.net.concat(&format!("{}.concat", self.name), &self.branches)
    }
}

/// Blocks at an eighth of the size (torchvision's InceptionA).
fn block_a(
    net: &mut Net<'_>,
    name: &str,
    x: &Activation,
    pool: usize,
) -> Result<Activation, ZooError> {
    let mut block = Block::new(net, name, x);
    block.chain(&[("branch1x1", 64, square(1))])?;
    block.chain(&[("branch5x5_1", 48, square(1)), ("branch5x5_2", 64, keep(5, 5))])?;
    block.chain(&[
        ("branch3x3dbl_1", 64, square(1)),
        ("branch3x3dbl_2", 96, keep(3, 3)),
        ("branch3x3dbl_3", 96, keep(3, 3)),
    ])?;
    block.average(pool)?;
    block.concat()
}

/// Halves the size (InceptionB).
fn block_b(net: &mut Net<'_>, name: &str, x: &Activation) -> Result<Activation, ZooError> {
    let mut block = Block::new(net, name, x);
    block.chain(&[("branch3x3", 384, square(3).stride(2))])?;
    block.chain(&[
        ("branch3x3dbl_1", 64, square(1)),
        ("branch3x3dbl_2", 96, keep(3, 3)),
        ("branch3x3dbl_3", 96, square(3).stride(2)),
    ])?;
    block.maximum()?;
    block.concat()
}

/// Blocks of 7x1 and 1x7 windows (InceptionC); `inner` is the width of the chains.
fn block_c(
    net: &mut Net<'_>,
    name: &str,
    x: &Activation,
    inner: usize,
) -> Result<Activation, ZooError> {
    let mut block = Block::new(net, name, x);
    block.chain(&[("branch1x1", 192, square(1))])?;
    block.chain(&[
        ("branch7x7_1", inner, square(1)),
        ("branch7x7_2", inner, keep(1, 7)),
        ("branch7x7_3", 192, keep(7, 1)),
    ])?;
    block.chain(&[
        ("branch7x7dbl_1", inner, square(1)),
        ("branch7x7dbl_2", inner, keep(7, 1)),
        ("branch7x7dbl_3", inner, keep(1, 7)),
        ("branch7x7dbl_4", inner, keep(7, 1)),
        ("branch7x7dbl_5", 192, keep(1, 7)),
    ])?;
    block.average(192)?;
    block.concat()
}

/// Halves the size again (InceptionD).
fn block_d(net: &mut Net<'_>, name: &str, x: &Activation) -> Result<Activation, ZooError> {
    let mut block = Block::new(net, name, x);
    block.chain(&[("branch3x3_1", 192, square(1)), ("branch3x3_2", 320, square(3).stride(2))])?;
    block.chain(&[
        ("branch7x7x3_1", 192, square(1)),
        ("branch7x7x3_2", 192, keep(1, 7)),
        ("branch7x7x3_3", 192, keep(7, 1)),
        ("branch7x7x3_4", 192, square(3).stride(2)),
    ])?;
    block.maximum()?;
    block.concat()
}

/// The widest blocks (InceptionE).
fn block_e(net: &mut Net<'_>, name: &str, x: &Activation) -> Result<Activation, ZooError> {
    let mut block = Block::new(net, name, x);
    block.chain(&[("branch1x1", 320, square(1))])?;
    block.fork(
        &[("branch3x3_1", 384, square(1))],
        [("branch3x3_2a", 384, keep(1, 3)), ("branch3x3_2b", 384, keep(3, 1))],
    )?;
    block.fork(
        &[("branch3x3dbl_1", 448, square(1)), ("branch3x3dbl_2", 384, keep(3, 3))],
        [("branch3x3dbl_3a", 384, keep(1, 3)), ("branch3x3dbl_3b", 384, keep(3, 1))],
    )?;
    block.average(192)?;
    block.concat()
}

/// The net.
pub(super) fn inception_v3(spec: &ZooSpec) -> Result<Vec<u8>, ZooError> {
    let (mut net, x) = Net::new(spec);
    net.epsilon = 0.001;
    let x = unit(&mut net, "Conv2d_1a_3x3", &x, 32, square(3).stride(2))?;
    let x = unit(&mut net, "Conv2d_2a_3x3", &x, 32, square(3))?;
    let x = unit(&mut net, "Conv2d_2b_3x3", &x, 64, keep(3, 3))?;
    let x = net.max_pool("maxpool1", &x, square(3).stride(2))?;
    let x = unit(&mut net, "Conv2d_3b_1x1", &x, 80, square(1))?;
    let x = unit(&mut net, "Conv2d_4a_3x3", &x, 192, square(3))?;
    let x = net.max_pool("maxpool2", &x, square(3).stride(2))?;
    let x = block_a(&mut net, "Mixed_5b", &x, 32)?;
    let x = block_a(&mut net, "Mixed_5c", &x, 64)?;
    let x = block_a(&mut net, "Mixed_5d", &x, 64)?;
    let x = block_b(&mut net, "Mixed_6a", &x)?;
    let x = block_c(&mut net, "Mixed_6b", &x, 128)?;
    let x = block_c(&mut net, "Mixed_6c", &x, 160)?;
    let x = block_c(&mut net, "Mixed_6d", &x, 160)?;
    let x = block_c(&mut net, "Mixed_6e", &x, 192)?;
    let x = block_d(&mut net, "Mixed_7a", &x)?;
    let x = block_e(&mut net, "Mixed_7b", &x)?;
    let x = block_e(&mut net, "Mixed_7c", &x)?;
    let x = net.global_average_pool("avgpool", &x);
    let x = net.flatten("flatten", &x);
    net.classifier("fc", &x, true)?;
    net.finish()
}
