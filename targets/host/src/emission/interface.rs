//! The functions of an object as C and Rust see them.

use std::collections::BTreeSet;

use trainc_ir::graph::InputRole;
use trainc_ir::loops::Role;
use trainc_ir::program::{Argument, Buffer, Entry, Program, Step};
use trainc_ir::{Element, Scale, TensorType};

use crate::HostError;

/// How an argument is passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passing {
    /// A scalar, as itself.
    Value,
    /// The address of its elements (and exponent) to read.
    Read,
    /// The address of its elements (and exponent) to write.
    Write,
}

/// An argument of a function.
#[derive(Debug)]
pub(super) struct Parameter {
    /// An identifier, unique in the function.
    pub(super) name: String,
    /// The model's name.
    pub(super) original: String,
    pub(super) role: InputRole,
    pub(super) ty: TensorType,
    pub(super) passing: Passing,
}

impl Parameter {
    /// Whether elements are followed by an exponent, so that it is passed as a struct.
    pub(super) fn is_struct(&self) -> bool {
        self.ty.scale == Scale::Exponent
    }
}

/// An exported function.
#[derive(Debug)]
pub(super) struct Function {
    /// The entry's name.
    pub(super) entry: String,
    /// Exported name.
    pub(super) symbol: String,
    /// Whether it draws random numbers, so that it takes a seed and a step.
    pub(super) random: bool,
    /// Operands, then results, in the entry's order.
    pub(super) parameters: Vec<Parameter>,
}

/// Everything that an object exports.
#[derive(Debug)]
pub(super) struct Interface {
    /// The program's name as an identifier: prefix of every symbol, stem of every file.
    pub(super) prefix: String,
    /// One function an entry.
    pub(super) functions: Vec<Function>,
}

impl Interface {
    pub(super) fn of(program: &Program) -> Result<Interface, HostError> {
        let prefix = identifier(&program.name);
        let functions = program
            .entries
            .iter()
            .map(|entry| function(program, entry, &prefix))
            .collect::<Result<Vec<_>, _>>()?;
        let mut symbols = BTreeSet::from([format!("{prefix}_init")]);
        for function in &functions {
            if !symbols.insert(function.symbol.clone()) {
                return Err(HostError::Program(format!(
                    "two entries are called `{}`",
                    function.symbol
                )));
            }
        }
        Ok(Interface { prefix, functions })
    }
}

fn function(program: &Program, entry: &Entry, prefix: &str) -> Result<Function, HostError> {
    // Names of the fixed parameters.
    let mut names: BTreeSet<String> =
        ["arena", "state", "seed", "step", "self"].map(String::from).into();
    let mut parameter = |argument: &Argument, passing: Passing| {
        let ty = program.buffer(argument.buffer).ty.clone();
        let supported = matches!(ty.scale, Scale::None | Scale::Fixed { .. } | Scale::Exponent);
        if !supported {
            return Err(HostError::Unsupported(format!(
                "`{}` as an argument: {ty}",
                argument.name
            )));
        }
        let mut name = identifier(&argument.name);
        while !names.insert(name.clone()) {
            name.push('_');
        }
        let scalar = argument.role == InputRole::LearningRate
            && ty.count() == 1
            && ty.element.bits() == 32
            && ty.scale_bytes() == 0;
        let passing = if scalar && passing == Passing::Read { Passing::Value } else { passing };
        Ok(Parameter { name, original: argument.name.clone(), role: argument.role, ty, passing })
    };
    let mut parameters = Vec::new();
    for argument in &entry.inputs {
        parameters.push(parameter(argument, Passing::Read)?);
    }
    for argument in &entry.outputs {
        parameters.push(parameter(argument, Passing::Write)?);
    }
    Ok(Function {
        entry: entry.name.clone(),
        symbol: format!("{prefix}_{}", identifier(&entry.name)),
        random: draws(program, &entry.steps),
        parameters,
    })
}

fn draws(program: &Program, steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Launch(launch) => {
            let kernel = program.kernel(launch.kernel);
            let lowered = kernel.op.lower(&kernel.input_types(), &kernel.output_types());
            lowered.buffers.iter().any(|b| b.role == Role::RunContext)
        }
        Step::Branch { then, otherwise, .. } => draws(program, then) || draws(program, otherwise),
    })
}

/// Words that C99 or Rust reserve and that a lower-case model name may be.
const RESERVED: [&str; 72] = [
    "abstract", "as", "async", "auto", "await", "become", "bool", "box", "break", "case", "char",
    "const", "continue", "crate", "default", "do", "double", "dyn", "else", "enum", "extern",
    "false", "final", "float", "fn", "for", "gen", "goto", "if", "impl", "in", "inline", "int",
    "let", "long", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "ref", "register", "restrict", "return", "self", "short", "signed", "sizeof", "static",
    "struct", "super", "switch", "trait", "true", "try", "type", "typedef", "typeof", "union",
    "unsafe", "unsigned", "unsized", "use", "virtual", "void", "volatile", "where", "while",
];

/// A name as an identifier of C and Rust, in lower case.
pub(super) fn identifier(name: &str) -> String {
    let mut out: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    if RESERVED.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

/// `x` of `mnist_x_t`: the name of an argument's struct in C.
pub(super) fn struct_name(function: &Function, parameter: &Parameter) -> String {
    format!("{}_{}", function.symbol, parameter.name)
}

/// The C type of an element.
pub(super) fn c_element(element: Element) -> &'static str {
    match element {
        Element::F32 => "float",
        Element::I2 | Element::I4 | Element::I8 => "int8_t",
        Element::I16 => "int16_t",
        Element::I32 => "int32_t",
        Element::B1 | Element::U2 | Element::U4 | Element::U8 | Element::F8E5M2 => "uint8_t",
        Element::U16 => "uint16_t",
        Element::U32 => "uint32_t",
    }
}

/// The Rust type of an element.
pub(super) fn rust_element(element: Element) -> &'static str {
    match element {
        Element::F32 => "f32",
        Element::I2 | Element::I4 | Element::I8 => "i8",
        Element::I16 => "i16",
        Element::I32 => "i32",
        Element::B1 | Element::U2 | Element::U4 | Element::U8 | Element::F8E5M2 => "u8",
        Element::U16 => "u16",
        Element::U32 => "u32",
    }
}

/// What an argument means, for documentation.
pub(super) fn meaning(parameter: &Parameter) -> String {
    let what = match (parameter.passing, parameter.role) {
        (Passing::Write, _) => "result",
        (_, InputRole::Data) => "data",
        (_, InputRole::Labels) => "class labels, 0-based",
        (_, InputRole::LearningRate) if parameter.ty.element == Element::F32 => "learning rate",
        (_, InputRole::LearningRate) => "size of the update in bits",
    };
    format!("{what}, `{}`: {}", parameter.original, parameter.ty)
}

/// Lines of a table of the state's layout.
pub(super) fn state_table(program: &Program) -> Vec<String> {
    program
        .state()
        .into_iter()
        .map(|buffer: &Buffer| {
            let exponent = match buffer.ty.scale {
                Scale::Exponent => {
                    format!(", exponent (int32) at {}", buffer.offset + buffer.scale_offset())
                }
                _ => String::new(),
            };
            format!("{:>10}  {}: {}{exponent}", buffer.offset, buffer.name, buffer.ty)
        })
        .collect()
}
