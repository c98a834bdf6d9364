//! Forms of a value in 8 bits and in FP32, and those that an algorithm gives names: what the markers `narrowed`, `floated` and
//! `form` of translation stand for, once the type of the value's representation is known.
//!
//! They are resolved as types become known, so that a chain of operations needs no round of saturation for each link.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use egg::Id;
use trainc_ir::Tensor;
use trainc_ir::graph::ValueId;
use trainc_ir::ops::{BlockAxes, Dequantize};
use trainc_ir::types::{Element, Scale, TensorType};

use super::language::{Graph, Node, Ty, add_operation};
use super::pattern::{STATE, Template};
use crate::roles::{Role, Side};

/// How an algorithm brings values in other elements to 8 bits.
#[derive(Clone, Debug, Default)]
pub struct Forms {
    /// Forward values, by element.
    pub forward: BTreeMap<Element, Template>,
    /// Errors, by element.
    pub backward: BTreeMap<Element, Template>,
    /// Forms of FP32 values, by name.
    pub named: Named,
}

/// Forms of FP32 values that an algorithm gives names, for weights, errors, and all others (and where those have none).
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// All values without a form of their own.
    pub forward: BTreeMap<String, Template>,
    /// Errors.
    pub backward: BTreeMap<String, Template>,
    /// Weights.
    pub weight: BTreeMap<String, Template>,
    /// What is kept of values whose forms ask for it, by name.
    pub states: BTreeMap<String, Kept>,
}

/// What an algorithm keeps of a value from step to step: FP32 numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Before the first step; of blocks, one number for each.
    pub initial: Vec<f32>,
    /// Whether each block of the value has one (see [`Roles::block_axes`](crate::roles::Roles::block_axes)).
    pub of_blocks: bool,
    /// The form that is the next; `None` if steps leave it as it is.
    pub next: Option<String>,
}

impl Kept {
    /// What is kept of a value of that type and those axes before the first step; `None` if it has no blocks.
    pub fn first(&self, ty: &TensorType, axes: BlockAxes) -> Option<Tensor> {
        if !self.of_blocks {
            return Some(Tensor::f32([self.initial.len()], self.initial.clone()));
        }
        let grid = axes.grid(&ty.shape).ok()?;
        let numbers = vec![self.initial[0]; grid.count()];
        Some(Tensor::f32(grid, numbers))
    }
}

/// A state of one value of the source graph.
#[derive(Clone, Debug)]
pub struct State {
    /// The value.
    pub source: ValueId,
    /// The state's name.
    pub name: String,
    /// Before the first step.
    pub initial: Arc<Tensor>,
    /// Whether each block of the value has one, and so the value's name is its own.
    pub of_blocks: bool,
    /// The class of the next, if steps change it.
    pub next: Option<Id>,
}

impl Named {
    /// Every name.
    pub fn names(&self) -> BTreeSet<&String> {
        [&self.forward, &self.backward, &self.weight].into_iter().flat_map(BTreeMap::keys).collect()
    }

    fn of(&self, name: &str, role: Option<Role>, side: Option<Side>) -> Option<&Template> {
        let own = match (role, side) {
            (Some(Role::Weight), _) => self.weight.get(name),
            (_, Some(Side::Backward)) => self.backward.get(name),
            _ => None,
        };
        own.or_else(|| self.forward.get(name))
    }
}

/// Resolves the markers that a class is, or waits for.
pub(super) fn resolve(egraph: &mut Graph, class: Id) {
    let markers: Vec<Node> = egraph[class]
        .nodes
        .iter()
        .filter(|n| {
            matches!(n, Node::Lowered(_) | Node::Narrowed(_) | Node::Floated(_) | Node::Form(..))
        })
        .cloned()
        .collect();
    for marker in markers {
        match marker {
            Node::Lowered([value]) => {
                let named = egraph.analysis.forms.clone();
                let states = named.named.states.keys().map(|name| format!("{STATE}{name}"));
                let names = named.named.names().into_iter().cloned().chain(states);
                let named = names.map(|name| Node::Form(name, [value]));
                for waiting in
                    [Node::Narrowed([value]), Node::Floated([value])].into_iter().chain(named)
                {
                    if let Some(id) = egraph.lookup(waiting.clone()) {
                        resolve_one(egraph, &waiting, id);
                    }
                }
            }
            _ => resolve_one(egraph, &marker, class),
        }
    }
}

