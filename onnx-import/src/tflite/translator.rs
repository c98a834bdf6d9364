//! The model being built from a subgraph: values in their layouts, constants and variables in the form that is asked of
//! them, and the nodes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::{NodeResult, Warning, WarningKind, invalid, unsupported};
use crate::limits;
use crate::proto::{AttributeProto, NodeProto, TensorProto, data_type};
use crate::tflite::layout::{
    FROM_CHANNELS, Layout, TO_CHANNELS, between, moves_nothing, permute_bytes, permuted,
};
use crate::tflite::schema::{Quantization, Subgraph, Type};

/// What a tensor of the file stands for.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A result of nodes or an input: the names of its forms, the first as its producer gives it.
    Computed { dims: Vec<usize>, forms: Vec<(Layout, String)> },
    /// A constant or a variable with its axes permuted.
    Stored { root: usize, permutation: Vec<usize> },
    /// A reference to a variable.
    Handle(String),
    /// The result of an operator that was refused.
    Poison,
}

/// A constant or a variable.
#[derive(Clone, Debug)]
pub(crate) struct Root<'m> {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) dims: Vec<usize>,
    pub(crate) quantization: Option<Quantization>,
    /// Elements, little-endian; 4-bit ones as bytes.
    pub(crate) bytes: Cow<'m, [u8]>,
    /// The forms in which it is stored, with the names of their FP32 values.
    pub(crate) stored: Vec<(Form, String)>,
}

/// How a root is stored: under other dimensions, then permuted, then under others again.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Form {
    pub(crate) view: Vec<usize>,
    pub(crate) permutation: Vec<usize>,
    pub(crate) dims: Vec<usize>,
}

/// Bytes of an element.
fn width(ty: Type) -> Option<usize> {
    Some(match ty {
        Type::Int4 | Type::Int8 | Type::Uint8 | Type::Bool => 1,
        Type::Float16 | Type::Bfloat16 | Type::Int16 => 2,
        Type::Float32 | Type::Int32 => 4,
        Type::Float64 | Type::Int64 => 8,
        Type::Resource | Type::Other(_) => return None,
    })
}

/// The importer's element type; 4-bit integers are bytes by then.
pub(crate) fn element(ty: Type) -> i32 {
    match ty {
        Type::Float32 => data_type::FLOAT,
        Type::Float16 => data_type::FLOAT16,
        Type::Bfloat16 => data_type::BFLOAT16,
        Type::Float64 => data_type::DOUBLE,
        Type::Int4 | Type::Int8 => data_type::INT8,
        Type::Uint8 => data_type::UINT8,
        Type::Int16 => data_type::INT16,
        Type::Int32 => data_type::INT32,
        Type::Int64 => data_type::INT64,
        Type::Bool => data_type::BOOL,
        Type::Resource | Type::Other(_) => data_type::UNDEFINED,
    }
}

/// Integers of 4 bits as bytes, the low half of a byte first.
fn unpacked(bytes: &[u8], count: usize) -> Vec<u8> {
    let halves = bytes.iter().flat_map(|&b| [((b << 4) as i8 >> 4) as u8, (b as i8 >> 4) as u8]);
    halves.take(count).collect()
}

/// The model being built.
#[derive(Debug)]
pub(crate) struct Translator<'m> {
    pub(crate) subgraph: &'m Subgraph<'m>,
    pub(crate) nodes: Vec<NodeProto>,
    pub(crate) initializers: Vec<TensorProto>,
    pub(crate) values: BTreeMap<usize, Value>,
    pub(crate) roots: Vec<Root<'m>>,
    /// Roots of variables by name.
    pub(crate) variables: BTreeMap<String, usize>,
    pub(crate) warnings: Vec<Warning>,
    /// Name of the operator being translated.
    pub(crate) current: String,
    /// Variables that the file has no values for.
    pub(crate) empty_variables: Vec<String>,
    names: BTreeSet<String>,
    node_names: BTreeSet<String>,
    /// Names that forms of values refer to.
    referred: BTreeSet<String>,
    /// Nodes before those of the current operator.
    before: usize,
    /// Elements of variables without values so far.
    empty: usize,
    /// Bytes that initializers may still take.
    budget: usize,
}

