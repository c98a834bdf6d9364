#!/usr/bin/env python3
"""Export small nets with PyTorch's two ONNX exporters and record what PyTorch computes with them.

    pip install torch==2.15.0 onnx==1.20.1 onnxscript==0.7.2 numpy
    python tests/reference/export_pytorch.py [case ...]

Writes `tests/data/pytorch/`: per case a model (with its external data) and a
NumPy archive, and `manifest.json` naming them all; `tests/data/pytorch/README.md`
explains the keys. Every case is built from its own seed. The reference starts
from the values in the exported file, not from the module it was exported from.
"""

import argparse
import copy
import dataclasses
import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

import pytorch_nets as nets

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "pytorch"
STEPS = 3
# The dynamo exporter notes here where each node came from on the exporting machine.
STACK_TRACE = "pkg.torch.onnx.stack_trace"


@dataclasses.dataclass
class Case:
    """One exported model and how it is trained."""

    name: str
    net: callable
    shape: tuple
    classes: int
    exporter: str
    opset: int
    mode: str
    """"train" or "inference": how the module was exported, and how batch norm and dropout behave here."""
    seed: int
    batch: int = 4
    rate: float = 0.1
    loss: str = "softmax_cross_entropy"
    batches: int = 1
    """Either one batch for all steps, or one for each."""
    folds: bool = False
    """Whether the exporter folds batch norm into convolutions (the net's FOLDS)."""
    statistics: bool = True
    """Whether batch norm starts from random values instead of its zeros and ones."""
    dynamic: bool = False
    optimize: bool = True
    external: bool = True
    names: tuple = ()
    comparable: bool = True
    notes: str = ""
    given: str = ""
    """An existing model to copy instead of exporting."""
    metadata: bool = False
    """Whether to keep the exporter's notes on each node, which are larger than the nodes."""
    still: tuple = ()
    """Parameters whose gradient is zero by construction."""
    omitted: tuple = ()
    """Parameters too large for the archive."""


