//! Reading untrusted streams with a bound on memory: a header's claim never sizes an allocation, only bytes that were
//! really read do, and decompressed bytes are counted against a limit.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use crate::error::DataError;

/// The most bytes one data file may decode to: 4 GiB, an order of magnitude above any set this crate is meant for.
pub const DECODED_BYTES_LIMIT: u64 = 4 << 30;

/// Reads `reader` to its end, refusing more than `limit` bytes. `place` names the stream in errors.
pub(crate) fn read_to_limit(
    reader: impl Read,
    limit: u64,
    place: &str,
) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| DataError::at(place, format!("cannot be decoded: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(DataError::TooLarge { place: place.to_string(), limit });
    }
    Ok(bytes)
}

/// Passes bytes through, counts them, and fails once more than `limit` came by.
pub(crate) struct CountingReader<R> {
    inner: R,
    limit: u64,
    count: Rc<Cell<u64>>,
}

impl<R: Read> CountingReader<R> {
    /// The reader and a handle on its count of bytes.
    pub(crate) fn new(inner: R, limit: u64) -> (Self, Rc<Cell<u64>>) {
        let count = Rc::new(Cell::new(0));
        (Self { inner, limit, count: Rc::clone(&count) }, count)
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let count = self.count.get() + read as u64;
        self.count.set(count);
        if count > self.limit {
            return Err(io::Error::other(format!(
                "decodes to more than the limit of {} bytes",
                self.limit
            )));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_inclusive() {
        assert_eq!(read_to_limit(&b"abcd"[..], 4, "x").unwrap(), b"abcd");
        let error = read_to_limit(&b"abcde"[..], 4, "x").unwrap_err();
        assert!(matches!(error, DataError::TooLarge { limit: 4, .. }), "{error}");
    }

    #[test]
    fn the_counting_reader_stops_an_endless_stream() {
        let (mut reader, count) = CountingReader::new(io::repeat(0), 10_000);
        let mut bytes = Vec::new();
        let error = reader.read_to_end(&mut bytes).unwrap_err();
        assert!(error.to_string().contains("10000"), "{error}");
        assert!(count.get() > 10_000 && bytes.len() < 100_000);
    }
}
