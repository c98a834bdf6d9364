//! The state that a device saved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trainc_ir::Tensor;
use trainc_ir::harness::CHECKPOINT_HEADER;
use trainc_ir::program::{Buffer, Program, Region, buffer_bytes};
use trainc_ir::tensor_bytes::tensor_from_bytes;

use crate::error::{Context, InFile, Result, ensure};
use crate::hash::crc32;
use crate::targets;

/// The first bytes of a state that emitted code saved; see `trainc_rt.h`.
const START: &[u8] = b"TRNC";
const VERSION: u32 = 1;

/// A device's state as its file has it.
pub(crate) struct DeviceState {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl DeviceState {
    /// Whether a file that starts so may be one.
    pub(crate) fn starts_with(start: &[u8]) -> bool {
        start == START
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(path: &Path) -> Result<DeviceState> {
        let bytes =
            std::fs::read(path).map_err(|e| InFile::new(path, format!("cannot read: {e}")))?;
        Ok(DeviceState { path: path.to_path_buf(), bytes })
    }

    /// The state under the model's `names`: that of a program under an algorithm. It is checked as the device's own
    /// `_load` does.
    ///
    /// # Errors
    /// If it is damaged, or another program's.
    pub(crate) fn tensors(
        &self,
        program: &Program,
        names: &[String],
        algorithm: &str,
    ) -> Result<Vec<(String, Tensor)>> {
        let found = tensors(&self.bytes, program, names, algorithm);
        found.map_err(|e| InFile::new(&self.path, e).into())
    }
}

fn tensors(
    bytes: &[u8],
    program: &Program,
    names: &[String],
    algorithm: &str,
) -> Result<Vec<(String, Tensor)>> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    let number = |at: usize| word(at).map(u32::from_le_bytes).context("it is cut short");
    ensure!(number(4)? == VERSION, "a device's state of another version");
    let hash = u64::from(number(8)?) | u64::from(number(12)?) << 32;
    let (length, sum) = (number(24)? as usize, number(28)?);
    let state = bytes.get(CHECKPOINT_HEADER..).context("it is cut short")?;
    ensure!(state.len() == length, "{length} bytes of state are claimed, it has {}", state.len());
    ensure!(
        checksum(&bytes[..28], state) == sum,
        "the device's state is damaged: its checksum is wrong"
    );
    // Targets align buffers differently.
    let alignments: BTreeSet<usize> =
        targets::TARGETS.iter().map(|t| t.description().alignment).collect();
    let placed = alignments.into_iter().map(|alignment| with_alignment(program, alignment));
    let of_device = |p: &Program| trainc_c::model_hash(p) == hash && p.memory.state_bytes == length;
    let program = placed.into_iter().find(of_device).with_context(|| {
        format!(
            "a device's state of another model than `{}` under algorithm `{algorithm}`, or of one that was compiled with other \
             frozen parts",
            program.name
        )
    })?;
    let tensor = |buffer: &Buffer| {
        let bytes = state.get(buffer.offset..buffer.offset + buffer.bytes())?;
        tensor_from_bytes(&buffer.ty, bytes)
    };
    let named = names.iter().zip(program.state()).map(|(name, buffer)| {
        let tensor = tensor(buffer).with_context(|| format!("`{name}` does not read"))?;
        Ok((name.clone(), tensor))
    });
    named.collect()
}

/// The checksum of a state behind the fields of its header.
fn checksum(fields: &[u8], state: &[u8]) -> u32 {
    crc32(&[fields, state].concat())
}

/// What a checkpoint of a model begins with after a number of steps.
pub(crate) fn checkpoint_header(model: u64, steps: u64, state: &[u8]) -> Vec<u8> {
    let mut header = START.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend(model.to_le_bytes());
    header.extend(steps.to_le_bytes());
    header.extend((state.len() as u32).to_le_bytes());
    let sum = checksum(&header, state);
    header.extend(sum.to_le_bytes());
    header
}

/// The program with its state laid out for another alignment.
fn with_alignment(program: &Program, alignment: usize) -> Program {
    let mut program = program.clone();
    let mut state: Vec<(usize, usize)> = program
        .buffers
        .iter()
        .enumerate()
        .filter_map(|(i, buffer)| match buffer.region {
            Region::State { index, .. } => Some((index, i)),
            _ => None,
        })
        .collect();
    state.sort_unstable();
    let mut offset = 0;
    for (_, i) in state {
        program.buffers[i].offset = offset;
        offset += buffer_bytes(&program.buffers[i].ty).next_multiple_of(alignment);
    }
    program.memory.state_bytes = offset;
    program
}
