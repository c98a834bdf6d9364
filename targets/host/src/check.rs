//! A program's promises about memory, checked before code is made of them.

use trainc_ir::program::{Buffer, BufferId, Entry, Program, Region, Step};

use crate::HostError;

/// Checks that every access of the schedule stays within the stated sizes and that types agree.
///
/// # Errors
/// The first promise that does not hold.
pub(crate) fn check(program: &Program) -> Result<(), HostError> {
    for buffer in &program.buffers {
        let size = match &buffer.region {
            Region::Arena => program.memory.arena_bytes,
            Region::State { initial, .. } => {
                same_type(buffer, initial.ty())?;
                program.memory.state_bytes
            }
            Region::Constant(tensor) => {
                same_type(buffer, tensor.ty())?;
                program.memory.constant_bytes
            }
            Region::Input(_) | Region::Output(_) => {
                if buffer.offset != 0 {
                    return Err(invalid(format!("`{}` is not at offset 0", buffer.name)));
                }
                continue;
            }
        };
        if buffer.offset.checked_add(buffer.bytes()).is_none_or(|end| end > size) {
            return Err(invalid(format!(
                "buffer `{}` ends beyond the {size} bytes of its region",
                buffer.name
            )));
        }
        // Shared exponents and 32-bit elements are read as words.
        if !buffer.offset.is_multiple_of(4) {
            return Err(invalid(format!("buffer `{}` is not 4-byte aligned", buffer.name)));
        }
    }
    program.entries.iter().try_for_each(|entry| check_entry(program, entry))
}

fn invalid(message: String) -> HostError {
    HostError::Program(message)
}

fn same_type(buffer: &Buffer, value: &trainc_ir::TensorType) -> Result<(), HostError> {
    if buffer.ty == *value {
        return Ok(());
    }
    Err(invalid(format!("buffer `{}` is {}, its value {value}", buffer.name, buffer.ty)))
}

fn check_entry(program: &Program, entry: &Entry) -> Result<(), HostError> {
    let arguments = |found: &[trainc_ir::program::Argument], input: bool| {
        found.iter().enumerate().try_for_each(|(i, argument)| {
            let buffer = buffer(program, argument.buffer)?;
            let place = if input { Region::Input(i) } else { Region::Output(i) };
            if buffer.region == place {
                return Ok(());
            }
            Err(invalid(format!("argument {i} of `{}` is not {place:?}", entry.name)))
        })
    };
    arguments(&entry.inputs, true)?;
    arguments(&entry.outputs, false)?;
    check_steps(program, entry, &entry.steps)
}

fn buffer(program: &Program, id: BufferId) -> Result<&Buffer, HostError> {
    program.buffers.get(id.0).ok_or_else(|| invalid(format!("there is no buffer {}", id.0)))
}

fn check_use(program: &Program, entry: &Entry, id: BufferId, write: bool) -> Result<(), HostError> {
    let buffer = buffer(program, id)?;
    // Several buffers may show an argument's bytes under types that differ in shape.
    let fits = |a: &trainc_ir::program::Argument| {
        program.buffers.get(a.buffer.0).is_some_and(|b| buffer.bytes() <= b.bytes())
    };
    let reachable = match buffer.region {
        Region::Input(i) => entry.inputs.get(i).is_some_and(&fits) && !write,
        Region::Output(i) => entry.outputs.get(i).is_some_and(fits),
        Region::Constant(_) => !write,
        Region::Arena | Region::State { .. } => true,
    };
    if reachable {
        return Ok(());
    }
    let verb = if write { "write" } else { "read" };
    Err(invalid(format!("entry `{}` cannot {verb} buffer `{}`", entry.name, buffer.name)))
}

fn check_steps(program: &Program, entry: &Entry, steps: &[Step]) -> Result<(), HostError> {
    for step in steps {
        match step {
            Step::Branch { condition, then, otherwise } => {
                check_use(program, entry, *condition, false)?;
                if buffer(program, *condition)?.bytes() < 4 {
                    return Err(invalid("a condition is not an i32".into()));
                }
                check_steps(program, entry, then)?;
                check_steps(program, entry, otherwise)?;
            }
            Step::Launch(launch) => {
                let kernel = program
                    .kernels
                    .get(launch.kernel.0)
                    .ok_or_else(|| invalid(format!("there is no kernel {}", launch.kernel.0)))?;
                let types = |ids: &[BufferId], expected: &[trainc_ir::TensorType], write: bool| {
                    if ids.len() != expected.len() {
                        return Err(invalid(format!("`{}`: number of operands", launch.name)));
                    }
                    ids.iter().zip(expected).try_for_each(|(&id, ty)| {
                        check_use(program, entry, id, write)?;
                        let buffer = buffer(program, id)?;
                        if buffer.ty == *ty {
                            return Ok(());
                        }
                        Err(invalid(format!(
                            "`{}`: buffer `{}` is {}, kernel `{}` takes {ty}",
                            launch.name, buffer.name, buffer.ty, kernel.name
                        )))
                    })
                };
                types(&launch.inputs, &kernel.inputs, false)?;
                types(&launch.outputs, &kernel.outputs, true)?;
                let scratch = launch.scratch.unwrap_or(0);
                let end = scratch.checked_add(kernel.scratch_bytes);
                if (kernel.scratch_bytes > 0 && launch.scratch.is_none())
                    || end.is_none_or(|end| end > program.memory.arena_bytes)
                    || !scratch.is_multiple_of(4)
                {
                    return Err(invalid(format!("`{}`: working memory", launch.name)));
                }
            }
        }
    }
    Ok(())
}
