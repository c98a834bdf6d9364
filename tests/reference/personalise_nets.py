"""Two small pretrained networks for MNIST, their training in PyTorch, and the digits that they read."""

import dataclasses
import gzip
import math
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's training pixels in [0, 1], as PyTorch's examples subtract and divide by."""


class LeNet(nn.Module):
    """LeNet-5 with biases, ReLU and max pools; the linear layers have half the published width."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(256, 60)
        self.fc2 = nn.Linear(60, 42)
        self.fc3 = nn.Linear(42, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class Block(nn.Module):
    """An inverted residual: 1x1 expansion, depthwise 3x3, 1x1 projection; added to its input where shapes agree."""

    def __init__(self, inputs, outputs, stride, expansion=3):
        super().__init__()
        hidden = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        self.expand = nn.Conv2d(inputs, hidden, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(hidden)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False)
        self.norm2 = nn.BatchNorm2d(hidden)
        self.project = nn.Conv2d(hidden, outputs, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = F.relu6(self.norm1(self.expand(x)))
        y = F.relu6(self.norm2(self.depthwise(y)))
        y = self.norm3(self.project(y))
        return x + y if self.residual else y


class Depthwise(nn.Module):
    """A MobileNetV2 in miniature: stem of stride 2, five inverted residuals, global average pool, linear layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 12, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(12)
        self.block1 = Block(12, 12, 1)
        self.block2 = Block(12, 20, 2)
        self.block3 = Block(20, 20, 1)
        self.block4 = Block(20, 28, 2)
        self.block5 = Block(28, 28, 1)
        self.fc = nn.Linear(28, 10)

    def forward(self, x):
        x = F.relu6(self.norm(self.stem(x)))
        x = self.block5(self.block4(self.block3(self.block2(self.block1(x)))))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.fc(torch.flatten(x, 1))


@dataclasses.dataclass
class Recipe:
    """How a network of the test data was trained and exported."""

    net: type
    normalization: str
    """"unit" or "normalized": see `scaled`."""
    forms: tuple
    """The exports kept, by the names that `export_personalise.py` gives them."""
    seed: int
    order_seed: int | None
    """Seeds the order of the images; None: it is drawn after the weights, from their generator."""
    optimizer: str
    rate: float
    decays: bool
    """Whether the rate falls to zero along half a cosine."""
    epochs: int
    batch: int


RECIPES = {
    "lenet": Recipe(
        LeNet, "unit", ("torchscript", "torchscript_training", "dynamo"), 1, 1, "adam", 3e-3, True, 5, 128
    ),
    "depthwise": Recipe(
        Depthwise, "normalized", ("torchscript", "torchscript_training", "dynamo", "dynamo_unoptimized"),
        2, None, "sgd", 0.05, False, 2, 64,
    ),
}


def mnist(folder, part):
    """Images of `part` ("train" or "t10k") as uint8 `[n, 1, 28, 28]`, and their labels as int64 `[n]`."""
    folder = pathlib.Path(folder)
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        _, count, rows, columns = struct.unpack(">IIII", file.read(16))
        images = np.frombuffer(file.read(), np.uint8).reshape(count, 1, rows, columns)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        file.read(8)
        labels = np.frombuffer(file.read(), np.uint8)
    return torch.tensor(images), torch.tensor(labels, dtype=torch.int64)


def scaled(pixels, normalization):
    """Pixels 0 to 255 as floats: divided by 255 ("unit"), with mean and deviation taken out as well ("normalized")."""
    x = pixels.float() / 255
    return (x - MEAN) / DEVIATION if normalization == "normalized" else x


@torch.no_grad()
def accuracy(net, images, labels, batch=500):
    """Per cent of `images` that `net`, in evaluation mode, classifies as `labels` say."""
    net.eval()
    right = sum((net(x).argmax(1) == y).sum().item() for x, y in zip(images.split(batch), labels.split(batch)))
    return 100 * right / len(labels)


def train(net, images, labels, recipe):
    """Train `net`, whose weights were just drawn from `recipe.seed`; every epoch has its own order of the images."""
    generator = None if recipe.order_seed is None else torch.Generator().manual_seed(recipe.order_seed)
    if recipe.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), recipe.rate)
    else:
        optimizer = torch.optim.SGD(net.parameters(), recipe.rate, momentum=0.9)
    batches = len(labels) // recipe.batch
    steps, step = recipe.epochs * batches, 0
    net.train()
    for _ in range(recipe.epochs):
        order = torch.randperm(len(labels), generator=generator)
        for chosen in order.split(recipe.batch)[:batches]:
            if recipe.decays:
                for group in optimizer.param_groups:
                    group["lr"] = recipe.rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            optimizer.zero_grad()
            F.cross_entropy(net(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            step += 1
