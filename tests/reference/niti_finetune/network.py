"""A network as a list of nodes, and its training steps and inference under `niti-finetune`.

Nodes are in forward order; each has one output, named as the node. Parameters are "<node>.weight" and "<node>.bias". What the
algorithm file says about each operation is written out here by hand: nothing reads the file.
"""

import math

import numpy as np

import operations as ops
import batch_norm  # tests/reference/niti, where `operations` looks, too

INPUT = "images"
LOSS = "loss"
MOMENTUM = 0.9
BIAS_EXPONENT = -24
# Batch normalization: what is added to the variance, and how much of the running statistics a step keeps.
EPSILON, RUNNING = 1e-5, 0.9
NORM = ("weight", "bias", "running_mean", "running_var")


class Value:
    """An activation or error: integers of an element with an exponent, or FP32, and its form in 8 bits once it is wanted."""

    def __init__(self, q, e, element):
        self.q = q if element == "f32" else ops.as_element(q, element)
        self.e, self.element = e, element
        self.narrow = (self.q, e, element) if element in ("i8", "u8") else None


class Step:
    """One pass of a network. `tensors`: 8-bit values by what the compiler calls them, as (q, e, element)."""

    def __init__(self, net, run):
        self.net, self.run = net, run  # without a run it is inference
        self.values, self.winners, self.tensors = {}, {}, {}
        self.streams, self.statistics = {}, {}

    # Random streams are numbered in the order in which they are met: errors on the way back, then one a parameter.
    def stream(self, name):
        return self.streams.setdefault(name, len(self.streams))

    def narrowed(self, name):
        """An activation in 8 bits: sums and FP32 are quantized to nearest."""
        value = self.values[name]
        if value.narrow is None:
            narrow = ops.quantize_exponent(value.q) if value.element == "f32" else ops.requantize(value.q, value.e)
            value.narrow = (*narrow, "i8")
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
        return floated(self.values[self.net.nodes[-1]["name"]])

    def forward_node(self, node):
        name, op, source = node["name"], node["op"], node["inputs"][0]
        if op in ("conv", "linear"):
            x, ex, _ = self.narrowed(source)
            w, ew = self.net.weight_byte(name)
            y = ops.niti.linear(x, w) if op == "linear" else ops.niti.conv(x, w, *geometry(node))
            if not node["bias"]:
                return Value(y, ex + ew, "i32")
            bias = self.net.state[name + ".bias"].reshape((1, -1) + (1,) * (y.ndim - 2))
            return Value(*ops.accumulate_bias(y, ex + ew, bias, BIAS_EXPONENT), "i32")
        value = self.values[source]
        if op == "norm" and self.net.integer_norm:
            q, e, _ = self.narrowed(source)
            state = {kind: self.net.state[f"{name}.{kind}"] for kind in NORM}
            mean, variance = state["running_mean"], state["running_var"]
            if self.run:
                mean, variance = batch_norm.statistics(q, e)
                self.statistics[name] = ((q, e), mean, variance)
            slope = state["weight"] * batch_norm.inverse_deviation(variance, EPSILON)
            return Value(*batch_norm.sums([(q, e, slope)], state["bias"] - mean * slope), "i32")
        if op == "norm":
            x = floated(value)
            state = {kind: self.net.state[f"{name}.{kind}"] for kind in NORM}
            statistics = (state["running_mean"], state["running_var"])
            if self.run:
                statistics = ops.batch_statistics(x)
                self.statistics[name] = (x, *statistics)
            return Value(ops.batch_norm(x, state["weight"], state["bias"], *statistics, EPSILON), None, "f32")
        if op in ("relu", "clip") and value.element == "f32":
            bounded = value.q if op == "relu" else ops.clip_float(value.q, node["low"], node["high"])
            return Value(*ops.quantize_unsigned_float(bounded), "u8")
        if op == "hardswish":
            return Value(*self.looked_up(source, hard_swish), "i8")
        if op == "relu":
            return Value(*ops.quantize_unsigned(value.q, value.e), "u8")
        if op == "clip":
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
            return Value(value.q.reshape(len(value.q), -1), value.e, value.element)
        raise ValueError(op)

    def looked_up(self, source, function):
        """A function of each element of an activation in 8 bits, rounded beside the largest of its results."""
        q, e, element = self.narrowed(source)
        codes = np.arange(*((-128, 128) if element == "i8" else (0, 256)))
        entry = q.astype(np.int64) - codes[0]
        table = function(ops.dequantize(codes, e))
        table[np.setdiff1d(np.arange(256), entry)] = 0
        table, e = ops.quantize_exponent(table)
        return table[entry], e

    def backward(self, logits, labels):
        """Gradients of all parameters: (i32 sums, exponent), or (FP32, None)."""
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
        if op == "norm" and self.net.integer_norm:
            (q, e), mean, variance = self.statistics[name]
            sums, *parts = batch_norm.error_sums(
                q, e, *self.narrowed_error(error, error_name), self.net.state[name + ".weight"], (mean, variance), EPSILON)
            gradients[name + ".weight"], gradients[name + ".bias"] = ((part, None) for part in parts)
            return [(Value(*sums, "i32"), name + "/batch_norm_gradient")]
        if op == "norm":
            x, *statistics = self.statistics[name]
            dx, *parts = ops.batch_norm_gradient(x, self.net.state[name + ".weight"], *statistics, floated(error), EPSILON)
            gradients[name + ".weight"], gradients[name + ".bias"] = ((part, None) for part in parts)
            return [(Value(dx, None, "f32"), name + "/batch_norm_gradient")]
        dy, e = self.narrowed_error(error, error_name)
        if op in ("conv", "linear"):
            x, ex, _ = self.values[source].narrow
            w, ew = self.net.weight_byte(name)
            if node["bias"]:
                gradients[name + ".bias"] = ops.niti.bias_backward(dy), e
            back = None
            if op == "linear":
                gradients[name + ".weight"] = ops.niti.linear_backward_weight(dy, x), e + ex
                back = ops.niti.linear_backward_input(dy, w)
            else:
                gradients[name + ".weight"] = ops.niti.conv_backward_weight(dy, x, w, *geometry(node)), e + ex
                if source != INPUT:
                    back = ops.niti.conv_backward_input(dy, w, x.shape, *geometry(node))
            product = name + "/product" if node["bias"] else name
            return [(None if back is None else Value(back, e + ew, "i32"), product + "/gradient_input")]
        if op == "hardswish":
            slope, es = self.looked_up(source, hard_swish_slope)
            return [(Value(dy.astype(np.int64) * slope, e + es, "i32"), source + "/error_sum")]
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


