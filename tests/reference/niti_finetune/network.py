"""A network as a list of nodes, and its training steps and inference under `niti-finetune`.

Nodes are in forward order; each has one output, named as the node. Parameters are "<node>.weight" and "<node>.bias". What the
algorithm file says about each operation is written out here by hand: nothing reads the file.
"""

import math

import numpy as np

import operations as ops

INPUT = "images"
LOSS = "loss"
MOMENTUM = 0.9
BIAS_EXPONENT = -24


class Value:
    """An activation or error: integers of an element with an exponent, or FP32, and its form in 8 bits once it is wanted."""

    def __init__(self, q, e, element):
        self.q = q if element == "f32" else ops.as_element(q, element)
        self.e, self.element = e, element
        self.narrow = (self.q, e, element) if element in ("i8", "u8") else None


class Step:
    """One pass of a network. `tensors`: 8-bit values by what the compiler calls them, as (q, e, element)."""

    def __init__(self, net, run):
        self.net, self.run = net, run
        self.values, self.winners, self.tensors = {}, {}, {}
        self.streams = {}

    # Random streams are numbered in the order in which they are met: errors on the way back, then one a parameter.
    def stream(self, name):
        return self.streams.setdefault(name, len(self.streams))

    def narrowed(self, name):
        """An activation in 8 bits: sums are requantized to nearest."""
        value = self.values[name]
        if value.narrow is None:
            value.narrow = (*ops.requantize(value.q, value.e), "i8")
        self.tensors[name] = value.narrow
        return value.narrow

    def narrowed_error(self, value, name):
        """An error in 8 bits: rounded stochastically."""
        if value.narrow is None:
            if value.element == "f32":
                q, e = ops.requantize_stochastic_float(value.q, self.run, self.stream(name))
            else:
                q, e = ops.requantize_stochastic(value.q, value.e, self.run, self.stream(name))
            value.narrow = (q, e, "i8")
        self.tensors[name] = value.narrow
        return value.narrow[:2]

    def forward(self, images):
        self.values[INPUT] = Value(*ops.quantize_exponent(images), "i8")
        for node in self.net.nodes:
            self.values[node["name"]] = self.forward_node(node)
            if self.values[node["name"]].narrow:
                self.narrowed(node["name"])
        return ops.dequantize(*self._sums(self.net.nodes[-1]["name"]))

    def _sums(self, name):
        return self.values[name].q, self.values[name].e

    def forward_node(self, node):
        name, op, source = node["name"], node["op"], node["inputs"][0]
        if op in ("conv", "linear"):
            x, ex, _ = self.narrowed(source)
            w, ew = self.net.weight_byte(name)
            y = ops.niti.linear(x, w) if op == "linear" else ops.niti.conv(x, w, *geometry(node))
            bias = self.net.state[name + ".bias"].reshape((1, -1) + (1,) * (y.ndim - 2))
            return Value(*ops.accumulate_bias(y, ex + ew, bias, BIAS_EXPONENT), "i32")
        if op == "relu":
            return Value(*ops.quantize_unsigned(*self._sums(source)), "u8")
        if op == "clip":
            value = self.values[source]
            bounded = ops.clip(value.q, value.e, node["low"], node["high"], value.element)
            return Value(*ops.quantize_unsigned(*bounded), "u8")
        if op == "maxpool":
            x, e, element = self.narrowed(source)
            y, self.winners[name] = ops.max_pool(x, *window(node))
            return Value(y, e, element)
        if op == "avgpool":
            x, e, element = self.narrowed(source)
            return Value(*ops.average_pool(x, e, element, *window(node)), "i32")
        if op == "add":
            return Value(*ops.aligned_sum(*self.narrowed(source), *self.narrowed(node["inputs"][1])), "i32")
        if op == "flatten":
            value = self.values[source]
            return Value(value.q.reshape(len(value.q), -1), value.e, value.element)
        raise ValueError(op)

    def backward(self, logits, labels):
        """Gradients (i32 sums, exponent) of all parameters."""
        names = {self.net.nodes[-1]["name"]: f"{LOSS}/softmax_cross_entropy_gradient"}
        errors = {self.net.nodes[-1]["name"]: Value(ops.cross_entropy_gradient(logits, labels), None, "f32")}
        gradients = {}
        for node in reversed(self.net.nodes):
            backs = self.backward_node(node, errors[node["name"]], names[node["name"]], gradients)
            for source, (error, name) in zip(node["inputs"], backs, strict=True):
                if source == INPUT:
                    continue
                if source in errors:
                    # The consumer that comes first in the network is the one met last here.
                    total = ops.aligned_sum(*self._narrow(error, name), *self._narrow(errors[source], names[source]))
                    error, name = Value(*total, "i32"), source + "/error_sum"
                errors[source], names[source] = error, name
        return gradients

    def _narrow(self, error, name):
        return *self.narrowed_error(error, name), "i8"

    def backward_node(self, node, error, error_name, gradients):
        """For each input the error that it receives and what the compiler calls it."""
        name, op, source = node["name"], node["op"], node["inputs"][0]
        if op == "add":
            return [(error, error_name)] * 2
        if op == "flatten":
            shape = self.values[source].q.shape
            return [(Value(error.q.reshape(shape), error.e, error.element), name + "/gradient/reshape")]
        dy, e = self.narrowed_error(error, error_name)
        if op in ("conv", "linear"):
            x, ex, _ = self.values[source].narrow
            w, ew = self.net.weight_byte(name)
            gradients[name + ".bias"] = ops.niti.bias_backward(dy), e
            back = None
            if op == "linear":
                gradients[name + ".weight"] = ops.niti.linear_backward_weight(dy, x), e + ex
                back = ops.niti.linear_backward_input(dy, w)
            else:
                gradients[name + ".weight"] = ops.niti.conv_backward_weight(dy, x, w, *geometry(node)), e + ex
                if source != INPUT:
                    back = ops.niti.conv_backward_input(dy, w, x.shape, *geometry(node))
            return [(None if back is None else Value(back, e + ew, "i32"), name + "/product/gradient_input")]
        if op == "relu":
            # The compiler sees the ReLU's operand in its result: what is positive there passes.
            back, suffix = (ops.relu_gradient(self.values[name].q, dy), e), "/relu_gradient"
        elif op == "clip":
            y = self.values[name]
            back, suffix = (ops.clip_gradient(y.q, y.e, dy, node["low"], node["high"]), e), "/clip_gradient"
        elif op == "maxpool":
            shape = self.values[source].narrow[0].shape
            back, suffix = (ops.max_pool_gradient(dy, self.winners[name], shape, *window(node)), e), "/gradient_input"
        elif op == "avgpool":
            shape = self.values[source].narrow[0].shape
            back, suffix = ops.average_pool_gradient(dy, e, shape, *window(node)), "/gradient_input"
        value = Value(*back, "i8")
        self.tensors[name + suffix] = value.narrow
        return [(value, name + suffix)]


