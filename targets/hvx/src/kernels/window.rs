//! Which operand positions the windows of a convolution read, and the tables of them that kernels walk.

use trainc_ir::product::Convolution;

/// Windows along one axis: for each result position, the taps that read inside the operand with the positions they
/// read, in the order of the taps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Positions of the operand.
    pub input: usize,
    /// Taps of the kernel.
    pub taps: usize,
    /// (tap, operand position) of each result position.
    pub reads: Vec<Vec<(usize, usize)>>,
}

/// One axis of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Positions of the convolution's operand.
    pub input: usize,
    /// Positions of its result.
    pub output: usize,
    /// Taps.
    pub kernel: usize,
    /// Operand positions from a window to the next.
    pub stride: usize,
    /// Operand positions from a tap to the next.
    pub dilation: usize,
    /// Padding before the operand.
    pub before: usize,
}

impl Span {
    /// The axes of a convolution, vertical and horizontal.
    #[must_use]
    pub fn of(c: &Convolution) -> [Span; 2] {
        let (input, output) = ([c.height, c.width], [c.rows, c.columns]);
        std::array::from_fn(|i| Span {
            input: input[i],
            output: output[i],
            kernel: c.taps[i],
            stride: c.strides[i],
            dilation: c.dilations[i],
            before: c.pads[i],
        })
    }

    /// The operand position that a tap of a window reads; `None` in the padding.
    fn position(&self, window: usize, tap: usize) -> Option<usize> {
        let padded = window * self.stride + tap * self.dilation;
        padded.checked_sub(self.before).filter(|&position| position < self.input)
    }

    /// The windows of the convolution itself.
    #[must_use]
    pub fn forward(&self) -> Axis {
        let reads = |window| {
            let read = |tap| Some((tap, self.position(window, tap)?));
            (0..self.kernel).filter_map(read).collect()
        };
        Axis { input: self.input, taps: self.kernel, reads: (0..self.output).map(reads).collect() }
    }

    /// The error gradient's windows: each position of the operand gathers the windows that read it.
    #[must_use]
    pub fn error(&self) -> Axis {
        let mut reads = vec![Vec::new(); self.input];
        for tap in 0..self.kernel {
            for window in 0..self.output {
                if let Some(position) = self.position(window, tap) {
                    reads[position].push((tap, window));
                }
            }
        }
        Axis { input: self.output, taps: self.kernel, reads }
    }
}

/// The result positions of an axis by what they read relative to their first operand position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// (tap, operand position less the first) of each class.
    pub lists: Vec<Vec<(usize, usize)>>,
    /// (first operand position, class) of each result position.
    pub positions: Vec<(usize, usize)>,
}

impl Axis {
    /// Groups the result positions. A position that reads nothing has an empty list and first position 0.
    #[must_use]
    pub fn classes(&self) -> Classes {
        let mut lists: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut positions = Vec::with_capacity(self.reads.len());
        for reads in &self.reads {
            let first = reads.iter().map(|&(_, position)| position).min().unwrap_or(0);
            let list: Vec<_> =
                reads.iter().map(|&(tap, position)| (tap, position - first)).collect();
            let class = lists.iter().position(|known| *known == list).unwrap_or_else(|| {
                lists.push(list);
                lists.len() - 1
            });
            positions.push((first, class));
        }
        Classes { lists, positions }
    }

    /// The axis without the result positions that read nothing.
    #[must_use]
    pub fn dense(&self) -> Axis {
        let reads = self.reads.iter().filter(|reads| !reads.is_empty()).cloned().collect();
        Axis { reads, ..*self }
    }

    /// Reads of all positions together.
    #[must_use]
    pub fn count(&self) -> usize {
        self.reads.iter().map(Vec::len).sum()
    }
}
