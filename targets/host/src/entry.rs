//! Entries as functions that call the kernels in order, and the kernels themselves.

use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind,
    UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::program::{BufferId, Kernel, Launch, Program, Region, Step, scale_offset};
use trainc_ir::target::loop_scratch;
use trainc_ir::{Op, TensorType};

use crate::HostError;
use crate::codegen::{build_loop_kernel, loop_kernel_signature, readonly};
use crate::divided::{Section, WORTH, sections};
use crate::kernel::HostKernel;
use crate::kernels::Memo;
use crate::microkernels::MicroKernel;
use crate::staging::{Place, Stage, Staging, Work};

/// One call that a launch of a kernel makes.
pub(crate) struct StageCode {
    call: Call,
    inputs: Vec<(Place, TensorType)>,
    outputs: Vec<(Place, TensorType)>,
    /// Offset of its working memory in the launch's.
    scratch: usize,
}

impl StageCode {
    /// Whether a vector kernel does it.
    pub(crate) fn is_vector(&self) -> bool {
        matches!(self.call, Call::Vector(..))
    }
}

enum Call {
    /// Functions of its buffers' addresses, one after the other.
    Loop {
        sections: Vec<SectionCode>,
        /// Role of each parameter, and for scratch its offset in the stage's working memory.
        parameters: Vec<(Role, usize)>,
    },
    /// The function that runs vector kernels, with the address of the kernel's description, and bytes that packed weights take where they
    /// stay from call to call.
    Vector(Description, usize),
}

/// Where the description of a vector kernel lies.
#[derive(Clone, Copy)]
enum Description {
    /// In this process: the kernel itself, for [`crate::microkernels::launch`].
    Address(i64),
    /// In the object: words, for the kernels that are linked with it.
    Words(DataId),
}

/// A part of a loop kernel.
enum SectionCode {
    /// A function of its buffers' addresses.
    Alone(FuncId),
    /// A function of their array's address and that of a range of these rounds, for [`crate::divided::divide`].
    Divided(FuncId, i32),
}

/// Text of the functions as they were compiled, in order of definition.
#[derive(Default)]
pub(crate) struct Listing {
    /// Whether to keep text at all.
    pub(crate) wanted: bool,
    /// Name, Cranelift's intermediate form, machine code.
    pub(crate) functions: Vec<(String, String, String)>,
}

/// Compiles functions into a module.
pub(crate) struct Compiler<'m, M: Module> {
    pub(crate) module: &'m mut M,
    context: Context,
    builder: FunctionBuilderContext,
    pub(crate) listing: Listing,
    /// Whether loops with much work are divided among threads, by a function of this process.
    pub(crate) divides: bool,
    /// Whether vector kernels are described by data, not by addresses in this process.
    pub(crate) describes: bool,
}

impl<'m, M: Module> Compiler<'m, M> {
    pub(crate) fn new(module: &'m mut M, listing: bool) -> Self {
        let context = module.make_context();
        Compiler {
            module,
            context,
            builder: FunctionBuilderContext::new(),
            listing: Listing { wanted: listing, functions: Vec::new() },
            divides: false,
            describes: false,
        }
    }

    /// Declares a function, lets `build` fill it, and compiles it.
    pub(crate) fn define(
        &mut self,
        name: &str,
        linkage: Linkage,
        signature: Signature,
        build: impl FnOnce(&mut M, &mut Function, &mut FunctionBuilderContext) -> Result<(), HostError>,
    ) -> Result<FuncId, HostError> {
        let id = self.module.declare_function(name, linkage, &signature)?;
        self.context.func =
            Function::with_name_signature(UserFuncName::user(0, id.as_u32()), signature);
        build(self.module, &mut self.context.func, &mut self.builder)?;
        let before = self.listing.wanted.then(|| self.context.func.display().to_string());
        self.context.set_disasm(self.listing.wanted);
        self.module.define_function(id, &mut self.context)?;
        if let Some(form) = before {
            let code = self.context.compiled_code().and_then(|c| c.vcode.clone());
            self.listing.functions.push((name.into(), form, code.unwrap_or_default()));
        }
        self.module.clear_context(&mut self.context);
        Ok(id)
    }