def cases():
    """All cases, in the order of the manifest."""
    ts, dyn = "torchscript", "dynamo"
    lenet, smooth = (nets.LeNet, (1, 16, 16), 10), (nets.LeNetSmooth, (1, 16, 16), 10)
    asym, grouped = (nets.AsymmetricPadding, (2, 13, 11), 5), (nets.Grouped, (4, 10, 10), 6)
    dilated, pooling = (nets.Dilated, (2, 14, 14), 5), (nets.Pooling, (2, 16, 15), 6)
    inception, residual = (nets.Inception, (3, 9, 9), 5), (nets.Residual, (3, 10, 10), 5)
    preact = (nets.PreActivation, (3, 8, 8), 5)
    mobile = (nets.Mobile, (3, 12, 12), 5)
    mobile_mean = (lambda: nets.Mobile("mean"), (3, 12, 12), 5)
    dropout, mlp = (nets.DropoutNet, (2, 8, 8), 5), (nets.Mlp, (12,), 7)
    sequence, logp = (nets.SequenceMlp, (6, 8), 5), (nets.LogProbabilities, (2, 8, 8), 6)
    inside = (nets.LossInside, (2, 8, 8), 6)
    large = (nets.LargeLeNet, (1, 28, 28), 10)
    text, upsampling = (nets.TextClassifier, (7,), 4), (nets.Upsampling, (2, 8, 8), 5)
    shuffled, excited = (nets.Shuffled, (3, 10, 10), 5), (nets.Excited, (3, 8, 8), 5)
    attending, windows = (nets.Attending, (3, 8, 8), 5), (nets.Windows, (3, 8, 8), 5)
    recurrent, groups = (nets.Recurrent, (5, 3), 4), (nets.GroupNorms, (3, 6, 6), 4)
    named = ("input", "logits")
    # A shift before a 1x1 convolution and batch norm by batch statistics has no effect.
    shift = ("b3.bias",)
    folded = "Batch norm folded into convolutions: the folded weights and biases are the parameters."
    return [
        Case("lenet_ts13_train", *lenet, ts, 13, "train", 1, batches=3),
        Case("lenet_ts18_eval", *lenet, ts, 18, "inference", 2, batch=5, dynamic=True, names=named),
        Case("lenet_dyn18", *lenet, dyn, 18, "inference", 3),
        Case("lenet_smooth_ts16_train", *smooth, ts, 16, "train", 4, names=named),
        Case("lenet_smooth_dyn21", *smooth, dyn, 21, "inference", 5, batch=5, dynamic=True, names=named),
        Case("asymmetric_ts14_train", *asym, ts, 14, "train", 6, batches=3, names=named),
        Case("asymmetric_dyn20", *asym, dyn, 20, "inference", 7, batch=5),
        Case("grouped_ts15_train", *grouped, ts, 15, "train", 8, names=named),
        Case("grouped_dyn22", *grouped, dyn, 22, "inference", 9, external=False),
        Case("dilated_ts13_train", *dilated, ts, 13, "train", 10, names=named),
        Case("dilated_dyn19", *dilated, dyn, 19, "inference", 11),
        Case("pooling_ts17_train", *pooling, ts, 17, "train", 12, batches=3, names=named,
             notes="One dense layer is used twice: its weight is shared on purpose."),
        Case("pooling_dyn20", *pooling, dyn, 20, "inference", 13, batch=5, rate=0.05),
        Case("inception_ts16_train", *inception, ts, 16, "train", 14, names=named),
        Case("inception_dyn18", *inception, dyn, 18, "inference", 15, batch=5),
        Case("residual_ts17_train", *residual, ts, 17, "train", 16, batch=5, batches=3, names=named),
        Case("residual_dyn20_unoptimized", *residual, dyn, 20, "inference", 17, optimize=False, metadata=True,
             notes="Batch norm kept in inference form; convolutions get a bias of expanded zeros that is no parameter."),
        Case("residual_dyn21_folded", *residual, dyn, 21, "inference", 18, folds=True, notes=folded),
        Case("residual_ts16_aliased", *residual, ts, 16, "inference", 19, folds=True, statistics=False, names=named,
             notes=folded + " Equal biases were merged: Identity nodes stand for the others."),
        Case("preactivation_ts18_train", *preact, ts, 18, "train", 20, batch=5, names=named),
        Case("preactivation_ts14_aliased", *preact, ts, 14, "inference", 21, folds=True, statistics=False, names=named,
             notes="Equal batch norm weights and biases were merged: Identity nodes stand for the others."),
        Case("preactivation_dyn22_merged", *preact, dyn, 22, "inference", 22, folds=True, statistics=False,
             notes="Equal batch norm weights and biases were merged without a trace: nodes share one initializer."),
        Case("preactivation_dyn18_unoptimized", *preact, dyn, 18, "inference", 23, optimize=False, batch=5,
             notes="Batch norm kept in inference form; convolutions get a bias of expanded zeros that is no parameter."),
        Case("mobile_ts15_train", *mobile, ts, 15, "train", 24, batch=5, rate=0.05, names=named, still=shift),
        Case("mobile_mean_ts18_train", *mobile_mean, ts, 18, "train", 25, batches=3, rate=0.05, names=named,
             still=shift),
        Case("mobile_dyn18_unoptimized", *mobile, dyn, 18, "inference", 26, rate=0.05, optimize=False,
             notes="Batch norm kept in inference form; convolutions get a bias of expanded zeros that is no parameter."),
        Case("mobile_mean_dyn22_folded", *mobile_mean, dyn, 22, "inference", 27, rate=0.05, folds=True, notes=folded),
        Case("dropout_ts15_train", *dropout, ts, 15, "train", 28, names=named, comparable=False,
             notes="Dropout draws random numbers: there is nothing to compare."),
        Case("dropout_ts15_eval", *dropout, ts, 15, "inference", 28, names=named),
        Case("dropout_dyn22", *dropout, dyn, 22, "inference", 29),
        Case("mlp_ts13_train", *mlp, ts, 13, "train", 30, names=named),
        Case("mlp_dyn22", *mlp, dyn, 22, "inference", 31, batch=5, batches=3, dynamic=True),
        Case("sequence_ts15_train", *sequence, ts, 15, "train", 32, names=named),
        Case("sequence_ts17_eval", *sequence, ts, 17, "inference", 33, names=named,
             notes="Constant folding transposed the dense weights and gave them new names."),
        Case("sequence_dyn21", *sequence, dyn, 21, "inference", 34),
        Case("log_probabilities_ts13_train", *logp, ts, 13, "train", 35, loss="nll", names=("input", "log_p")),
        Case("log_probabilities_dyn21", *logp, dyn, 21, "inference", 36, loss="nll", batch=5),
        Case("loss_inside_ts17_train", *inside, ts, 17, "train", 37, loss="in_graph", names=("input", "logits", "loss"),
             notes="The graph takes the labels as its second input and computes the mean loss as its second output."),
        Case("text_ts17_train", *text, ts, 17, "train", 39, batches=3, rate=0.5, names=named),
        Case("text_dyn20", *text, dyn, 20, "inference", 40, batch=5, rate=0.5),
        Case("upsampling_ts17_train", *upsampling, ts, 17, "train", 41, names=named),
        Case("recurrent_ts17_train", *recurrent, ts, 17, "train", 43, batches=3, rate=0.5, names=named),
        Case("groups_ts17_train", *groups, ts, 17, "train", 45, names=named),
        Case("groups_dyn21", *groups, dyn, 21, "inference", 46, batches=3),
        Case("shuffled_dyn20", *shuffled, dyn, 20, "inference", 47, folds=False, optimize=False,
             notes="Parts of a split are a sequence; the adaptive pool gathers its windows by index."),
        Case("excited_ts17_train", *excited, ts, 17, "train", 48, batches=3, names=named),
        Case("excited_dyn22_unoptimized", *excited, dyn, 22, "inference", 49, optimize=False),
        Case("attending_ts17_train", *attending, ts, 17, "train", 50, batches=3, names=named),
        Case("attending_dyn20", *attending, dyn, 20, "inference", 51, dynamic=True),
        Case("windows_ts17_train", *windows, ts, 17, "train", 52, batches=3, names=named),
        Case("windows_dyn20_unoptimized", *windows, dyn, 20, "inference", 53, optimize=False),
        Case("lenet_large_ts17_train", *large, ts, 17, "train", 38, rate=0.05, given="lenet_train_ts_17.onnx",
             omitted=("f1.weight",)),
        Case("lenet_large_dyn22", *large, dyn, 22, "inference", 38, rate=0.05, given="lenet_eval_dyn_22.onnx",
             omitted=("f1.weight",),
             notes="The weights and the archive are those of lenet_large_ts17_train."),
    ]


