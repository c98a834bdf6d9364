//! Programs compiled into memory.

use std::sync::Arc;

use cranelift_codegen::ir::{AbiParam, types};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};
use trainc_ir::loops::LoopKernel;
use trainc_ir::program::{Argument, Entry, Program, Region};
use trainc_ir::random::RunContext;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{Tensor, TensorType, Verified};

use self::several::Beside;
use crate::HostError;
use crate::check;
use crate::codegen::{Machine, instruction_set, readonly};
use crate::divided;
use crate::entry::{Compiler, DIVIDE, Memos, StageCode, Timer, define_entries, define_kernels};
use crate::kernel::HostKernel;
use crate::memory::{AlignedBytes, decode_tensor};
use crate::microkernels;
use crate::timer::{self, LaunchTimer, LaunchTimes};

mod several;

pub use several::CallBytes;

type EntryFunction = unsafe extern "C" fn(
    arena: *mut u8,
    state: *mut u8,
    constants: *const u8,
    inputs: *const *const u8,
    outputs: *const *mut u8,
    run: *const u32,
);

/// The name under which generated code finds [`microkernels::launch`].
const LAUNCH: &str = "trainc_host_launch";

/// The name under which generated code finds [`timer::launched`].
const LAUNCHED: &str = "trainc_host_launched";

/// Machine code in memory; given back when dropped.
struct Code(Option<JITModule>);

impl Code {
    fn module() -> Result<JITModule, HostError> {
        let isa = instruction_set(Machine::Native)?;
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        builder.symbol(LAUNCH, microkernels::launch as *const u8);
        builder.symbol(DIVIDE, divided::divide as *const u8);
        builder.symbol(LAUNCHED, timer::launched as *const u8);
        Ok(JITModule::new(builder))
    }
}

impl Drop for Code {
    #[allow(unsafe_code, reason = "giving back the memory of generated code")]
    fn drop(&mut self) {
        if let Some(module) = self.0.take() {
            // SAFETY: function pointers into the module live in the same owner as this `Code`, which is going away;
            // none is running, as running borrows the owner.
            unsafe { module.free_memory() };
        }
    }
}

/// Most addresses that are kept on the stack.
const FEW: usize = 16;

/// The addresses of operands or of results.
enum Addresses<T> {
    Few([T; FEW]),
    Many(Vec<T>),
}

impl<T: Copy> Addresses<T> {
    fn new(mut all: impl ExactSizeIterator<Item = T>) -> Self {
        let count = all.len();
        match all.next() {
            Some(first) if count <= FEW => {
                let mut few = [first; FEW];
                few[1..count].iter_mut().zip(all).for_each(|(place, address)| *place = address);
                Addresses::Few(few)
            }
            first => Addresses::Many(first.into_iter().chain(all).collect()),
        }
    }

    fn all(&self) -> &[T] {
        match self {
            Addresses::Few(few) => few,
            Addresses::Many(many) => many,
        }
    }
}

/// An entry of a [`HostProgram`], for repeated calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryHandle(usize);

/// A compiled program with its own arena and state.
pub struct HostProgram {
    // Generated code holds the addresses of its kernels' stages.
    program: Arc<Verified<Program>>,
    entries: Vec<EntryFunction>,
    arena: AlignedBytes,
    state: AlignedBytes,
    constants: AlignedBytes,
    /// Generated code holds its address, if launches are timed.
    timer: Option<Box<LaunchTimer>>,
    /// Those of each entry; generated code holds their addresses.
    memos: Vec<Memos>,
    /// Arenas of threads that run an entry beside this one, and packed weights that their calls share.
    beside: Beside,
    _code: Code,
}

impl std::fmt::Debug for HostProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostProgram").field("name", &self.program.name).finish_non_exhaustive()
    }
}

impl HostProgram {
    /// Compiles a program; its state is the initial one.
    ///
    /// # Errors
    /// If a buffer does not start at a whole word, the program holds elements narrower than a byte, or this machine has no code
    /// generator.
    pub fn compile(program: &Verified<Program>) -> Result<HostProgram, HostError> {
        HostProgram::compile_with(Arc::new(program.clone()), true, false)
    }

    /// As [`HostProgram::compile`], with a call after each launch that takes the time; see [`HostProgram::launch_times`].
    ///
    /// # Errors
    /// As [`HostProgram::compile`].
    pub fn compile_timed(program: &Verified<Program>) -> Result<HostProgram, HostError> {
        HostProgram::compile_with(Arc::new(program.clone()), true, true)
    }

