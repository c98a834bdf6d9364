//! Decoding many JPEG and PNG files in parallel. Results and errors do not depend on the number of threads.

use std::num::NonZeroUsize;
use std::thread;

use crate::dataset::shape_text;
use crate::error::DataError;
use crate::picture::{self, Header, Picture};

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

/// No honest image decodes to more bytes than this for each byte of its file; a header that claims more is refused
/// before anything is allocated for it.
const EXPANSION_LIMIT: u64 = 1 << 14;
/// More threads than this gain nothing on the small images of data sets.
const THREAD_LIMIT: usize = 8;

fn header(file: &ImageFile) -> Result<Header, DataError> {
    let header = picture::header(&file.bytes).map_err(|error| {
        DataError::at(&file.place, format!("is no readable JPEG or PNG: {error}"))
    })?;
    let Header { width, height, .. } = header;
    let decoded = width as u64 * height as u64 * 3;
    if decoded == 0 || decoded > EXPANSION_LIMIT * file.bytes.len() as u64 {
        return Err(DataError::at(
            &file.place,
            format!("claims {width} x {height} pixels in {} bytes", file.bytes.len()),
        ));
    }
    Ok(header)
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
    let shape = [channels, first.height, first.width];
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
    let image = picture::decode(&file.bytes)
        .map_err(|error| DataError::at(&file.place, format!("cannot be decoded: {error}")))?;
    let Picture { samples, channels: stored, .. } = &image;
    let is_grey = *stored < 3;
    if (image.height, image.width) != (height, width) || (channels == 1 && !is_grey) {
        return Err(DataError::at(&file.place, "decodes to another size than its header says"));
    }
    for (channel, plane) in target.chunks_exact_mut(height * width).enumerate() {
        let sample = if is_grey { 0 } else { channel };
        for (value, pixel) in plane.iter_mut().zip(samples.chunks_exact(*stored)) {
            *value = pixel[sample];
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