# --- Export ---------------------------------------------------------------------------------------


def build(case):
    """The module of a case, with its initial values, in training or evaluation mode."""
    torch.manual_seed(case.seed)
    module = case.net()
    if case.statistics:
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm2d):
                nn.init.normal_(layer.weight, 1.0, 0.2)
                nn.init.normal_(layer.bias, 0.0, 0.2)
                nn.init.normal_(layer.running_mean, 0.0, 0.2)
                nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return module.train(case.mode == "train")


def draw(case, batch):
    """Random operands: tokens if the net says how many there are, else floats."""
    tokens = getattr(case.net, "INTEGERS", None)
    return torch.randint(0, tokens, (batch, *case.shape)) if tokens else torch.randn(batch, *case.shape)


def export(case, module, folder):
    """Export to `<folder>/<case>.onnx` and take the machine's paths out of the result."""
    path = folder / f"{case.name}.onnx"
    batch = 2 if case.dynamic else case.batch
    arguments = (draw(case, batch),)
    if case.loss == "in_graph":
        arguments += (torch.randint(0, case.classes, (batch,)),)
    options = {}
    if case.names:
        options["input_names"] = [case.names[0]] + ["labels"] * (case.loss == "in_graph")
        options["output_names"] = list(case.names[1:])
    training = case.mode == "train"
    if case.exporter == "torchscript":
        if case.dynamic:
            options["dynamic_axes"] = {name: {0: "batch"} for name in case.names}
        kind = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(module, arguments, path, dynamo=False, opset_version=case.opset, training=kind,
                          do_constant_folding=not training, **options)
    else:
        if case.dynamic:
            options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(module, arguments, path, dynamo=True, opset_version=case.opset, optimize=case.optimize,
                          external_data=case.external, verbose=False, **options)
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for item in [*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        kept = [entry for entry in item.metadata_props if case.metadata and entry.key != STACK_TRACE]
        del item.metadata_props[:]
        item.metadata_props.extend(kept)
    onnx.save(model, path)
    return path


# --- From the file to the reference ---------------------------------------------------------------


def fold(module, pairs):
    """Replace each (convolution, batch norm) pair by the convolution it amounts to."""
    for conv, norm in pairs:
        setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
        setattr(module, norm, nn.Identity())
    module.requires_grad_(True)


def convolution_order(module, inputs):
    """Names of the convolutions in the order the forward pass runs them."""
    order = []
    module = copy.deepcopy(module).eval()
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda *_, name=name: order.append(name))
    with torch.no_grad():
        module(*inputs)
    return order