    /// As [`HostProgram::compile`], every kernel by its loops: the check of the vector kernels.
    ///
    /// # Errors
    /// As [`HostProgram::compile`].
    pub fn compile_generic(program: &Verified<Program>) -> Result<HostProgram, HostError> {
        HostProgram::compile_with(Arc::new(program.clone()), false, false)
    }

    fn compile_with(
        program: Arc<Verified<Program>>,
        vector: bool,
        timed: bool,
    ) -> Result<HostProgram, HostError> {
        check::check(&program)?;
        let staging = if vector { HostKernel::vector } else { HostKernel::generic };
        let mut module = Code::module()?;
        let mut compiler = Compiler::new(&mut module, false);
        compiler.divides = true;
        let kernels = define_kernels(&mut compiler, &program, staging, |k| k.name.clone())?;
        let vector = if kernels.iter().flatten().any(StageCode::is_vector) {
            let mut signature = compiler.module.make_signature();
            signature.params = vec![AbiParam::new(types::I64); 2];
            Some(compiler.module.declare_function(LAUNCH, Linkage::Import, &signature)?)
        } else {
            None
        };
        let timer = timed.then(|| Box::new(LaunchTimer::new(&program)));
        let timing = match &timer {
            Some(timer) => {
                let mut signature = compiler.module.make_signature();
                signature.params = vec![AbiParam::new(types::I64); 2];
                let function =
                    compiler.module.declare_function(LAUNCHED, Linkage::Import, &signature)?;
                Some(Timer { function, address: std::ptr::from_ref(&**timer) as i64 })
            }
            None => None,
        };
        let mut memos = Vec::new();
        let entries =
            define_entries(&mut compiler, &program, &kernels, vector, timing, &mut memos)?;
        module.finalize_definitions()?;
        let entries = entries
            .into_iter()
            .map(|id| entry_function(module.get_finalized_function(id)))
            .collect();
        let mut host = HostProgram {
            arena: AlignedBytes::new(program.memory.arena_bytes),
            state: AlignedBytes::new(program.memory.state_bytes),
            constants: AlignedBytes::new(program.memory.constant_bytes),
            program,
            entries,
            timer,
            memos,
            beside: Beside::default(),
            _code: Code(Some(module)),
        };
        let constants = constant_image(&host.program);
        host.constants.bytes_mut().copy_from_slice(&constants);
        host.reset()?;
        Ok(host)
    }

    /// The program.
    pub fn program(&self) -> &Verified<Program> {
        &self.program
    }

    /// Sets the state to the initial one.
    ///
    /// # Errors
    /// None once a program has been compiled.
    pub fn reset(&mut self) -> Result<(), HostError> {
        let image = state_image(&self.program);
        self.state.bytes_mut().copy_from_slice(&image);
        Ok(())
    }

    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<EntryHandle> {
        self.program.entries.iter().position(|e| e.name == name).map(EntryHandle)
    }

    /// Runs an entry on tensors.
    ///
    /// # Errors
    /// If there is no such entry, or the operands' number or types are not its own.
    pub fn run(
        &mut self,
        entry: &str,
        inputs: &[&Tensor],
        run: &RunContext,
    ) -> Result<Vec<Tensor>, HostError> {
        let handle = self
            .entry(entry)
            .ok_or_else(|| HostError::Argument(format!("there is no entry `{entry}`")))?;
        let program = Arc::clone(&self.program);
        let declared = &program.entries[handle.0];
        for (argument, tensor) in declared.inputs.iter().zip(inputs) {
            let ty = &program.buffer(argument.buffer).ty;
            if ty != tensor.ty() {
                return Err(HostError::Argument(format!(
                    "`{}` is {ty}, here {}",
                    argument.name,
                    tensor.ty()
                )));
            }
        }
        let inputs = inputs.iter().map(|t| tensor_bytes(t)).collect::<Vec<_>>();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let types: Vec<&TensorType> =
            declared.outputs.iter().map(|a| &program.buffer(a.buffer).ty).collect();
        let mut outputs: Vec<Vec<u8>> =
            types.iter().map(|ty| vec![0; trainc_ir::program::buffer_bytes(ty)]).collect();
        let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        self.run_raw(handle, &inputs, &mut slices, run)?;
        types.iter().zip(&outputs).map(|(ty, bytes)| decode_tensor(ty, bytes)).collect()
    }

