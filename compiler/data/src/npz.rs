//! NumPy's `.npz` format: a zip archive of `.npy` files, stored or deflated.
//!
//! Memory is bounded against hostile archives: the arrays of one file may decode to
//! [`DECODED_BYTES_LIMIT`] bytes together, and memory grows only with bytes that were really decoded.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipArchive, ZipWriter};

use crate::bounded::DECODED_BYTES_LIMIT;
use crate::error::DataError;
use crate::npy::NpyArray;

/// An open archive whose arrays are read one by one.
pub struct NpzReader<R> {
    archive: ZipArchive<R>,
    place: String,
    names: Vec<String>,
    remaining: u64,
}

impl NpzReader<BufReader<File>> {
    /// Opens the archive at `path` and reads its directory.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let file = File::open(path).map_err(DataError::read(path))?;
        Self::new(BufReader::new(file), &path.display().to_string(), DECODED_BYTES_LIMIT)
    }
}

impl<R: Read + Seek> NpzReader<R> {
    /// Reads the directory of the archive in `reader`. `place` names it in errors; `limit` bounds the decoded bytes of
    /// all arrays that will be read from it.
    pub fn new(reader: R, place: &str, limit: u64) -> Result<Self, DataError> {
        let mut archive = ZipArchive::new(reader)
            .map_err(|error| DataError::at(place, format!("is not a readable zip: {error}")))?;
        let mut names = Vec::with_capacity(archive.len());
        for index in 0..archive.len() {
            let entry = archive
                .by_index_raw(index)
                .map_err(|error| DataError::at(place, format!("entry {index}: {error}")))?;
            let name = entry
                .name()
                .map_err(|error| DataError::at(place, format!("entry {index}: {error}")))?
                .to_string();
            names.push(name.strip_suffix(".npy").map_or(name.clone(), str::to_string));
        }
        if let Some(name) = first_duplicate(&names) {
            return Err(DataError::at(place, format!("holds two arrays named {name:?}")));
        }
        Ok(Self { archive, place: place.to_string(), names, remaining: limit })
    }

    /// The arrays' names in archive order, without `.npy`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the array called `name`; an archive without it is an error that lists what there is.
    pub fn read(&mut self, name: &str) -> Result<NpyArray, DataError> {
        let Some(index) = self.names.iter().position(|known| known == name) else {
            let names = if self.names.is_empty() { "none".into() } else { self.names.join(", ") };
            return Err(DataError::at(
                &self.place,
                format!("has no array {name:?}; its arrays: {names}"),
            ));
        };
        self.read_index(index)
    }

    fn read_index(&mut self, index: usize) -> Result<NpyArray, DataError> {
        let place = format!("{}: {}", self.place, self.names[index]);
        let mut entry = self
            .archive
            .by_index(index)
            .map_err(|error| DataError::at(&place, format!("cannot be decoded: {error}")))?;
        let array = NpyArray::read(&mut entry, &place, self.remaining)?;
        let bytes = array.data.len() as u64 * array.data.element_bytes();
        self.remaining = self.remaining.saturating_sub(bytes);
        Ok(array)
    }

    /// Reads every array, in archive order.
    pub fn read_all(mut self) -> Result<Vec<(String, NpyArray)>, DataError> {
        (0..self.names.len())
            .map(|index| Ok((self.names[index].clone(), self.read_index(index)?)))
            .collect()
    }
}

fn first_duplicate(names: &[String]) -> Option<&str> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Reads every array of the archive at `path`, in archive order.
pub fn read_npz(path: &Path) -> Result<Vec<(String, NpyArray)>, DataError> {
    NpzReader::open(path)?.read_all()
}

/// Reads every array of the archive in `bytes`; `place` names it in errors.
pub fn read_npz_bytes(bytes: &[u8], place: &str) -> Result<Vec<(String, NpyArray)>, DataError> {
    NpzReader::new(Cursor::new(bytes), place, DECODED_BYTES_LIMIT)?.read_all()
}

