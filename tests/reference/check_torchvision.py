#!/usr/bin/env python3
"""Compile torchvision's classifiers, as both of PyTorch's exporters write them, under an algorithm.

    pip install torch==2.15.0 torchvision==0.29.2 onnx==1.20.1 onnxscript==0.7.2
    python tests/reference/check_torchvision.py TRAINC [--algorithm niti] [--target c] [--models NAME ...]

TRAINC is the compiler's program. Prints for each export the time of `trainc compile` at batch 2 (reading included), how many
operations of the training step are FP32, or the first line of what stands in the way.
"""

import argparse
import contextlib
import io
import pathlib
import re
import subprocess
import tempfile
import time
import warnings

import torch
import torchvision

MODELS = {
    "alexnet": 64, "vgg11_bn": 32, "resnet18": 64, "resnet50": 64, "squeezenet1_1": 64, "densenet121": 64,
    "googlenet": 64, "inception_v3": 96, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "mnasnet0_5": 64,
    "shufflenet_v2_x0_5": 64, "efficientnet_b0": 64, "regnet_y_400mf": 64, "convnext_tiny": 64, "vit_b_16": 224, "swin_t": 64,
}
"""Rows and columns of the images that each gets."""
WITHOUT_AUXILIARY = ("googlenet", "inception_v3")


def exports(name, folder):
    """Writes the model in both forms; their files, or why there is none."""
    torch.manual_seed(0)
    options = {"aux_logits": False, "init_weights": False} if name in WITHOUT_AUXILIARY else {}
    net = getattr(torchvision.models, name)(num_classes=10, **options).eval()
    example = torch.randn(2, 3, MODELS[name], MODELS[name])
    forms = {
        "torchscript": {"dynamo": False, "dynamic_axes": {"images": {0: "batch"}, "scores": {0: "batch"}}},
        "dynamo": {"dynamo": True, "external_data": False, "dynamic_shapes": ({0: torch.export.Dim("batch")},)},
    }
    for form, how in forms.items():
        path = folder / f"{name}_{form}.onnx"
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                torch.onnx.export(net, (example,), path, input_names=["images"], output_names=["scores"], **how)
            yield form, path, ""
        except Exception as error:
            lines = [line for line in str(error).splitlines() if "nsupported" in line or "rror" in line]
            yield form, None, (lines or [type(error).__name__])[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trainc")
    parser.add_argument("--algorithm", default="niti")
    parser.add_argument("--target", default="c")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    good = every = 0
    for name in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for form, path, reason in exports(name, folder):
                if path is None:
                    print(f"{name}, {form}: PyTorch does not export it: {reason[:100]}", flush=True)
                    continue
                start = time.perf_counter()
                done = subprocess.run(
                    [arguments.trainc, "compile", path, "--algorithm", arguments.algorithm, "--target", arguments.target,
                     "--batch", "2", "-o", folder / form], capture_output=True, text=True)
                seconds = time.perf_counter() - start
                every += 1
                good += done.returncode == 0
                floats = re.search(r"(\d+) operations of the training step are computed in FP32", done.stderr)
                lines = [line for line in done.stderr.splitlines() if line.startswith(("error", " "))]
                said = f"{floats.group(1) if floats else 0} operations in FP32" if not done.returncode else " ".join(lines)[:300]
                print(f"{name}, {form}: {seconds:.1f} s, {said}", flush=True)
    print(f"{good} of {every} compile under {arguments.algorithm} for {arguments.target}")


if __name__ == "__main__":
    main()
