#!/usr/bin/env python3
"""Write a small binary network as PyTorch users do, in three ways and by both exporters, with what PyTorch computes.

    pip install torch==2.15.0 onnx==1.20.1 onnxscript numpy
    python tests/reference/export_binary.py

Writes `tests/data/binary/`: WAY-EXPORTER.onnx; WAY.npz has images, labels, scores, and weights after a step of SGD (rate 0.1), through
straight-through gradients where |x| <= 1, batch normalization with its running statistics.
"""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "binary"
IMAGES, CLASSES, RATE = 12, 5, 0.1


class StraightThrough(torch.autograd.Function):
    """The sign, with the gradient of the hard tanh."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x)

    @staticmethod
    def backward(ctx, error):
        return error * (ctx.saved_tensors[0].abs() <= 1)


def detached(x):
    y = F.hardtanh(x)
    return y + (torch.sign(x) - y).detach()


def where(x):
    return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))


# What a file means, and a sign that can be trained.
WAYS = {"function": (StraightThrough.apply, StraightThrough.apply), "detached": (detached, detached), "where": (where, StraightThrough.apply)}


class Net(nn.Module):
    """Padding with zeros, a pool behind batch normalization and one behind the signs, and channels that fill no bytes."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 9, 3, padding=1), nn.BatchNorm2d(9)
        self.conv2, self.norm2 = nn.Conv2d(9, 13, 3, padding=1, bias=False), nn.BatchNorm2d(13)
        self.conv3, self.norm3 = nn.Conv2d(13, 6, 3, bias=False), nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = self.sign(self.norm1(self.conv1(x)))
        x = F.conv2d(x, self.sign(self.conv2.weight), padding=1)
        x = self.sign(F.max_pool2d(self.norm2(x), 2))
        x = F.conv2d(x, self.sign(self.conv3.weight))
        x = F.max_pool2d(self.sign(self.norm3(x)), 2)
        return self.fc(x.flatten(1))


def network(sign):
    torch.manual_seed(5)
    net = Net().eval()
    for norm in (net.norm1, net.norm2, net.norm3):
        norm.running_mean.normal_(0, 1)
        norm.running_var.uniform_(4, 9)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias, 0, 0.3)
    net.sign = sign
    return net


def main():
    DESTINATION.mkdir(parents=True, exist_ok=True)
    for way, (meant, trained) in WAYS.items():
        net = network(meant)
        images = torch.randn(IMAGES, 1, 9, 9)
        labels = torch.randint(0, CLASSES, (IMAGES,))
        options = {"input_names": ["images"], "output_names": ["scores"]}
        torch.onnx.export(net, (images,), DESTINATION / f"{way}-torchscript.onnx", dynamo=False, opset_version=17,
                          dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}}, **options)
        torch.onnx.export(net, (images,), DESTINATION / f"{way}-dynamo.onnx", dynamo=True, external_data=False,
                          dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, **options)
        arrays = {"images": images, "labels": labels.int(), "scores": net(images).detach()}
        net = network(trained)
        torch.manual_seed(0)
        F.cross_entropy(net(images), labels).backward()
        for name, parameter in net.named_parameters():
            arrays["step." + name] = (parameter - RATE * parameter.grad).detach()
        moved = [(k, float((arrays["step." + k] - v).abs().max())) for k, v in net.named_parameters() if "conv" in k]
        print(way, moved)
        np.savez_compressed(DESTINATION / f"{way}.npz", **{k: np.asarray(v) for k, v in arrays.items()})


if __name__ == "__main__":
    main()
