//! How a model takes images: data sets hold channels, rows, columns; models of TensorFlow Lite rows, columns, channels.

use trainc_data::{Dataset, Images};
use trainc_ir::{Element, TensorType};

use crate::error::{Context, Result, bail};

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

    /// How an input takes a data set's samples.
    ///
    /// # Errors
    /// If it does not: they have another shape, or are floats where it takes integers, or integers where it takes floats.
    pub(crate) fn check(input: &TensorType, data: &Dataset) -> Result<ImageLayout> {
        let [channels, height, width] = data.train.shape;
        let layout = ImageLayout::of(&input.shape, data.train.shape).with_context(|| {
            format!(
                "the model takes {input}, but images of `{}` are {channels} x {height} x {width} (channels x height x \
                 width)",
                data.name
            )
        })?;
        match (&data.train.images, input.element) {
            (Images::I32(_), Element::F32) => bail!(
                "the model takes {input}, but x_train of `{}` has integers; store them as float32 \
                 (`x_train.astype(\"float32\")`)",
                data.name
            ),
            (Images::F32(_) | Images::I32(_), Element::U8) => bail!(
                "the model takes bytes, {input}, but x_train of `{}` has other numbers; store them as uint8 \
                 (`x_train.astype(\"uint8\")`)",
                data.name
            ),
            (Images::F32(_), Element::I32) => bail!(
                "the model takes numbers of words or categories, {input}, but x_train of `{}` has floats; store them as \
                 integers (`x_train.astype(\"int32\")`)",
                data.name
            ),
            _ => Ok(layout),
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