    /// Runs an entry on bytes in the layout of [`tensor_bytes`], without copies where the slices are 4-byte
    /// aligned (as those of `f32` and `i32` data are).
    ///
    /// # Errors
    /// If a number or a length is not the entry's.
    pub fn run_raw(
        &mut self,
        entry: EntryHandle,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        run: &RunContext,
    ) -> Result<(), HostError> {
        self.check_call(self.declared(entry)?, inputs, outputs)?;
        let aligned = |bytes: &[u8]| bytes.as_ptr().addr().is_multiple_of(4);
        // Most callers' slices are aligned: then nothing is allocated here.
        let copies: Vec<Option<AlignedBytes>> = match inputs.iter().all(|bytes| aligned(bytes)) {
            true => Vec::new(),
            false => {
                let copy = |bytes: &&[u8]| {
                    (!aligned(bytes)).then(|| {
                        let mut copy = AlignedBytes::new(bytes.len());
                        copy.bytes_mut().copy_from_slice(bytes);
                        copy
                    })
                };
                inputs.iter().map(copy).collect()
            }
        };
        let mut results: Vec<Option<AlignedBytes>> =
            match outputs.iter().all(|bytes| aligned(bytes)) {
                true => Vec::new(),
                false => {
                    let own = |bytes: &&mut [u8]| {
                        (!aligned(bytes)).then(|| AlignedBytes::new(bytes.len()))
                    };
                    outputs.iter().map(own).collect()
                }
            };
        let input_addresses = Addresses::new(inputs.iter().enumerate().map(|(i, bytes)| {
            copies.get(i).and_then(Option::as_ref).map_or(*bytes, |c| c.bytes()).as_ptr()
        }));
        let output_addresses = Addresses::new(outputs.iter_mut().enumerate().map(|(i, bytes)| {
            match results.get_mut(i).and_then(Option::as_mut) {
                Some(copy) => copy.bytes_mut().as_mut_ptr(),
                None => bytes.as_mut_ptr(),
            }
        }));
        let words = [run.seed as u32, (run.seed >> 32) as u32, run.step];
        if let Some(timer) = &self.timer {
            timer.begin();
        }
        #[allow(unsafe_code, reason = "calling generated code")]
        // SAFETY: the function has this signature; `check::check` has bounded its accesses by the sizes of arena,
        // state, constants and arguments, which are what is passed; the code lives as long as `self`.
        unsafe {
            (self.entries[entry.0])(
                self.arena.bytes_mut().as_mut_ptr(),
                self.state.bytes_mut().as_mut_ptr(),
                self.constants.bytes().as_ptr(),
                input_addresses.all().as_ptr(),
                output_addresses.all().as_ptr(),
                words.as_ptr(),
            );
        }
        if let Some(timer) = &self.timer {
            timer.end();
        }
        for (bytes, copy) in outputs.iter_mut().zip(&results) {
            if let Some(copy) = copy {
                bytes.copy_from_slice(copy.bytes());
            }
        }
        Ok(())
    }

    fn declared(&self, entry: EntryHandle) -> Result<&Entry, HostError> {
        let declared = self.program.entries.get(entry.0);
        declared.ok_or_else(|| HostError::Argument("an entry of another program".into()))
    }

    /// Compares the lengths of operands and results with those that an entry takes.
    fn check_call(
        &self,
        entry: &Entry,
        inputs: &[&[u8]],
        outputs: &[&mut [u8]],
    ) -> Result<(), HostError> {
        self.check_lengths(entry, &entry.inputs, inputs.iter().map(|s| s.len()), "operands")?;
        self.check_lengths(entry, &entry.outputs, outputs.iter().map(|s| s.len()), "results")
    }

    /// Compares the lengths of an entry's operands, or of its results, with those that were found.
    fn check_lengths(
        &self,
        entry: &Entry,
        arguments: &[Argument],
        found: impl ExactSizeIterator<Item = usize>,
        what: &str,
    ) -> Result<(), HostError> {
        if arguments.len() != found.len() {
            return Err(HostError::Argument(format!(
                "`{}` has {} {what}, here {}",
                entry.name,
                arguments.len(),
                found.len()
            )));
        }
        arguments.iter().zip(found).try_for_each(|(argument, found)| {
            let bytes = self.program.buffer(argument.buffer).bytes();
            if bytes == found {
                return Ok(());
            }
            Err(HostError::Argument(format!(
                "`{}` takes {bytes} bytes, here {found}",
                argument.name
            )))
        })
    }

    /// What the last call took; `None` unless compiled by [`HostProgram::compile_timed`].
    pub fn launch_times(&self) -> Option<LaunchTimes> {
        self.timer.as_ref().map(|timer| timer.times())
    }

    /// The state by name, in the order of checkpoints.
    ///
    /// # Errors
    /// None once a program has been compiled.
    pub fn state(&self) -> Result<Vec<(String, Tensor)>, HostError> {
        self.program
            .state()
            .into_iter()
            .map(|buffer| {
                let bytes = &self.state.bytes()[buffer.offset..buffer.offset + buffer.bytes()];
                Ok((buffer.name.clone(), decode_tensor(&buffer.ty, bytes)?))
            })
            .collect()
    }

