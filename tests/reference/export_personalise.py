#!/usr/bin/env python3
"""Train two small networks on MNIST and export each as a user of PyTorch would, in up to four ways.

    pip install torch==2.15.0 onnx==1.20.1 onnxscript==0.7.2 onnxruntime==1.31.1 numpy
    python tests/reference/export_personalise.py train DATA     (a few minutes)
    python tests/reference/export_personalise.py export DATA    (seconds, from the weights that `train` kept)

DATA is a folder with MNIST's four IDX files, compressed. Writes `tests/data/personalise/`: the models, and
`manifest.json` with every file's accuracy on the 10,000 test digits as onnxruntime computes it. Training depends on the
machine in its last digits, so that another machine's files differ; `export` gives the same files again.
"""

import argparse
import copy
import json
import pathlib
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper

import personalise_nets as nets

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "personalise"
EXAMPLE_BATCH = 32
STACK_TRACE = "pkg.torch.onnx."
"""What the dynamo exporter notes at each node: where it came from on the exporting machine."""


def export(net, path, form):
    """Write `net` to `path` in one of the forms that `FORMS` lists."""
    torch.manual_seed(0)
    example = torch.randn(EXAMPLE_BATCH, 1, 28, 28)
    net.eval()
    if form == "torchscript":
        torch.onnx.export(net, (example,), path, dynamo=False, input_names=["images"], output_names=["scores"],
                          dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}})
    elif form == "torchscript_training":
        net.train()
        torch.onnx.export(net, (example,), path, dynamo=False, input_names=["images"], output_names=["scores"],
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    elif form == "dynamo":
        torch.onnx.export(net, (example,), path, dynamo=True, external_data=False, input_names=["images"],
                          output_names=["scores"], dynamic_shapes=({0: torch.export.Dim("batch")},))
    elif form == "dynamo_unoptimized":
        torch.onnx.export(net, (example,), path, dynamo=True, external_data=False, optimize=False,
                          input_names=["images"], output_names=["scores"])


FORMS = ("torchscript", "torchscript_training", "dynamo", "dynamo_unoptimized")


def strip_notes(path):
    """Take out the dynamo exporter's notes about the exporting machine; nothing else."""
    model = onnx.load(path)
    for owner in [model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input,
                  *model.graph.output, *model.graph.initializer, *model.functions,
                  *(node for function in model.functions for node in function.node)]:
        kept = [entry for entry in owner.metadata_props if not entry.key.startswith(STACK_TRACE)]
        del owner.metadata_props[:]
        owner.metadata_props.extend(kept)
    onnx.save(model, path)


def inference_form(model):
    """`model` with batch norm by running statistics, as evaluation after import computes it."""
    model = copy.deepcopy(model)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            kept = [a for a in node.attribute if a.name != "training_mode"]
            del node.attribute[:]
            node.attribute.extend(kept)
            del node.output[1:]
    return model


def accuracy(model, images, labels):
    """Per cent that onnxruntime classifies right, in batches of the model's own size where that is fixed."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    size = session.get_inputs()[0].shape[0]
    size = size if isinstance(size, int) else 500
    right = 0
    for start in range(0, len(labels), size):
        chunk = images[start : start + size]
        rows = len(chunk)
        chunk = np.concatenate([chunk, np.zeros((size - rows, *chunk.shape[1:]), np.float32)])
        scores = session.run(None, {session.get_inputs()[0].name: chunk})[0][:rows]
        right += int((scores.argmax(1) == labels[start : start + rows]).sum())
    return round(100 * right / len(labels), 2)


def batch_norms(model):
    """How many batch norms the file holds, by whether they are in training form."""
    count = {"inference": 0, "training": 0}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            training = any(a.name == "training_mode" and a.i for a in node.attribute)
            count["training" if training else "inference"] += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["train", "export"])
    parser.add_argument("data")
    parser.add_argument("--weights", default=".", help="folder of the state dictionaries between the two commands")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = pathlib.Path(arguments.weights)
    images, labels = nets.mnist(arguments.data, "t10k")
    if arguments.command == "train":
        train_images, train_labels = nets.mnist(arguments.data, "train")
        for name, recipe in nets.RECIPES.items():
            torch.manual_seed(recipe.seed)
            net = recipe.net()
            nets.train(net, nets.scaled(train_images, recipe.normalization), train_labels, recipe)
            print(name, nets.accuracy(net, nets.scaled(images, recipe.normalization), labels), flush=True)
            torch.save(net.state_dict(), folder / f"{name}.pt")
        return
    DESTINATION.mkdir(parents=True, exist_ok=True)
    manifest = {"torch": torch.__version__, "onnx": onnx.__version__, "models": []}
    warnings.simplefilter("ignore")
    for name, recipe in nets.RECIPES.items():
        x = nets.scaled(images, recipe.normalization)
        weights = torch.load(folder / f"{name}.pt")
        for form in FORMS:
            if form not in recipe.forms:
                continue
            net = recipe.net()
            net.load_state_dict(weights)
            path = DESTINATION / f"{name}_{form}.onnx"
            export(net, path, form)
            strip_notes(path)
            model = onnx.load(path)
            entry = {
                "model": path.name,
                "network": name,
                "form": form,
                "normalization": recipe.normalization,
                "parameters": sum(p.numel() for p in net.parameters()),
                "batch": EXAMPLE_BATCH if form in ("torchscript_training", "dynamo_unoptimized") else "dynamic",
                "opset": model.opset_import[0].version,
                "batch_norms": batch_norms(model),
                "torch_accuracy": round(nets.accuracy(recipe_net(recipe, weights), x, labels), 2),
                "accuracy": accuracy(inference_form(model), x.numpy(), labels.numpy()),
            }
            manifest["models"].append(entry)
            print(json.dumps(entry), path.stat().st_size, flush=True)
    (DESTINATION / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def recipe_net(recipe, weights):
    """The trained module as it was before any export."""
    net = recipe.net()
    net.load_state_dict(weights)
    return net


if __name__ == "__main__":
    main()