    /// Compiles a loop kernel as a function of that name.
    pub(crate) fn define_loop(
        &mut self,
        name: &str,
        kernel: &LoopKernel,
        readonly: &[bool],
    ) -> Result<FuncId, HostError> {
        let config = self.module.target_config();
        let signature = loop_kernel_signature(kernel, config.default_call_conv);
        self.define(name, Linkage::Local, signature, |_, function, context| {
            build_loop_kernel(kernel, readonly, function, context, config);
            Ok(())
        })
    }

    /// Compiles the stages of a kernel; generated code holds the addresses of its vector kernels.
    pub(crate) fn define_kernel(
        &mut self,
        name: &str,
        staging: &Staging,
    ) -> Result<Vec<StageCode>, HostError> {
        let several = staging.stages.len() > 1;
        staging
            .stages
            .iter()
            .enumerate()
            .map(|(i, stage)| {
                let name = if several { format!("{name}.{i}") } else { name.to_string() };
                let call = match &stage.work {
                    Work::Vector(kernel) => {
                        let description = if self.describes {
                            Description::Words(self.define_words(&name, kernel)?)
                        } else {
                            Description::Address(std::ptr::from_ref(&**kernel) as i64)
                        };
                        Call::Vector(description, kernel.launch().panel_bytes())
                    }
                    Work::Loop(op) => self.define_stage(&name, op, stage)?,
                };
                let (inputs, outputs) = (stage.inputs.clone(), stage.outputs.clone());
                Ok(StageCode { call, inputs, outputs, scratch: stage.scratch })
            })
            .collect()
    }

    fn define_words(&mut self, name: &str, kernel: &MicroKernel) -> Result<DataId, HostError> {
        let words = kernel.launch().encode();
        let name = format!("{name}.launch");
        let id = self.module.declare_data(&name, Linkage::Local, false, false)?;
        let mut description = DataDescription::new();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        description.define(bytes.into_boxed_slice());
        description.set_align(8);
        self.module.define_data(id, &description)?;
        Ok(id)
    }

    fn define_stage(&mut self, name: &str, op: &Op, stage: &Stage) -> Result<Call, HostError> {
        let lowered = stage.lower(op);
        let all = if self.divides {
            sections(&lowered, WORTH)
        } else {
            vec![Section { kernel: lowered, rounds: None }]
        };
        let mut sections = Vec::new();
        for (i, section) in all.iter().enumerate() {
            let name = if all.len() > 1 { format!("{name}.part{i}") } else { name.to_string() };
            let readonly = readonly(&section.kernel, |operand| !op.may_overwrite(operand));
            let function = self.define_loop(&name, &section.kernel, &readonly)?;
            sections.push(match section.rounds {
                None => SectionCode::Alone(function),
                Some(rounds) => {
                    let buffers = section.kernel.buffers.len();
                    let function =
                        self.define_range(&format!("{name}.range"), function, buffers)?;
                    SectionCode::Divided(function, rounds)
                }
            });
        }
        // All parts have the same, but for ranges, which are last.
        let Section { kernel, rounds } = &all[0];
        let shared = kernel.buffers.len() - usize::from(rounds.is_some());
        let mut offsets = loop_scratch(kernel).0.into_iter();
        let parameters = kernel.buffers[..shared].iter().map(|b| {
            let offset = match b.role {
                Role::Scratch => offsets.next().unwrap_or(0),
                _ => 0,
            };
            (b.role.clone(), offset)
        });
        Ok(Call::Loop { sections, parameters: parameters.collect() })
    }

