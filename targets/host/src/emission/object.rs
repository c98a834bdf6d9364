//! A program as a relocatable object: its own code and data, and of anyone else's symbols none but that of the kernels, if it uses any.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule};
use trainc_c::interface::{Function, Interface, Parameter, Passing};
use trainc_ir::Element;
use trainc_ir::names::identifier;
use trainc_ir::program::Program;

use crate::HostError;
use crate::codegen::{Machine, instruction_set};
use crate::entry::{Bases, Compiler, Schedule, StageCode, define_kernels};
use crate::jit::{constant_image, state_image};
use crate::kernel::HostKernel;
use crate::memory::ALIGNMENT;

/// The function of the kernels that are linked with an object.
const LAUNCH: &str = env!("TRAINC_HOST_LAUNCH");

/// Those kernels.
pub(super) const KERNELS: &[u8] = include_bytes!(env!("TRAINC_HOST_KERNELS_OBJECT"));

/// An object, and the text of its functions if that was asked for.
pub(super) struct Object {
    pub(super) bytes: Vec<u8>,
    /// Name, intermediate form, machine code.
    pub(super) functions: Vec<(String, String, String)>,
    /// Whether [`KERNELS`] is linked with it.
    pub(super) uses_kernels: bool,
}

pub(super) fn emit(
    program: &Program,
    interface: &Interface,
    listing: bool,
) -> Result<Object, HostError> {
    let isa = instruction_set(Machine::Baseline)?;
    let builder = ObjectBuilder::new(isa, interface.prefix.clone(), default_libcall_names())?;
    let mut module = ObjectModule::new(builder);
    let prefix = &interface.prefix;
    let constants = data(&mut module, &format!("{prefix}_constants"), constant_image(program))?;
    let initial = data(&mut module, &format!("{prefix}_initial_state"), state_image(program))?;
    let mut compiler = Compiler::new(&mut module, listing);
    compiler.describes = true;
    let kernels = define_kernels(&mut compiler, program, HostKernel::vector, |kernel| {
        format!("{prefix}.{}", identifier(&kernel.name))
    })?;
    let vector = match kernels.iter().flatten().any(StageCode::is_vector) {
        true => {
            let mut signature = compiler.module.make_signature();
            signature.params = vec![AbiParam::new(types::I64); 2];
            Some(compiler.module.declare_function(LAUNCH, Linkage::Import, &signature)?)
        }
        false => None,
    };
    for function in &interface.functions {
        define_function(&mut compiler, program, function, &kernels, vector, constants)?;
    }
    define_init(&mut compiler, prefix, initial, program.memory.state_bytes)?;
    let functions = compiler.listing.functions;
    let bytes = module.finish().emit().map_err(|e| HostError::Codegen(e.to_string()))?;
    Ok(Object { bytes, functions, uses_kernels: vector.is_some() })
}

fn data(module: &mut ObjectModule, name: &str, bytes: Vec<u8>) -> Result<DataId, HostError> {
    let id = module.declare_data(name, Linkage::Local, false, false)?;
    let mut description = DataDescription::new();
    // An object format has no data of no bytes.
    let bytes = if bytes.is_empty() { vec![0] } else { bytes };
    description.define(bytes.into_boxed_slice());
    description.set_align(ALIGNMENT as u64);
    module.define_data(id, &description)?;
    Ok(id)
}