impl<'m> Translator<'m> {
    /// An empty model for a subgraph of a file of `bytes` bytes.
    pub(crate) fn new(subgraph: &'m Subgraph<'m>, bytes: usize) -> Translator<'m> {
        Translator {
            subgraph,
            nodes: Vec::new(),
            initializers: Vec::new(),
            values: BTreeMap::new(),
            roots: Vec::new(),
            variables: BTreeMap::new(),
            warnings: Vec::new(),
            current: String::new(),
            empty_variables: Vec::new(),
            names: BTreeSet::new(),
            node_names: BTreeSet::new(),
            referred: BTreeSet::new(),
            before: 0,
            empty: 0,
            budget: bytes.saturating_mul(4),
        }
    }

    /// Begins an operator, an input or an output of this name.
    pub(crate) fn begin(&mut self, name: String) {
        self.current = name;
        self.before = self.nodes.len();
    }

    /// Gives a result of the current operator's last node the name of a tensor; the name that it has then.
    pub(crate) fn rename(&mut self, x: String, tensor: usize) -> String {
        let own = self.nodes.len() > self.before && !self.referred.contains(&x);
        let wanted = self.subgraph.tensors[tensor].name.clone();
        let mut name = x;
        if own
            && let Some(at) =
                self.nodes.last().and_then(|n| n.output.iter().position(|o| *o == name))
        {
            name = self.unique(&wanted);
            if let Some(node) = self.nodes.last_mut() {
                node.output[at].clone_from(&name);
            }
        }
        self.referred.insert(name.clone());
        name
    }

    /// Whether a result is used by nothing but the outputs, at most as floats again.
    pub(crate) fn only_leaves(&self, tensor: usize) -> bool {
        self.subgraph.operators.iter().filter(|op| op.inputs.contains(&Some(tensor))).all(|op| {
            op.name == "DEQUANTIZE"
                && op.outputs.iter().all(|o| {
                    self.subgraph.outputs.contains(o)
                        && !self.subgraph.operators.iter().any(|op| op.inputs.contains(&Some(*o)))
                })
        })
    }

    pub(crate) fn warn(&mut self, kind: WarningKind, message: String) {
        self.warnings.push(Warning { kind, message });
    }

    /// A name that no value has, from one of the file's: the first of those that the converter joined.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let first = wanted.split(';').next().unwrap_or_default();
        let wanted = if first.is_empty() { "value" } else { first };
        let mut name = wanted.to_string();
        let mut n = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{wanted}_{n}");
            n += 1;
        }
        name
    }

    /// Adds a node with several results. `suffix` tells the nodes of one operator apart, empty for the main one.
    pub(crate) fn add_many(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        suffix: &str,
        results: usize,
    ) -> Vec<String> {
        let base = match suffix {
            "" => self.current.clone(),
            suffix => format!("{}/{suffix}", self.current),
        };
        let mut name = base.clone();
        let mut n = 2;
        while !self.node_names.insert(name.clone()) {
            name = format!("{base}_{n}");
            n += 1;
        }
        let outputs: Vec<String> = (0..results).map(|_| self.unique(&name)).collect();
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let mut node = NodeProto::new(op, &name, inputs, &names);
        node.attribute = attributes;
        self.nodes.push(node);
        outputs
    }

    /// Adds a node.
    pub(crate) fn add(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        suffix: &str,
    ) -> String {
        self.add_many(op, inputs, attributes, suffix, 1).swap_remove(0)
    }

    /// A list of integers as an operand.
    pub(crate) fn ints(&mut self, values: &[i64], suffix: &str) -> String {
        let name = self.unique(&format!("{}/{suffix}", self.current));
        self.initializers.push(TensorProto::i64(&name, &[values.len()], values));
        name
    }

    /// Floats as an operand.
    pub(crate) fn floats(&mut self, dims: &[usize], values: &[f32], suffix: &str) -> String {
        let name = self.unique(&format!("{}/{suffix}", self.current));
        self.initializers.push(TensorProto::f32(&name, dims, values));
        name
    }

    pub(crate) fn reshape(&mut self, x: &str, dims: &[i64], suffix: &str) -> String {
        let shape = self.ints(dims, "shape");
        self.add("Reshape", &[x, &shape], Vec::new(), suffix)
    }

    pub(crate) fn transpose(&mut self, x: &str, permutation: &[usize], suffix: &str) -> String {
        let axes: Vec<i64> = permutation.iter().map(|&a| a as i64).collect();
        self.add("Transpose", &[x], vec![AttributeProto::ints("perm", &axes)], suffix)
    }

    /// Permutes the axes of a value whose first dimension is the batch and stays first; a reshape where no element moves.
    fn permute(&mut self, x: &str, dims: &[usize], permutation: &[usize]) -> String {
        if !moves_nothing(dims, permutation) || permutation.first() != Some(&0) {
            return self.transpose(x, permutation, "layout");
        }
        let mut shape: Vec<i64> = permuted(dims, permutation).iter().map(|&d| d as i64).collect();
        // The batch is whatever it is.
        shape[0] = 0;
        self.reshape(x, &shape, "layout")
    }
}

