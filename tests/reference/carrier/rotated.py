"""Writes the digits, rotated, as a data set: python rotated.py DEGREES OUTPUT.npz [MNIST] (numpy). The split is that of the shipped digits, or
MNIST's own, where the folder of its files is given."""

import gzip
import sys
from pathlib import Path

import numpy as np


def idx(path, header):
    return np.frombuffer(gzip.open(path).read()[header:], np.uint8)


def rotated(images, turn):
    """Images, each rotated about its middle; between four pixels."""
    size = images.shape[1]
    y, x = np.mgrid[0:size, 0:size] - (size - 1) / 2
    middle = (size - 1) / 2
    column, row = np.cos(turn) * x + np.sin(turn) * y + middle, np.cos(turn) * y - np.sin(turn) * x + middle

    def pixels(row, column):
        inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
        return np.where(inside, images[:, row.clip(0, size - 1), column.clip(0, size - 1)], 0)

    left, top = np.floor(column).astype(int), np.floor(row).astype(int)
    right, down = column - left, row - top
    turned = (pixels(top, left) * (1 - down) * (1 - right) + pixels(top, left + 1) * (1 - down) * right
              + pixels(top + 1, left) * down * (1 - right) + pixels(top + 1, left + 1) * down * right)
    return np.rint(turned).clip(0, 255).astype(np.uint8)[:, None]


def main():
    turn, output = np.deg2rad(float(sys.argv[1])), sys.argv[2]
    if len(sys.argv) > 3:
        folder, arrays = Path(sys.argv[3]), {}
        for part, name in (("train", "train"), ("test", "t10k")):
            images = idx(folder / f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
            arrays[f"x_{part}"] = rotated(images.astype(np.float32), turn)
            arrays[f"y_{part}"] = idx(folder / f"{name}-labels-idx1-ubyte.gz", 8).astype(np.int64)
        np.savez(output, **arrays)
        return
    folder = Path(__file__).resolve().parents[3] / "compiler" / "data" / "digits"
    images = idx(folder / "images.idx3.gz", 16).reshape(-1, 8, 8) * (255 / 16)
    labels = idx(folder / "labels.idx1.gz", 8)
    turned = rotated(images, turn)
    # Of each class every fourth image is a test image.
    seen = np.array([(labels[:i + 1] == label).sum() for i, label in enumerate(labels)])
    test = seen % 4 == 0
    labels = labels.astype(np.int64)
    np.savez(output, x_train=turned[~test], y_train=labels[~test], x_test=turned[test], y_test=labels[test])


if __name__ == "__main__":
    main()
