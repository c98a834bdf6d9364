"""Trains an MLP on scikit-learn digits with shifts that are kept between steps, and without: how often a rescaling looks at
its sums, and the accuracy.

Run: python train_adaptive.py [epochs per mu] [seeds] (needs scikit-learn). mu goes 5 -> 4 -> 3, batch 32.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import adaptive
import network as net

NET = {"logits": "fc3", "nodes": [
    net.linear("fc1", net.INPUT, 128), net.relu("relu1", "fc1"), net.linear("fc2", "relu1", 64), net.relu("relu2", "fc2"),
    net.linear("fc3", "relu2", 10)]}


def train(model, split, epochs_per_mu, seed):
    x, x_test, y, y_test = split
    rng, step = np.random.default_rng(seed), 0
    for epoch in range(3 * epochs_per_mu):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - 31, 32):
            batch = order[start:start + 32]
            model.step(x[batch], y[batch], (5, 4, 3)[epoch // epochs_per_mu], seed, step)
            step += 1
    hits = 0
    for start in range(0, len(x_test), 32):
        logits = net.Network.forward(model, x_test[start:start + 32])[0]["fc3"][0]
        hits += int((logits.argmax(axis=1) == y_test[start:start + 32]).sum())
    return 100 * hits / len(x_test), step


def main(epochs_per_mu=10, seeds=5):
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    results = {net.Network: [], adaptive.Network: []}
    shares = []
    for seed in range(seeds):
        split = train_test_split(images, labels, test_size=0.25, stratify=labels, random_state=seed)
        mean, deviation = split[0].mean(), split[0].std()
        split = [(part - mean) / deviation for part in split[:2]] + list(split[2:])
        rng = np.random.default_rng(seed)
        shapes, _ = net.parameter_shapes(NET, (32, 64))
        bound = {name: np.sqrt(6 / sum(shape)) for name, shape in shapes.items()}
        initial = {n: rng.uniform(-bound[n], bound[n], s).astype(np.float32) for n, s in shapes.items()}
        line = f"seed {seed}:"
        for kind, accuracies in results.items():
            model = kind(NET, initial)
            accuracy, steps = train(model, split, epochs_per_mu, seed)
            accuracies.append(accuracy)
            line += f" {accuracy:.2f}"
        own = [100 * place.rescaled / steps for place in model.places.values()]
        shares.append(np.mean(own))
        print(line, "looks in % of the steps:", " ".join(f"{share:.1f}" for share in own), flush=True)
    for kind, accuracies in results.items():
        print(f"{kind.__module__}: {np.mean(accuracies):.2f} +- {np.std(accuracies, ddof=1):.2f}")
    print(f"looks in {np.mean(shares):.1f} % of the steps")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
