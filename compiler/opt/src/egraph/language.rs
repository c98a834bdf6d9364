//! The nodes of the e-graph and the analysis that carries types.
//!
//! An operation's attributes are one leaf child, so that patterns can bind them (`(conv2d ?a ?x ?w)`) and the
//! operations of the IR are not declared a second time.

use std::collections::BTreeMap;
use std::sync::Arc;

use egg::{Analysis, DidMerge, EGraph, Id, Language};
use trainc_ir::attributes::{Attribute, F32};
use trainc_ir::graph::ValueId;
use trainc_ir::text::cursor::{Cursor, SyntaxError};
use trainc_ir::types::TensorType;
use trainc_ir::{Op, OpKind, Tensor};

use super::forms::{self, Forms, State};
use crate::roles::Roles;

/// An e-node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Node {
    /// An input, parameter or constant of the graph being rewritten, by its value.
    Leaf(ValueId),
    /// An FP32 scalar constant that a rule introduced.
    Scalar(F32),
    /// An operation. If it has attributes the first child is their [`Node::Attributes`] class, then the operands.
    Operation(OpKind, Vec<Id>),
    /// An operation with all its attributes, as a leaf.
    Attributes(Op),
    /// In patterns: the attributes of an operation, one of which is another operation whose attributes a variable stands for:
    /// their text before it and behind it.
    Around(OpKind, [String; 2], [Id; 1]),
    /// Result `.0` of an operation with several.
    Result(u8, [Id; 1]),
    /// Translation only: a value in the algorithm's representation.
    Lowered([Id; 1]),
    /// Translation only: a value in the algorithm's representation, in 8 bits.
    Narrowed([Id; 1]),
    /// Translation only: a value in the algorithm's representation, as FP32.
    Floated([Id; 1]),
    /// Translation only: the form of a value, as FP32, that the algorithm gives a name.
    Form(String, [Id; 1]),
    /// Translation only: the FP32 value that a lowered value stands for.
    Raised([Id; 1]),
    /// Everything that leaves the step: the only root.
    Step(Vec<Id>),
}

impl Language for Node {
    type Discriminant = (std::mem::Discriminant<Node>, Option<OpKind>, Option<u8>);

    fn discriminant(&self) -> Self::Discriminant {
        let kind = match self {
            Node::Operation(kind, _) => Some(*kind),
            _ => None,
        };
        let slot = match self {
            Node::Result(slot, _) => Some(*slot),
            _ => None,
        };
        (std::mem::discriminant(self), kind, slot)
    }

    fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Node::Leaf(a), Node::Leaf(b)) => a == b,
            (Node::Scalar(a), Node::Scalar(b)) => a == b,
            (Node::Operation(a, x), Node::Operation(b, y)) => a == b && x.len() == y.len(),
            (Node::Attributes(a), Node::Attributes(b)) => a == b,
            (Node::Around(a, x, _), Node::Around(b, y, _)) => (a, x) == (b, y),
            (Node::Result(a, _), Node::Result(b, _)) => a == b,
            (Node::Form(a, _), Node::Form(b, _)) => a == b,
            (Node::Lowered(_), Node::Lowered(_))
            | (Node::Narrowed(_), Node::Narrowed(_))
            | (Node::Floated(_), Node::Floated(_))
            | (Node::Raised(_), Node::Raised(_)) => true,
            (Node::Step(a), Node::Step(b)) => a.len() == b.len(),
            _ => false,
        }
    }

    fn children(&self) -> &[Id] {
        match self {
            Node::Leaf(_) | Node::Scalar(_) | Node::Attributes(_) => &[],
            Node::Operation(_, children) | Node::Step(children) => children,
            Node::Result(_, child)
            | Node::Lowered(child)
            | Node::Narrowed(child)
            | Node::Floated(child)
            | Node::Form(_, child)
            | Node::Around(_, _, child)
            | Node::Raised(child) => child,
        }
    }

    fn children_mut(&mut self) -> &mut [Id] {
        match self {
            Node::Leaf(_) | Node::Scalar(_) | Node::Attributes(_) => &mut [],
            Node::Operation(_, children) | Node::Step(children) => children,
            Node::Result(_, child)
            | Node::Lowered(child)
            | Node::Narrowed(child)
            | Node::Floated(child)
            | Node::Form(_, child)
            | Node::Around(_, _, child)
            | Node::Raised(child) => child,
        }
    }
}

