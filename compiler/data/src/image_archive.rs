//! Tar archives of an image folder, plain or compressed by gzip or xz. Nothing is unpacked to disk.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use crate::bounded::{CountingReader, DECODED_BYTES_LIMIT, read_to_limit};
use crate::dataset::{Dataset, name_of};
use crate::decode::{ImageFile, Part};
use crate::error::DataError;
use crate::image_files::{dataset_of, is_image_name};

/// The memory an xz file may ask the decoder to use: four times what `xz -9` needs.
const XZ_MEMORY_LIMIT_KIB: u32 = 256 << 10;
const TAR_BLOCK: u64 = 512;

/// How an archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Xz,
}

impl Compression {
    /// Recognises a compressed file, or a plain tar, by its first 512 bytes.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        if start.starts_with(&[0x1f, 0x8b]) {
            Some(Compression::Gzip)
        } else if start.starts_with(b"\xfd7zXZ\0") {
            Some(Compression::Xz)
        } else if start.get(257..262) == Some(b"ustar") {
            Some(Compression::None)
        } else {
            None
        }
    }
}

/// Opens the archive. The layout may sit below one common folder (`cifar10/train/...`). Files that are not named like
/// images are left out.
pub(crate) fn open(path: &Path, compression: Compression) -> Result<Dataset, DataError> {
    let file = BufReader::new(File::open(path).map_err(DataError::read(path))?);
    let place = path.display().to_string();
    let files = read_compressed(file, compression, &place, DECODED_BYTES_LIMIT)?;
    dataset_of(files, name_of(path), &place, DECODED_BYTES_LIMIT)
}

fn read_compressed(
    reader: impl Read,
    compression: Compression,
    place: &str,
    limit: u64,
) -> Result<Vec<ImageFile>, DataError> {
    match compression {
        Compression::None => read_tar(reader, place, limit),
        Compression::Gzip => read_tar(MultiGzDecoder::new(reader), place, limit),
        Compression::Xz => {
            read_tar(XzReader::new_mem_limit(reader, true, XZ_MEMORY_LIMIT_KIB), place, limit)
        }
    }
}

fn read_tar(reader: impl Read, place: &str, limit: u64) -> Result<Vec<ImageFile>, DataError> {
    let damaged =
        |error: std::io::Error| DataError::at(place, format!("is no readable tar: {error}"));
    let (reader, position) = CountingReader::new(reader, limit);
    let mut archive = tar::Archive::new(reader);
    let mut files = Vec::new();
    let mut prefix: Option<String> = None;
    let mut end_of_entries = 0;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let size = entry.size();
        end_of_entries =
            entry.raw_file_position().saturating_add(size.div_ceil(TAR_BLOCK) * TAR_BLOCK);
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let entry_place = format!("{place}: {path}");
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let Some(location) = Location::of(&path, &entry_place)? else { continue };
        if *prefix.get_or_insert_with(|| location.prefix.clone()) != location.prefix {
            let first = prefix.unwrap_or_default();
            return Err(DataError::at(
                entry_place,
                format!("is not in the same folder as the images before it, {first:?}"),
            ));
        }
        let bytes = read_to_limit(&mut entry, limit, &entry_place)?;
        if bytes.len() as u64 != size {
            return Err(DataError::at(entry_place, "is truncated: the archive ends inside it"));
        }
        let Location { part, class, name, .. } = location;
        files.push(ImageFile { part, class, name, place: entry_place, bytes });
    }
    // An archive that was cut between two files would otherwise pass for a smaller data set.
    if position.get() < end_of_entries.saturating_add(TAR_BLOCK) {
        return Err(DataError::at(place, "is truncated: the end-of-archive mark is missing"));
    }
    // A compressed stream's checksum comes after the mark.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(damaged)?;
    Ok(files)
}

/// Where an image's path puts it.
struct Location {
    prefix: String,
    part: Part,
    class: String,
    name: String,
}

