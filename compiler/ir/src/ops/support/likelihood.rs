//! What `nll_loss` and its gradient share: which labels count, with which weight.

use super::channels::Channels;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Comparison, Expr};
use crate::ops::nll_loss::Reduction;
use crate::ops::{TypeError, rule};
use crate::tensor::Tensor;
use crate::types::{Element, Shape, TensorType};

/// Sizes of scores [N,C,d...] and the type of their labels [N,d...].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    sizes: Channels,
    labels: Shape,
}

/// A label that counts. `T` is an index, `W` a weight.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Term<T, W> {
    /// Flat index of the label.
    pub(crate) position: T,
    /// Flat index of its score.
    pub(crate) index: T,
    /// Weight of its class; 1 without class weights.
    pub(crate) weight: W,
}

impl Plan {
    /// Checks scores, labels and class weights.
    pub(crate) fn of(
        name: &str,
        inputs: &[&TensorType],
        weights: Option<&TensorType>,
    ) -> Result<Plan, TypeError> {
        let [scores, labels, ..] = inputs else {
            return Err(TypeError::new(format!("{name} takes scores and labels")));
        };
        rule::all_f32(name, &[scores])?;
        let sizes = Channels::of(name, scores)?;
        let mut dims = scores.shape.dims().to_vec();
        dims.remove(1);
        let plan = Plan { sizes, labels: dims.into() };
        let expected = TensorType::new(plan.labels.clone(), Element::I32);
        rule::ensure(**labels == expected, || {
            format!("{name}: the labels of {scores} have type {expected}, here {labels}")
        })?;
        if let Some(weights) = weights {
            rule::all_f32(name, &[weights])?;
            sizes.check(name, &[weights])?;
        }
        Ok(plan)
    }

    /// The plan of operands that have been checked.
    pub(crate) fn checked(inputs: &[&TensorType]) -> Plan {
        Plan::of("nll_loss", &inputs[..2], None).expect("checked by infer")
    }

    /// Type of the loss.
    pub(crate) fn result(&self, reduction: Reduction) -> TensorType {
        match reduction {
            Reduction::None => TensorType::f32(self.labels.clone()),
            Reduction::Sum | Reduction::Mean => TensorType::f32(Shape::scalar()),
        }
    }

    /// Number of labels.
    pub(crate) fn count(&self) -> usize {
        self.sizes.count()
    }

    /// The labels that count, in row-major order.
    pub(crate) fn terms<'a>(
        &'a self,
        ignore_index: i64,
        labels: &'a Tensor,
        weights: Option<&'a Tensor>,
    ) -> impl Iterator<Item = Term<usize, f32>> + 'a {
        let Channels { channels, space, .. } = self.sizes;
        let weights = weights.map(Tensor::as_f32);
        labels.as_i32().iter().enumerate().filter_map(move |(position, &label)| {
            if i64::from(label) == ignore_index {
                return None;
            }
            let label = usize::try_from(label).ok().filter(|&label| label < channels)?;
            let index = (position / space * channels + label) * space + position % space;
            Some(Term { position, index, weight: weights.map_or(1.0, |weights| weights[label]) })
        })
    }

    /// [`Plan::terms`] as loops.
    pub(crate) fn lower(
        &self,
        builder: &mut LoopBuilder,
        ignore_index: i64,
        weights: Option<Buffer>,
        body: impl FnOnce(&mut LoopBuilder, Term<Expr, Expr>),
    ) {
        let Channels { batch, channels, space } = self.sizes;
        let labels = builder.input(1);
        builder.for_("b", batch, |builder, b| {
            builder.for_("i", space, |builder, i| {
                let position = builder.let_("position", b.clone() * Expr::index(space) + i.clone());
                let label = builder.load(labels, position.clone()).extend();
                let label = builder.let_("label", label);
                let counts = label
                    .clone()
                    .compare(Comparison::LessUnsigned, Expr::index(channels))
                    .and(label.clone().not_equal(Expr::i64(ignore_index)));
                builder.if_(counts, |builder| {
                    let index =
                        (b * Expr::index(channels) + label.clone()) * Expr::index(space) + i;
                    let index = builder.let_("index", index);
                    let weight = match weights {
                        Some(weights) => builder.load(weights, label),
                        None => Expr::f32(1.0),
                    };
                    let weight = builder.let_("weight", weight);
                    body(builder, Term { position, index, weight });
                });
            });
        });
    }
}