/// What is known of the type of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ty {
    /// Not yet: a lowered value whose form no rule has given so far.
    Unknown,
    /// One tensor.
    Tensor(TensorType),
    /// The results of an operation with several.
    Tuple(Vec<TensorType>),
    /// Attributes, the step: no value.
    NoValue,
    /// An ill-typed operation, with the type rule's reason. Never extracted.
    Invalid(String),
}

/// What is known of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The common type of its nodes.
    pub ty: Ty,
    /// The operation, if the class is an attributes leaf.
    pub attributes: Option<Op>,
    /// The first value of the source graph that the class stands for.
    pub source: Option<ValueId>,
}

/// The analysis: types and provenance.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Types of the leaves.
    pub leaves: BTreeMap<ValueId, TensorType>,
    /// Integer constants that rules introduced, by their leaf, with what each is called after its user's name.
    pub constants: BTreeMap<ValueId, (&'static str, Arc<Tensor>)>,
    /// Translation only: roles and sides of the source graph's values.
    pub roles: Roles,
    /// Translation only: forms in 8 bits, and those with names.
    pub forms: Arc<Forms>,
    /// Translation only: how many values the source graph has.
    pub values: usize,
    /// Translation only: what is kept of values from step to step, by leaf.
    pub states: BTreeMap<ValueId, State>,
    /// Contradictions: two types in one class. A bug of a rule; reported by name by the caller.
    pub conflicts: Vec<String>,
}

/// The e-graph.
pub type Graph = EGraph<Node, Types>;

impl Analysis<Node> for Types {
    type Data = Facts;

    fn make(egraph: &mut Graph, node: &Node, _id: Id) -> Facts {
        let ty_of = |id: Id| egraph[id].data.ty.clone();
        let (mut attributes, mut source) = (None, None);
        let ty = match node {
            Node::Leaf(value) => {
                // What a rule introduced is named after its user.
                source = (!egraph.analysis.constants.contains_key(value)).then_some(*value);
                egraph.analysis.leaves.get(value).cloned().map_or(Ty::Unknown, Ty::Tensor)
            }
            Node::Scalar(_) => Ty::Tensor(TensorType::f32(trainc_ir::Shape::scalar())),
            Node::Attributes(op) => {
                attributes = Some(op.clone());
                Ty::NoValue
            }
            Node::Step(_) | Node::Around(..) => Ty::NoValue,
            Node::Lowered([child])
            | Node::Narrowed([child])
            | Node::Floated([child])
            | Node::Form(_, [child]) => {
                source = egraph[*child].data.source;
                Ty::Unknown
            }
            Node::Raised(_) => Ty::Unknown,
            Node::Result(slot, [child]) => match ty_of(*child) {
                Ty::Tuple(types) => types.get(usize::from(*slot)).map_or_else(
                    || Ty::Invalid(format!("no result {slot}")),
                    |t| Ty::Tensor(t.clone()),
                ),
                _ => Ty::Unknown,
            },
            Node::Operation(kind, children) => operation_type(egraph, *kind, children),
        };
        Facts { ty, attributes, source }
    }

    fn modify(egraph: &mut Graph, id: Id) {
        forms::resolve(egraph, id);
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        let before = a.clone();
        match (&a.ty, &b.ty) {
            (x, y) if x == y => {}
            (Ty::Unknown, _) => a.ty = b.ty.clone(),
            (_, Ty::Unknown) => {}
            // An ill-typed form beside a typed one: the typed one stands.
            (Ty::Invalid(_), _) => a.ty = b.ty.clone(),
            (_, Ty::Invalid(_)) => {}
            (x, y) => self.conflicts.push(format!("{x:?} and {y:?}")),
        }
        if a.attributes.is_none() {
            a.attributes = b.attributes.clone();
        }
        a.source = match (a.source, b.source) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        };
        DidMerge(*a != before, *a != b)
    }
}

