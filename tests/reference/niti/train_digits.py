"""Trains the two-convolution net of the accuracy table on scikit-learn digits, in integers only.

Run: python train_digits.py [epochs per mu] [seed]. Needs scikit-learn. mu goes 5 -> 4 -> 3, batch 32.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import network as net

NET = {"logits": "fc2", "nodes": [
    net.conv("conv1", net.INPUT, 16, (3, 3), pads=(1, 1, 1, 1)), net.relu("relu1", "conv1"),
    net.maxpool("pool1", "relu1", (2, 2), (2, 2)),
    net.conv("conv2", "pool1", 32, (3, 3), pads=(1, 1, 1, 1)), net.relu("relu2", "conv2"),
    net.maxpool("pool2", "relu2", (2, 2), (2, 2)), net.flatten("flat", "pool2"),
    net.linear("fc1", "flat", 128), net.relu("relu3", "fc1"), net.linear("fc2", "relu3", 10)]}


def main(epochs_per_mu=3, seed=0):
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 1, 8, 8).astype(np.float32)
    split = train_test_split(images, labels, test_size=0.25, stratify=labels, random_state=seed)
    mean, deviation = split[0].mean(), split[0].std()
    x, x_test = ((part - mean) / deviation for part in split[:2])
    y, y_test = split[2:]
    rng = np.random.default_rng(seed)
    parameters, _ = net.parameter_shapes(NET, (32, 1, 8, 8))
    initial = {}
    for name, shape in parameters.items():
        bound = np.sqrt(6 / (shape[0] * np.prod(shape[2:]) + np.prod(shape[1:])))
        initial[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    model, step = net.Network(NET, initial), 0
    for epoch in range(3 * epochs_per_mu):
        mu = (5, 4, 3)[epoch // epochs_per_mu]
        order = rng.permutation(len(x))
        for start in range(0, len(x) - 31, 32):
            batch = order[start:start + 32]
            model.step(x[batch], y[batch], mu, seed, step)
            step += 1
        hits = 0
        for start in range(0, len(x_test), 32):  # scales are those of the batch, so its size is part of the result
            logits = model.forward(x_test[start:start + 32])[0]["fc2"][0]
            hits += int((logits.argmax(axis=1) == y_test[start:start + 32]).sum())
        print(f"epoch {epoch} mu {mu}: test accuracy {100 * hits / len(x_test):.2f} %", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