/// Tensors of the file.
impl<'m> Translator<'m> {
    /// Takes a constant of the file as a root.
    fn constant(&mut self, tensor: usize) -> NodeResult<Option<Value>> {
        let t = &self.subgraph.tensors[tensor];
        let Some(bytes) = t.data else { return Ok(None) };
        let name = t.name.clone();
        if t.sparse {
            return Err(unsupported(
                format!("tensor `{name}`"),
                "is stored sparse",
                "dense tensors",
            ));
        }
        let value =
            self.root(&name, t.ty, t.dims.clone(), t.quantization.clone(), Cow::Borrowed(bytes))?;
        self.values.insert(tensor, value.clone());
        Ok(Some(value))
    }

    /// A new root, as it is stored.
    pub(crate) fn root(
        &mut self,
        name: &str,
        ty: Type,
        dims: Vec<usize>,
        quantization: Option<Quantization>,
        bytes: Cow<'m, [u8]>,
    ) -> NodeResult<Value> {
        let count = limits::count(&dims).ok_or_else(|| invalid!("tensor `{name}` is too large"))?;
        let Some(width) = width(ty) else {
            return Err(unsupported(
                format!("tensor `{name}`"),
                format!("element type {}", ty.name()),
                "floats and integers",
            ));
        };
        let needed = if ty == Type::Int4 { count.div_ceil(2) } else { count * width };
        if bytes.len() != needed {
            return Err(invalid!(
                "tensor `{name}` of {} {dims:?} takes {needed} bytes, its buffer has {}",
                ty.name(),
                bytes.len()
            ));
        }
        if let Some(q) = &quantization
            && q.scales.len() > 1
            && dims.get(q.axis) != Some(&q.scales.len())
        {
            return Err(invalid!(
                "tensor `{name}` of {dims:?} has {} scales along axis {}",
                q.scales.len(),
                q.axis
            ));
        }
        let bytes = match ty {
            Type::Int4 => Cow::Owned(unpacked(&bytes, count)),
            _ => bytes,
        };
        let permutation = (0..dims.len()).collect();
        self.roots.push(Root {
            name: name.to_string(),
            ty,
            dims,
            quantization,
            bytes,
            stored: Vec::new(),
        });
        Ok(Value::Stored { root: self.roots.len() - 1, permutation })
    }

