//! One node being imported: its operands, attributes, and what it adds to the graph.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainc_ir::graph::Definition;
use trainc_ir::{Element, Graph, Op, Tensor, ValueId};

use crate::error::{NodeError, NodeResult, Warning, WarningKind, invalid, unsupported};
use crate::known::{Known, KnownData};
use crate::limits;
use crate::proto::{AttributeProto, NodeProto, attribute_type, data_type};
use crate::roles::Roles;
use crate::{ImportOptions, IntegerParameter, Loss};

/// What a name of the model stands for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Bound {
    /// A value of the graph.
    Value(ValueId),
    /// Known while importing.
    Known(Arc<Known>),
    /// Random numbers of these dimensions, uniform from 0 to 1: only their comparison has a form in graphs.
    Uniform(Vec<usize>),
    /// Tensors by their positions.
    Sequence(Vec<Bound>),
    /// The result of a node that was not imported.
    Poison,
}

impl From<ValueId> for Bound {
    fn from(value: ValueId) -> Bound {
        Bound::Value(value)
    }
}

impl From<Known> for Bound {
    fn from(known: Known) -> Bound {
        Bound::Known(Arc::new(known))
    }
}

/// The graph being built and what goes with it.
pub(crate) struct Builder<'m> {
    pub(crate) graph: Graph,
    pub(crate) values: BTreeMap<&'m str, Bound>,
    /// Operands (node, position) that are parameters of their own.
    pub(crate) slots: BTreeMap<(usize, usize), ValueId>,
    /// Constants of the graph by the address of the known tensor, which is kept so that the address stays its own.
    pub(crate) constants: BTreeMap<usize, (Arc<Known>, ValueId)>,
    pub(crate) options: &'m ImportOptions,
    pub(crate) opset: i64,
    pub(crate) roles: Roles<'m>,
    pub(crate) warnings: Vec<Warning>,
    /// Names that a live node or the graph's outputs use.
    pub(crate) used: BTreeSet<&'m str>,
    /// The batch size that the file fixes and the one that replaces it.
    pub(crate) batch: Option<(usize, usize)>,
    /// Streams given to dropout nodes so far.
    pub(crate) streams: u32,
    /// New values of parameters, by position.
    pub(crate) updates: BTreeMap<usize, ValueId>,
    /// Names of batch norm nodes that normalize with running statistics.
    pub(crate) inference_batch_norms: Vec<String>,
    /// Names of batch norm nodes that the file has in training form.
    pub(crate) training_batch_norms: Vec<String>,
    /// Loss nodes: name of the result, and what is known of it.
    pub(crate) losses: Vec<(&'m str, Loss)>,
    /// Parameters that the file stores as integers.
    pub(crate) integer_parameters: Vec<IntegerParameter>,
    /// Elements folded so far.
    pub(crate) folded: usize,
    /// Elements of copied parameters so far.
    pub(crate) copied: usize,
    /// Parameters made, for unique names.
    pub(crate) parameter_names: BTreeSet<String>,
    /// Values that have a name of the model.
    pub(crate) named: BTreeSet<ValueId>,
}

impl Builder<'_> {
    /// Adds a parameter from a known float tensor.
    pub(crate) fn parameter(
        &mut self,
        name: &str,
        known: &Known,
        trainable: bool,
    ) -> Result<ValueId, String> {
        let mut unique = name.to_string();
        let mut n = 2;
        while !self.parameter_names.insert(unique.clone()) {
            unique = format!("{name}_{n}");
            n += 1;
        }
        let tensor = known.to_tensor()?;
        Ok(self.graph.add_parameter(unique, tensor, trainable))
    }

    /// Counts elements of parameters made from tensors that are kept, too.
    pub(crate) fn count_copy(&mut self, elements: usize) -> Result<(), String> {
        self.copied = self.copied.saturating_add(elements);
        match self.copied > limits::MAX_COPIED {
            true => Err(format!("more than {} elements of copied parameters", limits::MAX_COPIED)),
            false => Ok(()),
        }
    }

    /// Whether a value is a parameter.
    pub(crate) fn is_parameter(&self, value: ValueId) -> bool {
        matches!(self.graph.value(value).definition, Definition::Parameter(_))
    }

    pub(crate) fn warn(&mut self, kind: WarningKind, message: String) {
        self.warnings.push(Warning { kind, message });
    }
}

/// One node being imported.
pub(crate) struct Call<'b, 'm> {
    pub(crate) builder: &'b mut Builder<'m>,
    pub(crate) node: &'m NodeProto,
    pub(crate) index: usize,
    /// Name for messages and for the graph's nodes.
    pub(crate) name: String,
    /// Attributes that were asked for: the table must have them.
    pub(crate) asked: RefCell<BTreeSet<&'static str>>,
}