def hard_swish(x):
    """Each operation rounded, in the order in which ONNX's definition is written out."""
    return x * np.clip(x * np.float32(1 / 6) + np.float32(0.5), np.float32(0), np.float32(1))


def hard_swish_slope(x):
    """What the gradients of these operations make of an error of 1."""
    gate = x * np.float32(1 / 6) + np.float32(0.5)
    between = ((0 < gate) & (gate < 1)).astype(np.float32)
    return x * between * np.float32(1 / 6) + np.clip(gate, np.float32(0), np.float32(1))


def floated(value):
    return value.q if value.element == "f32" else ops.dequantize(value.q, value.e)


class Network:
    """int16 weights and int32 biases with their momentum, trained by `step`. Batch normalizations keep theirs in FP32; they compute by
    integers, or in FP32 (`norm=0`)."""

    def __init__(self, nodes, parameters, integer_norm=True):
        self.integer_norm = integer_norm
        self.nodes, self.state, self.exponents, self.elements = nodes, {}, {}, {}
        norms = {node["name"] for node in nodes if node["op"] == "norm"}
        for name, value in parameters.items():
            kind = name.split(".")[1]
            if name.split(".")[0] in norms:
                q, e, element = value, None, "f32"
            elif kind == "bias":
                q, e, element = *ops.quantize_bias(value, BIAS_EXPONENT), "i32"
            else:
                q, e, element = *ops.quantize_parameter(value, "i16"), "i16"
            for key, tensor in ((name, q), (name + ".momentum", np.zeros_like(q))):
                if not kind.startswith("running") or key == name:
                    self.state[key], self.exponents[key], self.elements[key] = tensor, e, element

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
        for name in [n[:-9] for n in self.state if n.endswith(".momentum")]:
            m, element, e = self.state[name + ".momentum"], self.elements[name], self.exponents[name]
            # FP32 steps have a stream, too, though they draw nothing; and they take the rate as it is.
            stream = step.stream(name + "/momentum")
            if element == "f32":
                moved = ops.momentum_step_float(m, gradients[name][0], rate, MOMENTUM)
                self.state[name] = self.state[name] - moved
            else:
                moved = ops.momentum_step(m, e, *gradients[name], rate, MOMENTUM, element, run, stream)
                self.state[name] = ops.saturating_subtract(self.state[name], moved, element)
            self.state[name + ".momentum"] = moved
        for name, (_, *statistics) in step.statistics.items():
            for kind, found in zip(("running_mean", "running_var"), statistics):
                kept = self.state[f"{name}.{kind}"] * np.float32(RUNNING)
                self.state[f"{name}.{kind}"] = kept + found * (np.float32(1) - np.float32(RUNNING))
        return ops.cross_entropy(logits, labels), step


def geometry(node):
    return node["strides"], node["dilations"], node["pads"], node["groups"]


def window(node):
    return node["kernel"], node["strides"], node["pads"]


# ---------------------------------------------------------------- node constructors

def conv(name, source, outputs, kernel, strides=(1, 1), pads=(0, 0, 0, 0), groups=1, bias=True):
    return {"name": name, "op": "conv", "inputs": [source], "outputs": outputs, "kernel": kernel, "strides": strides,
            "dilations": (1, 1), "pads": pads, "groups": groups, "bias": bias}


def norm(name, source):
    """Batch normalization in training form."""
    return {"name": name, "op": "norm", "inputs": [source]}


def linear(name, source, outputs):
    return {"name": name, "op": "linear", "inputs": [source], "outputs": outputs, "bias": True}


def relu(name, source):
    return {"name": name, "op": "relu", "inputs": [source]}


def hardswish(name, source):
    return {"name": name, "op": "hardswish", "inputs": [source]}


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
        if op in ("conv", "linear") and node["bias"]:
            parameters[name + ".bias"] = (node["outputs"],)
        if op == "norm":
            parameters.update({f"{name}.{kind}": (shape[1],) for kind in NORM})
        shapes[name] = shape
    return parameters, shapes