@dataclasses.dataclass
class Mapping:
    """How the values of a file stand for those of the reference module."""

    values: dict
    """File name (initializer or Identity output) to (name in the module, whether transposed)."""
    aliases: dict
    """Identity output to the initializer it repeats."""
    merged: dict
    """Name in the module that the file does not have, to the file's name it was merged into."""
    constants: list
    """Floating point initializers that are not values of the module."""


def map_file(case, path, reference, inputs):
    """Match the file's initializers with the reference's values and load the former into the latter."""
    model = onnx.load(path)
    graph = model.graph
    initial = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    aliases = {}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in initial:
            aliases[node.output[0]] = node.input[0]
    available = dict(initial)
    available.update({name: initial[source] for name, source in aliases.items()})
    available = {name: value for name, value in available.items() if value.dtype == np.float32}

    state = {name: value for name, value in reference.state_dict().items() if value.is_floating_point()}
    wanted = {}
    if case.folds:
        order = convolution_order(reference, inputs)
        nodes = [node for node in graph.node if node.op_type == "Conv"]
        assert len(order) == len(nodes), (order, len(nodes))
        for name, node in zip(order, nodes):
            for suffix, value in zip(("weight", "bias"), list(node.input)[1:]):
                wanted[f"{name}.{suffix}"] = value
    values, merged = {}, {}
    for name, value in state.items():
        expected = value.numpy()

        def same(found):
            return found.shape == expected.shape and np.allclose(found, expected, rtol=1e-5, atol=1e-6)

        file_name = wanted.get(name, name)
        if file_name in available:
            assert same(available[file_name]), f"{case.name}: {file_name} is not {name}"
            values[file_name] = (name, False)
            continue
        turned = [key for key, found in available.items() if key not in state and same(found.T) and found.ndim == 2]
        equal = [key for key, found in available.items() if key in state and np.array_equal(found, expected)]
        if turned:
            assert len(turned) == 1, f"{case.name}: {name} may be any of {turned}"
            values[turned[0]] = (name, True)
        else:
            assert len(equal) == 1, f"{case.name}: {name} may be any of {equal}"
            merged[name] = equal[0]
    # Two names of the module for one of the file would be a merge that the loop above did not see.
    assert len({name for name, _ in values.values()}) == len(values)
    with torch.no_grad():
        for file_name, (name, transposed) in values.items():
            value = available[file_name]
            state[name].copy_(torch.from_numpy((value.T if transposed else value).copy()))
    return Mapping(values, aliases, merged, sorted(set(available) - set(values)))


# --- Training -------------------------------------------------------------------------------------


class BiasedVariance:
    """Running variance as ONNX defines it: of the population, where PyTorch's is of a sample."""

    def __init__(self, module):
        self.running = {}
        for name, layer in module.named_modules():
            if isinstance(layer, nn.BatchNorm2d):
                self.running[f"{name}.running_var"] = layer.running_var.clone()
                layer.register_forward_pre_hook(lambda layer, inputs, name=name: self.see(name, layer, inputs[0]))

    def see(self, name, layer, x):
        key = f"{name}.running_var"
        variance = x.detach().var((0, 2, 3), unbiased=False)
        self.running[key] = (1 - layer.momentum) * self.running[key] + layer.momentum * variance


def of_type(x, dtype):
    """Floats as that type; integers as they are."""
    return x.to(dtype) if x.is_floating_point() else x


def forward_and_loss(case, module, x, labels):
    """The tuple of the model's outputs, and the mean loss."""
    if case.loss == "in_graph":
        logits, loss = module(x, labels)
        return (logits, loss), loss
    output = module(x)
    return (output,), (F.nll_loss if case.loss == "nll" else F.cross_entropy)(output, labels)


def train(case, reference, batches, dtype, tied):
    """Take the steps on a copy.

    `tied` lists groups of names that stay one value, as a reader of the file
    that does not know better would have it; their gradients are summed.
    Returns the outputs for the first batch before the first step and after the
    last, the losses, the values after the last, and the running variances after
    the last by ONNX's definition.
    """
    module = copy.deepcopy(reference).to(dtype)

    def outputs():
        with torch.no_grad():
            return forward_and_loss(case, copy.deepcopy(module), of_type(batches[0][0], dtype), batches[0][1])[0]

    before = outputs()
    biased = BiasedVariance(module) if case.mode == "train" else None
    parameters = dict(module.named_parameters())
    losses = []
    for step in range(STEPS):
        x, labels = batches[min(step, len(batches) - 1)]
        module.zero_grad()
        _, loss = forward_and_loss(case, module, of_type(x, dtype), labels)
        loss.backward()
        losses.append(loss.detach())
        with torch.no_grad():
            for group in tied:
                total = sum(parameters[name].grad for name in group)
                for name in group:
                    parameters[name].grad = total.clone()
            for value in parameters.values():
                value -= case.rate * value.grad
    after = {name: value.detach().clone() for name, value in module.state_dict().items()}
    running = dict(biased.running) if biased else {}
    return before, losses, after, running, outputs()


