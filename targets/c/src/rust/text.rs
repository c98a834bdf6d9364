//! The parts of a Rust module that are the same for every model; words in braces are replaced.

pub(super) const STATE_TENSOR: &str = "
/// A tensor in the state's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTensor {
    /// Its name.
    pub name: &'static str,
    /// Rust's type of its elements, little-endian.
    pub element: &'static str,
    /// Its dimensions, outermost first.
    pub shape: &'static [usize],
    /// Where its elements start.
    pub offset: usize,
    /// Where its exponent stands (`i32`), if it has one: elements count as multiples of 2^exponent.
    pub exponent: Option<usize>,
}

";

pub(super) const MEMORY: &str = "/// {what}
///
/// It may be too large for a stack: keep it in a `static`, or make it of memory with [`{name}::from_bytes`].
#[repr(C, align({alignment}))]
#[derive(Clone)]
pub struct {name}([u8; {bytes}.next_multiple_of(ALIGNMENT)]);

impl {name} {
    /// All zeros.
    pub const fn zeroed() -> {name} {
        {name}([0; {bytes}.next_multiple_of(ALIGNMENT)])
    }

    /// The start of `bytes`, as it is. `None` if there are fewer than `size_of::<{name}>()` of them, or they are not
    /// aligned to [`ALIGNMENT`].
    pub fn from_bytes(bytes: &mut [u8]) -> Option<&mut {name}> {
        let aligned = bytes.as_ptr() as usize % ALIGNMENT == 0;
        let fits = bytes.len() >= core::mem::size_of::<{name}>();
        // SAFETY: size and alignment are right, any bytes are such memory, and it has no padding.
        (fits && aligned).then(|| unsafe { &mut *bytes.as_mut_ptr().cast::<{name}>() })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0[..{bytes}]
    }
}

";

pub(super) const SHARED: &str = "/// A tensor with one exponent: elements * 2^exponent.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared<T, const N: usize> {
    /// Row-major.
    pub elements: [T; N],
    /// Of all elements.
    pub exponent: i32,
}

";

pub(super) const INIT: &str = "/// Sets the state to its value before the first step.
#[inline]
pub fn init(state: &mut State) {
    // SAFETY: the type gives the state its size and alignment.
    unsafe { raw::{prefix}_init(state) }
}

";

pub(super) const STATUS: &str = "/// Why a checkpoint was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Fewer or more bytes than a checkpoint of this model has.
    WrongSize,
    /// Not a checkpoint, or of another version.
    WrongFormat,
    /// A checkpoint of another model, or of the same compiled otherwise.
    WrongModel,
    /// The bytes are not those that were saved.
    Damaged,
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Status::WrongSize => \"the checkpoint has another size than this model's\",
            Status::WrongFormat => \"not a checkpoint, or of another version\",
            Status::WrongModel => \"a checkpoint of another model\",
            Status::Damaged => \"the checkpoint is damaged\",
        })
    }
}

impl core::error::Error for Status {}

";

pub(super) const CHECKPOINTS: &str = "/// Writes the state and the number of steps so far.
#[inline]
pub fn save(state: &State, step: u64, checkpoint: &mut [u8; CHECKPOINT_BYTES]) {
    // SAFETY: types give both their sizes, and they do not overlap.
    unsafe { raw::{prefix}_save(state, step, checkpoint) }
}

/// Reads what was saved: the number of steps. A checkpoint that is refused leaves the state as it is.
#[inline]
pub fn load(state: &mut State, checkpoint: &[u8]) -> Result<u64, Status> {
    let mut step = 0;
    // SAFETY: the type gives the state its size, the slice knows its own; nothing overlaps.
    let status =
        unsafe { raw::{prefix}_load(state, &mut step, checkpoint.as_ptr(), checkpoint.len()) };
    match status {
        0 => Ok(step),
        1 => Err(Status::WrongSize),
        2 => Err(Status::WrongFormat),
        3 => Err(Status::WrongModel),
        _ => Err(Status::Damaged),
    }
}

";