/// The operation of an [`Node::Operation`] with its attributes, and its operand classes.
pub fn operation<'e>(egraph: &Graph, kind: OpKind, children: &'e [Id]) -> Option<(Op, &'e [Id])> {
    if kind.fields().is_empty() {
        let mut cursor = Cursor::new(kind.name());
        return Op::parse(&mut cursor).ok().map(|op| (op, children));
    }
    let (first, operands) = children.split_first()?;
    let op = egraph[*first].data.attributes.clone()?;
    (op.kind() == kind || op.kind().fields() == kind.fields())
        .then(|| (retarget(op, kind), operands))
}

/// An operation whose attributes' text has another operation between its two parts.
pub(super) fn around(kind: OpKind, text: &[String; 2], of: &Op) -> Result<Op, SyntaxError> {
    let text = format!("{}{of}{}", text[0], text[1]);
    kind.parse_attributes(&mut Cursor::new(&text))
}

/// The attributes of one operation as another operation with the same attributes; the same operation as it is.
pub(super) fn retarget(op: Op, kind: OpKind) -> Op {
    if op.kind() == kind {
        return op;
    }
    let mut text = String::new();
    op.print_attributes(&mut text);
    kind.parse_attributes(&mut Cursor::new(&text)).unwrap_or(op)
}

fn operation_type(egraph: &Graph, kind: OpKind, children: &[Id]) -> Ty {
    let Some((op, operands)) = operation(egraph, kind, children) else {
        return Ty::Invalid(format!("`{}` without its attributes", kind.name()));
    };
    let mut types = Vec::with_capacity(operands.len());
    for &operand in operands {
        match &egraph[operand].data.ty {
            Ty::Tensor(ty) => types.push(ty),
            Ty::Unknown => return Ty::Unknown,
            Ty::Invalid(reason) => return Ty::Invalid(reason.clone()),
            Ty::Tuple(_) | Ty::NoValue => return Ty::Invalid("an operand is no tensor".into()),
        }
    }
    match op.infer(&types) {
        Err(e) => Ty::Invalid(e.to_string()),
        Ok(mut results) if results.len() == 1 => Ty::Tensor(results.remove(0)),
        Ok(results) => Ty::Tuple(results),
    }
}

/// Adds an operation with its attributes applied to classes.
pub fn add_operation(egraph: &mut Graph, op: &Op, operands: &[Id]) -> Id {
    let mut children = Vec::with_capacity(operands.len() + 1);
    if !op.kind().fields().is_empty() {
        children.push(egraph.add(Node::Attributes(op.clone())));
    }
    children.extend_from_slice(operands);
    egraph.add(Node::Operation(op.kind(), children))
}

/// An e-node with its children's canonical classes.
pub fn canonical(egraph: &Graph, node: &Node) -> Node {
    node.clone().map_children(|id| egraph.find(id))
}

/// Leaves of constants that rules introduce lie past those of any graph and of its stored forms.
const FIRST_CONSTANT: usize = 1 << 31;

/// Adds a constant; one leaf for equal tensors.
pub fn add_constant(egraph: &mut Graph, name: &'static str, tensor: Tensor) -> Id {
    let known = egraph.analysis.constants.iter();
    let found = known.clone().find(|(_, (n, t))| *n == name && t.bits_equal(&tensor));
    let leaf = match found {
        Some((leaf, _)) => *leaf,
        None => {
            let leaf = ValueId::from_index(FIRST_CONSTANT + known.len());
            egraph.analysis.leaves.insert(leaf, tensor.ty().clone());
            egraph.analysis.constants.insert(leaf, (name, Arc::new(tensor)));
            leaf
        }
    };
    egraph.add(Node::Leaf(leaf))
}
