"""Writes tests/data/niti_adaptive: whole training steps under `niti:adaptive=1`, with the states of all rescalings.

Run: python make_adaptive.py [output folder]; --check as of make_fixtures.py. Keys as of tests/data/niti, and
`state.<tensor>` f32 (steps, 11): what is kept of the rescaling that gives the tensor, after each step.
"""

import sys
from pathlib import Path

import numpy as np

import adaptive
import make_fixtures
import network as net

STEPS = 48


def case():
    source = net.INPUT
    return ("adaptive", "looks that find another shift, looks that do not, steps between them; a bias, an average", [
        net.conv("conv1", source, 5, (3, 3), pads=(1, 1, 1, 1), bias=True), net.relu("relu1", "conv1"),
        net.avgpool("average", "relu1", (4, 4), (2, 2)),
        net.conv("conv2", "average", 6, (3, 3), pads=(1, 1, 1, 1)), net.relu("relu2", "conv2"),
        net.flatten("flat", "relu2"),
        net.linear("fc1", "flat", 9), net.relu("relu3", "fc1"), net.linear("fc2", "relu3", 5)],
        (4, 2, 8, 8), 3, 31, {"fc2.weight": 4.0})


def build():
    name, covers, nodes, input_shape, mu, seed, factors = case()
    make_fixtures.STEPS = STEPS
    states, saturated = [], 0

    class Watched(adaptive.Network):
        def step(self, *arguments, **named):
            taken = super().step(*arguments, **named)
            states.append(taken["state"])
            nonlocal saturated
            saturated += sum(int((abs(q.astype(int)) == 127).sum() > 1) for q, _ in taken["forward"].values())
            return taken

    arrays, facts, description, classes = make_fixtures.train(name, nodes, input_shape, mu, seed, factors, Watched)
    for tensor in states[0]:
        arrays["state." + tensor] = np.stack([s[tensor] for s in states])
    all_states = np.stack([arrays["state." + tensor] for tensor in states[0]])
    # Left before the step: 0 where it looked.
    waits = (all_states[:, :-1, 0] > 0).sum()
    assert waits > STEPS, waits
    late = all_states[:, -1, 3:]
    assert (late < 0).any() and (late == 1).any() and (late > 1).any(), "looks are all alike"
    assert saturated > 0
    facts = {"algorithm": "niti:adaptive=1", **facts}
    text = {"case": name, "covers": covers, "input_shape": list(input_shape), "classes": classes, "steps": STEPS,
            "mu": mu, "seed": seed, "stream": 0, "network": description, **facts}
    return {f"{name}/case.json": make_fixtures.case_text(text), f"{name}/tensors.npz": arrays}


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    here = Path(__file__).resolve().parents[2] / "data" / "niti_adaptive"
    output = Path(arguments[0]) if arguments else here
    built = build()
    if "--check" in sys.argv:
        make_fixtures.compare(output, built)
        print("stored fixtures agree")
    else:
        make_fixtures.write(output, built)
        print(sum((output / path).stat().st_size for path in built), "bytes")