    /// Compiles the function of an array of addresses and of a range that calls one of so many addresses, the range last.
    fn define_range(
        &mut self,
        name: &str,
        callee: FuncId,
        buffers: usize,
    ) -> Result<FuncId, HostError> {
        let mut signature = self.module.make_signature();
        signature.params = vec![AbiParam::new(types::I64); 2];
        let config = self.module.target_config();
        self.define(name, Linkage::Local, signature, |module, function, context| {
            let mut builder = FunctionBuilder::new(function, context);
            let block = builder.create_block();
            builder.append_block_params_for_function_params(block);
            builder.switch_to_block(block);
            builder.seal_block(block);
            let [array, range] = builder.block_params(block).try_into().expect("two parameters");
            let flags = MemFlagsData::trusted().with_readonly();
            let mut arguments: Vec<Value> = (0..buffers - 1)
                .map(|i| builder.ins().load(types::I64, flags, array, 8 * i as i32))
                .collect();
            arguments.push(range);
            let callee = module.declare_func_in_func(callee, builder.func);
            builder.ins().call(callee, &arguments);
            builder.ins().return_(&[]);
            builder.finalize(config);
            Ok(())
        })
    }
}

/// Addresses that the launches of an entry are relative to.
pub(crate) struct Bases {
    pub(crate) arena: Value,
    pub(crate) state: Value,
    pub(crate) constants: Value,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) run: Value,
}

/// Appends the code of a schedule.
pub(crate) struct Schedule<'a, 'f, M: Module> {
    pub(crate) module: &'a mut M,
    pub(crate) builder: FunctionBuilder<'f>,
    pub(crate) program: &'a Program,
    pub(crate) kernels: &'a [Vec<StageCode>],
    /// The function that runs vector kernels, if the program uses any.
    pub(crate) vector: Option<FuncId>,
    /// What is called after each launch, if launches are timed.
    pub(crate) timer: Option<Timer>,
    /// What vector kernels remember from call to call, in the process that runs the code.
    pub(crate) memos: Option<&'a mut Memos>,
    /// Launches so far, as hooks count them.
    pub(crate) launches: usize,
    pub(crate) bases: Bases,
}

/// See [`Schedule::memos`].
pub(crate) type Memos = Vec<Box<Memo>>;

/// A function that gets an address and the number of the launch that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) function: FuncId,
    pub(crate) address: i64,
}

impl<M: Module> Schedule<'_, '_, M> {
    fn address(&mut self, id: BufferId, extra: usize) -> Value {
        let buffer = self.program.buffer(id);
        let base = match buffer.region {
            Region::Arena => self.bases.arena,
            Region::State { .. } => self.bases.state,
            Region::Constant(_) => self.bases.constants,
            Region::Input(i) => self.bases.inputs[i],
            Region::Output(i) => self.bases.outputs[i],
        };
        self.plus(base, buffer.offset + extra)
    }

    /// Whether calls that leave the state as it is find a buffer as the last call did.
    fn stays(&self, id: BufferId) -> bool {
        matches!(self.program.buffer(id).region, Region::State { .. } | Region::Constant(_))
    }

    fn plus(&mut self, base: Value, offset: usize) -> Value {
        match offset {
            0 => base,
            _ => self.builder.ins().iadd_imm_s(base, offset as i64),
        }
    }

