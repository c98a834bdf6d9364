#!/usr/bin/env python3
"""Write small TensorFlow Lite models and record what the LiteRT runtime's reference kernels compute with them.

    pip install ai-edge-litert==2.3.0 flatbuffers numpy onnx
    python tests/reference/tflite_models.py [case ...]

Writes `tests/data/tflite/`: per case a model and a NumPy archive of its inputs (`in_NAME`) and outputs (`out_0`, ...).
`pair.onnx` is the network of `pair.tflite` with its weights permuted by NumPy. Larq's cases need Larq Compute Engine's
runtime, which wants NumPy 1: `tflite_larq.py`.
"""

import pathlib
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tflite_writer import Net, options, write

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "tflite"
SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3


def conv(net, rng, x, shape, maps, kernel, strides=(1, 1), padding=SAME, act=NONE, dilation=(1, 1), bias=True, groups=1):
    """A convolution of a tensor of this shape, with the shape of its result."""
    n, h, w, c = shape
    weights = rng.normal(0, 0.5, (maps, *kernel, c // groups)).astype(np.float32)
    inputs = [x, net.constant(f"kernel_{len(net.tensors)}", weights)]
    # The runtime refuses a convolution without one.
    inputs.append(net.constant(f"bias_{len(net.tensors)}", rng.normal(0, 0.5, maps) * bias))
    out = (n, *window(h, w, kernel, strides, padding, dilation), maps)
    opts = options("Conv2D", padding=padding, strideH=strides[0], strideW=strides[1], dilationHFactor=dilation[0],
                   dilationWFactor=dilation[1], fusedActivationFunction=act)
    return net.op("CONV_2D", inputs, [out], opts), out


def window(h, w, kernel, strides, padding, dilation=(1, 1)):
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    if padding == SAME:
        return tuple(-(-size // s) for size, s in zip((h, w), strides))
    return tuple((size - span) // s + 1 for size, span, s in zip((h, w), spans, strides))


def depthwise(net, rng, x, shape, multiplier, kernel, strides=(1, 1), padding=SAME, act=NONE):
    n, h, w, c = shape
    weights = rng.normal(0, 0.5, (1, *kernel, c * multiplier)).astype(np.float32)
    inputs = [x, net.constant(f"depth_{len(net.tensors)}", weights),
              net.constant(f"bias_{len(net.tensors)}", rng.normal(0, 0.5, c * multiplier))]
    out = (n, *window(h, w, kernel, strides, padding), c * multiplier)
    opts = options("DepthwiseConv2D", padding=padding, strideH=strides[0], strideW=strides[1],
                   depthMultiplier=multiplier, fusedActivationFunction=act, dilationHFactor=1, dilationWFactor=1)
    return net.op("DEPTHWISE_CONV_2D", inputs, [out], opts), out


def pool(net, code, x, shape, kernel, strides, padding=VALID, act=NONE):
    n, h, w, c = shape
    out = (n, *window(h, w, kernel, strides, padding), c)
    opts = options("Pool2D", padding=padding, strideH=strides[0], strideW=strides[1], filterHeight=kernel[0],
                   filterWidth=kernel[1], fusedActivationFunction=act)
    return net.op(code, [x], [out], opts), out


def dense(net, rng, x, rows, inputs, outputs, act=NONE, keep=None, bias=True):
    weights = net.constant(f"dense_{len(net.tensors)}", rng.normal(0, inputs**-0.5, (outputs, inputs)))
    b = net.constant(f"bias_{len(net.tensors)}", rng.normal(0, 0.5, outputs)) if bias else -1
    out = (*keep, outputs) if keep else (rows, outputs)
    opts = options("FullyConnected", fusedActivationFunction=act, keepNumDims=bool(keep))
    return net.op("FULLY_CONNECTED", [x, weights, b], [out], opts)


def reshape(net, x, shape, constant=True):
    operands = [x, net.ints(shape)] if constant else [x]
    return net.op("RESHAPE", operands, [shape], options("Reshape", newShape=list(shape)))


def case_windows(rng):
    """Convolutions and pools of all paddings, groups, dilation and fused activation functions."""
    net = Net()
    shape = (2, 9, 8, 4)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 6, (3, 2), (2, 1), SAME, RELU6)
    b, _ = depthwise(net, rng, a, s, 2, (3, 3), (1, 2), SAME, RELU)
    c, _ = conv(net, rng, x, shape, 6, (2, 3), (1, 1), VALID, RELU_N1_TO_1, (2, 2), bias=False)
    d, t = pool(net, "AVERAGE_POOL_2D", a, s, (3, 3), (2, 2), SAME)
    e, _ = pool(net, "MAX_POOL_2D", a, s, (2, 3), (1, 2), SAME, RELU)
    f, _ = pool(net, "MAX_POOL_2D", d, t, (2, 2), (2, 2))
    g, _ = conv(net, rng, x, shape, 6, (3, 3), (2, 2), SAME, groups=2)
    net.outputs = [b, c, e, f, g]
    return net


def case_dense(rng):
    """Flattening behind an image, in two ways, and dense layers of more dimensions."""
    net = Net()
    shape = (2, 6, 5, 3)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 4, (3, 3), act=RELU)
    b = reshape(net, a, (2, 120))
    c = net.op("RELU", [b], [(2, 120)])
    d = dense(net, rng, c, 2, 120, 7, RELU)
    e = net.op("SOFTMAX", [d], [(2, 7)], options("Softmax", beta=0.5))
    f = dense(net, rng, a, 2, 120, 5)
    g = net.op("LOG_SOFTMAX", [f], [(2, 5)])
    h = dense(net, rng, a, 2, 4, 3, keep=(2, 6, 5))
    i = reshape(net, b, (2, 6, 5, 4))
    j, _ = conv(net, rng, i, s, 2, (1, 1), bias=False)
    k = dense(net, rng, reshape(net, a, (4, 60)), 4, 60, 3, bias=False)
    l = net.op("BATCH_MATMUL", [b, net.constant("rows", rng.normal(0, 0.1, (120, 3)))], [(2, 3)], options("BatchMatMul"))
    net.outputs = [e, g, h, j, k, l]
    return net


def case_elements(rng):
    """Operators on single elements, behind a convolution and as they come."""
    net = Net()
    shape = (2, 3, 4, 2)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 3, (2, 2))
    net.outputs = []
    for code in ["ABS", "NEG", "TANH", "LOGISTIC", "HARD_SWISH", "RELU_N1_TO_1", "RELU", "RELU6", "EXP", "SQUARE"]:
        net.outputs.append(net.op(code, [a], [s]))
    net.outputs.append(net.op("LEAKY_RELU", [a], [s], options("LeakyRelu", alpha=0.25)))
    net.outputs.append(net.op("GELU", [a], [s], options("Gelu", approximate=True)))
    net.outputs.append(net.op("GELU", [x], [shape], options("Gelu", approximate=False)))
    positive = net.op("ADD", [net.op("ABS", [a], [s]), net.constant("half", 0.5)], [s], options("Add"))
    for code in ["LOG", "SQRT", "RSQRT"]:
        net.outputs.append(net.op(code, [positive], [s]))
    net.outputs.append(net.op("PRELU", [a, net.constant("slope", rng.normal(0, 0.5, (1, 1, 3)))], [s]))
    return net


def case_pairs(rng):
    """Operators on pairs, with images, vectors, planes, numbers and values of other layouts."""
    net = Net()
    shape = (2, 3, 4, 3)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 3, (2, 2))
    vector = net.constant("vector", rng.normal(0, 1, 3))
    plane = net.constant("plane", rng.normal(0, 1, (4, 3)))
    image = net.constant("image", rng.normal(0, 1, (1, 3, 4, 3)))
    out = [
        net.op("ADD", [a, vector], [s], options("Add", fusedActivationFunction=RELU)),
        net.op("SUB", [plane, a], [s], options("Sub")),
        net.op("MUL", [a, image], [s], options("Mul", fusedActivationFunction=RELU6)),
        net.op("DIV", [a, net.constant("three", 3.0)], [s], options("Div")),
        net.op("MAXIMUM", [a, x], [s]),
        net.op("MINIMUM", [x, a], [s]),
        net.op("SQUARED_DIFFERENCE", [a, vector], [s]),
        net.op("POW", [net.op("ABS", [a], [s]), net.constant("two", 2.0)], [s]),
    ]
    mean = net.op("MEAN", [a, net.ints([1, 2])], [(2, 1, 1, 3)], options("Reducer", keepDims=True))
    out.append(net.op("MUL", [a, net.op("LOGISTIC", [mean], [(2, 1, 1, 3)])], [s], options("Mul")))
    net.outputs = out
    return net


def case_movement(rng):
    """What moves elements, along the file's axes of an image whose layout is another."""
    net = Net()
    shape = (2, 5, 4, 3)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 6, (3, 3))
    red = lambda keep: options("Reducer", keepDims=keep)
    out = [net.op("TRANSPOSE", [a, net.ints([0, 2, 1, 3])], [(2, 4, 5, 6)])]
    out.append(net.op("CONCATENATION", [a, x], [(2, 5, 4, 9)], options("Concatenation", axis=-1)))
    out.append(net.op("CONCATENATION", [a, a], [(2, 10, 4, 6)], options("Concatenation", axis=1)))
    out += net.op("SPLIT", [net.ints(3), a], [(2, 5, 4, 2)] * 3, options("Split", numSplits=3))[1:]
    out += net.op("SPLIT_V", [a, net.ints([1, -1]), net.ints(1)], [(2, 1, 4, 6), (2, 4, 4, 6)], options("SplitV", numSplits=2))
    out.append(net.op("SLICE", [a, net.ints([0, 1, 0, 2]), net.ints([-1, 3, 4, 2])], [(2, 3, 4, 2)]))
    strided = options("StridedSlice", beginMask=1, endMask=9, ellipsisMask=0, newAxisMask=0, shrinkAxisMask=4)
    operands = [a, net.ints([0, 4, 1, 5]), net.ints([0, 0, 2, 0]), net.ints([1, -2, 1, -1])]
    strided[1].endMask = 9
    out.append(net.op("STRIDED_SLICE", operands, [(2, 2, 6)], strided))
    out.append(net.op("PAD", [a, net.ints([[0, 0], [1, 0], [0, 2], [1, 1]])], [(2, 6, 6, 8)]))
    out.append(net.op("PADV2", [a, net.ints([[0, 0], [1, 1], [0, 0], [0, 0]]), net.constant("fill", 1.5)], [(2, 7, 4, 6)]))
    mean = net.op("MEAN", [a, net.ints([1, 2])], [(2, 6)], red(False))
    out += [mean, net.op("SUM", [a, net.ints([-1])], [(2, 5, 4)], red(False))]
    out.append(net.op("REDUCE_MAX", [a, net.ints([1])], [(2, 4, 6)], red(False)))
    out.append(net.op("SUM", [a, net.ints([0, 3])], [(1, 5, 4, 1)], red(True)))
    wide = net.op("EXPAND_DIMS", [mean, net.ints(1)], [(2, 1, 6)])
    out += [wide, net.op("SQUEEZE", [wide], [(2, 6)], options("Squeeze", squeezeDims=[1]))]
    out.append(net.op("PACK", [mean, mean], [(2, 2, 6)], options("Pack", valuesCount=2, axis=1)))
    back = net.op("TRANSPOSE", [a, net.ints([0, 3, 1, 2])], [(2, 6, 5, 4)])
    out += [back, net.op("TRANSPOSE", [net.op("RELU", [back], [(2, 6, 5, 4)]), net.ints([0, 2, 3, 1])], [s])]
    rows = reshape(net, a, (2, 20, 6), constant=False)
    out.append(net.op("BATCH_MATMUL", [rows, rows], [(2, 20, 20)], options("BatchMatMul", adjY=True)))
    out.append(net.op("BATCH_MATMUL", [rows, rows], [(2, 6, 6)], options("BatchMatMul", adjX=True)))
    net.outputs = out
    return net