fn define_function(
    compiler: &mut Compiler<'_, ObjectModule>,
    program: &Program,
    function: &Function,
    kernels: &[Vec<StageCode>],
    vector: Option<FuncId>,
    constants: DataId,
) -> Result<(), HostError> {
    let entry = program
        .entry(&function.entry)
        .ok_or_else(|| HostError::Program(format!("there is no entry `{}`", function.entry)))?;
    let config = compiler.module.target_config();
    let mut signature = compiler.module.make_signature();
    signature.params = vec![AbiParam::new(types::I64); 2];
    if function.random {
        signature.params.extend([AbiParam::new(types::I64), AbiParam::new(types::I32)]);
    }
    let of = |parameter: &Parameter| -> Type {
        match (parameter.passing, parameter.ty.element) {
            (Passing::Value, Element::F32) => types::F32,
            (Passing::Value, _) => types::I32,
            (Passing::Read | Passing::Write, _) => types::I64,
        }
    };
    signature.params.extend(function.parameters.iter().map(|p| AbiParam::new(of(p))));
    compiler.define(&function.symbol, Linkage::Export, signature, |module, code, context| {
        let mut builder = FunctionBuilder::new(code, context);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let parameters = builder.block_params(block).to_vec();
        let (arena, state) = (parameters[0], parameters[1]);
        let slot = |builder: &mut FunctionBuilder<'_>, values: &[(Value, i32)], bytes: u32| {
            let slot = builder.create_sized_stack_slot(StackSlotData::new(
                StackSlotKind::ExplicitSlot,
                bytes,
                3,
            ));
            let address = builder.ins().stack_addr(types::I64, slot, 0);
            for &(value, offset) in values {
                builder.ins().store(MemFlagsData::trusted(), value, address, offset);
            }
            address
        };
        let (run, first) = if function.random {
            // The seed's words in order on a little-endian machine, then the step.
            let words = [(parameters[2], 0), (parameters[3], 8)];
            (slot(&mut builder, &words, 12), 4)
        } else {
            (builder.ins().iconst(types::I64, 0), 2)
        };
        let addresses: Vec<Value> = function
            .parameters
            .iter()
            .zip(&parameters[first..])
            .map(|(parameter, &value)| match parameter.passing {
                Passing::Value => slot(&mut builder, &[(value, 0)], 4),
                Passing::Read | Passing::Write => value,
            })
            .collect();
        let (inputs, outputs) = addresses.split_at(entry.inputs.len());
        let constants = module.declare_data_in_func(constants, builder.func);
        let constants = builder.ins().symbol_value(types::I64, constants);
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        let bases = Bases { arena, state, constants, inputs, outputs, run };
        let timer = None;
        let mut schedule = Schedule {
            module,
            builder,
            program,
            kernels,
            vector,
            timer,
            memos: None,
            launches: 0,
            bases,
        };
        schedule.steps(&entry.steps);
        schedule.builder.ins().return_(&[]);
        schedule.builder.finalize(config);
        Ok(())
    })?;
    Ok(())
}

/// `PREFIX_init(state)`: copies the initial state.
fn define_init(
    compiler: &mut Compiler<'_, ObjectModule>,
    prefix: &str,
    initial: DataId,
    bytes: usize,
) -> Result<(), HostError> {
    let config = compiler.module.target_config();
    let mut signature = compiler.module.make_signature();
    signature.params = vec![AbiParam::new(types::I64)];
    let name = format!("{prefix}_init");
    compiler.define(&name, Linkage::Export, signature, |module, code, context| {
        let mut builder = FunctionBuilder::new(code, context);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let state = builder.block_params(block)[0];
        let source = module.declare_data_in_func(initial, builder.func);
        let source = builder.ins().symbol_value(types::I64, source);
        let whole = bytes - bytes % 8;
        copy(&mut builder, state, source, (0, whole), types::I64);
        copy(&mut builder, state, source, (whole, bytes), types::I8);
        builder.ins().return_(&[]);
        builder.finalize(config);
        Ok(())
    })?;
    Ok(())
}

fn copy(
    builder: &mut FunctionBuilder<'_>,
    to: Value,
    from: Value,
    (start, end): (usize, usize),
    word: Type,
) {
    if start == end {
        return;
    }
    let [round, done] = [(); 2].map(|()| builder.create_block());
    let offset = builder.append_block_param(round, types::I64);
    let first = builder.ins().iconst(types::I64, start as i64);
    let last = builder.ins().iconst(types::I64, end as i64);
    builder.ins().jump(round, &[first.into()]);
    builder.switch_to_block(round);
    let flags = MemFlagsData::new().with_notrap();
    let address = builder.ins().iadd(from, offset);
    let value = builder.ins().load(word, flags, address, 0);
    let address = builder.ins().iadd(to, offset);
    builder.ins().store(flags, value, address, 0);
    let next = builder.ins().iadd_imm_s(offset, i64::from(word.bytes()));
    let more = builder.ins().icmp(IntCC::UnsignedLessThan, next, last);
    builder.ins().brif(more, round, &[next.into()], done, &[]);
    builder.seal_block(round);
    builder.seal_block(done);
    builder.switch_to_block(done);
}