def difference(left, right):
    """Largest absolute difference between two tensors."""
    return float((left.double() - right.double()).abs().max())


def run(case, reference, mapping, model):
    """The archive's arrays and the manifest's figures for a case."""
    torch.manual_seed(1000 + case.seed)
    batches = []
    for _ in range(case.batches):
        batches.append((draw(case, case.batch), torch.randint(0, case.classes, (case.batch,))))
    inputs = [value.name for value in model.graph.input]
    outputs = [value.name for value in model.graph.output]
    arrays = {}
    for step, (x, labels) in enumerate(batches):
        prefix = f"step{step}/" if step else ""
        arrays[f"{prefix}input/{inputs[0]}"] = x.numpy()
        arrays[f"{prefix}labels"] = labels.numpy()
        if case.loss == "in_graph":
            arrays[f"{prefix}input/{inputs[1]}"] = labels.numpy()
    if not case.comparable:
        return arrays, {}, inputs, outputs

    single = train(case, reference, batches, torch.float32, [])
    double = train(case, reference, batches, torch.float64, [])
    for name, first, last in zip(outputs, single[0], single[4], strict=True):
        arrays[f"output/{name}"] = first.numpy()
        arrays[f"output_after/{name}"] = last.numpy()
    for step, loss in enumerate(single[1]):
        arrays[f"step{step}/loss"] = loss.numpy()

    def store(prefix, after, names):
        for file_name, (name, transposed) in names.items():
            if name in after and name not in case.omitted:
                value = after[name].float().numpy()
                arrays[f"{prefix}/{file_name}"] = np.ascontiguousarray(value.T if transposed else value)

    names = dict(mapping.values)
    names.update({name: (name, False) for name in mapping.merged})
    store("after", single[2], names)
    store("after_population", single[3], names)

    error = {
        "output": max(difference(a, b) for a, b in zip(single[0], double[0])),
        "output_after": max(difference(a, b) for a, b in zip(single[4], double[4])),
        "loss": max(difference(a, b) for a, b in zip(single[1], double[1])),
        "after": max(difference(single[2][name], double[2][name]) for name, _ in names.values()),
    }
    # What a reader gets who trains merged parameters as one, for the cases where that is a trap.
    groups, parameters = {}, {name for name, _ in reference.named_parameters()}
    by_module = {file_name: name for file_name, (name, _) in mapping.values.items()}
    for alias, source in mapping.aliases.items():
        if alias in by_module:
            groups.setdefault(source, [by_module[source]]).append(by_module[alias])
    for name, source in mapping.merged.items():
        groups.setdefault(source, [by_module[source]]).append(name)
    groups = [[name for name in group if name in parameters] for group in groups.values()]
    if groups:
        wrong = train(case, reference, batches, torch.float32, groups)
        store("after_tied", wrong[2], names)
    return arrays, error, inputs, outputs


