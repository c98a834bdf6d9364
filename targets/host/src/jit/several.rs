//! Calls of one entry that run side by side, each on a thread of its own with an arena of its own: evaluation takes images one by one, of
//! which each alone is little work for several threads. What the calls share is only read: state, constants, and the weights as the first
//! call has packed them.

use trainc_ir::random::RunContext;

use super::{Addresses, EntryFunction, EntryHandle, HostProgram};
use crate::HostError;
use crate::kernels::{MOST_PARTS, Parts, piece, run as run_tasks, threads};
use crate::memory::AlignedBytes;

/// Operands and results of a call, as [`HostProgram::run_raw`] takes them.
#[derive(Debug)]
pub struct CallBytes<'a> {
    /// Operands.
    pub inputs: Vec<&'a [u8]>,
    /// Results.
    pub outputs: Vec<&'a mut [u8]>,
}

impl CallBytes<'_> {
    fn is_aligned(&self) -> bool {
        let outputs = self.outputs.iter().map(|bytes| bytes.as_ptr());
        self.inputs
            .iter()
            .map(|bytes| bytes.as_ptr())
            .chain(outputs)
            .all(|address| address.addr().is_multiple_of(4))
    }
}

/// Memory of calls that run side by side, kept for the next ones.
#[derive(Default)]
pub(super) struct Beside {
    /// Arenas of all threads but the caller's.
    arenas: Vec<AlignedBytes>,
    /// Packed weights, one for each memo of the entry that needs some.
    panels: Vec<AlignedBytes>,
}

impl HostProgram {
    /// As so many calls of [`HostProgram::run_raw`] in a row, which do not depend on each other.
    ///
    /// # Errors
    /// As of [`HostProgram::run_raw`], and if the entry changes the state.
    pub fn run_several(
        &mut self,
        entry: EntryHandle,
        calls: &mut [CallBytes<'_>],
        run: &RunContext,
    ) -> Result<(), HostError> {
        let declared = self.declared(entry)?;
        if self.program.writes_state(declared) {
            return Err(HostError::Argument(format!(
                "`{}` changes the state: its calls follow each other",
                declared.name
            )));
        }
        for call in calls.iter() {
            self.check_call(declared, &call.inputs, &call.outputs)?;
        }
        let one_by_one = self.timer.is_some() || !calls.iter().all(CallBytes::is_aligned);
        let Some((first, others)) = calls.split_first_mut() else { return Ok(()) };
        if one_by_one || others.is_empty() {
            return calls
                .iter_mut()
                .try_for_each(|call| self.run_raw(entry, &call.inputs, &mut call.outputs, run));
        }
        self.keep_panels(entry);
        let result = self.run_raw(entry, &first.inputs, &mut first.outputs, run);
        self.memos[entry.0].iter_mut().for_each(|memo| memo.share());
        if result.is_ok() {
            self.run_beside(entry, others, run);
        }
        self.memos[entry.0].iter_mut().for_each(|memo| memo.forget());
        result
    }

    /// Lets the entry's first call leave its packed weights for the others.
    #[allow(unsafe_code, reason = "memory that generated code's calls share")]
    fn keep_panels(&mut self, entry: EntryHandle) {
        let memos = &mut self.memos[entry.0];
        let needed = memos.iter().map(|memo| memo.panel_bytes()).filter(|&bytes| bytes > 0);
        if !needed.clone().eq(self.beside.panels.iter().map(|panels| panels.bytes().len())) {
            self.beside.panels = needed.map(AlignedBytes::new).collect();
        }
        let memos = memos.iter_mut().filter(|memo| memo.panel_bytes() > 0);
        for (memo, panels) in memos.zip(&mut self.beside.panels) {
            // SAFETY: `run_several` holds this program until it has called `forget`, so that neither the memory nor state and constants,
            // where the weights are, can change; it runs the first call alone, and `share` comes before the others.
            unsafe { memo.keep(panels.bytes_mut().as_mut_ptr()) };
        }
    }

    /// Runs calls, which have been checked, on all threads.
    fn run_beside(&mut self, entry: EntryHandle, calls: &mut [CallBytes<'_>], run: &RunContext) {
        let length = calls.len();
        let count = threads().min(length).min(MOST_PARTS);
        let arena_bytes = self.program.arena_bytes_of(&self.program.entries[entry.0]);
        let arenas = &mut self.beside.arenas;
        arenas.retain(|arena| arena.bytes().len() >= arena_bytes);
        while arenas.len() + 1 < count {
            arenas.push(AlignedBytes::new(arena_bytes));
        }
        let own = std::iter::once(&mut self.arena);
        let mut arenas: Vec<&mut [u8]> =
            own.chain(arenas).map(AlignedBytes::bytes_mut).take(count).collect();
        let fixed = Fixed {
            function: self.entries[entry.0],
            state: self.state.bytes(),
            constants: self.constants.bytes(),
            words: [run.seed as u32, (run.seed >> 32) as u32, run.step],
        };
        let arenas = Parts::new(&mut arenas, |index| index);
        let calls = Parts::new(calls, |index| piece(length, 1, count, index).start);
        run_tasks(count, &|index| {
            for arena in arenas.take(index) {
                calls.take(index).iter_mut().for_each(|call| fixed.call(arena, call));
            }
        });
    }
}

/// What calls share.
struct Fixed<'a> {
    function: EntryFunction,
    state: &'a [u8],
    constants: &'a [u8],
    words: [u32; 3],
}

impl Fixed<'_> {
    #[allow(unsafe_code, reason = "calling generated code")]
    fn call(&self, arena: &mut [u8], call: &mut CallBytes<'_>) {
        let inputs = Addresses::new(call.inputs.iter().map(|bytes| bytes.as_ptr()));
        let outputs = Addresses::new(call.outputs.iter_mut().map(|bytes| bytes.as_mut_ptr()));
        // SAFETY: as in `run_raw`; the arena holds all that this entry's launches refer to, the entry does not write the state, and lengths
        // and alignments of the arguments have been checked.
        unsafe {
            (self.function)(
                arena.as_mut_ptr(),
                self.state.as_ptr().cast_mut(),
                self.constants.as_ptr(),
                inputs.all().as_ptr(),
                outputs.all().as_ptr(),
                self.words.as_ptr(),
            );
        }
    }
}