    /// Sets a state buffer.
    ///
    /// # Errors
    /// If there is none of that name, or the type differs.
    pub fn set_state(&mut self, name: &str, value: &Tensor) -> Result<(), HostError> {
        let state = self.program.state();
        let buffer = state
            .into_iter()
            .find(|b| b.name == name)
            .ok_or_else(|| HostError::Argument(format!("there is no state `{name}`")))?;
        if buffer.ty != *value.ty() {
            return Err(HostError::Argument(format!(
                "state `{name}` is {}, here {}",
                buffer.ty,
                value.ty()
            )));
        }
        let range = buffer.offset..buffer.offset + buffer.bytes();
        self.state.bytes_mut()[range].copy_from_slice(&tensor_bytes(value));
        Ok(())
    }
}

#[allow(unsafe_code, reason = "an address of generated code is a function")]
fn entry_function(address: *const u8) -> EntryFunction {
    // SAFETY: the module compiled this function with `entry_signature`, in the platform's C convention.
    unsafe { std::mem::transmute::<*const u8, EntryFunction>(address) }
}

/// The initial state as bytes.
pub(crate) fn state_image(program: &Program) -> Vec<u8> {
    image(program, program.memory.state_bytes, |region| match region {
        Region::State { initial, .. } => Some(initial),
        _ => None,
    })
}

/// The constants as bytes.
pub(crate) fn constant_image(program: &Program) -> Vec<u8> {
    image(program, program.memory.constant_bytes, |region| match region {
        Region::Constant(tensor) => Some(tensor),
        _ => None,
    })
}

fn image<'a>(
    program: &'a Program,
    length: usize,
    value: impl Fn(&'a Region) -> Option<&'a Arc<Tensor>>,
) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for buffer in &program.buffers {
        if let Some(tensor) = value(&buffer.region) {
            let encoded = tensor_bytes(tensor);
            bytes[buffer.offset..buffer.offset + encoded.len()].copy_from_slice(&encoded);
        }
    }
    bytes
}

/// One loop kernel compiled into memory: the unit of the code generator's tests.
pub struct LoopFunction {
    kernel: LoopKernel,
    address: *const u8,
    listing: (String, String),
    _code: Code,
}

impl std::fmt::Debug for LoopFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopFunction").finish_non_exhaustive()
    }
}

impl LoopFunction {
    /// Compiles a kernel whose buffers do not overlap.
    ///
    /// # Errors
    /// If Cranelift refuses.
    pub fn compile(kernel: &LoopKernel) -> Result<LoopFunction, HostError> {
        let mut module = Code::module()?;
        let mut compiler = Compiler::new(&mut module, true);
        let function = compiler.define_loop("kernel", kernel, &readonly(kernel, |_| true))?;
        let (_, form, code) = compiler.listing.functions.remove(0);
        module.finalize_definitions()?;
        let address = module.get_finalized_function(function);
        Ok(LoopFunction {
            kernel: kernel.clone(),
            address,
            listing: (form, code),
            _code: Code(Some(module)),
        })
    }

    /// Cranelift's intermediate form, and the machine code.
    pub fn listing(&self) -> (&str, &str) {
        (&self.listing.0, &self.listing.1)
    }

    /// Runs it on buffers of bytes, one a parameter.
    ///
    /// # Errors
    /// If a number or length is not the kernel's, or there are more than 16 buffers.
    pub fn run(&self, buffers: &mut [Vec<u8>]) -> Result<(), HostError> {
        let bytes: Vec<usize> =
            self.kernel.buffers.iter().map(|b| b.element.bytes(b.count)).collect();
        if bytes != buffers.iter().map(Vec::len).collect::<Vec<_>>() {
            return Err(HostError::Argument(format!("the kernel takes {bytes:?} bytes")));
        }
        let mut addresses: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr()).collect();
        if addresses.len() > 16 {
            return Err(HostError::Unsupported("more than 16 buffers".into()));
        }
        // Further arguments than the callee's are harmless in the C convention.
        addresses.resize(16, std::ptr::null_mut());
        self.call(&addresses);
        Ok(())
    }

    #[allow(unsafe_code, reason = "calling generated code")]
    fn call(&self, a: &[*mut u8]) {
        type P = *mut u8;
        type F = unsafe extern "C" fn(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P);
        // SAFETY: the function takes at most 16 addresses in the C convention, in which the caller passes and removes
        // the arguments, so that further ones are harmless; the buffers have the kernel's lengths.
        unsafe {
            let f = std::mem::transmute::<*const u8, F>(self.address);
            f(
                a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
                a[13], a[14], a[15],
            );
        }
    }
}