class Network:
    """int16 weights and int32 biases with their momentum, trained by `step`."""

    def __init__(self, nodes, parameters):
        self.nodes, self.state, self.exponents = nodes, {}, {}
        for name, value in parameters.items():
            bias = name.endswith(".bias")
            q, e = ops.quantize_bias(value, BIAS_EXPONENT) if bias else ops.quantize_parameter(value, "i16")
            self.state[name], self.exponents[name] = q, e
            self.state[name + ".momentum"], self.exponents[name + ".momentum"] = np.zeros_like(q), e

    def weight_byte(self, node):
        return ops.upper_byte(self.state[node + ".weight"], self.exponents[node + ".weight"])

    def infer(self, image):
        """FP32 scores of a batch by itself."""
        return Step(self, None).forward(image)

    def step(self, images, labels, rate, run):
        """One training step; returns (loss, Step). `run` is (seed, step)."""
        step = Step(self, run)
        logits = step.forward(images)
        gradients = step.backward(logits, labels)
        for name in [n for n in self.state if not n.endswith(".momentum")]:
            element, e = ("i32" if name.endswith(".bias") else "i16"), self.exponents[name]
            moved = ops.momentum_step(self.state[name + ".momentum"], e, *gradients[name], rate, MOMENTUM, element, run,
                                      step.stream(name + "/step"))
            self.state[name + ".momentum"] = moved
            self.state[name] = ops.saturating_subtract(self.state[name], moved, element)
        return ops.cross_entropy(logits, labels), step


def geometry(node):
    return node["strides"], node["dilations"], node["pads"], node["groups"]


def window(node):
    return node["kernel"], node["strides"], node["pads"]


# ---------------------------------------------------------------- node constructors

def conv(name, source, outputs, kernel, strides=(1, 1), pads=(0, 0, 0, 0), groups=1):
    return {"name": name, "op": "conv", "inputs": [source], "outputs": outputs, "kernel": kernel, "strides": strides,
            "dilations": (1, 1), "pads": pads, "groups": groups}


def linear(name, source, outputs):
    return {"name": name, "op": "linear", "inputs": [source], "outputs": outputs}


def relu(name, source):
    return {"name": name, "op": "relu", "inputs": [source]}


def clip(name, source, low=0.0, high=6.0):
    return {"name": name, "op": "clip", "inputs": [source], "low": low, "high": high}


def pool(op, name, source, kernel, strides, pads=(0, 0, 0, 0)):
    return {"name": name, "op": op, "inputs": [source], "kernel": kernel, "strides": strides, "pads": pads}


def flatten(name, source):
    return {"name": name, "op": "flatten", "inputs": [source]}


def add(name, first, second):
    return {"name": name, "op": "add", "inputs": [first, second]}


def parameter_shapes(nodes, input_shape):
    """Shapes {parameter: tuple} in the network's order and {tensor: tuple}."""
    shapes, parameters = {INPUT: tuple(input_shape)}, {}
    for node in nodes:
        name, op, shape = node["name"], node["op"], shapes[node["inputs"][0]]
        if op == "conv":
            parameters[name + ".weight"] = (node["outputs"], shape[1] // node["groups"], *node["kernel"])
            out = ops.niti.window_sizes(shape, node["kernel"], node["strides"], node["dilations"], node["pads"])
            shape = (shape[0], node["outputs"], *out)
        elif op == "linear":
            parameters[name + ".weight"] = (node["outputs"], shape[1])
            shape = (shape[0], node["outputs"])
        elif op in ("maxpool", "avgpool"):
            out = ops.niti.window_sizes(shape, node["kernel"], node["strides"], (1, 1), node["pads"])
            shape = (*shape[:2], *out)
        elif op == "flatten":
            shape = (shape[0], math.prod(shape[1:]))
        if op in ("conv", "linear"):
            parameters[name + ".bias"] = (node["outputs"],)
        shapes[name] = shape
    return parameters, shapes