    pub(crate) fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Launch(launch) => self.launch(launch),
                Step::Branch { condition, then, otherwise } => {
                    let address = self.address(*condition, 0);
                    let flags = MemFlagsData::new().with_notrap();
                    let condition = self.builder.ins().load(types::I32, flags, address, 0);
                    let [yes, no, done] = [(); 3].map(|()| self.builder.create_block());
                    self.builder.ins().brif(condition, yes, &[], no, &[]);
                    for (block, steps) in [(yes, then), (no, otherwise)] {
                        self.builder.seal_block(block);
                        self.builder.switch_to_block(block);
                        self.steps(steps);
                        self.builder.ins().jump(done, &[]);
                    }
                    self.builder.seal_block(done);
                    self.builder.switch_to_block(done);
                }
            }
        }
    }

    /// Address of a stage's operand, `extra` bytes in.
    fn place(&mut self, launch: &Launch, place: Place, extra: usize) -> Value {
        match place {
            Place::Input(i) => self.address(launch.inputs[i], extra),
            Place::Output(i) => self.address(launch.outputs[i], extra),
            Place::Intermediate(offset) => {
                self.plus(self.bases.arena, launch.scratch.unwrap_or(0) + offset + extra)
            }
        }
    }

    fn launch(&mut self, launch: &Launch) {
        let kernels = self.kernels;
        for stage in &kernels[launch.kernel.0] {
            self.stage(launch, stage);
        }
        if let Some(timer) = self.timer {
            let address = self.builder.ins().iconst(types::I64, timer.address);
            let number = self.builder.ins().iconst(types::I64, self.launches as i64);
            let callee = self.module.declare_func_in_func(timer.function, self.builder.func);
            self.builder.ins().call(callee, &[address, number]);
        }
        self.launches += 1;
    }

    fn stage(&mut self, launch: &Launch, stage: &StageCode) {
        let arena = self.bases.arena;
        let scratch = launch.scratch.unwrap_or(0) + stage.scratch;
        match &stage.call {
            Call::Loop { sections, parameters } => {
                let mut arguments = Vec::with_capacity(parameters.len());
                for (role, offset) in parameters {
                    let tensor = |(place, _): &(Place, TensorType)| (*place, 0);
                    let scale = |(place, ty): &(Place, TensorType)| (*place, scale_offset(ty));
                    let (place, extra) = match *role {
                        Role::Input(i) => tensor(&stage.inputs[i]),
                        Role::InputScale(i) => scale(&stage.inputs[i]),
                        Role::Output(i) => tensor(&stage.outputs[i]),
                        Role::OutputScale(i) => scale(&stage.outputs[i]),
                        Role::RunContext => {
                            arguments.push(self.bases.run);
                            continue;
                        }
                        Role::Scratch => {
                            arguments.push(self.plus(arena, scratch + offset));
                            continue;
                        }
                    };
                    arguments.push(self.place(launch, place, extra));
                }
                for section in sections {
                    self.section(section, &arguments);
                }
            }
            Call::Vector(description, panel_bytes) => {
                let mut arguments: Vec<Value> = Vec::new();
                for (place, _) in stage.inputs.iter().chain(&stage.outputs) {
                    arguments.push(self.place(launch, *place, 0));
                }
                arguments.push(self.plus(arena, scratch));
                arguments.push(self.bases.run);
                let panel_bytes = match stage.inputs.get(1) {
                    Some((Place::Input(i), _)) if self.stays(launch.inputs[*i]) => *panel_bytes,
                    _ => 0,
                };
                let memo = self.memos.as_mut().map_or(0, |memos| {
                    let memo = Box::new(Memo::new(panel_bytes));
                    let address = std::ptr::from_ref(&*memo) as i64;
                    memos.push(memo);
                    address
                });
                arguments.push(self.builder.ins().iconst(types::I64, memo));
                let array = self.array(&arguments);
                let kernel = match *description {
                    Description::Address(address) => self.builder.ins().iconst(types::I64, address),
                    Description::Words(data) => {
                        let data = self.module.declare_data_in_func(data, self.builder.func);
                        self.builder.ins().symbol_value(types::I64, data)
                    }
                };
                let function = self.vector.expect("declared because the program uses it");
                let callee = self.module.declare_func_in_func(function, self.builder.func);
                self.builder.ins().call(callee, &[kernel, array]);
            }
        }
    }

    /// The address of an array of addresses.
    fn array(&mut self, addresses: &[Value]) -> Value {
        let bytes = 8 * addresses.len() as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let slot = self.builder.create_sized_stack_slot(slot);
        let array = self.builder.ins().stack_addr(types::I64, slot, 0);
        for (i, address) in addresses.iter().enumerate() {
            let flags = MemFlagsData::trusted();
            self.builder.ins().store(flags, *address, array, 8 * i as i32);
        }
        array
    }

    fn section(&mut self, section: &SectionCode, arguments: &[Value]) {
        match *section {
            SectionCode::Alone(function) => {
                let callee = self.module.declare_func_in_func(function, self.builder.func);
                self.builder.ins().call(callee, arguments);
            }
            SectionCode::Divided(function, rounds) => {
                let mut signature = self.module.make_signature();
                signature.params = vec![AbiParam::new(types::I64); 3];
                let divide = self.module.declare_function(DIVIDE, Linkage::Import, &signature);
                let divide = divide.expect("declared alike each time");
                let divide = self.module.declare_func_in_func(divide, self.builder.func);
                let function = self.module.declare_func_in_func(function, self.builder.func);
                let function = self.builder.ins().func_addr(types::I64, function);
                let array = self.array(arguments);
                let rounds = self.builder.ins().iconst(types::I64, i64::from(rounds));
                self.builder.ins().call(divide, &[function, array, rounds]);
            }
        }
    }
}

