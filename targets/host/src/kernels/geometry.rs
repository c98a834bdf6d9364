//! Shapes of the products.

/// Which product of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The result.
    Forward,
    /// The gradient of the input.
    InputGradient,
    /// The gradient of the weights.
    WeightGradient,
}

/// The shape of a two-dimensional convolution, forward or backward.
///
/// Activations are NCHW, weights OIHW (`I` counts the channels of one group), all dense and
/// row-major. The padding below and to the right follows from the output size.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvGeometry {
    /// Images.
    pub batch: usize,
    /// Channels of the input, over all groups.
    pub in_channels: usize,
    /// Rows of the input.
    pub in_height: usize,
    /// Columns of the input.
    pub in_width: usize,
    /// Channels of the output, over all groups.
    pub out_channels: usize,
    /// Rows of the output.
    pub out_height: usize,
    /// Columns of the output.
    pub out_width: usize,
    /// Rows of the kernel.
    pub kernel_height: usize,
    /// Columns of the kernel.
    pub kernel_width: usize,
    /// Step between two rows of outputs, in input rows.
    pub stride_height: usize,
    /// Step between two columns of outputs, in input columns.
    pub stride_width: usize,
    /// Distance between two rows of taps.
    pub dilation_height: usize,
    /// Distance between two columns of taps.
    pub dilation_width: usize,
    /// Rows of zeros above the input.
    pub pad_top: usize,
    /// Columns of zeros left of the input.
    pub pad_left: usize,
    /// Groups; both channel counts are multiples of it.
    pub groups: usize,
}

impl ConvGeometry {
    /// Elements of the input, `batch * in_channels * in_height * in_width`.
    #[must_use]
    pub const fn input_len(&self) -> usize {
        self.batch * self.in_channels * self.in_height * self.in_width
    }

    /// Elements of the output.
    #[must_use]
    pub const fn output_len(&self) -> usize {
        self.batch * self.out_channels * self.out_height * self.out_width
    }

    /// Elements of the weights.
    #[must_use]
    pub const fn weight_len(&self) -> usize {
        self.out_channels * self.group_in_channels() * self.taps()
    }

    /// Multiplications of one product (forward, or either gradient), padding included.
    #[must_use]
    pub const fn multiplications(&self) -> usize {
        self.output_len() * self.group_in_channels() * self.taps()
    }

    /// Input channels of one group.
    #[must_use]
    pub const fn group_in_channels(&self) -> usize {
        self.in_channels / self.groups
    }

    /// Output channels of one group.
    #[must_use]
    pub const fn group_out_channels(&self) -> usize {
        self.out_channels / self.groups
    }

    /// Kernel positions.
    #[must_use]
    pub const fn taps(&self) -> usize {
        self.kernel_height * self.kernel_width
    }

    pub(crate) const fn in_plane(&self) -> usize {
        self.in_height * self.in_width
    }

    pub(crate) const fn out_plane(&self) -> usize {
        self.out_height * self.out_width
    }

    /// Whether each group reads a single input channel, which has kernels of its own.
    pub(crate) const fn is_depthwise(&self) -> bool {
        self.group_in_channels() == 1 && self.groups > 1
    }

    /// Panics unless the shape is one that the kernels can run.
    pub(crate) fn check(&self) {
        assert!(self.groups > 0, "a convolution has at least one group");
        assert!(
            self.in_channels.is_multiple_of(self.groups)
                && self.out_channels.is_multiple_of(self.groups),
            "channels are a multiple of the groups"
        );
        assert!(
            self.stride_height > 0
                && self.stride_width > 0
                && self.dilation_height > 0
                && self.dilation_width > 0,
            "strides and dilations are positive"
        );
    }
}

/// The shape of a batch of matrix products `C[m, n] = op(A)[m, k] op(B)[k, n]`.
///
/// `A` is stored `[m, k]`, or `[k, m]` where `transpose_a`; `B` is stored `[k, n]`, or `[n, k]`
/// where `transpose_b`; `C` is `[batch, m, n]`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulGeometry {
    /// Products.
    pub batch: usize,
    /// Elements from one `A` to the next; 0 repeats the same one.
    pub batch_stride_a: usize,
    /// Elements from one `B` to the next; 0 repeats the same one.
    pub batch_stride_b: usize,
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Length of each sum.
    pub k: usize,
    /// Whether `A` is stored `[k, m]`.
    pub transpose_a: bool,
    /// Whether `B` is stored `[n, k]`.
    pub transpose_b: bool,
}

impl MatMulGeometry {
    /// One product without a batch.
    #[must_use]
    pub const fn single(
        m: usize,
        n: usize,
        k: usize,
        transpose_a: bool,
        transpose_b: bool,
    ) -> Self {
        Self { batch: 1, batch_stride_a: 0, batch_stride_b: 0, m, n, k, transpose_a, transpose_b }
    }

    /// Elements that `A` must have.
    #[must_use]
    pub const fn a_len(&self) -> usize {
        if self.batch == 0 { 0 } else { (self.batch - 1) * self.batch_stride_a + self.m * self.k }
    }

    /// Elements that `B` must have.
    #[must_use]
    pub const fn b_len(&self) -> usize {
        if self.batch == 0 { 0 } else { (self.batch - 1) * self.batch_stride_b + self.k * self.n }
    }

    /// Elements of `C`.
    #[must_use]
    pub const fn c_len(&self) -> usize {
        self.batch * self.m * self.n
    }

    /// Multiplications of the whole batch.
    #[must_use]
    pub const fn multiplications(&self) -> usize {
        self.c_len() * self.k
    }
}

/// The shape of a two-dimensional convolution of plain bytes, channels last; the padding below and to the right follows from the output
/// size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelsLast {
    /// Images.
    pub batch: usize,
    /// Rows of the input.
    pub height: usize,
    /// Columns of the input.
    pub width: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Channels of the output.
    pub features: usize,
    /// Rows of the output.
    pub rows: usize,
    /// Columns of the output.
    pub columns: usize,
    /// Rows of the kernel.
    pub kernel_height: usize,
    /// Columns of the kernel.
    pub kernel_width: usize,
    /// Step between two rows of outputs, in input rows.
    pub stride_height: usize,
    /// Step between two columns of outputs, in input columns.
    pub stride_width: usize,
    /// Distance between two rows of taps.
    pub dilation_height: usize,
    /// Distance between two columns of taps.
    pub dilation_width: usize,
    /// Rows above the input.
    pub pad_top: usize,
    /// Columns left of the input.
    pub pad_left: usize,
    /// The byte that positions outside the input hold.
    pub padding: u8,
    /// Whether the input's bytes are unsigned.
    pub unsigned: bool,
}

impl ChannelsLast {
    /// Multiplications, padding included.
    #[must_use]
    pub const fn multiplications(&self) -> usize {
        let windows = self.batch * self.rows * self.columns;
        windows * self.features * self.kernel_height * self.kernel_width * self.channels
    }
}
