"""A network as a list of nodes, and one NITI training step on it.

A description is the "network" object of a case.json (see tests/data/niti/README.md). Nodes are in
forward order; each has one output tensor, named as the node. Parameters are "<node>.weight" and "<node>.bias".
"""

import numpy as np

import batch_norm
import niti

INPUT = "input"


def _weight_shape(node, shape):
    if node["op"] == "linear":
        return (node["outputs"], shape[1])
    return (node["outputs"], shape[1] // node["groups"], *node["kernel"])


class Network:
    """int8 weights with fixed exponents, trained by `step`. Tensors are (q, e) pairs, see niti.py."""

    def __init__(self, description, float_parameters):
        self.nodes = description["nodes"]
        self.logits = description["logits"]
        self.q, self.exponent, self.float, self.moments = {}, {}, {}, {}
        self.random = [0, 0, 0]
        normalizations = {node["name"] for node in self.nodes if node["op"] == "batchnorm"}
        for name, value in float_parameters.items():
            if name.rsplit(".", 1)[0] in normalizations:
                self.float[name] = value
            else:
                self.q[name], self.exponent[name] = niti.quantize_weight(value)
        # An error is computed only for tensors that a parameter lies upstream of: the first layer has no dX.
        self.trainable = set()
        for node in self.nodes:
            if node["op"] in ("conv", "linear", "batchnorm") or any(i in self.trainable for i in node["inputs"]):
                self.trainable.add(node["name"])

    def forward(self, x):
        """Float32 batch to ({tensor name: (q, e)}, {maxpool name: winners})."""
        tensors, winners = {INPUT: niti.quantize_input(x)}, {}
        for node in self.nodes:
            name, op = node["name"], node["op"]
            operands = [tensors[i] for i in node["inputs"]]
            q, e = operands[0]
            if op in ("conv", "linear"):
                weight = self.q[name + ".weight"]
                accumulator = niti.linear(q, weight) if op == "linear" else niti.conv(q, weight, *_geometry(node))
                y = niti.requantize(accumulator, e + self.exponent[name + ".weight"])
                if node["bias"]:
                    tensors[name + ".product"] = y
                    bias = self.q[name + ".bias"].reshape((1, -1) + (1,) * (y[0].ndim - 2))
                    y = niti.aligned_add(*y, bias, self.exponent[name + ".bias"])
            elif op == "batchnorm":
                scale, bias = self.float[name + ".weight"], self.float[name + ".bias"]
                y, self.moments[name] = batch_norm.forward(q, e, scale, bias, node["epsilon"])
            elif op == "relu":
                y = niti.relu(q), e
            elif op == "maxpool":
                maxima, winners[name] = niti.max_pool(q, node["kernel"], node["strides"], node["pads"])
                y = maxima, e
            elif op == "avgpool":
                if any(node.get("pads", ())):
                    y = niti.partial_average_pool(q, e, *_windows(node))
                else:
                    y = niti.average_pool(q, e, node["kernel"], node["strides"])
            elif op == "flatten":
                y = q.reshape(q.shape[0], -1), e
            elif op == "add":
                y = niti.aligned_add(*operands[0], *operands[1])
            elif op == "concat":
                y = niti.concat(operands)
            else:
                raise ValueError(f"unknown op {op}")
            tensors[name] = y
        return tensors, winners

    def backward(self, tensors, winners, error, exponent=0):
        """Errors {tensor: (q, e)} and int32 gradient accumulators {parameter: array}, all from the current weights."""
        # A tensor's contributions are folded in forward order of its consumers, so they are kept by
        # (node index, operand index) until the tensor's producer is reached.
        contributions = {self.logits: {(len(self.nodes), 0): (error, exponent)}}
        errors, accumulators = {}, {}
        for index in reversed(range(len(self.nodes))):
            node = self.nodes[index]
            name, op = node["name"], node["op"]
            if name not in self.trainable:
                continue
            parts = contributions[name]  # a tensor nobody consumes is a mistake in the description
            q, e = self.fold([parts[key] for key in sorted(parts)])
            errors[name] = (q, e)
            backs = self._backward_node(node, tensors, winners, q, e, accumulators)
            for operand, (source, back) in enumerate(zip(node["inputs"], backs, strict=True)):
                if source in self.trainable:
                    contributions.setdefault(source, {})[(index, operand)] = back
        return errors, accumulators

    def draw(self):
        """Seed, step and stream of the next random rounding: streams are numbered as the step comes to them, the loss first."""
        self.random[2] += 1
        return self.random

    @staticmethod
    def fold(contributions):
        """Sum of error contributions, from the left by the aligned add; the order changes the rounding."""
        q, e = contributions[0]
        for other in contributions[1:]:
            q, e = niti.aligned_add(q, e, *other)
        return q, e

    def _backward_node(self, node, tensors, winners, error, e, accumulators):
        """The error each input receives, in input order; None where none is wanted."""
        name, op, inputs = node["name"], node["op"], node["inputs"]
        x = tensors[inputs[0]][0]
        if op in ("conv", "linear"):
            weight, e_w = self.q[name + ".weight"], self.exponent[name + ".weight"]
            wanted = inputs[0] in self.trainable
            if node["bias"]:
                accumulators[name + ".bias"] = niti.bias_backward(error)
            if op == "linear":
                accumulators[name + ".weight"] = niti.linear_backward_weight(error, x)
                back = niti.linear_backward_input(error, weight) if wanted else None
            else:
                accumulators[name + ".weight"] = niti.conv_backward_weight(error, x, weight, *_geometry(node))
                back = niti.conv_backward_input(error, weight, x.shape, *_geometry(node)) if wanted else None
            return [niti.requantize(back, e + e_w) if wanted else None]
        if op == "batchnorm":
            scale, moments = self.float[name + ".weight"], self.moments[name]
            back, *gradients = batch_norm.backward(*tensors[inputs[0]], error, e, scale, moments, node["epsilon"], self.draw())
            accumulators[name + ".weight"], accumulators[name + ".bias"] = gradients
            return [back]
        if op == "relu":
            return [(niti.relu_backward(error, x), e)]
        if op == "maxpool":
            geometry = (x.shape, node["kernel"], node["strides"], node["pads"])
            return [(niti.max_pool_backward(error, winners[name], *geometry), e)]
        if op == "avgpool":
            if any(node.get("pads", ())):
                return [niti.partial_average_pool_backward(error, e, x.shape, *_windows(node))]
            return [niti.average_pool_backward(error, e, x.shape, node["kernel"], node["strides"])]
        if op == "flatten":
            return [(error.reshape(x.shape), e)]
        if op == "add":
            return [(error, e), (error, e)]
        if op == "concat":
            ends = np.cumsum([tensors[i][0].shape[1] for i in inputs])
            return [(part, e) for part in np.split(error, ends[:-1], axis=1)]
        raise ValueError(f"unknown op {op}")

    def step(self, x, labels, mu, seed, step, stream=0):
        """One training step: forward, loss, backward, then the update of every parameter. Returns all of it."""
        self.random = [seed, step, stream]
        tensors, winners = self.forward(x)
        logits, e = tensors[self.logits]
        error = niti.loss_gradient(logits, e, labels, seed, step, stream)
        errors, accumulators = self.backward(tensors, winners, error)
        gradients = {name: niti.quantize_gradient(a, mu) for name, a in accumulators.items() if name in self.q}
        assert gradients.keys() == self.q.keys() and accumulators.keys() == self.q.keys() | self.float.keys()
        for name, gradient in gradients.items():
            self.q[name] = niti.update(self.q[name], gradient)
        for name, value in self.float.items():
            self.float[name] = batch_norm.update(value, accumulators[name], mu)
        return {"forward": tensors, "error": errors, "accumulator": accumulators, "gradient": gradients}


def _geometry(node):
    return node["strides"], node["dilations"], node["pads"], node["groups"]


def _windows(node):
    return node["kernel"], node["strides"], node["pads"]


def parameter_shapes(description, input_shape):
    """Shapes {parameter: tuple} and {tensor: tuple} of a description for an input of `input_shape`."""
    shapes, parameters = {INPUT: tuple(input_shape)}, {}
    for node in description["nodes"]:
        name, op = node["name"], node["op"]
        shape = shapes[node["inputs"][0]]
        if op in ("conv", "linear"):
            parameters[name + ".weight"] = _weight_shape(node, shape)
            if node["bias"]:
                parameters[name + ".bias"] = (node["outputs"],)
        if op == "batchnorm":
            parameters[name + ".weight"] = parameters[name + ".bias"] = (shape[1],)
        if op == "conv":
            out = niti.window_sizes(shape, node["kernel"], node["strides"], node["dilations"], node["pads"])
            shape = (shape[0], node["outputs"], *out)
        elif op == "linear":
            shape = (shape[0], node["outputs"])
        elif op in ("maxpool", "avgpool"):
            pads = node.get("pads", [0, 0, 0, 0])
            shape = (*shape[:2], *niti.window_sizes(shape, node["kernel"], node["strides"], (1, 1), pads))
        elif op == "flatten":
            shape = (shape[0], int(np.prod(shape[1:])))
        elif op == "concat":
            shape = (shape[0], sum(shapes[i][1] for i in node["inputs"]), *shape[2:])
        shapes[name] = shape
    return parameters, shapes


# ---------------------------------------------------------------- node constructors

def conv(name, source, outputs, kernel, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0), groups=1, bias=False):
    return {"name": name, "op": "conv", "inputs": [source], "outputs": outputs, "kernel": list(kernel),
            "strides": list(strides), "dilations": list(dilations), "pads": list(pads), "groups": groups, "bias": bias}


def linear(name, source, outputs, bias=False):
    return {"name": name, "op": "linear", "inputs": [source], "outputs": outputs, "bias": bias}


def batchnorm(name, source, epsilon=1e-5):
    """By the batch's own statistics."""
    return {"name": name, "op": "batchnorm", "inputs": [source], "epsilon": epsilon}


def relu(name, source):
    return {"name": name, "op": "relu", "inputs": [source]}


def maxpool(name, source, kernel, strides, pads=(0, 0, 0, 0)):
    return {"name": name, "op": "maxpool", "inputs": [source], "kernel": list(kernel), "strides": list(strides),
            "pads": list(pads)}


def avgpool(name, source, kernel, strides, pads=None):
    """With pads, averages are over the elements inside."""
    node = {"name": name, "op": "avgpool", "inputs": [source], "kernel": list(kernel), "strides": list(strides)}
    return node if pads is None else node | {"pads": list(pads)}


def flatten(name, source):
    return {"name": name, "op": "flatten", "inputs": [source]}


def add(name, first, second):
    return {"name": name, "op": "add", "inputs": [first, second]}


def concat(name, *sources):
    return {"name": name, "op": "concat", "inputs": list(sources)}
