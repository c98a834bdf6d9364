//! Decoding many JPEG and PNG files in parallel. Results and errors do not depend on the number of threads.

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::thread;

use image::{DynamicImage, ImageDecoder, ImageReader, Limits};

use crate::dataset::shape_text;
use crate::error::DataError;

/// One encoded image and where it belongs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ImageFile {
    pub(crate) part: Part,
    pub(crate) class: String,
    pub(crate) name: String,
    /// The file for error messages.
    pub(crate) place: String,
    pub(crate) bytes: Vec<u8>,
}

/// Which split a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Train,
    Test,
}

/// The widest and highest image that is decoded.
const SIDE_LIMIT: u32 = 1 << 14;
/// No honest image decodes to more bytes than this for each byte of its file; a header that claims more is refused
/// before anything is allocated for it.
const EXPANSION_LIMIT: u64 = 1 << 14;
/// More threads than this gain nothing on the small images of data sets.
const THREAD_LIMIT: usize = 8;

/// What an image's header says.
struct Header {
    width: u32,
    height: u32,
    is_grey: bool,
}

/// Whether a JPEG ends before its end mark. The decoder would fill the rest with grey and say nothing. In compressed
/// data 0xff is always followed by 0x00, so neither mark is found there by chance.
fn is_cut_jpeg(bytes: &[u8]) -> bool {
    let last = |mark: [u8; 2]| bytes.windows(2).rposition(|pair| pair == mark);
    bytes.starts_with(&[0xff, 0xd8]) && last([0xff, 0xd9]) < last([0xff, 0xda])
}

/// Opens a decoder, which reads the header alone.
fn decoder(file: &ImageFile) -> Result<impl ImageDecoder + '_, DataError> {
    let failed = |error: &dyn std::fmt::Display| {
        DataError::at(&file.place, format!("is no readable JPEG or PNG: {error}"))
    };
    let mut reader = ImageReader::new(Cursor::new(&file.bytes[..]))
        .with_guessed_format()
        .map_err(|error| failed(&error))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE_LIMIT);
    limits.max_image_height = Some(SIDE_LIMIT);
    reader.limits(limits);
    reader.into_decoder().map_err(|error| failed(&error))
}

fn header(file: &ImageFile) -> Result<Header, DataError> {
    let decoder = decoder(file)?;
    if is_cut_jpeg(&file.bytes) {
        return Err(DataError::at(&file.place, "is truncated: the JPEG's end mark is missing"));
    }
    let (width, height) = decoder.dimensions();
    let decoded = u64::from(width) * u64::from(height) * 3;
    if decoded == 0 || decoded > EXPANSION_LIMIT * file.bytes.len() as u64 {
        return Err(DataError::at(
            &file.place,
            format!("claims {width} x {height} pixels in {} bytes", file.bytes.len()),
        ));
    }
    Ok(Header { width, height, is_grey: !decoder.color_type().has_color() })
}

/// Reads all headers and returns the common shape (channels, height, width): one channel when every image is stored as
/// grey, else three. Images of different sizes are an error that names the first that differs.
pub(crate) fn inspect_all(files: &[ImageFile], limit: u64) -> Result<[usize; 3], DataError> {
    let parts = in_parallel(files.chunks(chunk_length(files.len())), |chunk| {
        chunk.iter().map(header).collect::<Result<Vec<_>, _>>()
    })?;
    let headers: Vec<Header> = parts.into_iter().flatten().collect();
    let Some(first) = headers.first() else { return Ok([1, 0, 0]) };
    for (header, file) in headers.iter().zip(files) {
        if (header.width, header.height) != (first.width, first.height) {
            return Err(DataError::at(
                &file.place,
                format!(
                    "is {} x {} pixels (width x height), but {} is {} x {}",
                    header.width, header.height, files[0].place, first.width, first.height
                ),
            ));
        }
    }
    let channels = if headers.iter().all(|header| header.is_grey) { 1 } else { 3 };
    let shape = [channels, first.height as usize, first.width as usize];
    // Each factor is below 2^32 and the count is of files in memory.
    let bytes = shape.iter().map(|&length| length as u128).product::<u128>() * files.len() as u128;
    if bytes > u128::from(limit) {
        let place = format!("{} images of {}", files.len(), shape_text(shape));
        return Err(DataError::TooLarge { place, limit });
    }
    Ok(shape)
}

/// Decodes all files, which [`inspect_all`] found to have `shape`, one after another in channel, row, column order.
/// Alpha is dropped, 16-bit samples are reduced to 8 bits, grey is repeated where `shape` has three channels, and a
/// JPEG's orientation tag is not applied.
pub(crate) fn decode_all(files: &[ImageFile], shape: [usize; 3]) -> Result<Vec<u8>, DataError> {
    let image_length: usize = shape.iter().product();
    let mut pixels = vec![0u8; files.len() * image_length];
    let chunk_length = chunk_length(files.len());
    let chunks =
        files.chunks(chunk_length).zip(pixels.chunks_mut((chunk_length * image_length).max(1)));
    in_parallel(chunks, |(files, pixels)| {
        for (file, target) in files.iter().zip(pixels.chunks_exact_mut(image_length)) {
            decode(file, shape, target)?;
        }
        Ok(())
    })?;
    Ok(pixels)
}

fn decode(file: &ImageFile, shape: [usize; 3], target: &mut [u8]) -> Result<(), DataError> {
    let [channels, height, width] = shape;
    let image = DynamicImage::from_decoder(decoder(file)?)
        .map_err(|error| DataError::at(&file.place, format!("cannot be decoded: {error}")))?;
    if (image.height() as usize, image.width() as usize) != (height, width) {
        return Err(DataError::at(&file.place, "decodes to another size than its header says"));
    }
    if channels == 1 {
        target.copy_from_slice(image.into_luma8().as_raw());
        return Ok(());
    }
    let interleaved = image.into_rgb8();
    let (pixels, _) = interleaved.as_raw().as_chunks::<3>();
    for (channel, plane) in target.chunks_exact_mut(height * width).enumerate() {
        for (value, pixel) in plane.iter_mut().zip(pixels) {
            *value = pixel[channel];
        }
    }
    Ok(())
}

/// The length of the pieces that give each thread one.
fn chunk_length(count: usize) -> usize {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREAD_LIMIT);
    count.div_ceil(threads).max(1)
}

/// Runs `work` on every piece on a thread of its own; results in the pieces' order, or the first piece's error.
fn in_parallel<T: Send, R: Send>(
    pieces: impl Iterator<Item = T>,
    work: impl Fn(T) -> Result<R, DataError> + Sync,
) -> Result<Vec<R>, DataError> {
    thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = pieces.map(|piece| scope.spawn(move || work(piece))).collect();
        let results: Vec<_> = handles
            .into_iter()
            .map(|handle| {
                // A decoder's own defect must not end the whole program.
                handle.join().unwrap_or_else(|_| {
                    Err(DataError::at("image decoder", "failed on one of the images"))
                })
            })
            .collect();
        results.into_iter().collect()
    })
}
