//! Reverse-mode differentiation: appends the backward pass to a graph, by each operation's gradient rule.

use trainc_ir::graph::{Graph, ValueId};
use trainc_ir::ops::{Add, Differentiated, GradientError};
use trainc_ir::types::TensorType;
use trainc_ir::{Data, Tensor};

/// Why a graph could not be differentiated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("node `{node}` ({op}): {source}")]
pub struct AutodiffError {
    /// The model's node.
    pub node: String,
    /// Its operation.
    pub op: &'static str,
    /// Why.
    pub source: GradientError,
}

/// Appends to `graph` the nodes that compute the gradient of the scalar `loss` with respect to each value in `wanted`.
///
/// Contributions to one value are added in the order of its uses in the forward pass, from the left. A value that the
/// loss does not depend on has gradient `None`. Gradients through a node are built only where a wanted value lies
/// behind it, so the first layer computes no error of its operand.
///
/// # Errors
/// If an operation between a wanted value and the loss has no gradient.
pub fn differentiate(
    graph: &mut Graph,
    loss: ValueId,
    wanted: &[ValueId],
) -> Result<Vec<Option<ValueId>>, AutodiffError> {
    differentiate_scaled(graph, loss, 1.0, wanted)
}

/// [`differentiate`] of the loss multiplied by `scale`.
///
/// # Errors
/// As [`differentiate`].
pub fn differentiate_scaled(
    graph: &mut Graph,
    loss: ValueId,
    scale: f32,
    wanted: &[ValueId],
) -> Result<Vec<Option<ValueId>>, AutodiffError> {
    let all = differentiate_recorded(graph, loss, scale, wanted)?;
    Ok(wanted.iter().map(|v| all[v.index()]).collect())
}

/// [`differentiate_scaled`], with the gradient of each value of the forward pass that was made on the way, by its index.
///
/// # Errors
/// As [`differentiate`].
pub fn differentiate_recorded(
    graph: &mut Graph,
    loss: ValueId,
    scale: f32,
    wanted: &[ValueId],
) -> Result<Vec<Option<ValueId>>, AutodiffError> {
    let count = graph.values().len();
    let mut needs = vec![false; count];
    wanted.iter().for_each(|v| needs[v.index()] = true);
    for node in graph.nodes() {
        if node.inputs.iter().any(|v| needs[v.index()]) {
            node.outputs.iter().for_each(|v| needs[v.index()] = true);
        }
    }
    // Contributions, latest use first: the walk below goes backwards.
    let mut contributions: Vec<Vec<ValueId>> = vec![Vec::new(); count];
    let one = Tensor::new(
        TensorType::f32(graph.ty(loss).shape.clone()),
        Data::F32(vec![scale; graph.ty(loss).count()]),
        trainc_ir::ScaleData::None,
    );
    let seed = graph.add_constant("loss_gradient", one);
    contributions[loss.index()].push(seed);

    let mut found: Vec<Option<ValueId>> = vec![None; count];
    let nodes: Vec<_> = graph.node_ids().collect();
    for id in nodes.into_iter().rev() {
        let node = graph.node(id).clone();
        let reached = node.outputs.iter().any(|v| !contributions[v.index()].is_empty());
        let wanted_here: Vec<bool> = node.inputs.iter().map(|v| needs[v.index()]).collect();
        if !reached || !wanted_here.contains(&true) {
            continue;
        }
        let fail = |source: GradientError| AutodiffError {
            node: node.name.clone(),
            op: node.op.kind().name(),
            source,
        };
        let output_gradients = node
            .outputs
            .iter()
            .map(|&v| total(graph, &contributions[v.index()], &node.name).map_err(fail))
            .collect::<Result<Vec<_>, _>>()?;
        node.outputs.iter().zip(&output_gradients).for_each(|(v, g)| found[v.index()] = *g);
        let view = Differentiated {
            inputs: &node.inputs,
            outputs: &node.outputs,
            output_gradients: &output_gradients,
            wanted: &wanted_here,
        };
        let first_new = graph.nodes().len();
        let gradients = node.op.gradient(graph, &view).map_err(fail)?;
        name_after(graph, first_new, &node.name);
        // Operands in reverse, so that the lists stay in reverse order of use.
        for ((&operand, gradient), wanted) in
            node.inputs.iter().zip(gradients).zip(wanted_here).rev()
        {
            if let (Some(gradient), true) = (gradient, wanted) {
                contributions[operand.index()].push(gradient);
            }
        }
    }
    for &v in wanted {
        if found[v.index()].is_none() {
            let name = graph.value(v).name.clone();
            let gradient = total(graph, &contributions[v.index()], &name);
            found[v.index()] =
                gradient.map_err(|source| AutodiffError { node: name, op: "add", source })?;
        }
    }
    Ok(found)
}

/// Names the nodes of a gradient rule after the model's node that they differentiate.
fn name_after(graph: &mut Graph, first_new: usize, name: &str) {
    for id in graph.node_ids().skip(first_new).collect::<Vec<_>>() {
        let own = &graph.node(id).name;
        if !own.starts_with(name) {
            // A product says which operand's gradient it is.
            let which = match own.rsplit('/').next() {
                Some(which @ ("gradient_input" | "gradient_weight")) => which,
                _ => graph.node(id).op.kind().name(),
            };
            let named = format!("{name}/{which}");
            graph.set_node_name(id, named);
        }
    }
}

/// Sum of the contributions, first use first, from the left.
fn total(
    graph: &mut Graph,
    contributions: &[ValueId],
    name: &str,
) -> Result<Option<ValueId>, GradientError> {
    let mut sum: Option<ValueId> = None;
    for &contribution in contributions.iter().rev() {
        sum = Some(match sum {
            None => contribution,
            Some(sum) => graph.add1(Add {}, &[sum, contribution], format!("{name}/error_sum"))?,
        });
    }
    Ok(sum)
}
