//! One JPEG or PNG: what its header says, and its samples.

use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The widest and highest image that is decoded.
const SIDE_LIMIT: usize = 1 << 14;
/// Bytes that a PNG's decoder may allocate.
const MEMORY_LIMIT: usize = 512 << 20;

/// What an image's header says.
pub(crate) struct Header {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) is_grey: bool,
}

/// Samples of 8 bits row by row, those of a pixel together.
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// 1 (grey) or 3 (red, green, blue), and one more with opacity, which is the last.
    pub(crate) channels: usize,
    pub(crate) samples: Vec<u8>,
}

/// A JPEG's decoder, which gives grey or red, green and blue.
type Jpeg<'b> = (JpegDecoder<ZCursor<&'b [u8]>>, Header);

/// A PNG's reader, which gives eight or sixteen bits a sample.
type Png<'b> = (png::Reader<Cursor<&'b [u8]>>, Header);

/// Whether a file is a JPEG, else a PNG.
fn is_jpeg(bytes: &[u8]) -> Result<bool, String> {
    if bytes.starts_with(&[0xff, 0xd8, 0xff]) {
        return Ok(true);
    }
    let png = bytes.starts_with(b"\x89PNG\r\n\x1a\n");
    png.then_some(false)
        .ok_or_else(|| "the format of the image could not be determined".to_string())
}

/// Whether a JPEG ends before its end mark. The decoder would fill the rest with grey and say nothing. In compressed
/// data 0xff is always followed by 0x00, so neither mark is found there by chance.
fn is_cut_jpeg(bytes: &[u8]) -> bool {
    let last = |mark: [u8; 2]| bytes.windows(2).rposition(|pair| pair == mark);
    last([0xff, 0xd9]) < last([0xff, 0xda])
}

fn sides(width: usize, height: usize) -> Result<(), String> {
    if width > SIDE_LIMIT || height > SIDE_LIMIT {
        return Err(format!("{width} x {height} pixels, more than {SIDE_LIMIT} on a side"));
    }
    Ok(())
}

/// Reads a JPEG's header.
fn jpeg(bytes: &[u8]) -> Result<Jpeg<'_>, String> {
    // Limits are ours, and damage is an error only where pixels are lost.
    let options = DecoderOptions::default().set_strict_mode(false);
    let options = options.set_max_width(usize::MAX).set_max_height(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| error.to_string())?;
    let info = decoder.info().ok_or("no header")?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let colors = if is_grey { ColorSpace::Luma } else { ColorSpace::RGB };
    decoder.set_options(options.jpeg_set_out_colorspace(colors));
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    sides(width, height)?;
    Ok((decoder, Header { width, height, is_grey }))
}

/// Reads a PNG's header.
fn png(bytes: &[u8]) -> Result<Png<'_>, String> {
    let limits = png::Limits { bytes: MEMORY_LIMIT };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    // Palettes become colours, few bits eight, a transparent colour opacity.
    decoder.set_transformations(png::Transformations::EXPAND);
    let reader = decoder.read_info().map_err(|error| error.to_string())?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    sides(width, height)?;
    let (color, _) = reader.output_color_type();
    let is_grey = matches!(color, png::ColorType::Grayscale | png::ColorType::GrayscaleAlpha);
    Ok((reader, Header { width, height, is_grey }))
}

/// Reads an image's header and no pixel.
///
/// # Errors
/// If the file is no readable JPEG or PNG, larger than what is decoded, or a JPEG that is cut off.
pub(crate) fn header(bytes: &[u8]) -> Result<Header, String> {
    if is_jpeg(bytes)? {
        let (_, header) = jpeg(bytes)?;
        if is_cut_jpeg(bytes) {
            return Err("it is truncated: the JPEG's end mark is missing".to_string());
        }
        return Ok(header);
    }
    Ok(png(bytes)?.1)
}

/// Decodes an image. Samples of 16 bits are rounded to 8.
///
/// # Errors
/// As [`header`], and if its pixels are damaged.
pub(crate) fn decode(bytes: &[u8]) -> Result<Picture, String> {
    if is_jpeg(bytes)? {
        let (mut decoder, Header { width, height, is_grey }) = jpeg(bytes)?;
        let samples = decoder.decode().map_err(|error| error.to_string())?;
        let channels = if is_grey { 1 } else { 3 };
        return whole(Picture { width, height, channels, samples });
    }
    let (mut reader, Header { width, height, .. }) = png(bytes)?;
    let (color, depth) = reader.output_color_type();
    let length = reader.output_buffer_size().filter(|&length| length <= MEMORY_LIMIT);
    let mut samples = vec![0; length.ok_or("its pixels are more than memory holds")?];
    let frame = reader.next_frame(&mut samples).map_err(|error| error.to_string())?;
    samples.truncate(frame.buffer_size());
    if depth == png::BitDepth::Sixteen {
        let (pairs, _) = samples.as_chunks::<2>();
        let rounded = |pair: &[u8; 2]| ((u32::from(u16::from_be_bytes(*pair)) + 128) / 257) as u8;
        samples = pairs.iter().map(rounded).collect();
    }
    whole(Picture { width, height, channels: color.samples(), samples })
}

/// A picture with a sample of each channel for each pixel.
fn whole(picture: Picture) -> Result<Picture, String> {
    let Picture { width, height, channels, samples } = &picture;
    if samples.len() != width * height * channels {
        return Err("it has other pixels than its header says".to_string());
    }
    Ok(picture)
}