/// Attributes.
impl<'m> Call<'_, 'm> {
    fn attribute(&self, name: &'static str, ty: i32) -> NodeResult<Option<&'m AttributeProto>> {
        self.asked.borrow_mut().insert(name);
        let Some(found) = self.node.attribute.iter().find(|a| a.name == name) else {
            return Ok(None);
        };
        if found.r#type != ty && found.r#type != attribute_type::UNDEFINED {
            return Err(invalid!("attribute `{name}` has a wrong type"));
        }
        Ok(Some(found))
    }

    /// Whether the attribute is given.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.asked.borrow_mut().insert(name);
        self.node.attribute.iter().any(|a| a.name == name)
    }

    pub(crate) fn int(&self, name: &'static str, default: i64) -> NodeResult<i64> {
        let found = self.attribute(name, attribute_type::INT)?;
        Ok(found.map_or(default, |a| a.i.unwrap_or_default()))
    }

    /// An integer attribute that is 0 or 1.
    pub(crate) fn flag(&self, name: &'static str, default: bool) -> NodeResult<bool> {
        match self.int(name, i64::from(default))? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(invalid!("attribute `{name}` is {other}, not 0 or 1")),
        }
    }

    pub(crate) fn ints(&self, name: &'static str) -> NodeResult<Option<&'m [i64]>> {
        Ok(self.attribute(name, attribute_type::INTS)?.map(|a| a.ints.as_slice()))
    }

    pub(crate) fn float(&self, name: &'static str, default: f32) -> NodeResult<f32> {
        let found = self.attribute(name, attribute_type::FLOAT)?;
        Ok(found.map_or(default, |a| a.f.unwrap_or_default()))
    }

    pub(crate) fn floats(&self, name: &'static str) -> NodeResult<Option<&'m [f32]>> {
        Ok(self.attribute(name, attribute_type::FLOATS)?.map(|a| a.floats.as_slice()))
    }

    pub(crate) fn string(&self, name: &'static str, default: &'m str) -> NodeResult<&'m str> {
        match self.attribute(name, attribute_type::STRING)? {
            None => Ok(default),
            Some(a) => std::str::from_utf8(a.s.as_deref().unwrap_or_default())
                .map_err(|_| invalid!("attribute `{name}` is not UTF-8")),
        }
    }

    pub(crate) fn tensor(&self, name: &'static str) -> NodeResult<Option<Known>> {
        let Some(a) = self.attribute(name, attribute_type::TENSOR)? else { return Ok(None) };
        let Some(tensor) = &a.t else { return Err(invalid!("attribute `{name}` has no tensor")) };
        let no_files = |_: &_| Err("an attribute's tensor cannot be in another file".to_string());
        Known::read(&mut (**tensor).clone(), &no_files)
            .map(Some)
            .map_err(|e| invalid!("attribute `{name}`: {e}"))
    }
}

