//! What exporters do to a model that is to be trained, and how to avoid it.

use crate::BatchNormMode;
use crate::call::Builder;
use crate::error::WarningKind;
use crate::proto::{GraphProto, NodeProto};

const HOW: &str = "export with torch.onnx.export(model, input, file, dynamo=False, \
                   training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)";

/// Adds the warnings that need the whole model.
pub(crate) fn warn(builder: &mut Builder<'_>, graph: &GraphProto, live: &[(usize, &NodeProto)]) {
    if !builder.options.training {
        return;
    }
    let inference = std::mem::take(&mut builder.inference_batch_norms);
    if let (Some(first), BatchNormMode::AsExported) =
        (inference.first(), builder.options.batch_norm)
    {
        builder.warn(
            WarningKind::InferenceBatchNorm,
            format!(
                "{} batch norm node(s), the first `{first}`, are in inference form: training would leave their \
                 running statistics as they are; {HOW}, or ask for batch norm in training form",
                inference.len()
            ),
        );
    }
    let folded: Vec<&str> = live
        .iter()
        .filter(|(_, n)| n.op_type == "Conv" && seems_folded(n))
        .map(|(_, n)| n.output.first().map_or("", String::as_str))
        .collect();
    let batch_norms = graph.node.iter().any(|n| n.op_type == "BatchNormalization");
    if !folded.is_empty() && !batch_norms {
        builder.warn(
            WarningKind::FoldedBatchNorm,
            format!(
                "the exporter seems to have folded batch norm into {} convolution(s): they would be trained without \
                 it; {HOW}, or with dynamo=True and optimize=False",
                folded.len()
            ),
        );
    }
}

/// Names that PyTorch's exporters give to what they folded: `conv.weight_bias` (dynamo), and `onnx::Conv_12` for
/// both weight and bias (TorchScript).
fn seems_folded(conv: &NodeProto) -> bool {
    let [_, weight, bias] = &conv.input[..] else { return false };
    bias.strip_suffix("_bias").is_some_and(|stem| stem == weight)
        || (weight.starts_with("onnx::Conv_") && bias.starts_with("onnx::Conv_"))
}