    /// What a tensor stands for.
    pub(crate) fn value(&mut self, tensor: usize) -> NodeResult<Value> {
        if let Some(value) = self.values.get(&tensor) {
            return Ok(value.clone());
        }
        let name = self.subgraph.tensors[tensor].name.clone();
        self.constant(tensor)?
            .ok_or_else(|| invalid!("tensor {tensor} (`{name}`) is used before anything gives it"))
    }

    /// Dimensions of a tensor, in the file's order of axes.
    pub(crate) fn dims(&mut self, tensor: usize) -> NodeResult<Vec<usize>> {
        Ok(match self.value(tensor)? {
            Value::Computed { dims, .. } => dims,
            Value::Stored { root, permutation } => permuted(&self.roots[root].dims, &permutation),
            Value::Handle(_) | Value::Poison => self.subgraph.tensors[tensor].dims.clone(),
        })
    }

    /// The integers of a constant; `None` if they are computed.
    pub(crate) fn known_ints(&mut self, tensor: usize) -> NodeResult<Option<Vec<i64>>> {
        let Value::Stored { root, permutation } = self.value(tensor)? else { return Ok(None) };
        let root = &self.roots[root];
        if !permutation.is_sorted() {
            return Ok(None);
        }
        Ok(match root.ty {
            Type::Int32 => Some(
                root.bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&b| i64::from(i32::from_le_bytes(b)))
                    .collect(),
            ),
            Type::Int64 => {
                Some(root.bytes.as_chunks::<8>().0.iter().map(|&b| i64::from_le_bytes(b)).collect())
            }
            _ => None,
        })
    }
}

