#!/usr/bin/env python3
"""Train one small net with PyTorch's optimizers and recipes, and record where its parameters end.

    pip install torch==2.15.0 onnx==1.20.1 numpy
    python tests/reference/export_recipes.py

Writes `tests/data/recipes/`: the net as PyTorch exports it in training form, the batches, and for each recipe the
options that trainc is given, the step sizes that PyTorch's scheduler gave, the losses, and the parameters after 20 steps.
"""

import copy
import json
import math
import pathlib

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "recipes"
STEPS, BATCHES, BATCH, CLASSES = 20, 5, 8, 5


class Net(nn.Module):
    """Convolutions with batch norm and a linear layer; smooth, so that rounding does not decide on which side of a kink a value is."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, stride=2)
        self.fc = nn.Linear(54, CLASSES)

    def forward(self, x):
        x = torch.tanh(self.norm(self.conv1(x)))
        x = torch.tanh(self.conv2(x))
        return self.fc(x.flatten(1))


def by_role(net, decay):
    """Weights decay; biases and batch norm's scale and shift do not."""
    weights = [p for name, p in net.named_parameters() if p.dim() > 1]
    others = [p for name, p in net.named_parameters() if p.dim() == 1]
    return [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def sgd(rate, **more):
    return lambda net: torch.optim.SGD(net.parameters(), lr=rate, **more)


def warm_up(optimizer):
    """A fifth of the rate, up to all of it over 5 steps, then a cosine down to 0 at step 20."""
    first = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=5)
    rest = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [first, rest], milestones=[5])


def halves(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.5)


RECIPES = {
    "sgd": dict(optimizer=sgd(0.1), options={"learning-rate": "0.1"}),
    "sgd_momentum": dict(
        optimizer=sgd(0.05, momentum=0.9),
        options={"optimizer": "sgd:momentum=0.9", "learning-rate": "0.05"},
    ),
    "sgd_dampened": dict(
        optimizer=sgd(0.1, momentum=0.8, dampening=0.3, weight_decay=0.01),
        options={"optimizer": "sgd:momentum=0.8,dampening=0.3,weight_decay=0.01", "learning-rate": "0.1"},
    ),
    "nesterov": dict(
        optimizer=sgd(0.05, momentum=0.9, weight_decay=0.005, nesterov=True),
        options={"optimizer": "nesterov:momentum=0.9,weight_decay=0.005", "learning-rate": "0.05"},
    ),
    "adam": dict(
        optimizer=lambda net: torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.01),
        options={"optimizer": "adam:weight_decay=0.01", "learning-rate": "0.01"},
    ),
    "adamw": dict(
        optimizer=lambda net: torch.optim.AdamW(net.parameters(), lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
        options={"optimizer": "adamw:beta1=0.8,beta2=0.99,weight_decay=0.1", "learning-rate": "0.01"},
    ),
    "adamw_by_role": dict(
        optimizer=lambda net: torch.optim.AdamW(by_role(net, 0.2), lr=0.01),
        options={
            "optimizer": "adamw:weight_decay=0.2,weight_decay.bias=0,weight_decay.normalization=0",
            "learning-rate": "0.01",
        },
    ),
    "cosine": dict(
        optimizer=sgd(0.1, momentum=0.9),
        scheduler=warm_up,
        options={"optimizer": "sgd:momentum=0.9", "schedule": "0:0.02~linear,5s:0.1~cosine,1:0"},
    ),
    "steps": dict(
        optimizer=sgd(0.2),
        scheduler=halves,
        options={"schedule": "0:0.2,7s:0.1,14s:0.05"},
    ),
    "freeze": dict(
        optimizer=sgd(0.05, momentum=0.9),
        frozen=["conv1.weight"],
        options={"optimizer": "sgd:momentum=0.9", "learning-rate": "0.05", "freeze": "conv1"},
    ),
    "label_smoothing": dict(
        optimizer=sgd(0.1), smoothing=0.1, options={"learning-rate": "0.1", "label-smoothing": "0.1"}
    ),
    "clip_value": dict(
        optimizer=sgd(0.5), clip_value=0.05, options={"learning-rate": "0.5", "clip-value": "0.05"}
    ),
    "clip_norm": dict(
        optimizer=sgd(0.3, momentum=0.5),
        clip_norm=0.7,
        options={"optimizer": "sgd:momentum=0.5", "learning-rate": "0.3", "clip-norm": "0.7"},
    ),
}


def train(net, recipe, images, labels):
    for name, parameter in net.named_parameters():
        parameter.requires_grad = name not in recipe.get("frozen", [])
    optimizer = recipe["optimizer"](net)
    scheduler = recipe["scheduler"](optimizer) if "scheduler" in recipe else None
    losses, rates = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        scores = net(images[step % BATCHES])
        loss = F.cross_entropy(scores, labels[step % BATCHES], label_smoothing=recipe.get("smoothing", 0.0))
        loss.backward()
        if "clip_value" in recipe:
            nn.utils.clip_grad_value_(net.parameters(), recipe["clip_value"])
        if "clip_norm" in recipe:
            norm = nn.utils.clip_grad_norm_(net.parameters(), recipe["clip_norm"])
            assert step > 3 or norm > recipe["clip_norm"], "the first steps are to be clipped"
        losses.append(loss.item())
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if scheduler:
            scheduler.step()
    return losses, rates


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    DESTINATION.mkdir(parents=True, exist_ok=True)
    net = Net()
    random = np.random.default_rng(3)
    pixels = random.integers(-24, 25, (BATCHES, BATCH, 1, 8, 8), dtype=np.int8)
    labels = random.integers(0, CLASSES, (BATCHES, BATCH), dtype=np.int32)
    images = torch.from_numpy(pixels.astype(np.float32) / 16)
    path = DESTINATION / "net.onnx"
    torch.onnx.export(net, (images[0],), path, dynamo=False, opset_version=17, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["images"], output_names=["scores"])
    names = {initializer.name for initializer in onnx.load(path).graph.initializer}
    arrays = {"pixels": pixels, "labels": labels}
    facts = {"steps": STEPS, "scale": 1 / 16, "recipes": {}}
    for name, recipe in RECIPES.items():
        trained = copy.deepcopy(net).train()
        losses, rates = train(trained, recipe, images, torch.from_numpy(labels.astype(np.int64)))
        assert all(math.isfinite(loss) for loss in losses) and losses[-1] < losses[0], (name, losses)
        facts["recipes"][name] = {"options": recipe["options"], "rates": rates, "losses": losses}
        for parameter, value in trained.named_parameters():
            assert parameter in names, parameter
            arrays[f"{name}/{parameter}"] = value.detach().numpy()
        print(name, losses[0], losses[-1])
    np.savez_compressed(DESTINATION / "recipes.npz", **arrays)
    (DESTINATION / "recipes.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
