//! The functions of an artifact as C and Rust see them.

use std::collections::BTreeSet;

use trainc_ir::graph::InputRole;
use trainc_ir::loops::Role;
use trainc_ir::names::{self, identifier, shown};
use trainc_ir::program::{Argument, Entry, Program, Step};
use trainc_ir::{Element, Scale, TensorType};

use crate::kernel::lower;
use crate::loops::element_type;

/// How an argument is passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passing {
    /// A scalar, as itself.
    Value,
    /// The address of its elements (and exponent) to read.
    Read,
    /// The address of its elements (and exponent) to write.
    Write,
}

/// An argument of a function.
#[derive(Debug)]
pub struct Parameter {
    /// Unique in the function, in small letters and in capitals.
    pub name: String,
    /// The model's name, as readers see it.
    pub original: String,
    /// What it is to the model; results have none of their own.
    pub role: InputRole,
    /// Type and shape.
    pub ty: TensorType,
    /// How it is passed.
    pub passing: Passing,
}

impl Parameter {
    /// Whether elements are followed by an exponent, so that it is passed as a struct.
    pub fn is_struct(&self) -> bool {
        self.ty.scale == Scale::Exponent
    }

    /// Elements of its array: bytes, if those of the tensor are packed.
    pub fn elements(&self) -> usize {
        if self.ty.element.bits() < 8 { self.ty.element_bytes() } else { self.ty.count() }
    }
}

/// An exported function.
#[derive(Debug)]
pub struct Function {
    /// The entry's name.
    pub entry: String,
    /// Its symbol.
    pub symbol: String,
    /// Whether it draws random numbers, so that it takes a seed and a step.
    pub random: bool,
    /// Operands, then results, in the entry's order.
    pub parameters: Vec<Parameter>,
}

impl Function {
    /// Name of the struct of a parameter that is passed as one.
    pub fn struct_name(&self, parameter: &Parameter) -> String {
        format!("{}_{}", self.symbol, parameter.name)
    }

    /// `void symbol(...)`, without an end.
    pub fn prototype(&self) -> String {
        let mut all = vec!["void *arena".to_string(), "void *state".to_string()];
        if self.random {
            all.push("uint64_t seed".into());
            all.push("uint32_t step".into());
        }
        all.extend(self.parameters.iter().map(|p| self.declaration(p)));
        format!("void {}({})", self.symbol, all.join(", "))
    }

    /// A parameter as the prototype declares it.
    pub(crate) fn declaration(&self, parameter: &Parameter) -> String {
        let (element, name) = (element_type(parameter.ty.element), &parameter.name);
        let constant = if parameter.passing == Passing::Write { "" } else { "const " };
        match parameter.passing {
            Passing::Value => format!("{element} {name}"),
            _ if parameter.is_struct() => {
                format!("{constant}{} *{name}", self.struct_name(parameter))
            }
            // C++ knows no `static` here, so the size is for the reader.
            _ => format!("{constant}{element} {name}[{}]", parameter.elements().max(1)),
        }
    }
}

/// Everything that an artifact exports.
#[derive(Debug)]
pub struct Interface {
    /// The program's name as a lower-case identifier: prefix of every symbol, stem of every file.
    pub prefix: String,
    /// One function an entry.
    pub functions: Vec<Function>,
}

impl Interface {
    /// What a program exports.
    ///
    /// # Errors
    /// If a type has no form as an argument, or two functions have one symbol.
    pub fn of(program: &Program) -> Result<Interface, String> {
        let prefix = names::prefix(&program.name);
        let mut symbols: BTreeSet<String> =
            ["init", "save", "load"].map(|f| format!("{prefix}_{f}")).into();
        let mut functions = Vec::new();
        for entry in &program.entries {
            let function = function(program, entry, &prefix);
            if !symbols.insert(function.symbol.clone()) {
                return Err(format!("two functions are called `{}`", function.symbol));
            }
            functions.push(function);
        }
        Ok(Interface { prefix, functions })
    }

