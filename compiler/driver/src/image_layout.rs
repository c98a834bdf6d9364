//! How a model takes images: data sets hold channels, rows, columns; models of TensorFlow Lite rows, columns, channels.

/// The order of an image's axes in a model's input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ImageLayout {
    /// As data sets have it, also flattened.
    ChannelsFirst,
    /// [batch, height, width, channels].
    ChannelsLast,
}

impl ImageLayout {
    /// How an input of this shape, batch first, takes images of `[channels, height, width]`; `None` if it does not.
    /// Where both orders would do, channels are first.
    pub(crate) fn of(input: &[usize], image: [usize; 3]) -> Option<ImageLayout> {
        let [channels, height, width] = image;
        match input {
            &[_, a, b, c] if [a, b, c] == image => Some(ImageLayout::ChannelsFirst),
            &[_, a, b, c] if [c, a, b] == [channels, height, width] => {
                Some(ImageLayout::ChannelsLast)
            }
            [_, _, _, _] => None,
            [_, rest @ ..] => {
                let fits = rest.iter().product::<usize>() == image.iter().product::<usize>();
                fits.then_some(ImageLayout::ChannelsFirst)
            }
            [] => None,
        }
    }

    /// Puts images of `[channels, height, width]`, one after another, in this order.
    pub(crate) fn arrange(self, images: &mut [f32], [channels, height, width]: [usize; 3]) {
        let plane = height * width;
        if self == ImageLayout::ChannelsFirst || channels < 2 || plane < 2 {
            return;
        }
        let mut first = vec![0f32; channels * plane];
        for image in images.chunks_exact_mut(channels * plane) {
            first.copy_from_slice(image);
            for (pixel, values) in image.chunks_exact_mut(channels).enumerate() {
                for (channel, value) in values.iter_mut().enumerate() {
                    *value = first[channel * plane + pixel];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        use ImageLayout::{ChannelsFirst, ChannelsLast};
        assert_eq!(ImageLayout::of(&[8, 3, 4, 5], [3, 4, 5]), Some(ChannelsFirst));
        assert_eq!(ImageLayout::of(&[8, 4, 5, 3], [3, 4, 5]), Some(ChannelsLast));
        assert_eq!(ImageLayout::of(&[8, 5, 4, 3], [3, 4, 5]), None);
        assert_eq!(ImageLayout::of(&[8, 60], [3, 4, 5]), Some(ChannelsFirst));
        assert_eq!(ImageLayout::of(&[8, 61], [3, 4, 5]), None);
    }

    #[test]
    fn pixels_move() {
        // Two images of two channels, one row and three columns: channel times 10 plus column.
        let mut images = vec![0., 1., 2., 10., 11., 12., 100., 101., 102., 110., 111., 112.];
        ImageLayout::ChannelsLast.arrange(&mut images, [2, 1, 3]);
        assert_eq!(images, [0., 10., 1., 11., 2., 12., 100., 110., 101., 111., 102., 112.]);
    }
}