/// The name under which generated code finds [`crate::divided::divide`].
pub(crate) const DIVIDE: &str = "trainc_host_divide";

/// `fn(arena, state, constants, inputs, outputs, run)`, all addresses; `inputs` and `outputs` are arrays of addresses.
pub(crate) fn entry_signature<M: Module>(module: &M) -> Signature {
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(types::I64); 6];
    signature
}

/// Compiles the entries of a program in [`entry_signature`]'s form, and adds each one's memos.
pub(crate) fn define_entries<M: Module>(
    compiler: &mut Compiler<'_, M>,
    program: &Program,
    kernels: &[Vec<StageCode>],
    vector: Option<FuncId>,
    timer: Option<Timer>,
    memos: &mut Vec<Memos>,
) -> Result<Vec<FuncId>, HostError> {
    let signature = entry_signature(compiler.module);
    let config = compiler.module.target_config();
    program
        .entries
        .iter()
        .map(|entry| {
            let name = format!("entry {}", entry.name);
            memos.push(Memos::new());
            let own = memos.last_mut();
            compiler.define(
                &name,
                Linkage::Local,
                signature.clone(),
                |module, function, context| {
                    let mut builder = FunctionBuilder::new(function, context);
                    let block = builder.create_block();
                    builder.append_block_params_for_function_params(block);
                    builder.switch_to_block(block);
                    builder.seal_block(block);
                    let [arena, state, constants, inputs, outputs, run] =
                        builder.block_params(block).try_into().expect("six parameters");
                    let mut addresses = |array: Value, count: usize| -> Vec<Value> {
                        let flags = MemFlagsData::trusted().with_readonly();
                        (0..count)
                            .map(|i| builder.ins().load(types::I64, flags, array, 8 * i as i32))
                            .collect()
                    };
                    let inputs = addresses(inputs, entry.inputs.len());
                    let outputs = addresses(outputs, entry.outputs.len());
                    let bases = Bases { arena, state, constants, inputs, outputs, run };
                    let mut schedule = Schedule {
                        module,
                        builder,
                        program,
                        kernels,
                        vector,
                        timer,
                        memos: own,
                        launches: 0,
                        bases,
                    };
                    schedule.steps(&entry.steps);
                    schedule.builder.ins().return_(&[]);
                    schedule.builder.finalize(config);
                    Ok(())
                },
            )
        })
        .collect()
}

/// The code of each kernel, in the program's order.
pub(crate) fn define_kernels<M: Module>(
    compiler: &mut Compiler<'_, M>,
    program: &Program,
    staging: impl Fn(&HostKernel) -> &Staging,
    name: impl Fn(&Kernel) -> String,
) -> Result<Vec<Vec<StageCode>>, HostError> {
    let code = |kernel| compiler.define_kernel(&name(kernel), staging(HostKernel::of(kernel)?));
    program.kernels.iter().map(code).collect()
}
