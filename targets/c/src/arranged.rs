//! Constants that kernels of a dialect read in an order of their own: each becomes an array of its own, and is not stored twice.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::program::{BufferId, KernelId, Launch, Program, Region, Step};

use crate::kernel::in_c;
use crate::program::each_launch;

/// Which operands of which launches are arranged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arranged {
    /// Operands that are arranged in all launches of a kernel.
    operands: BTreeMap<KernelId, BTreeSet<usize>>,
    /// Position of the array of a kernel's operand that is this constant.
    places: BTreeMap<(KernelId, usize, BufferId), usize>,
    /// The constant's name and the bytes; their number is a multiple of 4.
    arrays: Vec<(String, Vec<u8>)>,
}

impl Arranged {
    /// What kernels have an order for.
    ///
    /// # Errors
    /// If a kernel has no C.
    pub(crate) fn of(program: &Program) -> Result<Arranged, String> {
        let mut launches: BTreeMap<KernelId, Vec<&Launch>> = BTreeMap::new();
        for entry in &program.entries {
            each_launch(&entry.steps, &mut |l| launches.entry(l.kernel).or_default().push(l));
        }
        let mut all = Arranged::default();
        for (id, launches) in launches {
            let kernel = program.kernel(id);
            let own = in_c(kernel)?;
            let bytes = |launch: &Launch, i: usize| match &program.buffer(launch.inputs[i]).region {
                Region::Constant(value) => own.arranged(i, value),
                _ => None,
            };
            let wanted = |i: &usize| launches.iter().any(|launch| bytes(launch, *i).is_some());
            let operands: BTreeSet<usize> = (0..kernel.inputs.len()).filter(wanted).collect();
            let values: Option<Vec<(usize, BufferId, Vec<u8>)>> = operands
                .iter()
                .flat_map(|&i| launches.iter().map(move |launch| (i, launch)))
                .map(|(i, launch)| Some((i, launch.inputs[i], bytes(launch, i)?)))
                .collect();
            let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
            all.operands.insert(id, operands);
            for (i, buffer, mut bytes) in values {
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                let name = program.buffer(buffer).name.clone();
                let array = (name, bytes);
                let at = all.arrays.iter().position(|old| *old == array).unwrap_or_else(|| {
                    all.arrays.push(array);
                    all.arrays.len() - 1
                });
                all.places.insert((id, i, buffer), at);
            }
        }
        Ok(all)
    }

    /// Whether a kernel's launches have arranged constants.
    pub(crate) fn is_constant(&self, kernel: KernelId) -> bool {
        self.operands.contains_key(&kernel)
    }

    /// Position of the array in the place of a launch's operand.
    pub(crate) fn operand(&self, launch: &Launch, operand: usize) -> Option<usize> {
        self.places.get(&(launch.kernel, operand, launch.inputs[operand])).copied()
    }

    /// Name of the constant and bytes of each array.
    pub(crate) fn arrays(&self) -> &[(String, Vec<u8>)] {
        &self.arrays
    }

    /// The program, where constants that are read in no other way take no place.
    pub(crate) fn without<'p>(&self, program: &'p Program, alignment: usize) -> Cow<'p, Program> {
        if self.arrays.is_empty() {
            return Cow::Borrowed(program);
        }
        let mut read = BTreeSet::new();
        for entry in &program.entries {
            conditions(&entry.steps, &mut read);
            each_launch(&entry.steps, &mut |launch| {
                let inputs = launch.inputs.iter().enumerate();
                read.extend(
                    inputs.filter(|&(i, _)| self.operand(launch, i).is_none()).map(|(_, b)| b),
                );
            });
        }
        let arranged: BTreeSet<BufferId> = self.places.keys().map(|&(.., buffer)| buffer).collect();
        let mut program = program.clone();
        let mut offset = 0usize;
        let mut constants: Vec<BufferId> = Vec::new();
        for (n, buffer) in program.buffers.iter().enumerate() {
            if matches!(buffer.region, Region::Constant(_)) {
                constants.push(BufferId(n));
            }
        }
        constants.sort_by_key(|id| program.buffer(*id).offset);
        for id in constants {
            let buffer = &mut program.buffers[id.0];
            if arranged.contains(&id) && !read.contains(&id) {
                // Nothing names it.
                buffer.region = Region::Arena;
                continue;
            }
            offset = offset.next_multiple_of(alignment);
            buffer.offset = offset;
            offset += trainc_ir::program::buffer_bytes(&buffer.ty);
        }
        program.memory.constant_bytes = offset;
        Cow::Owned(program)
    }
}

fn conditions(steps: &[Step], read: &mut BTreeSet<BufferId>) {
    for step in steps {
        if let Step::Branch { condition, then, otherwise } = step {
            read.insert(*condition);
            conditions(then, read);
            conditions(otherwise, read);
        }
    }
}