def process(case, folder, given_folder):
    """Export a case, record its reference, and return its manifest entry."""
    module = build(case)
    files = folder / f"{case.name}.onnx"
    if case.given:
        model = onnx.load(given_folder / case.given)
        raw = onnx.load(given_folder / case.given, load_external_data=False)
        if any(item.data_location == onnx.TensorProto.EXTERNAL for item in raw.graph.initializer):
            data = given_folder / f"{case.given}.data"
            (folder / data.name).write_bytes(data.read_bytes())
        files = folder / case.given
        files.write_bytes((given_folder / case.given).read_bytes())
        weights = {item.name: torch.from_numpy(numpy_helper.to_array(item).copy()) for item in model.graph.initializer}
        module.load_state_dict({name: weights[name] for name in module.state_dict()})
    else:
        export(case, module, folder)
    model = onnx.load(files)
    onnx.checker.check_model(str(files))
    opset = next(item.version for item in model.opset_import if item.domain in ("", "ai.onnx"))
    assert opset == case.opset, f"{case.name}: opset {opset}"

    # The export of a training module runs it, which moves its running statistics: build it anew.
    reference = module if case.given else build(case)
    if case.folds:
        fold(reference, case.net().FOLDS)
    if case.mode == "train":
        reference_statistics(reference, model)
    probe = [torch.zeros_like(draw(case, case.batch))]
    if case.loss == "in_graph":
        probe.append(torch.zeros(case.batch, dtype=torch.int64))
    mapping = map_file(case, files, reference, probe)
    arrays, error, inputs, outputs = run(case, reference, mapping, model)
    parameters = {name for name, _ in reference.named_parameters()}
    norms = [layer for layer in reference.modules() if isinstance(layer, nn.BatchNorm2d)]
    external = sorted({
        entry.value
        for item in onnx.load(files, load_external_data=False).graph.initializer
        for entry in item.external_data
        if entry.key == "location"
    })
    entry = {
        "name": case.name,
        "model": files.name,
        "external_data": external,
        "archive": f"{case.name}.npz",
        "exporter": case.exporter,
        "opset": case.opset,
        "mode": case.mode,
        "batch_norm": None if not norms else "batch statistics" if case.mode == "train" else "running statistics",
        "input": inputs[0],
        "output": outputs[0],
        "batch": case.batch,
        "dynamic_batch": case.dynamic,
        "classes": case.classes,
        "loss": case.loss,
        "learning_rate": case.rate,
        "steps": STEPS,
        "batches": case.batches,
        "comparable": case.comparable,
        "parameters": sorted(name for name, (found, _) in mapping.values.items() if found in parameters),
        "statistics": sorted(name for name, (found, _) in mapping.values.items() if found not in parameters),
        "transposed": {name: found for name, (found, turned) in sorted(mapping.values.items()) if turned},
        "aliases": {k: v for k, v in sorted(mapping.aliases.items()) if k in mapping.values},
        "merged": dict(sorted(mapping.merged.items())),
        "constants": mapping.constants,
        "still": list(case.still),
        "omitted": list(case.omitted),
        "float32_error": error,
        "seed": case.seed,
        "notes": case.notes,
    }
    return entry, arrays


def reference_statistics(reference, model):
    """Start the running statistics from the file: the export ran the module and may have moved them."""
    initial = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    for name, value in reference.named_buffers():
        if value.is_floating_point() and name in initial:
            value.copy_(torch.from_numpy(initial[name].copy()))


def write_manifest(path, entries):
    """Write the manifest with one member of a case to a line."""
    written = []
    for entry in entries:
        members = ",\n  ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items())
        written.append("{\n  " + members + "\n}")
    versions = f'"torch": {json.dumps(torch.__version__)},\n"onnx": {json.dumps(onnx.__version__)},\n'
    path.write_text("{\n" + versions + '"cases": [\n' + ",\n".join(written) + "\n]\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="names of the cases to make; all without any")
    parser.add_argument("--given", type=pathlib.Path, default=DESTINATION,
                        help="folder of the two models that are copied rather than exported")
    parser.add_argument("--out", type=pathlib.Path, default=DESTINATION)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    options.out.mkdir(parents=True, exist_ok=True)
    entries = []
    shared = {}
    for case in cases():
        if options.cases and case.name not in options.cases:
            continue
        entry, arrays = process(case, options.out, options.given)
        if case.given:
            # Both files hold the same weights; one archive serves both.
            repeated = [key for key in arrays if key in shared and np.array_equal(shared[key], arrays[key])]
            arrays = {**shared, **arrays}
            assert not shared or len(repeated) >= 10
            shared = arrays
            entry["archive"] = "lenet_large.npz"
        np.savez_compressed(options.out / entry["archive"], **dict(sorted(arrays.items())))
        entries.append(entry)
        print(case.name, entry["float32_error"], flush=True)
    if options.cases:
        # The other cases are as they were.
        entries = {entry["name"]: entry for entry in entries}
        known = {entry["name"]: entry for entry in json.loads((options.out / "manifest.json").read_text())["cases"]}
        write_manifest(options.out / "manifest.json", [entries.get(c.name) or known[c.name] for c in cases()])
    else:
        names = [path.name for path in options.out.iterdir()]
        used = {entry[key] for entry in entries for key in ("model", "archive")}
        used |= {name for entry in entries for name in entry["external_data"]} | {"manifest.json", "README.md"}
        assert set(names) <= used, f"not of any case: {sorted(set(names) - used)}"
        write_manifest(options.out / "manifest.json", entries)


if __name__ == "__main__":
    main()