def case_dynamic(rng):
    """An open batch, whose shape is computed as Keras' converter writes Flatten."""
    net = Net()
    x = net.input("x", (1, 4, 4, 2), signature=(-1, 4, 4, 2))
    a, _ = conv(net, rng, x, (1, 4, 4, 2), 3, (3, 3), act=RELU)
    shape = net.op("SHAPE", [a], [(4,)], options("Shape", outType=2), np.int32)
    strided = options("StridedSlice", beginMask=0, endMask=0, ellipsisMask=0, newAxisMask=0, shrinkAxisMask=1)
    batch = net.op("STRIDED_SLICE", [shape, net.ints([0]), net.ints([1]), net.ints([1])], [()], strided, np.int32)
    packed = net.op("PACK", [batch, net.ints(48)], [(2,)], options("Pack", valuesCount=2, axis=0), np.int32)
    flat = net.op("RESHAPE", [a, packed], [(1, 48)], options("Reshape"), signature=(-1, 48))
    net.outputs = [dense(net, rng, flat, 1, 48, 5)]
    net.signature = ("serving_default", {"images": x}, {"scores": net.outputs[0]})
    net.batch = 3
    return net


def case_half(rng):
    """Weights of 16 bits, which DEQUANTIZE widens."""
    net = Net()
    x = net.input("x", (2, 4, 4, 2))
    kernel = net.constant("kernel", rng.normal(0, 0.5, (3, 3, 3, 2)), np.float16)
    kernel = net.op("DEQUANTIZE", [kernel], [(3, 3, 3, 2)])
    opts = options("Conv2D", padding=SAME, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
    net.outputs = [net.op("CONV_2D", [x, kernel, net.constant("bias", rng.normal(0, 0.5, 3))], [(2, 4, 4, 3)], opts)]
    return net


def case_variables(rng):
    """Variables with their values in a subgraph that is called once; a second signature that trains."""
    net, initial, train = Net("infer"), Net("initial"), Net("train")
    kernel = rng.normal(0, 0.5, (3, 3, 2, 4)).astype(np.float32)
    bias = rng.normal(0, 0.5, 4).astype(np.float32)
    resource = 13

    def handle(net, name):
        return net.op("VAR_HANDLE", [], [()], options("VarHandle", container=b"", sharedName=name.encode()), resource)

    for name, value in [("kernel", kernel), ("bias", bias)]:
        initial.op("ASSIGN_VARIABLE", [handle(initial, name), initial.constant(name, value)], [], options("AssignVariable"))
    x = net.input("x", (1, 5, 5, 2))
    net.operators.append(("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=1), None))
    weights = net.op("READ_VARIABLE", [handle(net, "kernel")], [(3, 3, 2, 4)], options("ReadVariable"))
    weights = net.op("TRANSPOSE", [weights, net.ints([3, 0, 1, 2])], [(4, 3, 3, 2)])
    opts = options("Conv2D", padding=SAME, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
    a = net.op("CONV_2D", [x, weights, net.constant("zeros", np.zeros(4))], [(1, 5, 5, 4)], opts)
    b = net.op("READ_VARIABLE", [handle(net, "bias")], [(4,)], options("ReadVariable"))
    net.outputs = [net.op("ADD", [a, b], [(1, 5, 5, 4)], options("Add", fusedActivationFunction=RELU))]
    y = train.input("rate", (4,))
    train.op("ASSIGN_VARIABLE", [handle(train, "bias"), y], [], options("AssignVariable"))
    train.outputs = [train.op("NEG", [y], [(4,)])]
    net.others = [initial, train]
    net.signature = ("infer", {"x": x}, {"out": net.outputs[0]})
    net.more = [("train", 2, {"rate": y}, {"loss": train.outputs[0]})]
    return net


def float_net(rng):
    net = Net()
    shape = (2, 8, 8, 3)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 8, (3, 3), act=RELU)
    b, s = pool(net, "MAX_POOL_2D", a, s, (2, 2), (2, 2))
    c, s = depthwise(net, rng, b, s, 1, (3, 3), act=RELU6)
    d, s = conv(net, rng, c, s, 8, (1, 1))
    e = net.op("ADD", [d, b], [s], options("Add", fusedActivationFunction=RELU))
    f, s = pool(net, "AVERAGE_POOL_2D", e, s, (2, 2), (2, 2))
    g = reshape(net, f, (2, 32))
    h = dense(net, rng, g, 2, 32, 10)
    net.outputs = [h]
    return net


def case_quantized(rng):
    """A network of 8-bit integers: weights by channel, activations with zero points, biases of 32 bits."""
    return quantize(float_net(rng), rng)


def case_quantized_probabilities(rng):
    """As `quantized`, with softmax behind."""
    net = float_net(rng)
    net.outputs = [net.op("SOFTMAX", net.outputs, [(2, 10)], options("Softmax", beta=1.0))]
    return quantize(net, rng)


def quantize(net, rng, unsigned=False, most=127):
    """The network in integers; grids of activations come from what the FP32 network computes. `most` is the largest weight."""
    kind, shift = (3, 128) if unsigned else (9, 0)
    keep = net.outputs
    net.outputs = [op[2][0] for op in net.operators]
    x = rng.uniform(-1, 1, net.tensors[net.inputs[0]].shape).astype(np.float32)
    values = dict(zip(net.outputs, run(write([net]), [x])))
    values[net.inputs[0]] = x
    net.outputs = keep

    def grid(low, high):
        low, high = min(low, 0.0), max(high, 0.0)
        scale = (high - low) / 255
        return scale, int(round(-128 - low / scale)) + shift

    scales = {}
    for tensor, value in values.items():
        scales[tensor] = grid(float(value.min()), float(value.max()))
    for code, inputs, outputs, _, _ in net.operators:
        if code in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "RESHAPE"):
            scales[outputs[0]] = scales[inputs[0]]
        if code == "SOFTMAX":
            scales[outputs[0]] = (1 / 256, -128)
        if code in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            axis = 3 if code == "DEPTHWISE_CONV_2D" else 0
            w = net.data[inputs[1]]
            # The runtime's depthwise convolution takes no weights of four bits.
            four = most == 7 and code != "DEPTHWISE_CONV_2D"
            channel = np.abs(w).max(axis=tuple(i for i in range(w.ndim) if i != axis)) / (7 if four else 127)
            if code == "FULLY_CONNECTED" or unsigned:
                channel = np.full_like(channel, channel.max())
            view = channel.reshape([-1 if i == axis else 1 for i in range(w.ndim)])
            q = np.round(w / view).astype(np.int8)
            if four:
                # Two in a byte, the first in its low bits.
                pairs = np.resize(q, (q.size + 1) // 2 * 2).reshape(-1, 2).astype(np.uint8) & 15
                net.data[inputs[1]] = pairs[:, 0] | pairs[:, 1] << 4
            else:
                net.data[inputs[1]] = (q.astype(np.int16) + shift).astype(np.uint8) if unsigned else q
            net.tensors[inputs[1]].type = 17 if four else kind
            own = channel[:1] if code == "FULLY_CONNECTED" or unsigned else channel
            net.quantized(inputs[1], own, np.full(len(own), shift), axis)
            both = own.astype(np.float32) * np.float32(scales[inputs[0]][0])
            net.data[inputs[2]] = np.round(net.data[inputs[2]] / both).astype(np.int32)
            net.tensors[inputs[2]].type = 2
            net.quantized(inputs[2], both, np.zeros(len(both)))
    for tensor, (scale, zero) in scales.items():
        net.tensors[tensor].type = kind
        net.quantized(tensor, scale, zero)
    net.range = (-1, 1)
    return net


def case_hybrid(rng):
    """Weights of 8 bits beside FP32 activations: recorded is what the runtime computes with the weights in FP32."""
    net = Net()
    x = net.input("x", (3, 12))
    signs = rng.integers(-127, 128, (5, 12)).astype(np.int8)
    scale = np.float32(0.01)
    wide = net.constant("weights", signs * scale)
    opts = options("FullyConnected")
    net.outputs = [net.op("FULLY_CONNECTED", [x, wide, -1], [(3, 5)], opts)]

    def narrow():
        net.data[wide], net.tensors[wide].type = signs, 9
        net.quantized(wide, scale, 0)

    net.later = narrow
    return net


def refused(rng):
    """Operators that are not imported, and what is odd about others."""
    net = Net()
    x = net.input("x", (1, 4, 4, 2))
    cosine = net.op("COS", [x], [(1, 4, 4, 2)])
    custom = net.op("MyOperator", [x], [(1, 4, 4, 2)], custom={"a": 1})
    both = net.op("ADD", [cosine, custom], [(1, 4, 4, 2)], options("Add"))
    sign = net.op("ADD", [x, x], [(1, 4, 4, 2)], options("Add", fusedActivationFunction=5))
    unused = net.op("SIN", [x], [(1, 4, 4, 2)])
    order = net.input("order", (4,), np.int32)
    moved = net.op("TRANSPOSE", [x, order], [(1, 4, 4, 2)])
    net.outputs = [both, sign, moved]
    return write([net])


def trains_only(rng):
    """One signature, which changes a variable."""
    net = Net("train")
    rate = net.input("rate", (4,))
    handle = net.op("VAR_HANDLE", [], [()], options("VarHandle", sharedName=b"bias"), 13)
    net.op("ASSIGN_VARIABLE", [handle, rate], [], options("AssignVariable"))
    net.outputs = [net.op("NEG", [rate], [(4,)])]
    return write([net], [("train", 0, {"rate": rate}, {"loss": net.outputs[0]})])


def open_height(rng):
    """A dimension other than the batch that is open."""
    net = Net()
    x = net.input("x", (1, 1, 4, 2), signature=(-1, -1, 4, 2))
    net.outputs = [net.op("RELU", [x], [(1, 1, 4, 2)], signature=(-1, -1, 4, 2))]
    return write([net])


def case_pair(rng):
    """A network to train, also as ONNX."""
    net = Net()
    shape = (8, 8, 8, 3)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 8, (3, 3), act=RELU)
    b, s = pool(net, "MAX_POOL_2D", a, s, (2, 2), (2, 2))
    c, s = conv(net, rng, b, s, 16, (3, 3), act=RELU)
    d, s = pool(net, "MAX_POOL_2D", c, s, (2, 2), (2, 2))
    e = reshape(net, d, (8, 64))
    f = dense(net, rng, e, 8, 64, 10)
    net.outputs = [f]
    net.signature = ("serving_default", {"x": x}, {"scores": f})
    net.after = write_onnx
    return net


def case_images(rng):
    """Images of other sizes: resized, by transposed convolutions, and by blocks."""
    net = Net()
    shape = (2, 4, 6, 4)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 4, (3, 3))
    out = []
    for code, kind in [("RESIZE_BILINEAR", "ResizeBilinear"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor")]:
        for corners, half in [(False, False), (True, False), (False, True)]:
            for size in [(8, 9), (3, 4), (1, 11)]:
                opts = options(kind, alignCorners=corners, halfPixelCenters=half)
                out.append(net.op(code, [a, net.ints(size)], [(2, *size, 4)], opts))
    for padding, kernel, strides, size in [
        (SAME, (3, 3), (2, 2), (8, 12)), (SAME, (2, 5), (3, 2), (12, 11)), (VALID, (3, 2), (2, 2), (9, 12)),
        (VALID, (2, 2), (3, 1), (12, 7)), (SAME, (1, 1), (2, 2), (8, 12)),
    ]:
        weights = net.constant(f"kernel_{len(net.tensors)}", rng.normal(0, 0.5, (3, *kernel, 4)))
        bias = net.constant(f"bias_{len(net.tensors)}", rng.normal(0, 0.5, 3))
        opts = options("TransposeConv", padding=padding, strideH=strides[0], strideW=strides[1], fusedActivationFunction=NONE)
        out.append(net.op("TRANSPOSE_CONV", [net.ints([2, *size, 3]), weights, a, bias], [(2, *size, 3)], opts))
    out.append(net.op("DEPTH_TO_SPACE", [a], [(2, 8, 12, 1)], options("DepthToSpace", blockSize=2)))
    out.append(net.op("SPACE_TO_DEPTH", [a], [(2, 2, 3, 16)], options("SpaceToDepth", blockSize=2)))
    net.outputs = out
    return net


def case_choices(rng):
    """Comparisons and what they choose, rows by index, parts of a stack, sums of several, norms."""
    net = Net()
    shape = (2, 3, 4, 3)
    x = net.input("x", shape)
    a, s = conv(net, rng, x, shape, 3, (2, 2))
    zero = net.constant("zero", 0.0)
    out = []
    for code in ["GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"]:
        out.append(net.op(code, [a, x], [s], dtype=6))
    near = net.op("FLOOR", [a], [s])
    out += [net.op("EQUAL", [near, zero], [s], dtype=6), net.op("NOT_EQUAL", [near, zero], [s], dtype=6)]
    both = net.op("LOGICAL_AND", [out[0], out[4]], [s], dtype=6)
    some = net.op("LOGICAL_OR", [out[0], out[4]], [s], dtype=6)
    out += [both, some, net.op("LOGICAL_NOT", [both], [s], dtype=6)]
    # At run time truth values are floats here.
    out = [net.op("CAST", [o], [s]) for o in out]
    out.append(net.op("SELECT_V2", [some, a, zero], [s]))
    out.append(net.op("SELECT", [both, a, x], [s]))
    out += [near, net.op("CEIL", [a], [s]), net.op("SIGN", [a], [s]), net.op("ELU", [a], [s])]
    out.append(net.op("ADD_N", [a, x, near], [s]))
    out.append(net.op("REDUCE_MIN", [a, net.ints([1, 2])], [(2, 3)], options("Reducer", keepDims=False)))
    out.append(net.op("L2_NORMALIZATION", [a], [s], options("L2Norm")))
    out.append(net.op("GATHER", [a, net.ints([3, 0, 3])], [(2, 3, 3, 3)], options("Gather", axis=2)))
    # Some of these have no reference kernel.
    net.kernels = [OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES]
    table = net.constant("table", rng.normal(0, 1, (5, 4)))
    out.append(net.op("GATHER", [table, net.ints([[4, 0], [2, 2]])], [(2, 2, 4)], options("Gather", axis=0)))
    out += net.op("UNPACK", [a], [(2, 3, 3)] * 4, options("Unpack", num=4, axis=2))
    net.outputs = out
    return net


def case_quantized_unsigned(rng):
    """As `quantized`, in unsigned integers; weights have one scale and a zero point."""
    return quantize(float_net(rng), rng, unsigned=True)


def case_quantized_four(rng):
    """A dense layer with weights of four bits."""
    net = Net()
    x = net.input("x", (6, 11))
    net.outputs = [dense(net, rng, x, 6, 11, 5, RELU)]
    return quantize(net, rng, most=7)


def write_onnx(net, path):
    """The network of `pair` in ONNX: weights permuted, those of the dense layer by the flattened image."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants = [(net.tensors[i].name.decode(), d) for i, d in enumerate(net.data) if d is not None and d.dtype == np.float32]
    (k1, b1, k2, b2, w, b) = [d for _, d in constants]
    names = [n for n, _ in constants]
    dense_onnx = w.reshape(10, 2, 2, 16).transpose(0, 3, 1, 2).reshape(10, 64)
    values = [k1.transpose(0, 3, 1, 2), b1, k2.transpose(0, 3, 1, 2), b2, dense_onnx, b]
    node = helper.make_node
    nodes = [
        node("Conv", ["x", names[0], names[1]], ["c1"], "CONV_2D_0", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", names[2], names[3]], ["c2"], "CONV_2D_2", pads=[1, 1, 1, 1]),
        node("Relu", ["c2"], ["r2"]),
        node("MaxPool", ["r2"], ["p2"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p2"], ["f"]),
        node("Gemm", ["f", names[4], names[5]], ["scores"], transB=1),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "pair", [info("x", TensorProto.FLOAT, [8, 3, 8, 8])],
                              [info("scores", TensorProto.FLOAT, [8, 10])],
                              [numpy_helper.from_array(np.ascontiguousarray(v), n) for n, v in zip(names, values)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    path.with_suffix(".onnx").write_bytes(model.SerializeToString())


def run(model, inputs, kernels=OpResolverType.BUILTIN_REF):
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kernels)
    details = interpreter.get_input_details()
    for detail, value in zip(details, inputs):
        if tuple(detail["shape"]) != value.shape:
            interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(details, inputs):
        if detail["dtype"] in (np.int8, np.uint8):
            limits, (scale, zero) = np.iinfo(detail["dtype"]), detail["quantization"]
            value = np.clip(np.round(value / np.float32(scale)) + zero, limits.min, limits.max).astype(detail["dtype"])
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    found = []
    for detail in interpreter.get_output_details():
        value = interpreter.get_tensor(detail["index"])
        if detail["dtype"] in (np.int8, np.uint8):
            scale, zero = detail["quantization"]
            value = (value.astype(np.float32) - zero) * np.float32(scale)
        found.append(value)
    return found


def main():
    DESTINATION.mkdir(exist_ok=True)
    cases = {key[5:]: value for key, value in globals().items() if key.startswith("case_")}
    for number, (name, make) in enumerate(cases.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        print(name, flush=True)
        rng = np.random.default_rng(number)
        net = make(rng)
        signatures = []
        if hasattr(net, "signature"):
            key, inputs, outputs = net.signature
            signatures = [(key, 0, inputs, outputs), *getattr(net, "more", [])]
        others = getattr(net, "others", [])
        model = write([net, *others], signatures)
        arrays = {}
        low, high = getattr(net, "range", (-2, 2))
        for tensor in net.inputs:
            shape = list(net.tensors[tensor].shape)
            shape[0] = getattr(net, "batch", shape[0])
            arrays[f"in_{tensor}"] = rng.uniform(low, high, shape).astype(np.float32)
        for i, value in enumerate(run(model, list(arrays.values()), *getattr(net, "kernels", ()))):
            arrays[f"out_{i}"] = value
        if hasattr(net, "later"):
            net.later()
            model = write([net, *others], signatures)
        (DESTINATION / f"{name}.tflite").write_bytes(model)
        np.savez_compressed(DESTINATION / f"{name}.npz", **arrays)
        if hasattr(net, "after"):
            net.after(net, DESTINATION / f"{name}.tflite")
        print(len(model), {k: v.shape for k, v in arrays.items() if k.startswith("in")})
    (DESTINATION / "refused").mkdir(exist_ok=True)
    for make in [refused, trains_only, open_height]:
        (DESTINATION / "refused" / f"{make.__name__}.tflite").write_bytes(make(np.random.default_rng(7)))


if __name__ == "__main__":
    main()
