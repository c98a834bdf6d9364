//! Sizes that a convolution and its two gradients share.

use super::movement::result_shape;
use super::window::{Geometry, Windows};
use crate::ops::TypeError;
use crate::ops::rule::ensure;
use crate::types::Shape;

/// A convolution whose operands fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convolution {
    /// B.
    pub(crate) batch: usize,
    /// Channel groups.
    pub(crate) groups: usize,
    /// Channels of a group of `x`: Cin / groups.
    pub(crate) inputs: usize,
    /// Channels of a group of `y`: Cout / groups.
    pub(crate) outputs: usize,
    /// Windows over the planes of `x`.
    pub(crate) windows: Windows,
}

/// The four dimensions of an operand.
pub(crate) fn rank4(name: &str, what: &str, shape: &Shape) -> Result<[usize; 4], TypeError> {
    <[usize; 4]>::try_from(shape.dims())
        .map_err(|_| TypeError::new(format!("{name}: {what} has rank 4, here {shape}")))
}

/// A number of channels, divided among the groups.
pub(crate) fn per_group(name: &str, channels: usize, groups: usize) -> Result<usize, TypeError> {
    ensure(groups >= 1 && channels >= 1 && channels.is_multiple_of(groups), || {
        format!("{name}: {channels} channel(s) do not divide into {groups} group(s)")
    })?;
    Ok(channels / groups)
}

impl Convolution {
    /// Checks `x` [B,Cin,H,W] against `w` [Cout,Cin/groups,KH,KW], whose last axes give the kernel.
    pub(crate) fn new(
        name: &str,
        geometry: &Geometry,
        groups: usize,
        x: [usize; 4],
        w: [usize; 4],
    ) -> Result<Convolution, TypeError> {
        let inputs = per_group(name, x[1], groups)?;
        let outputs = per_group(name, w[0], groups)?;
        ensure(inputs == w[1], || {
            format!(
                "{name}: {} channels in {groups} group(s) need weights of {inputs} channels, here {}",
                x[1], w[1]
            )
        })?;
        let windows = Windows::new(name, geometry, [x[2], x[3]])?;
        let convolution = Convolution { batch: x[0], groups, inputs, outputs, windows };
        for shape in [convolution.x(), convolution.w(), convolution.y()] {
            result_shape(name, shape.to_vec())?;
        }
        Ok(convolution)
    }

    /// Shape of the operand.
    pub(crate) fn x(&self) -> [usize; 4] {
        let Windows { vertical, horizontal } = self.windows;
        [self.batch, self.groups * self.inputs, vertical.input, horizontal.input]
    }

    /// Shape of the weight.
    pub(crate) fn w(&self) -> [usize; 4] {
        let Windows { vertical, horizontal } = self.windows;
        [self.groups * self.outputs, self.inputs, vertical.kernel, horizontal.kernel]
    }

    /// Shape of the result.
    pub(crate) fn y(&self) -> [usize; 4] {
        let Windows { vertical, horizontal } = self.windows;
        [self.batch, self.groups * self.outputs, vertical.output, horizontal.output]
    }

    /// Refuses an error whose shape is not the result's.
    pub(crate) fn fits_error(&self, name: &str, error: &Shape) -> Result<(), TypeError> {
        let y = Shape::from(self.y());
        ensure(*error == y, || {
            format!("{name}: the convolution's result is {y}, the error {error}")
        })
    }
}
