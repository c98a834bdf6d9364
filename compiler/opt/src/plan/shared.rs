//! What the entries of a program share: state, constants, kernels, and names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainc_ir::batch_split::Splitting;
use trainc_ir::implementation::{Memory, Signature};
use trainc_ir::names::identifier;
use trainc_ir::program::{Kernel, buffer_bytes};
use trainc_ir::target::Target;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::types::{Element, Scale, TensorType};
use trainc_ir::{Op, Tensor};

use super::{PlanEntry, PlanError};

/// Longest part of a kernel's name that its operations give, in bytes.
const LONGEST_NAME: usize = 56;

/// A parameter or a constant.
#[derive(Debug)]
pub(super) struct Fixed {
    /// The model's name.
    pub(super) name: String,
    /// The buffer's name.
    pub(super) identifier: String,
    pub(super) tensor: Arc<Tensor>,
    /// First byte in its region.
    pub(super) offset: usize,
}

/// What makes two kernels the same.
type Key = (Op, Vec<TensorType>, Vec<TensorType>, Memory);

/// See the module documentation.
pub(super) struct Shared<'t> {
    target: &'t dyn Target,
    splitting: Splitting,
    pub(super) state: Vec<Fixed>,
    pub(super) state_bytes: usize,
    pub(super) constants: Vec<Fixed>,
    pub(super) constant_bytes: usize,
    pub(super) kernels: Vec<Kernel>,
    /// Position of each parameter's state by name.
    state_names: BTreeMap<String, usize>,
    /// Constants by content.
    contents: BTreeMap<(TensorType, Vec<u8>), usize>,
    /// Offsets of constants by layout (element, scale, count) and bytes: reshapes of one constant share them.
    places: BTreeMap<(Element, Scale, usize, Vec<u8>), usize>,
    known: BTreeMap<Key, usize>,
    names: Names,
    kernel_names: Names,
}

impl<'t> Shared<'t> {
    /// The state of all entries, in the order of first appearance.
    ///
    /// # Errors
    /// If a parameter differs between entries.
    pub(super) fn new(
        entries: &[PlanEntry<'_>],
        target: &'t dyn Target,
        splitting: Splitting,
    ) -> Result<Shared<'t>, PlanError> {
        let alignment = target.description().alignment.max(1);
        let mut state: Vec<Fixed> = Vec::new();
        let mut names = Names::default();
        let mut first: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
        let mut offset = 0usize;
        for entry in entries {
            let mut own = BTreeSet::new();
            for parameter in entry.graph.parameters() {
                let name = entry.graph.value(parameter.value).name.as_str();
                if !own.insert(name) {
                    return Err(PlanError::ParameterTwice { parameter: name.to_string() });
                }
                let Some(&(other, index)) = first.get(name) else {
                    first.insert(name, (entry.name, state.len()));
                    let bytes = buffer_bytes(parameter.initial.ty());
                    let tensor = parameter.initial.clone();
                    // The state's identifiers come first, so that they stay closest to the model's names.
                    let identifier = names.take(name, "");
                    state.push(Fixed { name: name.to_string(), identifier, tensor, offset });
                    offset += bytes.next_multiple_of(alignment);
                    continue;
                };
                let known = &state[index].tensor;
                let place = || (name.to_string(), other.to_string(), entry.name.to_string());
                if known.ty() != parameter.initial.ty() {
                    let (parameter_name, first, second) = place();
                    return Err(PlanError::ParameterType {
                        parameter: parameter_name,
                        first,
                        first_type: known.ty().to_string(),
                        second,
                        second_type: parameter.initial.ty().to_string(),
                    });
                }
                if !Arc::ptr_eq(known, &parameter.initial) && !known.bits_equal(&parameter.initial)
                {
                    let (parameter, first, second) = place();
                    return Err(PlanError::ParameterValue { parameter, first, second });
                }
            }
        }
        let state_names =
            state.iter().enumerate().map(|(index, f)| (f.name.clone(), index)).collect();
        Ok(Shared {
            target,
            splitting,
            state_names,
            state,
            state_bytes: offset,
            constants: Vec::new(),
            constant_bytes: 0,
            kernels: Vec::new(),
            contents: BTreeMap::new(),
            places: BTreeMap::new(),
            known: BTreeMap::new(),
            names,
            kernel_names: Names::default(),
        })
    }

    pub(super) fn alignment(&self) -> usize {
        self.target.description().alignment.max(1)
    }

