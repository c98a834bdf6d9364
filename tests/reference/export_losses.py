#!/usr/bin/env python3
"""Networks without a loss of their own, data with targets, and what PyTorch makes of them in three steps.

    pip install torch==2.15.0 onnx==1.20.1 numpy
    python tests/reference/export_losses.py

Writes `tests/data/losses/`: per case a model, and an archive that is a data set of `trainc train --loss LOSS` (`x_train`,
`y_train`, `x_test`, `y_test`) with PyTorch's parameters after three steps of plain gradient descent at batch BATCH and rate
RATE (`after/NAME`), and its mean loss on the test split then (`test_loss`), or the share of positions that is right
(`test_accuracy`).
"""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "losses"
BATCH, STEPS, RATE, TESTS = 4, 3, 0.1, 6


def values(seed, last):
    """A dense net with two hidden layers, by another activation at its end."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3), *last)


def places(seed):
    """Scores of three classes at each place of an image."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))


class Words(nn.Module):
    """Scores of classes for each word of a sentence, from embeddings of a word and of the one before."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.words, self.scores = nn.Embedding(11, 6), nn.Conv1d(12, 3, 1)

    def forward(self, x):
        words = self.words(x)
        before = torch.cat([torch.zeros_like(words[:, :1]), words[:, :-1]], 1)
        return self.scores(torch.cat([words, before], 2).transpose(1, 2))


def case(name, net, x, y, loss, judge):
    """Writes a case."""
    options = {"dynamo": False, "dynamic_axes": {"x": {0: "batch"}}, "input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(net, (x[:BATCH],), DESTINATION / f"{name}.onnx", **options)
    split = STEPS * BATCH
    arrays = {"x_train": x[:split], "y_train": y[:split], "x_test": x[split:], "y_test": y[split:]}
    for i in range(0, split, BATCH):
        net.zero_grad()
        loss(net(x[i:i + BATCH]), y[i:i + BATCH]).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= RATE * parameter.grad
    with torch.no_grad():
        key, value = judge(net(x[split:]), y[split:])
    arrays |= {f"after/{key}": value.detach() for key, value in net.named_parameters()} | {key: value}
    np.savez_compressed(DESTINATION / f"{name}.npz", **{k: np.asarray(v) for k, v in sorted(arrays.items())})


class Several(nn.Module):
    """Three results of one trunk: numbers, classes, and what holds of each."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(5, 8)
        self.boxes, self.classes, self.marks = nn.Linear(8, 3), nn.Linear(8, 4), nn.Linear(8, 2)

    def forward(self, x):
        x = torch.tanh(self.trunk(x))
        return self.boxes(x), self.classes(x), torch.sigmoid(self.marks(x))


def results(x):
    """Writes the case of several results: `y_train.RESULT`, factors 0.5, 1 and 2."""
    torch.manual_seed(6)
    net, names = Several(), ["boxes", "classes", "marks"]
    wanted = [torch.randn(len(x), 3), torch.randint(0, 4, (len(x),)), (torch.rand(len(x), 2) < 0.4).float()]

    def loss(results, wanted):
        boxes, classes, marks = results
        sums = 0.5 * F.mse_loss(boxes, wanted[0]) + F.cross_entropy(classes, wanted[1])
        return sums + 2.0 * F.binary_cross_entropy(marks, wanted[2])

    options = {"dynamo": False, "dynamic_axes": {"x": {0: "batch"}}, "input_names": ["x"], "output_names": names}
    torch.onnx.export(net, (x[:BATCH],), DESTINATION / "several.onnx", **options)
    split = STEPS * BATCH
    arrays = {"x_train": x[:split], "x_test": x[split:]}
    for name, values in zip(names, wanted):
        arrays |= {f"y_train.{name}": values[:split], f"y_test.{name}": values[split:]}
    for i in range(0, split, BATCH):
        net.zero_grad()
        loss(net(x[i:i + BATCH]), [values[i:i + BATCH] for values in wanted]).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= RATE * parameter.grad
    with torch.no_grad():
        arrays["test_loss"] = loss(net(x[split:]), [values[split:] for values in wanted])
    arrays |= {f"after/{key}": value.detach() for key, value in net.named_parameters()}
    np.savez_compressed(DESTINATION / "several.npz", **{k: np.asarray(v) for k, v in sorted(arrays.items())})


def main():
    torch.set_num_threads(1)
    DESTINATION.mkdir(exist_ok=True)
    count = STEPS * BATCH + TESTS

    def mean(loss):
        return lambda y, wanted: ("test_loss", loss(y, wanted))

    torch.manual_seed(1)
    x = torch.randn(count, 5)
    case("mse", values(2, []), x, torch.randn(count, 3), F.mse_loss, mean(F.mse_loss))
    several = (torch.rand(count, 3) < 0.4).float()
    bce = F.binary_cross_entropy_with_logits
    case("bce", values(3, []), x, several, bce, mean(bce))
    case("bce_sigmoid", values(4, [nn.Sigmoid()]), x, several, F.binary_cross_entropy, mean(F.binary_cross_entropy))

    def right(scores, labels):
        kept = labels >= 0
        return "test_accuracy", (scores.argmax(1) == labels)[kept].double().mean()

    images, labels = torch.randn(count, 2, 4, 5), torch.randint(-1, 3, (count, 4, 5))
    sentences, kinds = torch.randint(11, (count, 7)), torch.randint(3, (count, 7))
    case("words", Words(6), sentences, kinds, F.cross_entropy, right)
    case("cross_entropy", places(5), images, labels, lambda y, wanted: F.cross_entropy(y, wanted, ignore_index=-1), right)
    results(x)


if __name__ == "__main__":
    main()