/// Resolves all markers that can be; whether any was new.
pub fn resolve_all(egraph: &mut Graph) -> bool {
    let before = egraph.number_of_classes();
    let size = egraph.total_size();
    let mut ids: Vec<Id> = egraph.classes().map(|class| class.id).collect();
    ids.sort_unstable();
    ids.into_iter().for_each(|id| {
        let id = egraph.find(id);
        resolve(egraph, id);
    });
    egraph.rebuild();
    (egraph.number_of_classes(), egraph.total_size()) != (before, size)
}

/// The leaf of what is kept of a value, which is what forms are made of: its FP32 representation. Its id lies past those of the graph's own and of their stored forms, so that the
/// remainder by their number is the value's.
fn state_leaf(egraph: &mut Graph, name: &str, value: Id) -> Option<Id> {
    let source = egraph[value].data.source?;
    let forms = egraph.analysis.forms.clone();
    let at = forms.named.states.keys().position(|known| known == name)?;
    let kept = forms.named.states.get(name)?;
    let roles = &egraph.analysis.roles;
    let Ty::Tensor(own) = &egraph[value].data.ty else { return None };
    let of_blocks = kept.of_blocks;
    let initial = Arc::new(kept.first(own, roles.block_axes(source))?);
    let (role, side) = (roles.role_in_products(source), roles.side(source));
    let form = |next: &String| forms.named.of(next, role, side).cloned().ok_or(next.clone());
    let next = kept.next.as_ref().map(form);
    let leaf = ValueId::from_index(source.index() + egraph.analysis.values * (at + 2));
    if !egraph.analysis.states.contains_key(&leaf) {
        egraph.analysis.leaves.insert(leaf, initial.ty().clone());
        let own = egraph.add(Node::Leaf(leaf));
        // What no file's form is, rules say.
        let next = next.map(|next| match next {
            Ok(form) => form.instantiate(egraph, value),
            Err(name) => egraph.add(Node::Form(name, [value])),
        });
        let state = State { source, name: name.to_string(), initial, of_blocks, next };
        egraph.analysis.states.insert(leaf, state);
        return Some(own);
    }
    Some(egraph.add(Node::Leaf(leaf)))
}

fn resolve_one(egraph: &mut Graph, marker: &Node, class: Id) {
    let (Node::Narrowed([value]) | Node::Floated([value]) | Node::Form(_, [value])) = marker else {
        return;
    };
    if let Node::Form(name, _) = marker
        && let Some(name) = name.strip_prefix(STATE)
    {
        // One leaf is enough.
        let known = egraph[class].nodes.iter().any(|node| matches!(node, Node::Leaf(_)));
        if let (false, Some(leaf)) = (known, state_leaf(egraph, name, *value)) {
            egraph.union(leaf, class);
        }
        return;
    }
    let Some(lowered) = egraph.lookup(Node::Lowered([*value])) else { return };
    let Ty::Tensor(ty) = &egraph[lowered].data.ty else { return };
    let (element, scale) = (ty.element, ty.scale);
    let form = match marker {
        Node::Floated(_) if scale == Scale::Exponent => {
            add_operation(egraph, &Dequantize {}.into(), &[lowered])
        }
        Node::Floated(_) => lowered,
        Node::Form(name, _) => {
            let source = egraph[*value].data.source;
            let roles = &egraph.analysis.roles;
            let (role, side) = (
                source.and_then(|v| roles.role_in_products(v)),
                source.and_then(|v| roles.side(v)),
            );
            let Some(form) = egraph.analysis.forms.named.of(name, role, side).cloned() else {
                return;
            };
            let float = match scale {
                Scale::Exponent => add_operation(egraph, &Dequantize {}.into(), &[lowered]),
                _ => lowered,
            };
            form.instantiate(egraph, float)
        }
        _ if matches!(element, Element::I8 | Element::U8) => lowered,
        _ => {
            let side = egraph[*value].data.source.and_then(|v| egraph.analysis.roles.side(v));
            let forms = match side {
                Some(Side::Backward) => &egraph.analysis.forms.backward,
                _ => &egraph.analysis.forms.forward,
            };
            let Some(form) = forms.get(&element).cloned() else { return };
            form.instantiate(egraph, lowered)
        }
    };
    if egraph.find(form) != egraph.find(class) {
        egraph.union(form, class);
    }
}
