"""Writes tests/data/pfq/indicator.json: losses of trainings and the stage behind each epoch, in numpy (double precision).

Run: python make_indicator.py [output file]. The indicator of PFQ (Fu et al., FracTrain, NeurIPS 2020, section 3.1 and algorithm 1), as its
authors' code has it: the last five losses, each less the newest, by the mean of the first ten, are at most the threshold; then the next
stage begins, without losses, with 0.3 of the threshold the first two times.
"""

import json
import sys
from pathlib import Path

import numpy as np

WINDOW, THRESHOLD, DECAY, DECAYS, AVERAGE, STAGES = 5, 0.05, 0.3, 2, 10, 4


def stages_of(losses):
    stage, threshold, recent, first, found = 0, THRESHOLD, [], [], []
    for loss in losses:
        if len(first) < AVERAGE:
            first.append(loss)
        recent = (recent + [loss])[-WINDOW:]
        near = [abs(other - loss) / np.mean(first) <= threshold for other in recent[:-1]]
        if len(recent) == WINDOW and all(near) and stage < STAGES - 1:
            stage, recent = stage + 1, []
            if stage <= DECAYS:
                threshold *= DECAY
        found.append(stage)
    return found


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "pfq" / "indicator.json"
    rng = np.random.default_rng(3)
    runs = []
    for _ in range(40):
        epochs = int(rng.integers(4, 80))
        level, fall, noise = rng.uniform(0.1, 3), rng.uniform(0.02, 0.6), rng.choice([0, 1e-4, 1e-3, 1e-2, 0.1])
        losses = level * np.exp(-fall * np.arange(epochs)) + rng.uniform(0, 1) * level
        losses = (losses + level * noise * rng.normal(size=epochs)).astype(np.float32)
        runs.append({"losses": [float(x) for x in losses], "stages": stages_of(losses.astype(np.float64))})
    assert all(any(stage in run["stages"] for run in runs) for stage in range(STAGES))
    (Path(sys.argv[1]) if len(sys.argv) > 1 else here).write_text(json.dumps({"runs": runs}) + "\n")


if __name__ == "__main__":
    main()