/// Operands and results.
impl<'m> Call<'_, 'm> {
    /// Version of ONNX's operator set.
    pub(crate) fn opset(&self) -> i64 {
        self.builder.opset
    }

    /// Number of operands, trailing absent ones not counted.
    pub(crate) fn operands(&self) -> usize {
        self.node.input.iter().rposition(|name| !name.is_empty()).map_or(0, |i| i + 1)
    }

    /// Whether the operand is given.
    pub(crate) fn given(&self, i: usize) -> bool {
        self.node.input.get(i).is_some_and(|name| !name.is_empty())
    }

    /// Whether anything uses that result.
    pub(crate) fn uses_output(&self, i: usize) -> bool {
        self.node.output.get(i).is_some_and(|name| self.builder.used.contains(name.as_str()))
    }

    /// An operand's name, for messages.
    pub(crate) fn operand_name(&self, i: usize) -> String {
        match self.node.input.get(i) {
            Some(name) if !name.is_empty() => format!("operand `{name}`"),
            _ => format!("operand {i}"),
        }
    }

    /// An operand.
    pub(crate) fn bound(&mut self, i: usize) -> NodeResult<Bound> {
        if let Some(&value) = self.builder.slots.get(&(self.index, i)) {
            return Ok(value.into());
        }
        self.named(i)
    }

    fn named(&self, i: usize) -> NodeResult<Bound> {
        let name = match self.node.input.get(i) {
            Some(name) if !name.is_empty() => name.as_str(),
            _ => return Err(invalid!("operand {i} is missing")),
        };
        self.builder
            .values
            .get(name)
            .cloned()
            .ok_or_else(|| invalid!("operand `{name}` is not defined"))
    }

    /// An operand's value if known while importing.
    pub(crate) fn known(&mut self, i: usize) -> NodeResult<Option<Arc<Known>>> {
        match self.bound(i)? {
            Bound::Known(known) => Ok(Some(known)),
            _ => Ok(None),
        }
    }

    /// All operands' values if all are known while importing.
    pub(crate) fn all_known(&mut self) -> NodeResult<Option<Vec<Arc<Known>>>> {
        (0..self.operands()).map(|i| self.known(i)).collect()
    }

    /// An operand that must be known while importing.
    pub(crate) fn must_know(&mut self, i: usize, what: &str) -> NodeResult<Arc<Known>> {
        self.known(i)?.ok_or_else(|| {
            unsupported(
                self.operand_name(i),
                format!("{what} computed at run time"),
                "an initializer, a constant, or what follows from known shapes",
            )
        })
    }

    /// An operand of integers that must be known while importing.
    pub(crate) fn must_know_ints(&mut self, i: usize, what: &str) -> NodeResult<Vec<i64>> {
        let known = self.must_know(i, what)?;
        match known.ints() {
            Some(values) => Ok(values.to_vec()),
            None => Err(invalid!("{what} is {}, not integers", data_type::name(known.dtype))),
        }
    }

    /// The axes of an operator that takes them as an attribute before `since` and as an operand from then on.
    pub(crate) fn axes(&mut self, since: i64, operand: usize) -> NodeResult<Option<Vec<i64>>> {
        if self.opset() < since {
            return Ok(self.ints("axes")?.map(<[i64]>::to_vec));
        }
        match self.given(operand) {
            true => self.must_know_ints(operand, "axes").map(Some),
            false => Ok(None),
        }
    }

    /// An operand as a value of the graph, of any type.
    pub(crate) fn value(&mut self, i: usize) -> NodeResult<ValueId> {
        let bound = self.bound(i)?;
        let place = self.operand_name(i);
        match bound {
            Bound::Known(known) => {
                let name = self.node.input.get(i).cloned().unwrap_or_default();
                self.materialize(&name, &known, &place)
            }
            other => self.lower(&other, &place),
        }
    }

    fn materialize(&mut self, name: &str, known: &Arc<Known>, place: &str) -> NodeResult<ValueId> {
        let address = Arc::as_ptr(known) as usize;
        if let Some((_, value)) = self.builder.constants.get(&address) {
            return Ok(*value);
        }
        let tensor =
            known.to_tensor().map_err(|e| unsupported(place, e, "FLOAT tensors with elements"))?;
        let value = self.builder.graph.add_constant(name, tensor);
        self.builder.constants.insert(address, (known.clone(), value));
        Ok(value)
    }

    /// Anything as a value of the graph.
    pub(crate) fn lower(&mut self, bound: &Bound, place: &str) -> NodeResult<ValueId> {
        match bound {
            Bound::Value(value) => Ok(*value),
            Bound::Known(known) => {
                let name = format!("{}/constant", self.name);
                self.materialize(&name, known, place)
            }
            Bound::Uniform(_) => Err(unsupported(
                place,
                "random numbers",
                "random numbers compared (`Less`) with a probability known while importing, as in stochastic depth; \
                 Dropout and Bernoulli; noise as an input of the model",
            )),
            Bound::Sequence(_) => {
                Err(unsupported(place, "a sequence", "tensors; sequences in SequenceAt"))
            }
            Bound::Poison => Err(invalid!("{place} was not imported")),
        }
    }

    /// An FP32 operand as a value of the graph. Known integers where floats are due are refused, too.
    pub(crate) fn f32(&mut self, i: usize) -> NodeResult<ValueId> {
        let value = self.value(i)?;
        let ty = self.builder.graph.ty(value);
        if ty.is_f32() {
            return Ok(value);
        }
        Err(unsupported(
            self.operand_name(i),
            format!("element type {} at run time", ty.element),
            "FLOAT (integers only where everything is known while importing)",
        ))
    }

    /// An operand as FP32, known integers converted.
    pub(crate) fn as_f32(&mut self, i: usize) -> NodeResult<ValueId> {
        if let Some(known) = self.known(i)?
            && known.ints().is_some()
        {
            let floats = known.to_f32().unwrap_or_default();
            let converted = Known::f32(known.dims.clone(), floats);
            return self.lower(&converted.into(), &self.operand_name(i));
        }
        self.f32(i)
    }

    /// Dimensions of an operand.
    pub(crate) fn dims(&mut self, i: usize) -> NodeResult<Vec<usize>> {
        let bound = self.bound(i)?;
        self.dims_of(&bound)
    }

    /// Dimensions of anything.
    pub(crate) fn dims_of(&self, bound: &Bound) -> NodeResult<Vec<usize>> {
        match bound {
            Bound::Value(value) => Ok(self.builder.graph.ty(*value).shape.to_vec()),
            Bound::Known(known) => Ok(known.dims.clone()),
            Bound::Uniform(dims) => Ok(dims.clone()),
            Bound::Sequence(_) => Err(invalid!("a sequence where a tensor is due")),
            Bound::Poison => Err(invalid!("an operand was not imported")),
        }
    }

    /// Dimensions of a value.
    pub(crate) fn shape(&self, value: ValueId) -> Vec<usize> {
        self.builder.graph.ty(value).shape.to_vec()
    }

    /// ONNX's element type of an operand.
    pub(crate) fn dtype(&mut self, i: usize) -> NodeResult<i32> {
        Ok(match self.bound(i)? {
            Bound::Known(known) => known.dtype,
            Bound::Value(value) => match self.builder.graph.ty(value).element {
                Element::I8 => data_type::INT8,
                Element::U8 => data_type::UINT8,
                Element::I4 => data_type::INT4,
                Element::U4 => data_type::UINT4,
                Element::I2 => data_type::INT2,
                Element::U2 => data_type::UINT2,
                Element::I16 => data_type::INT16,
                Element::U16 => data_type::UINT16,
                Element::F32 => data_type::FLOAT,
                _ => data_type::INT64,
            },
            Bound::Uniform(_) => data_type::FLOAT,
            Bound::Sequence(_) | Bound::Poison => data_type::UNDEFINED,
        })
    }
}