    /// Position of the parameter of that name, which [`Shared::new`] has seen.
    pub(super) fn state_named(&self, name: &str) -> usize {
        self.state_names.get(name).copied().unwrap_or(usize::MAX)
    }

    /// Position of a constant, which may be there already.
    pub(super) fn constant(&mut self, tensor: &Arc<Tensor>, name: &str, entry: &str) -> usize {
        let bytes = tensor_bytes(tensor);
        let key = (tensor.ty().clone(), bytes);
        if let Some(&index) = self.contents.get(&key) {
            return index;
        }
        let alignment = self.alignment();
        let place = (key.0.element, key.0.scale, key.0.count(), key.1.clone());
        let offset = *self.places.entry(place).or_insert_with(|| {
            let offset = self.constant_bytes;
            self.constant_bytes += key.1.len().next_multiple_of(alignment);
            offset
        });
        let index = self.constants.len();
        let identifier = self.names.take(name, entry);
        let (name, tensor) = (name.to_string(), tensor.clone());
        self.constants.push(Fixed { name, identifier, tensor, offset });
        self.contents.insert(key, index);
        index
    }

    pub(super) fn constant_tensor(&self, index: usize) -> &Tensor {
        &self.constants[index].tensor
    }

    /// Position of a kernel, which may be there already. `in_caller` says whether operands or results of these elements lie
    /// in the caller's memory.
    pub(super) fn kernel(
        &mut self,
        op: &Op,
        inputs: Vec<TensorType>,
        outputs: Vec<TensorType>,
        in_caller: impl Fn(&[Element]) -> bool,
    ) -> usize {
        let mut key = (op.clone(), inputs, outputs, Memory::Program);
        if let Some(&index) = self.known.get(&key)
            && !in_caller(self.kernels[index].selection.aligned_elements())
        {
            return index;
        }
        let (target, splitting) = (self.target, self.splitting);
        let make = |(op, inputs, outputs, memory): &Key| {
            Kernel::new("", op.clone(), inputs.clone(), outputs.clone(), |signature| {
                target.select_split(&Signature { memory: *memory, ..*signature }, &splitting)
            })
        };
        let mut kernel = make(&key);
        if in_caller(kernel.selection.aligned_elements()) {
            key.3 = Memory::Caller;
            if let Some(&index) = self.known.get(&key) {
                return index;
            }
            kernel = make(&key);
        }
        kernel.name = self.kernel_names.take(&kernel_name(op, &key.1, &key.2), "");
        let index = self.kernels.len();
        self.kernels.push(kernel);
        self.known.insert(key, index);
        index
    }

    pub(super) fn scratch_bytes(&self, kernel: usize) -> usize {
        self.kernels[kernel].scratch_bytes()
    }

    /// A buffer name: the value's as an identifier; where that is taken, with the entry's before it.
    pub(super) fn buffer_name(&mut self, value: &str, entry: &str) -> String {
        self.names.take(value, entry)
    }
}

/// Identifiers in use.
#[derive(Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
    counters: BTreeMap<String, usize>,
}

impl Names {
    /// A free identifier like `text`; else like `prefix` and `text` (if there is a prefix); else with a number.
    pub(super) fn take(&mut self, text: &str, prefix: &str) -> String {
        let mut name = identifier(text);
        if self.taken.contains(&name) && !prefix.is_empty() {
            name = identifier(&format!("{prefix}_{text}"));
        }
        let base = name.clone();
        while !self.taken.insert(name.clone()) {
            let counter = self.counters.entry(base.clone()).or_insert(1);
            *counter += 1;
            name = format!("{base}_{counter}");
        }
        name
    }
}

/// A readable name: operation, element of the first operand, dimensions of the first result.
fn kernel_name(op: &Op, inputs: &[TensorType], outputs: &[TensorType]) -> String {
    let mut name = match op {
        Op::Chain(chain) => {
            let parts: Vec<&str> = chain.ops.iter().map(|op| op.kind().name()).collect();
            parts.join("_")
        }
        op => op.kind().name().to_string(),
    };
    name.truncate(LONGEST_NAME);
    if let Some(ty) = inputs.first().or(outputs.first()) {
        name.push('_');
        name.push_str(ty.element.name());
    }
    if let Some(ty) = outputs.first() {
        let dims: Vec<String> = ty.shape.iter().map(ToString::to_string).collect();
        name.push('_');
        name.push_str(if dims.is_empty() { "scalar" } else { "" });
        name.push_str(&dims.join("x"));
    }
    name
}
