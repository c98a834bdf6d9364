"""Operations of quantized inference over random and extreme values, by numpy in 64 bits from their definitions.

Writes tests/data/integer/operations.txt: for each case the operation, its operands and its result, row-major.
Run: python tests/reference/integer_operations.py
"""

from pathlib import Path

import numpy as np

RANGES = {
    "u8": (0, 255), "u4": (0, 15), "u2": (0, 3), "b1": (0, 1),
    "i8": (-128, 127), "i4": (-8, 7), "i2": (-2, 1), "i32": (-(2**31), 2**31 - 1),
}
NARROW = ["u8", "u4", "u2", "i8", "i4", "i2"]
rng = np.random.default_rng(20)
lines = []


def draw(element, shape):
    """Full range; a quarter of the elements are an end of it."""
    low, high = RANGES[element]
    x = rng.integers(low, high + 1, shape, dtype=np.int64)
    ends = rng.choice(np.array([low, high], np.int64), shape)
    return np.where(rng.random(shape) < 0.25, ends, x)


def wrap(x):
    """Two's complement in 32 bits."""
    return ((np.asarray(x, np.int64) + 2**31) % 2**32) - 2**31


def tensor(word, element, x):
    shape = ",".join(map(str, x.shape))
    lines.append(f"{word} {element} [{shape}] " + " ".join(map(str, x.ravel().tolist())))


def case(op, operands, element, result):
    lines.append(f"op {op}")
    for own, x in operands:
        tensor("operand", own, x)
    tensor("result", element, result)


def pair(values):
    return "[" + ", ".join(map(str, values)) + "]"


def padded(x, pads, padding):
    top, left, bottom, right = pads
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=padding)


def windows(x, kernel, strides, dilations):
    """[B,OH,OW,KH,KW,C] of an operand that is padded already."""
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    rows, columns = [(x.shape[i + 1] - reach[i]) // strides[i] + 1 for i in (0, 1)]
    taps = [
        [
            x[:, kh * dilations[0] :: strides[0], kw * dilations[1] :: strides[1], :][:, :rows, :columns]
            for kw in range(kernel[1])
        ]
        for kh in range(kernel[0])
    ]
    return np.stack([np.stack(row, 3) for row in taps], 3)


def convolution(of_x, of_w, shape, kernel, outputs, groups, strides, pads, dilations, padding):
    x = draw(of_x, shape)
    inputs = shape[3] // groups
    w = draw(of_w, [outputs, *kernel, inputs])
    patches = windows(padded(x, pads, padding), kernel, strides, dilations)
    parts = []
    for g in range(groups):
        own = w[g * outputs // groups : (g + 1) * outputs // groups]
        channels = patches[..., g * inputs : (g + 1) * inputs]
        parts.append(np.tensordot(channels, own, ([3, 4, 5], [1, 2, 3])))
    y = wrap(np.concatenate(parts, -1))
    op = (
        f"integer_conv2d{{strides={pair(strides)}, pads={pair(pads)}, dilations={pair(dilations)}, "
        f"groups={groups}, padding={padding}}}"
    )
    case(op, [(of_x, x), (of_w, w)], "i32", y)


def pools(element, shape, kernel, strides, pads, padding):
    x = draw(element, shape)
    named = f"kernel={pair(kernel)}, strides={pair(strides)}, pads={pair(pads)}"
    # Outside is below everything, as it never wins.
    most = windows(padded(x, pads, -1000), kernel, strides, [1, 1]).max((3, 4))
    case(f"integer_max_pool2d{{{named}}}", [(element, x)], element, most)
    sums = windows(padded(x, pads, padding), kernel, strides, [1, 1]).sum((3, 4))
    op = f"integer_sum_pool2d{{{named}, padding={padding}}}"
    case(op, [(element, x)], "i32", wrap(sums))


def addition(of_a, of_b, shape, factors):
    a, b = draw(of_a, shape), draw(of_b, shape)
    y = wrap(a * factors[0] + b * factors[1])
    case(f"integer_add{{factors={pair(factors)}}}", [(of_a, a), (of_b, b)], "i32", y)


def rescale(element, shape, shift, wide):
    bits = 31 if wide else 14
    acc = draw("i32", shape) if wide else rng.integers(-(2**bits), 2**bits, shape)
    scale, offset = (rng.integers(-(2**bits), 2**bits, shape[-1]) for _ in range(2))
    low, high = RANGES[element]
    # A floor division is an arithmetic shift.
    y = np.clip(wrap(acc * scale + offset) // 2**shift, low, high)
    op = f"scale_shift{{shift={shift}, low={low}, high={high}, element={element}}}"
    case(op, [("i32", acc), ("i32", scale), ("i32", offset)], element, y)


def stairs(element, shape, levels, flipped):
    low = RANGES[element][0]
    channels = shape[-1]
    acc = rng.integers(-300, 300, shape)
    acc = np.where(rng.random(shape) < 0.1, draw("i32", shape), acc)
    thresholds = np.sort(rng.integers(-300, 300, [channels, levels]), 1)
    # The stairs of a slope of zero, at either end.
    thresholds[0], thresholds[-1] = RANGES["i32"]
    operands = [("i32", acc), ("i32", thresholds)]
    seen = acc
    if flipped:
        flip = -rng.integers(0, 2, channels)
        operands.append(("i32", flip))
        seen = np.where(flip == -1, -1 - acc, acc)
    y = low + (seen[..., None] >= thresholds).sum(-1)
    case(f"threshold{{low={low}, element={element}}}", operands, element, y)


def main():
    for i, of_x in enumerate(NARROW):
        for j, of_w in enumerate(["i8", "i4", "i2"]):
            low, high = RANGES[of_x]
            padding = [0, high, low][(i + j) % 3]
            convolution(of_x, of_w, [2, 4, 5, 3], [3, 3], 5, 1, [1, 2], [1, 0, 2, 1], [1, 1], padding)
    convolution("u4", "i4", [1, 5, 7, 6], [3, 2], 4, 2, [2, 1], [2, 1, 0, 3], [2, 3], 7)
    convolution("i4", "i2", [1, 6, 5, 5], [3, 3], 5, 5, [1, 1], [1, 1, 1, 1], [1, 1], -3)
    convolution("u2", "i8", [2, 3, 3, 4], [2, 2], 8, 4, [1, 1], [0, 1, 1, 0], [1, 1], 0)
    convolution("u8", "i8", [3, 1, 1, 17], [1, 1], 9, 1, [1, 1], [0, 0, 0, 0], [1, 1], 0)
    for element in [*NARROW, "b1"]:
        low, high = RANGES[element]
        pools(element, [2, 5, 4, 3], [3, 2], [2, 1], [1, 0, 2, 1], high)
        pools(element, [1, 4, 4, 8], [2, 2], [2, 2], [0, 0, 0, 0], low)
        addition(element, "i4", [3, 7], [int(rng.integers(-(2**31), 2**31)), -(2**31)])
        addition("u2", element, [2, 2, 8], [3, -5])
        for shape in ([2, 3, 7], [5, 8]):
            rescale(element, shape, 31, True)
            rescale(element, shape, 24, True)
            rescale(element, shape, 6, False)
            levels = min(high - low, 31)
            stairs(element, shape, levels, False)
            stairs(element, shape, levels, True)
    target = Path(__file__).parents[1] / "data" / "integer" / "operations.txt"
    target.write_text("\n".join(lines) + "\n")


main()