/// Adding to the graph.
impl Call<'_, '_> {
    /// Adds a node with several results; `suffix` tells the nodes of one ONNX node apart, empty for the main one.
    pub(crate) fn add_many(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
        suffix: &str,
    ) -> NodeResult<Vec<ValueId>> {
        let name = match suffix {
            "" => self.name.clone(),
            suffix => format!("{}/{suffix}", self.name),
        };
        let op = op.into();
        let outputs =
            self.builder.graph.add(op, inputs, name).map_err(|e| NodeError::Invalid(e.0))?;
        for &output in &outputs {
            let dims = self.shape(output);
            if dims.contains(&0) {
                return Err(unsupported(
                    "shape",
                    format!("an empty result of shape {dims:?}"),
                    "dimensions of at least 1",
                ));
            }
            if limits::count(&dims).is_none() {
                return Err(unsupported(
                    "shape",
                    format!("a result of shape {dims:?}"),
                    format!("at most {} elements", limits::MAX_ELEMENTS),
                ));
            }
        }
        Ok(outputs)
    }

    /// Adds a node with one result.
    pub(crate) fn add(
        &mut self,
        op: impl Into<Op>,
        inputs: &[ValueId],
        suffix: &str,
    ) -> NodeResult<ValueId> {
        match self.add_many(op, inputs, suffix)?[..] {
            [value] => Ok(value),
            _ => Err(invalid!("internal: an operation with several results")),
        }
    }

    /// Adds an FP32 scalar constant.
    pub(crate) fn scalar(&mut self, value: f32) -> ValueId {
        let name = format!("{}/{value}", self.name);
        self.builder.graph.add_constant(name, Tensor::f32(Vec::new(), vec![value]))
    }

    /// Counts elements computed while importing.
    pub(crate) fn fold_budget(&mut self, dims: &[usize]) -> NodeResult<usize> {
        let count = limits::count(dims).filter(|&n| n <= limits::MAX_FOLDED);
        let total = count.map(|n| self.builder.folded.saturating_add(n));
        match (count, total) {
            (Some(count), Some(total)) if total <= limits::MAX_FOLDED_TOTAL => {
                self.builder.folded = total;
                Ok(count)
            }
            _ => Err(unsupported(
                "shape",
                format!("a constant of shape {dims:?} computed while importing"),
                format!("at most {} elements", limits::MAX_FOLDED),
            )),
        }
    }
}

/// An axis counted from the end if negative.
pub(crate) fn axis(axis: i64, rank: usize) -> NodeResult<usize> {
    let rank = rank as i64;
    let found = if axis < 0 { axis.saturating_add(rank) } else { axis };
    if (0..rank).contains(&found) {
        Ok(found as usize)
    } else {
        Err(invalid!("axis {axis} of a tensor with {rank} dimension(s)"))
    }
}

/// Axes in ascending order, each once.
pub(crate) fn sorted_axes(axes: &[i64], rank: usize) -> NodeResult<Vec<usize>> {
    let mut sorted = axes.iter().map(|&a| axis(a, rank)).collect::<NodeResult<Vec<_>>>()?;
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        return Err(invalid!("an axis is given twice in {axes:?}"));
    }
    Ok(sorted)
}

/// Whether all elements are zero.
pub(crate) fn is_zero(known: &Known) -> bool {
    match &known.data {
        KnownData::Float(v) => v.iter().all(|&x| x == 0.0),
        KnownData::Double(v) => v.iter().all(|&x| x == 0.0),
        KnownData::Ints(v) => v.iter().all(|&x| x == 0),
        KnownData::Opaque => false,
    }
}