    /// Every name of an artifact that its header declares.
    pub fn exported(&self) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = [
            "init",
            "save",
            "load",
            "open",
            "close",
            "evaluate",
            "learning_rate",
            "stage",
            "indicator",
            "indicator_take",
        ]
        .map(|f| format!("{}_{f}", self.prefix))
        .into();
        for function in &self.functions {
            all.insert(function.symbol.clone());
            all.insert(format!("{}_launches", function.symbol));
            let scheduled = function.parameters.iter().filter(|p| p.role == InputRole::Scheduled);
            all.extend(scheduled.map(|p| format!("{}_{}", self.prefix, p.original)));
            let structs = function.parameters.iter().filter(|p| p.is_struct());
            all.extend(structs.map(|p| function.struct_name(p)));
        }
        all
    }

    /// What the functions do, for titles.
    pub fn subject(&self) -> &'static str {
        match &self.functions[..] {
            [function] if function.entry == "infer" => "inference",
            _ => "a training step",
        }
    }

    /// The prefix of macros.
    pub fn macros(&self) -> String {
        self.prefix.to_uppercase()
    }
}

fn function(program: &Program, entry: &Entry, prefix: &str) -> Function {
    // Names of the fixed parameters, of locals, and of the table beside the structs.
    let fixed = ["arena", "state", "seed", "step", "a", "s", "c", "run", "launches"];
    let own = format!("{prefix}_");
    // In small letters: macros of two arguments must differ, too.
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut parameter = |argument: &Argument, passing: Passing| {
        let ty = program.buffer(argument.buffer).ty.clone();
        // An argument must not hide a function or a struct of the artifact.
        let mut wanted = identifier(&argument.name);
        if wanted.starts_with(&own) {
            wanted.insert_str(0, "v_");
        }
        let name = names::free(&wanted, |name| {
            !fixed.contains(&name) && !taken.contains(&name.to_ascii_lowercase())
        });
        taken.insert(name.to_ascii_lowercase());
        let scalar = argument.role.is_scheduled()
            && ty.count() == 1
            && ty.element.bits() == 32
            && ty.scale_bytes() == 0;
        let passing = if scalar && passing == Passing::Read { Passing::Value } else { passing };
        Parameter { name, original: shown(&argument.name), role: argument.role, ty, passing }
    };
    let mut parameters = Vec::new();
    for argument in &entry.inputs {
        parameters.push(parameter(argument, Passing::Read));
    }
    for argument in &entry.outputs {
        parameters.push(parameter(argument, Passing::Write));
    }
    Function {
        entry: entry.name.clone(),
        symbol: format!("{prefix}_{}", identifier(&entry.name)),
        random: draws(program, &entry.steps),
        parameters,
    }
}

fn draws(program: &Program, steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Launch(launch) => {
            let kernel = program.kernel(launch.kernel);
            let lowered = lower(kernel);
            lowered.buffers.iter().any(|b| b.role == Role::RunContext)
        }
        Step::Branch { then, otherwise, .. } => draws(program, then) || draws(program, otherwise),
    })
}

/// What an argument means, for documentation.
pub fn meaning(parameter: &Parameter) -> String {
    let what = match (parameter.passing, parameter.role) {
        (Passing::Write, _) => "result",
        (_, InputRole::Data) => "data",
        (_, InputRole::Labels) if parameter.ty.element == Element::F32 => "targets",
        (_, InputRole::Labels) => "class labels, 0-based",
        (_, InputRole::LearningRate) if parameter.ty.element == Element::F32 => "learning rate",
        (_, InputRole::LearningRate) => "size of the update in bits",
        (_, InputRole::Scheduled) => "value of a schedule",
    };
    let packed = match parameter.ty.element.bits() {
        bits @ 1..8 => format!(", packed: {} a byte, the first in its low bits", 8 / bits),
        _ => String::new(),
    };
    format!("{what}, `{}`: {}{packed}", parameter.original, parameter.ty)
}

/// Rows of a table of the state's layout: by offset.
pub fn state_table(program: &Program) -> Vec<String> {
    program
        .state()
        .into_iter()
        .map(|buffer| {
            let exponent = match buffer.ty.scale {
                Scale::Exponent => {
                    format!(", exponent (int32_t) at {}", buffer.offset + buffer.scale_offset())
                }
                _ => String::new(),
            };
            format!("{:>10}  {}: {}{exponent}", buffer.offset, shown(&buffer.name), buffer.ty)
        })
        .collect()
}
