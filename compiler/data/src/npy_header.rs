//! The header of NumPy's `.npy` format: magic bytes, version, and a Python dictionary of the element type, the order and
//! the shape.

use std::io::Read;

use crate::error::DataError;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy's own limit on dimensions, since version 2.
pub(crate) const MAX_DIMENSIONS: usize = 64;
/// A header is a few dozen bytes; NumPy itself distrusts ones above 10,000.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// What a header says of the array that follows it.
pub(crate) struct Header {
    /// NumPy's spelling of the byte order and the element type, such as `<f4`.
    pub(crate) descriptor: String,
    /// Whether the first dimension, not the last, is contiguous.
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<usize>,
}

impl Header {
    /// Reads the header and leaves `reader` at the first element; `place` names the array in errors.
    pub(crate) fn read(reader: &mut impl Read, place: &str) -> Result<Self, DataError> {
        let mut start = [0u8; 8];
        read_exactly(reader, &mut start, place, "its header")?;
        if &start[..6] != MAGIC {
            return Err(DataError::at(place, "is not a NumPy array (wrong magic bytes)"));
        }
        let length = match start[6] {
            1 => {
                let mut length = [0u8; 2];
                read_exactly(reader, &mut length, place, "its header")?;
                usize::from(u16::from_le_bytes(length))
            }
            2 | 3 => {
                let mut length = [0u8; 4];
                read_exactly(reader, &mut length, place, "its header")?;
                u32::from_le_bytes(length) as usize
            }
            version => {
                return Err(DataError::at(
                    place,
                    format!("has the NumPy format version {version}; versions 1 to 3 are known"),
                ));
            }
        };
        if length > MAX_HEADER_BYTES {
            return Err(DataError::at(
                place,
                format!("claims a header of {length} bytes; the limit is {MAX_HEADER_BYTES}"),
            ));
        }
        let mut text = vec![0u8; length];
        read_exactly(reader, &mut text, place, "its header")?;
        // Version 3 is UTF-8, the older ones Latin-1; of what is accepted here all is ASCII.
        let text = std::str::from_utf8(&text)
            .map_err(|_| DataError::at(place, "has a header that is not text"))?;
        parse_header(text).map_err(|reason| DataError::at(place, format!("has {reason}")))
    }
}

/// Magic, version 1.0, and the header dictionary as NumPy spells it: keys sorted, room for the first dimension to grow
/// in place to 21 digits, padded so that the data starts at a multiple of 64.
pub(crate) fn header_bytes(descriptor: &str, shape: &[usize]) -> Vec<u8> {
    let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
    let tuple = match &lengths[..] {
        [only] => format!("({only},)"),
        all => format!("({})", all.join(", ")),
    };
    let mut header =
        format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': {tuple}, }}");
    if let Some(first) = lengths.first() {
        header.push_str(&" ".repeat(21usize.saturating_sub(first.len())));
    }
    let fixed = MAGIC.len() + 2 + 2;
    let padding = 64 - (fixed + header.len() + 1) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let mut bytes = Vec::with_capacity(fixed + header.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    // At most 64 dimensions of 20 digits: far below the 65,535 bytes that version 1.0 allows.
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes
}

/// Parses the header's Python dictionary. The error completes "has ...".
fn parse_header(text: &str) -> Result<Header, String> {
    let mut parser = Parser { rest: text };
    let mut descriptor = None;
    let mut fortran_order = None;
    let mut shape = None;
    parser.expect('{')?;
    while !parser.accept('}') {
        let key = parser.string()?;
        parser.expect(':')?;
        match key {
            "descr" => {
                if parser.peek() == Some('[') {
                    return Err("a structured element type, which is not supported".to_string());
                }
                descriptor = Some(parser.string()?.to_string());
            }
            "fortran_order" => fortran_order = Some(parser.boolean()?),
            "shape" => shape = Some(parser.tuple()?),
            other => return Err(format!("the unknown header key {other:?}")),
        }
        if !parser.accept(',') {
            parser.expect('}')?;
            break;
        }
    }
    if parser.peek().is_some() {
        return Err("text after its header dictionary".to_string());
    }
    match (descriptor, fortran_order, shape) {
        (Some(descriptor), Some(fortran_order), Some(shape)) => {
            Ok(Header { descriptor, fortran_order, shape })
        }
        _ => Err("a header without descr, fortran_order and shape".to_string()),
    }
}

/// A reader of the few Python literals that a header holds.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\0']);
        self.rest.chars().next()
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.accept(wanted) { Ok(()) } else { Err(self.malformed(&format!("{wanted:?}"))) }
    }

    fn malformed(&mut self, wanted: &str) -> String {
        match self.peek() {
            Some(found) => format!("a malformed header: {wanted} expected, {found:?} found"),
            None => format!("a malformed header: {wanted} expected, nothing found"),
        }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let quote = match self.peek() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Err(self.malformed("a quoted string")),
        };
        let (text, rest) = self.rest[1..]
            .split_once(quote)
            .ok_or_else(|| "a malformed header: a string without its end".to_string())?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.malformed("True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut lengths = Vec::new();
        while !self.accept(')') {
            if lengths.len() == MAX_DIMENSIONS {
                return Err(format!("more than {MAX_DIMENSIONS} dimensions"));
            }
            self.peek();
            let digits =
                self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let length = self.rest[..digits].parse().map_err(|_| self.malformed("a dimension"))?;
            // Python 2 wrote long integers as `3L`.
            self.rest = self.rest[digits..].trim_start_matches('L');
            lengths.push(length);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(lengths)
    }
}

/// Reads until `buffer` is full or the stream ends; says how much.
pub(crate) fn read_fully(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills `buffer` or fails, telling a short stream from an undecodable one.
pub(crate) fn read_exactly(
    reader: &mut impl Read,
    buffer: &mut [u8],
    place: &str,
    what: &str,
) -> Result<(), DataError> {
    match read_fully(reader, buffer) {
        Ok(count) if count == buffer.len() => Ok(()),
        Ok(_) => Err(DataError::at(place, format!("is cut short in {what}"))),
        Err(error) => Err(DataError::at(place, format!("cannot be decoded: {error}"))),
    }
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::MAGIC;

    /// A file of the given version with a header that need not be right.
    pub(crate) fn with_header(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }
}