impl Location {
    /// `None` for files that are not images of the data set; an error for images in the wrong depth of a split.
    fn of(path: &str, place: &str) -> Result<Option<Self>, DataError> {
        let components: Vec<&str> =
            path.split('/').filter(|component| !matches!(*component, "" | ".")).collect();
        let Some((&name, folders)) = components.split_last() else { return Ok(None) };
        if !is_image_name(name) {
            return Ok(None);
        }
        let part_of = |folder: &str| Part::ALL.into_iter().find(|part| part.folder() == folder);
        if let [prefix @ .., part, class] = folders
            && let Some(part) = part_of(part)
        {
            return Ok(Some(Self {
                prefix: prefix.join("/"),
                part,
                class: class.to_string(),
                name: name.to_string(),
            }));
        }
        if folders.iter().any(|folder| part_of(folder).is_some()) {
            return Err(DataError::at(
                place,
                "is an image outside train/<class>/ and test/<class>/",
            ));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Images;
    use crate::image_files::tests_support::grey_png;
    use crate::test_support::{TemporaryFolder, crc32, every_damage, gzip};

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn read(bytes: &[u8], compression: Compression) -> Result<Dataset, DataError> {
        let files = read_compressed(bytes, compression, "a.tar", 1 << 22)?;
        dataset_of(files, "a".into(), "a.tar", 1 << 20)
    }

    fn error_of(files: &[(&str, &[u8])]) -> String {
        read(&tar_of(files), Compression::None).unwrap_err().to_string()
    }

    /// testdata/README.md lists what is in both archives, which real tar, gzip and xz wrote.
    #[test]
    fn reads_archives_made_by_the_usual_tools() {
        let folder = TemporaryFolder::new();
        for (name, bytes) in [
            ("tiny.tar.gz", include_bytes!("../testdata/tiny.tar.gz").as_slice()),
            ("tiny.tar.xz", include_bytes!("../testdata/tiny.tar.xz").as_slice()),
        ] {
            let dataset = Dataset::open(&folder.write(name, bytes)).unwrap();
            assert_eq!(dataset.name, "tiny");
            assert_eq!(dataset.classes, ["cat", "dog"]);
            assert_eq!(dataset.train.shape, [1, 2, 2]);
            assert_eq!(dataset.train.labels, [0, 0, 1]);
            let train = vec![1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24];
            assert_eq!(dataset.train.images, Images::U8(train));
            assert_eq!(dataset.test.labels, [0, 1]);
            let test = vec![31, 32, 33, 34, 255, 254, 253, 0];
            assert_eq!(dataset.test.images, Images::U8(test));
        }
    }

    #[test]
    fn the_layout_may_sit_below_a_folder_and_beside_other_files() {
        let png = grey_png(1, 1, &[5]);
        let files = [
            ("set/readme.txt", &b"hello"[..]),
            ("set/preview.png", b"left out"),
            ("set/train/cat/2.png", &png),
            ("set/train/cat/._2.png", b"left out"),
            ("set/test/cat/1.png", &png),
        ];
        let plain = tar_of(&files);
        assert_eq!(Compression::of(&plain), Some(Compression::None));
        let dataset = read(&plain, Compression::None).unwrap();
        assert_eq!((dataset.train.len(), dataset.test.len()), (1, 1));
        assert_eq!(read(&gzip(&plain), Compression::Gzip).unwrap(), dataset);
    }

    #[test]
    fn each_defect_is_named_with_its_file() {
        let png = grey_png(1, 1, &[5]);
        let error =
            error_of(&[("train/a/1.png", &png), ("train/a/1.png", &png), ("test/a/1.png", &png)]);
        assert_eq!(error, "a.tar: train/a/1.png: appears twice");
        let error = error_of(&[("x/train/a/1.png", &png), ("y/test/a/1.png", &png)]);
        assert!(error.starts_with("a.tar: y/test/a/1.png: is not in the same folder"), "{error}");
        let error = error_of(&[("train/a/b/1.png", &png)]);
        assert!(error.starts_with("a.tar: train/a/b/1.png: is an image outside"), "{error}");
        let error = error_of(&[("train/a/1.png", &png)]);
        assert!(error.contains("no images test/<class>"), "{error}");
        let error = error_of(&[("readme", b"")]);
        assert!(error.contains("no images train/<class>"), "{error}");
    }

    #[test]
    fn a_cut_archive_is_never_a_smaller_data_set() {
        let png = grey_png(1, 1, &[5]);
        let whole =
            tar_of(&[("train/a/1.png", &png), ("test/a/1.png", &png), ("test/a/2.png", &png)]);
        assert_eq!(read(&whole, Compression::None).unwrap().test.len(), 2);
        // The mark is two zero blocks; one of them is enough to know the end.
        for length in 0..whole.len() - 512 {
            assert!(read(&whole[..length], Compression::None).is_err(), "{length}");
        }
        let zipped = gzip(&whole);
        for length in 0..zipped.len() {
            assert!(read(&zipped[..length], Compression::Gzip).is_err(), "{length}");
        }
        let xz = include_bytes!("../testdata/tiny.tar.xz");
        for length in 0..xz.len() {
            assert!(read(&xz[..length], Compression::Xz).is_err(), "{length}");
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = tar_of(&[("train/a/1.png", &vec![0; 1 << 22])]);
        let error = read(&gzip(&bomb), Compression::Gzip).unwrap_err().to_string();
        assert!(error.contains("limit of 4194304 bytes"), "{error}");
        let mut header = tar::Header::new_ustar();
        header.set_path("train/a/1.png").unwrap();
        header.set_size(u64::MAX >> 8);
        header.set_cksum();
        let error = read(header.as_bytes(), Compression::None).unwrap_err().to_string();
        assert!(error.contains("truncated"), "{error}");
    }

    #[test]
    fn an_xz_dictionary_beyond_the_limit_is_refused() {
        let mut xz = include_bytes!("../testdata/tiny.tar.xz").to_vec();
        // The block header follows 12 bytes: length, flags, filter 0x21 with one byte of properties, the dictionary.
        let length = (usize::from(xz[12]) + 1) * 4;
        let filter = xz[12..12 + length].windows(2).position(|pair| pair == [0x21, 1]).unwrap();
        xz[12 + filter + 2] = 39; // 3 GiB
        let checksum = crc32(&xz[12..12 + length - 4]);
        xz[12 + length - 4..12 + length].copy_from_slice(&checksum.to_le_bytes());
        let error = read(&xz, Compression::Xz).unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }

    #[test]
    fn damaged_archives_fail_or_read_but_never_panic() {
        let png = grey_png(1, 1, &[5]);
        let whole = tar_of(&[("train/a/1.png", &png), ("test/a/1.png", &png)]);
        // The two headers and the images; the rest is zeros.
        every_damage(&whole[..1664], |bytes| {
            let _ = read(bytes, Compression::None);
        });
        every_damage(include_bytes!("../testdata/tiny.tar.xz"), |bytes| {
            let _ = read(bytes, Compression::Xz);
        });
    }
}
