//! A checked reader of FlatBuffers: every offset is compared with the bytes that are there, and the elements read of all
//! vectors together are bounded by the file's size, so that tables which share bytes cost no more than they take.
//!
//! A table begins with a signed offset back to its vtable: its own length and the table's in two 16-bit numbers, then the
//! place of each field within the table, 0 for an absent one. Strings, vectors and tables are referred to by unsigned
//! offsets forward. All numbers are little-endian.

use std::cell::Cell;

/// What is wrong with the bytes.
pub(crate) type Malformed = String;

/// A file.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Bytes of vectors and tables that may still be read.
    budget: Cell<usize>,
}

/// How often the same byte may be read, on average.
const SHARING: usize = 4;

/// A table of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    reader: &'a Reader<'a>,
    at: usize,
    vtable: usize,
    /// Bytes of the vtable.
    length: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, budget: Cell::new(bytes.len().saturating_mul(SHARING)) }
    }

    /// All bytes of the file.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The root table.
    pub(crate) fn root(&'a self) -> Result<Table<'a>, Malformed> {
        let at = self.u32(0)? as usize;
        self.table(at)
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Malformed> {
        at.checked_add(N)
            .and_then(|end| self.bytes.get(at..end))
            .and_then(|slice| slice.try_into().ok())
            .ok_or_else(|| format!("byte {at} is beyond the file's {}", self.bytes.len()))
    }

    fn u16(&self, at: usize) -> Result<u16, Malformed> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Result<u32, Malformed> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// Where the offset at a place leads.
    fn follow(&self, at: usize) -> Result<usize, Malformed> {
        let offset = self.u32(at)? as usize;
        at.checked_add(offset)
            .filter(|&to| offset > 0 && to < self.bytes.len())
            .ok_or_else(|| format!("the offset {offset} at byte {at} leaves the file"))
    }

    fn spend(&self, bytes: usize) -> Result<(), Malformed> {
        match self.budget.get().checked_sub(bytes) {
            Some(left) => {
                self.budget.set(left);
                Ok(())
            }
            None => Err("tables and vectors share bytes over and over".to_string()),
        }
    }

    fn table(&'a self, at: usize) -> Result<Table<'a>, Malformed> {
        let back = i64::from(i32::from_le_bytes(self.array(at)?));
        let vtable = usize::try_from(at as i64 - back)
            .map_err(|_| format!("the table at byte {at} has no vtable"))?;
        let length = usize::from(self.u16(vtable)?);
        if length < 4 || !length.is_multiple_of(2) || vtable + length > self.bytes.len() {
            return Err(format!("the table at byte {at} has a vtable of {length} bytes"));
        }
        self.spend(4)?;
        Ok(Table { reader: self, at, vtable, length })
    }
}

/// Fields, by their numbers in the schema.
impl<'a> Table<'a> {
    /// Where a field is; `None` if it is absent.
    fn field(&self, number: usize) -> Result<Option<usize>, Malformed> {
        let place = 4 + 2 * number;
        if place + 2 > self.length {
            return Ok(None);
        }
        match usize::from(self.reader.u16(self.vtable + place)?) {
            0 => Ok(None),
            offset => Ok(Some(self.at + offset)),
        }
    }

    fn scalar<const N: usize>(&self, number: usize) -> Result<Option<[u8; N]>, Malformed> {
        self.field(number)?.map(|at| self.reader.array(at)).transpose()
    }

    pub(crate) fn u8(&self, number: usize) -> Result<u8, Malformed> {
        Ok(self.scalar::<1>(number)?.map_or(0, |[byte]| byte))
    }

    pub(crate) fn i32(&self, number: usize, default: i32) -> Result<i32, Malformed> {
        Ok(self.scalar(number)?.map_or(default, i32::from_le_bytes))
    }

    pub(crate) fn u32(&self, number: usize) -> Result<u32, Malformed> {
        Ok(self.scalar(number)?.map_or(0, u32::from_le_bytes))
    }

    pub(crate) fn u64(&self, number: usize) -> Result<u64, Malformed> {
        Ok(self.scalar(number)?.map_or(0, u64::from_le_bytes))
    }

    pub(crate) fn f32(&self, number: usize) -> Result<f32, Malformed> {
        Ok(self.scalar(number)?.map_or(0.0, f32::from_le_bytes))
    }

    /// A table that a field refers to.
    pub(crate) fn table(&self, number: usize) -> Result<Option<Table<'a>>, Malformed> {
        match self.field(number)? {
            None => Ok(None),
            Some(at) => self.reader.table(self.reader.follow(at)?).map(Some),
        }
    }

    /// The bytes of a vector's elements of `width` bytes; `None` if the field is absent.
    fn vector(&self, number: usize, width: usize) -> Result<Option<(usize, &'a [u8])>, Malformed> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        let at = self.reader.follow(at)?;
        let count = self.reader.u32(at)? as usize;
        let start = at + 4;
        let elements = count
            .checked_mul(width)
            .and_then(|length| start.checked_add(length))
            .and_then(|end| self.reader.bytes.get(start..end))
            .ok_or_else(|| format!("a vector of {count} elements at byte {at} leaves the file"))?;
        Ok(Some((start, elements)))
    }

    /// A vector of bytes, empty if absent. Not copied, so not counted.
    pub(crate) fn bytes(&self, number: usize) -> Result<&'a [u8], Malformed> {
        Ok(self.vector(number, 1)?.map_or(&[], |(_, bytes)| bytes))
    }

    /// A string, empty if absent; what is not UTF-8 is replaced.
    pub(crate) fn string(&self, number: usize) -> Result<String, Malformed> {
        let bytes = self.bytes(number)?;
        self.reader.spend(bytes.len())?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn numbers<const N: usize, T>(
        &self,
        number: usize,
        read: impl Fn([u8; N]) -> T,
    ) -> Result<Option<Vec<T>>, Malformed> {
        let Some((_, bytes)) = self.vector(number, N)? else { return Ok(None) };
        self.reader.spend(bytes.len())?;
        Ok(Some(bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()))
    }

    /// A vector of 32-bit integers; `None` if absent.
    pub(crate) fn i32s(&self, number: usize) -> Result<Option<Vec<i32>>, Malformed> {
        self.numbers(number, i32::from_le_bytes)
    }

    pub(crate) fn i64s(&self, number: usize) -> Result<Vec<i64>, Malformed> {
        Ok(self.numbers(number, i64::from_le_bytes)?.unwrap_or_default())
    }

    pub(crate) fn f32s(&self, number: usize) -> Result<Vec<f32>, Malformed> {
        Ok(self.numbers(number, f32::from_le_bytes)?.unwrap_or_default())
    }

    /// A vector of tables, empty if absent.
    pub(crate) fn tables(&self, number: usize) -> Result<Vec<Table<'a>>, Malformed> {
        let Some((start, bytes)) = self.vector(number, 4)? else { return Ok(Vec::new()) };
        self.reader.spend(bytes.len())?;
        (0..bytes.len() / 4)
            .map(|i| self.reader.table(self.reader.follow(start + 4 * i)?))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with an i32 (field 0), an absent field and a vector of i32 (field 2), by hand from the format's rules.
    const FILE: [u8; 40] = [
        16, 0, 0, 0, // root: byte 16
        0, 0, // padding
        10, 0, 12, 0, 4, 0, 0, 0, 8,
        0, // vtable at 6: 10 bytes, table 12, fields at 4, none, 8
        10, 0, 0, 0, // table at 16: vtable 10 bytes before
        249, 255, 255, 255, // -7
        4, 0, 0, 0, // vector 4 bytes on, at 28
        2, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, // two elements
    ];

    #[test]
    fn fields_by_hand() {
        let reader = Reader::new(&FILE);
        let table = reader.root().expect("a table");
        assert_eq!(table.i32(0, 1), Ok(-7));
        assert_eq!(table.i32(1, 3), Ok(3), "an absent field has its default");
        assert_eq!(table.i32s(2), Ok(Some(vec![5, 6])));
        assert_eq!(table.i32s(9), Ok(None), "beyond the vtable");
    }

    #[test]
    fn offsets_that_leave_the_file_are_errors() {
        for end in 0..FILE.len() {
            let reader = Reader::new(&FILE[..end]);
            let read = reader.root().and_then(|t| t.i32s(2));
            assert!(read.is_err(), "{end} bytes: {read:?}");
        }
        let mut loops = FILE;
        loops[0] = 255;
        assert!(Reader::new(&loops).root().is_err());
    }

    #[test]
    fn shared_bytes_are_counted() {
        let reader = Reader::new(&FILE);
        let table = reader.root().expect("a table");
        let reads = (0..100).take_while(|_| table.i32s(2).is_ok()).count();
        assert!((1..=40 * SHARING / 8).contains(&reads), "{reads} reads");
    }
}