/// The arrays as one `.npz` file, in the order given, uncompressed as `numpy.savez` writes it. The bytes depend on the
/// arguments alone: timestamps are 1980-01-01. Fails on two equal names, an empty name, or an array whose shape and
/// number of elements contradict each other.
pub fn npz_bytes<N: AsRef<str>>(arrays: &[(N, NpyArray)]) -> Result<Vec<u8>, DataError> {
    let names: Vec<String> = arrays.iter().map(|(name, _)| name.as_ref().to_string()).collect();
    let place = "npz to be written";
    if let Some(name) = first_duplicate(&names) {
        return Err(DataError::at(place, format!("two arrays are named {name:?}")));
    }
    if names.iter().any(String::is_empty) {
        return Err(DataError::at(place, "an array has an empty name"));
    }
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, array) in arrays {
        let name = name.as_ref();
        let bytes = array
            .to_npy_bytes()
            .map_err(|error| DataError::at(format!("{place}: {name}"), error))?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::DEFAULT)
            .system(System::Unix)
            .unix_permissions(0o600)
            .large_file(bytes.len() as u64 >= u64::from(u32::MAX));
        writer
            .start_file(format!("{name}.npy"), options)
            .and_then(|()| Ok(writer.write_all(&bytes)?))
            .map_err(|error| DataError::at(format!("{place}: {name}"), error))?;
    }
    let cursor = writer.finish().map_err(|error| DataError::at(place, error))?;
    Ok(cursor.into_inner())
}

