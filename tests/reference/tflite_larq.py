#!/usr/bin/env python3
"""Write models with Larq's binary operators and record what Larq Compute Engine's runtime computes with them.

    pip install 'numpy<2'; pip install --no-deps larq-compute-engine==0.16.0 flatbuffers ai-edge-litert==2.3.0
    python tests/reference/tflite_larq.py

Writes `larq_*.tflite` and their archives as `tflite_models.py` does. The runtime is its compiled module alone: the
package around it wants TensorFlow.
"""

import importlib.util
import pathlib
import sys

import numpy as np

from tflite_writer import Net, options, write

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "tflite"
SAME, VALID = 0, 1


def runtime():
    for folder in sys.path:
        found = list(pathlib.Path(folder).glob("larq_compute_engine/tflite/python/interpreter_wrapper_lite*.so"))
        if found:
            spec = importlib.util.spec_from_file_location("interpreter_wrapper_lite", found[0])
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module.LiteInterpreter
    raise SystemExit("larq-compute-engine is not installed")


def packed(signs):
    """Bits of the last axis, 32 to an integer from the lowest bit; a set bit is -1."""
    bits = (signs < 0).astype(np.uint8)
    missing = -bits.shape[-1] % 32
    bits = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)])
    return np.packbits(bits, axis=-1, bitorder="little").view(np.int32)


def words(channels):
    return -(-channels // 32)


def quantize(net, x, shape):
    out = (*shape[:3], words(shape[3]))
    return net.op("LceQuantize", [x], [out], custom={}, dtype=np.int32)


def bconv(net, rng, x, shape, maps, kernel, strides=(1, 1), padding=VALID, border=0, act=0, bits=False):
    n, h, w, c = shape
    signs = np.where(rng.random((maps, *kernel, c)) < 0.5, -1.0, 1.0)
    if padding == SAME:
        size = (-(-h // strides[0]), -(-w // strides[1]))
    else:
        size = ((h - kernel[0]) // strides[0] + 1, (w - kernel[1]) // strides[1] + 1)
    weights = net.constant(f"signs_{len(net.tensors)}", packed(signs), np.int32)
    gain = net.constant(f"gain_{len(net.tensors)}", rng.normal(0, 1, maps)) if not bits else -1
    shift = net.constant(f"shift_{len(net.tensors)}", rng.normal(0, 1, maps)) if not bits else -1
    limits = -1
    if bits:
        terms = kernel[0] * kernel[1] * c
        limits = net.constant(f"limits_{len(net.tensors)}", rng.integers(terms // 2 - 4, terms // 2 + 4, maps), np.int32)
    out = (n, *size, words(maps) if bits else maps)
    custom = {
        "channels_in": c, "dilation_height_factor": 1, "dilation_width_factor": 1, "fused_activation_function": act,
        "pad_values": border, "padding": padding, "stride_height": strides[0], "stride_width": strides[1],
    }
    dtype = np.int32 if bits else np.float32
    return net.op("LceBconv2d", [x, weights, gain, shift, limits], [out], custom=custom, dtype=dtype), (n, *size, maps)


def layers(rng):
    """Both borders, a fused activation function, strides, and channels that do not fill a word."""
    net = Net()
    shape = (1, 7, 6, 20)
    x = net.input("x", shape)
    q = quantize(net, x, shape)
    a, s = bconv(net, rng, q, shape, 8, (3, 3))
    b, _ = bconv(net, rng, q, shape, 8, (3, 3), (2, 1), SAME, border=1)
    c, _ = bconv(net, rng, q, shape, 8, (3, 2), (1, 1), VALID, act=1)
    d, _ = bconv(net, rng, quantize(net, a, s), s, 5, (3, 3), (1, 1), SAME, border=0)
    e = net.op("LceDequantize", [quantize(net, b, (1, 4, 6, 8))], [(1, 4, 6, 8)], custom={})
    net.outputs = [c, d, e]
    return net


def bits(rng):
    """Results of bits by thresholds, and a pool of bits."""
    net = Net()
    shape = (1, 8, 8, 32)
    x = net.input("x", shape)
    a, s = bconv(net, rng, quantize(net, x, shape), shape, 64, (3, 3), padding=SAME, border=1, bits=True)
    pooled = net.op("LceBMaxPool2d", [a], [(1, 4, 4, 2)], dtype=np.int32, custom={
        "filter_height": 2, "filter_width": 2, "padding": VALID, "stride_height": 2, "stride_width": 2})
    b, _ = bconv(net, rng, pooled, (1, 4, 4, 64), 6, (3, 3))
    net.outputs = [b]
    return net


def main():
    interpreter = runtime()
    for seed, (name, make) in enumerate([("larq_layers", layers), ("larq_bits", bits)]):
        rng = np.random.default_rng(100 + seed)
        net = make(rng)
        model = write([net])
        x = rng.normal(0, 1, net.tensors[net.inputs[0]].shape).astype(np.float32)
        results = interpreter(model, 1, True, False, False).predict([x])
        arrays = {"in_0": x, **{f"out_{i}": np.asarray(r) for i, r in enumerate(results)}}
        (DESTINATION / f"{name}.tflite").write_bytes(model)
        np.savez_compressed(DESTINATION / f"{name}.npz", **arrays)
        print(name, len(model), {k: v.shape for k, v in arrays.items()})


if __name__ == "__main__":
    main()
