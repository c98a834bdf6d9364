//! What exporters do to a model that is to be trained, and how to avoid it.

use crate::BatchNormMode;
use crate::call::Builder;
use crate::error::WarningKind;
use crate::proto::{GraphProto, NodeProto};

const HOW: &str = "torch.onnx.export(model, input, file, dynamo=False, \
                   training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)";

/// Adds the warnings that need the whole model: one for each thing the exporter did, whatever the number of nodes.
/// `producer` is the tool that wrote the file.
pub(crate) fn warn(
    builder: &mut Builder<'_>,
    graph: &GraphProto,
    live: &[(usize, &NodeProto)],
    producer: &str,
) {
    if !builder.options.training {
        return;
    }
    let inference = std::mem::take(&mut builder.inference_batch_norms);
    let as_exported = builder.options.batch_norm == BatchNormMode::AsExported;
    if let Some(first) = inference.first()
        && as_exported
    {
        builder.warn(
            WarningKind::InferenceBatchNorm,
            format!(
                "{} batch norm node(s), the first `{first}`, are in inference form: training leaves their running \
                 statistics as they are (frozen); to train with the statistics of the batch ask for \
                 `--batch-norm training`, or export again with {HOW}",
                inference.len()
            ),
        );
    }
    if let Some(first) = builder.training_batch_norms.first()
        && producer == "pytorch"
    {
        let message = format!(
            "{} batch norm node(s), the first `{first}`, are in training form: to write them PyTorch's exporter ran \
             the model once in training mode, which moved the running statistics by the example input; \
             `trainc train --learning-rate 0 --steps 30 --weights-out FILE` re-estimates them from data and changes \
             nothing else (take FILE by --weights). To avoid it, put them back within that run: before exporting, saved = copy.deepcopy(model.state_dict()) and model.register_forward_hook(lambda \
             module, args, result: module.load_state_dict(saved) and None); a momentum of 0 would be exported too",
            builder.training_batch_norms.len()
        );
        builder.warn(WarningKind::MovedStatistics, message);
    }
    let folded: Vec<&str> = live
        .iter()
        .filter(|(_, n)| n.op_type == "Conv" && seems_folded(n))
        .map(|(_, n)| n.output.first().map_or("", String::as_str))
        .collect();
    let batch_norms = graph.node.iter().any(|n| n.op_type == "BatchNormalization");
    if let Some(first) = folded.first()
        && !batch_norms
    {
        builder.warn(
            WarningKind::FoldedBatchNorm,
            format!(
                "the exporter seems to have folded batch norm into {} convolution(s), the first gives `{first}`: \
                 that works as it is, with frozen statistics, and the folded weights are trained; to train batch norm \
                 itself, which is more robust, export again with {HOW}, or with dynamo=True, optimize=False and then \
                 `--batch-norm training` here",
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