/// Values as names of the model.
impl Translator<'_> {
    /// The FP32 (or INT64) value of a root in a form.
    pub(crate) fn stored(&mut self, index: usize, form: Form) -> NodeResult<String> {
        let root = &self.roots[index];
        if let Some((_, name)) = root.stored.iter().find(|(other, _)| *other == form) {
            return Ok(name.clone());
        }
        let pure = |form: &Form| {
            form.view == root.dims && form.dims == permuted(&form.view, &form.permutation)
        };
        if let Some((other, name)) = root.stored.first().cloned() {
            if pure(&form) && pure(&other) {
                // One parameter, moved for its second use.
                let axes = between(&other.permutation, &form.permutation);
                let moved = self.transpose(&name, &axes, "layout");
                self.referred.insert(moved.clone());
                self.roots[index].stored.push((form, moved.clone()));
                return Ok(moved);
            }
            let message = format!(
                "`{}` is used in two layouts; it is stored twice, and each is trained on its own",
                root.name
            );
            self.warn(WarningKind::Untied, message);
        }
        self.spend(self.roots[index].bytes.len())?;
        let root = &self.roots[index];
        let (ty, quantization) = (root.ty, root.quantization.clone());
        let width = width(ty).unwrap_or(1);
        let bytes = permute_bytes(&root.bytes, width, &form.view, &form.permutation);
        let name = root.name.clone();
        let name = self.unique(&name);
        let (dtype, bytes) = match ty {
            // Integers without a scale are shapes and axes.
            Type::Int32 if quantization.is_none() => {
                let wide = bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .flat_map(|&b| i64::from(i32::from_le_bytes(b)).to_le_bytes());
                (data_type::INT64, wide.collect())
            }
            ty => (element(ty), bytes),
        };
        self.initializers.push(TensorProto {
            name: name.clone(),
            dims: form.dims.iter().map(|&d| d as i64).collect(),
            data_type: dtype,
            raw_data: Some(bytes),
            ..TensorProto::default()
        });
        let value = match &quantization {
            Some(q) if !ty.is_float() => {
                let view = form.dims.len() != form.permutation.len();
                let axis = match view {
                    true => q.axis,
                    false => form.permutation.iter().position(|&a| a == q.axis).unwrap_or(0),
                };
                self.dequantize(&name, dtype, q, axis)?
            }
            _ => name,
        };
        self.referred.insert(value.clone());
        self.roots[index].stored.push((form, value.clone()));
        Ok(value)
    }

    /// Lets initializers take more bytes than the file has: bits that become floats, which are bounded otherwise.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.budget = self.budget.saturating_add(bytes);
    }

    /// Makes room for the zeros of a variable that the file has no value for.
    pub(crate) fn spend_empty(&mut self, elements: usize) -> NodeResult<()> {
        self.empty += elements;
        if self.empty > limits::MAX_UNSTORED {
            return Err(invalid!("more than {} elements without values", limits::MAX_UNSTORED));
        }
        self.allow(4 * elements);
        Ok(())
    }

    /// Counts bytes of initializers.
    pub(crate) fn spend(&mut self, bytes: usize) -> NodeResult<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(invalid!("tensors share bytes: they take four times what the file holds")),
        }
    }

    /// A root with its axes permuted.
    pub(crate) fn stored_permuted(
        &mut self,
        root: usize,
        permutation: Vec<usize>,
    ) -> NodeResult<String> {
        let view = self.roots[root].dims.clone();
        let dims = permuted(&view, &permutation);
        self.stored(root, Form { view, permutation, dims })
    }

    /// A value in a layout of its own choice.
    pub(crate) fn any(&mut self, tensor: usize) -> NodeResult<(String, Layout)> {
        match self.value(tensor)? {
            Value::Computed { forms, .. } => {
                let (layout, name) = forms[0].clone();
                Ok((name, layout))
            }
            Value::Stored { root, permutation } => {
                Ok((self.stored_permuted(root, permutation)?, Layout::Plain))
            }
            Value::Handle(name) => Err(invalid!("variable `{name}` is used as a value")),
            Value::Poison => Err(invalid!("an operand was not imported")),
        }
    }

    /// A value with the file's axes.
    pub(crate) fn plain(&mut self, tensor: usize) -> NodeResult<String> {
        self.form(tensor, Layout::Plain)
    }

    /// A file's [N, H, W, C] as [N, C, H, W].
    pub(crate) fn channels(&mut self, tensor: usize) -> NodeResult<String> {
        let dims = self.dims(tensor)?;
        if dims.len() != 4 {
            return Err(unsupported(
                "operands",
                format!("{} dimensions", dims.len()),
                "4 (batch, height, width, channels)",
            ));
        }
        if let Value::Stored { root, permutation } = self.value(tensor)? {
            return self.stored_permuted(root, permuted(&permutation, &TO_CHANNELS));
        }
        self.form(tensor, Layout::Channels)
    }

    fn form(&mut self, tensor: usize, wanted: Layout) -> NodeResult<String> {
        let (name, layout) = self.any(tensor)?;
        let Value::Computed { dims, forms } = self.value(tensor)? else { return Ok(name) };
        if let Some((_, name)) = forms.iter().find(|(layout, _)| *layout == wanted) {
            return Ok(name.clone());
        }
        let stored = match layout {
            Layout::Channels => permuted(&dims, &TO_CHANNELS),
            _ => dims.clone(),
        };
        let name = match (layout, wanted) {
            (Layout::Plain, Layout::Channels) => self.permute(&name, &stored, &TO_CHANNELS),
            (Layout::Channels, Layout::Plain) => self.permute(&name, &stored, &FROM_CHANNELS),
            (Layout::Flat([c, h, w]), Layout::Plain) => {
                let image = self.reshape(&name, &[0, c as i64, h as i64, w as i64], "image");
                let last = self.transpose(&image, &FROM_CHANNELS, "layout");
                self.reshape(&last, &[0, (c * h * w) as i64], "flat")
            }
            _ => return Err(invalid!("a value of {dims:?} where an image is due")),
        };
        self.referred.insert(name.clone());
        if let Some(Value::Computed { forms, .. }) = self.values.get_mut(&tensor) {
            forms.push((wanted, name.clone()));
        }
        Ok(name)
    }
}
