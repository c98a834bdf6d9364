//! The model being built from a subgraph: values in their layouts, constants and variables in the form that is asked of
//! them, and the nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{NodeResult, Warning, WarningKind, invalid, unsupported};
use crate::proto::{AttributeProto, NodeProto, TensorProto};
use crate::tflite::layout::{FROM_CHANNELS, Layout, TO_CHANNELS, moves_nothing, permuted};
use crate::tflite::schema::Subgraph;
use crate::tflite::stored::Root;

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
    pub(super) referred: BTreeSet<String>,
    /// Nodes before those of the current operator.
    before: usize,
    /// Elements of variables without values so far.
    pub(super) empty: usize,
    /// Bytes that initializers may still take.
    pub(super) budget: usize,
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

    /// Puts the last node into a domain.
    pub(crate) fn of_domain(&mut self, domain: &str) {
        if let Some(node) = self.nodes.last_mut() {
            node.domain = domain.to_string();
        }
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
}

/// Values as names of the model.
impl Translator<'_> {
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
