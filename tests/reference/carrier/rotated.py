"""Writes the digits, rotated, as a data set: python rotated.py DEGREES OUTPUT.npz (numpy). The split is that of the shipped digits."""

import gzip
import sys
from pathlib import Path

import numpy as np


def main():
    turn, output = np.deg2rad(float(sys.argv[1])), sys.argv[2]
    folder = Path(__file__).resolve().parents[3] / "compiler" / "data" / "digits"
    read = lambda name, header: np.frombuffer(gzip.open(folder / name).read()[header:], np.uint8)
    images = read("images.idx3.gz", 16).reshape(-1, 8, 8) * (255 / 16)
    labels = read("labels.idx1.gz", 8)
    y, x = np.mgrid[0:8, 0:8] - 3.5
    column, row = np.cos(turn) * x + np.sin(turn) * y + 3.5, np.cos(turn) * y - np.sin(turn) * x + 3.5

    def pixels(row, column):
        inside = (row >= 0) & (row < 8) & (column >= 0) & (column < 8)
        return np.where(inside, images[:, row.clip(0, 7), column.clip(0, 7)], 0)

    # Between four pixels.
    left, top = np.floor(column).astype(int), np.floor(row).astype(int)
    right, down = column - left, row - top
    turned = (pixels(top, left) * (1 - down) * (1 - right) + pixels(top, left + 1) * (1 - down) * right
              + pixels(top + 1, left) * down * (1 - right) + pixels(top + 1, left + 1) * down * right)
    turned = np.rint(turned).clip(0, 255).astype(np.uint8)[:, None]
    # Of each class every fourth image is a test image.
    seen = np.array([(labels[:i + 1] == label).sum() for i, label in enumerate(labels)])
    test = seen % 4 == 0
    labels = labels.astype(np.int64)
    np.savez(output, x_train=turned[~test], y_train=labels[~test], x_test=turned[test], y_test=labels[test])


if __name__ == "__main__":
    main()