/// Writes [`npz_bytes`] to `path`, whole or not at all.
pub fn write_npz<N: AsRef<str>>(path: &Path, arrays: &[(N, NpyArray)]) -> Result<(), DataError> {
    crate::atomic::write_atomically(path, &npz_bytes(arrays)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::NpyData;
    use crate::test_support::every_damage;

    /// Made by NumPy; testdata/README.md has the script.
    const NUMPY: &[u8] = include_bytes!("../testdata/numpy.npz");

    fn array(shape: &[usize], data: NpyData) -> NpyArray {
        NpyArray { shape: shape.to_vec(), data }
    }

    /// What the script stores, in its order.
    fn numpy_arrays() -> Vec<(String, NpyArray)> {
        let named = |name: &str, shape: &[usize], data| (name.to_string(), array(shape, data));
        vec![
            named("f32", &[2, 3], NpyData::F32(vec![0.0, 0.5, -1.0, 1.5, 2.0, f32::INFINITY])),
            named("f64", &[2], NpyData::F64(vec![0.1, -1e300])),
            named("f16", &[3], NpyData::F32(vec![0.5, -65504.0, 5.960_464_5e-8])),
            named("i8", &[2], NpyData::I8(vec![-128, 127])),
            named("u8", &[2], NpyData::U8(vec![0, 255])),
            named("i16", &[2], NpyData::I16(vec![-32768, 32767])),
            named("u16", &[1], NpyData::U16(vec![65535])),
            named("i32", &[1, 2], NpyData::I32(vec![i32::MIN, i32::MAX])),
            named("u32", &[1], NpyData::U32(vec![u32::MAX])),
            named("i64", &[2], NpyData::I64(vec![i64::MIN, i64::MAX])),
            named("u64", &[], NpyData::U64(vec![u64::MAX])),
            named("flags", &[3], NpyData::Bool(vec![true, false, true])),
            named("fortran", &[2, 3], NpyData::I32(vec![1, 2, 3, 4, 5, 6])),
            named("big", &[2], NpyData::I32(vec![1, -2])),
            named("empty", &[0, 4], NpyData::F32(vec![])),
            named("ones", &[&[1; 13][..], &[100]].concat(), NpyData::U8(vec![1; 100])),
        ]
    }

    #[test]
    fn reads_what_numpy_wrote() {
        assert_eq!(read_npz_bytes(NUMPY, "numpy.npz").unwrap(), numpy_arrays());
    }

    #[test]
    fn writes_the_same_npy_bytes_as_numpy() {
        let mut archive = ZipArchive::new(Cursor::new(NUMPY)).unwrap();
        let mut compared = 0;
        for (name, array) in numpy_arrays() {
            // These are written in another type, order or byte order than they were read in.
            if ["f16", "fortran", "big"].contains(&name.as_str()) {
                continue;
            }
            let mut bytes = Vec::new();
            archive.by_name(&format!("{name}.npy")).unwrap().read_to_end(&mut bytes).unwrap();
            assert_eq!(array.to_npy_bytes().unwrap(), bytes, "{name}");
            compared += 1;
        }
        assert_eq!(compared, 13);
    }

    #[test]
    fn writing_is_deterministic_ordered_and_reads_back() {
        let arrays = numpy_arrays();
        let bytes = npz_bytes(&arrays).unwrap();
        assert_eq!(bytes, npz_bytes(&arrays).unwrap());
        assert_eq!(read_npz_bytes(&bytes, "x").unwrap(), arrays);
        // 1980-01-01 00:00 in DOS format, in the local header: time 0, date 0x0021.
        assert_eq!(bytes[10..14], [0, 0, 0x21, 0]);
    }

    #[test]
    fn names_must_be_distinct_and_present() {
        let one = || NpyArray::f32(&[1], vec![1.0]);
        let error = npz_bytes(&[("a", one()), ("a", one())]).unwrap_err().to_string();
        assert!(error.contains("two arrays are named \"a\""), "{error}");
        assert!(npz_bytes(&[("", one())]).is_err());
        let bytes = npz_bytes(&[("a", one()), ("b", one())]).unwrap();
        let mut reader = NpzReader::new(Cursor::new(&bytes[..]), "x.npz", 100).unwrap();
        let error = reader.read("c").unwrap_err().to_string();
        assert_eq!(error, "x.npz: has no array \"c\"; its arrays: a, b");
    }

    #[test]
    fn the_limit_covers_all_arrays_together() {
        let arrays = [
            ("a", array(&[60], NpyData::U8(vec![1; 60]))),
            ("b", array(&[60], NpyData::U8(vec![2; 60]))),
        ];
        let bytes = npz_bytes(&arrays).unwrap();
        let read = |limit| NpzReader::new(Cursor::new(&bytes[..]), "x", limit)?.read_all();
        assert!(read(120).is_ok());
        assert!(matches!(read(119), Err(DataError::TooLarge { .. })));
    }

    #[test]
    fn a_deflated_bomb_stops_at_the_limit() {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        writer.start_file("a.npy", options).unwrap();
        let array = array(&[1 << 22], NpyData::U8(vec![0; 1 << 22]));
        writer.write_all(&array.to_npy_bytes().unwrap()).unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        assert!(bytes.len() < 1 << 14);
        let read = |limit| NpzReader::new(Cursor::new(&bytes[..]), "x", limit)?.read_all();
        assert!(matches!(read(1 << 20), Err(DataError::TooLarge { .. })));
        assert_eq!(read(1 << 22).unwrap()[0].1, array);
    }

    #[test]
    fn damaged_archives_fail_or_read_but_never_panic() {
        let small =
            [("a", NpyArray::f32(&[2], vec![1.0, 2.0])), ("b", NpyArray::i8(&[1], vec![3]))];
        let bytes = npz_bytes(&small).unwrap();
        every_damage(&bytes, |damaged| {
            let reader = NpzReader::new(Cursor::new(damaged), "x", 1 << 16);
            let _ = reader.and_then(NpzReader::read_all);
        });
    }

    #[test]
    fn a_flipped_element_fails_the_checksum() {
        let bytes = npz_bytes(&[("a", NpyArray::i8(&[1], vec![77]))]).unwrap();
        let position = bytes.iter().rposition(|&byte| byte == 77).unwrap();
        let mut damaged = bytes.clone();
        damaged[position] ^= 1;
        assert!(read_npz_bytes(&bytes, "x").is_ok());
        assert!(read_npz_bytes(&damaged, "x").is_err());
    }
}
