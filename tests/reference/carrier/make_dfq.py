"""Writes tests/data/dfq/NETWORK.TARGET.npz: training steps of the two small networks under `dfq`, in numpy.

Run: python make_dfq.py [output folder] (numpy and onnx). Written from Fu et al., FracTrain, NeurIPS 2020, section 3.2, not from the
algorithm file and the graph pass:

  gate    mean over space, a layer with ReLU, a second one, an LSTM that all blocks share (its state 0 at the first block of a batch), a layer
          that all share, softmax; forward the largest one's 1, backward the softmax's gradient as if the 1 were the softmax
  layers  each example's activations (nearest) and errors (by chance) between their own least and largest with 2^bits - 1 steps of the option
          that it chose; weights of 4 bits between theirs; weight gradients of these values in float32. First and last layer float32.
  cost    share = 100 / 3 of the mean over examples of (b w + g w + b g) / 32^2, blocks weighed by multiplications; the loss gets
          sign * beta * 3 * layers / 100 * share, the sign -1 below the target, 1 from target + band on, else 0

Gates are of 6 and 5 features. `lenet` has two blocks of a layer each, `residual` one block, around a depthwise convolution, which does not choose: 8 bits.
"""

import sys
from pathlib import Path

import numpy as np

import make_fixtures
from make_fixtures import BATCH, F, RELU, Conv, LeNet, Residual, Sbm, Sgd, dequantized, drawn_data, ops, tanh32, uniform

OPTIONS = ((3, 6), (4, 6), (4, 8), (6, 8), (8, 8))
WEIGHT_BITS, GATE, BETA, BAND = 4, (6, 5), 0.1, 0.2
RATES = (0.05, 0.1, 0.02, 0.05, 0.05)


def sigmoid32(x):
    e = ops.exp32(-np.abs(x))
    return np.where(x < 0, e, F(1)) / (F(1) + e)


def in_order(values, axis):
    """Sums along an axis, from +0 in order."""
    values = np.moveaxis(values, axis, 0)
    total = np.zeros(values.shape[1:], F)
    for value in values:
        total = total + value
    return total


def by_example(x):
    return (len(x),) + (1,) * (x.ndim - 1)


class Gate:
    """The gates of a network: forward block by block, backward in the opposite order."""

    def __init__(self, weights):
        self.weights = weights

    def begin(self):
        self.before, self.kept, self.left = None, [], None

    def linear(self, name, x, bias=True):
        y = in_order(x[:, None, :] * self.weights[name + ".weight"][None], 2)
        return y + self.weights[name + ".bias"] if bias else y

    def linear_error(self, name, x, e, gradients, bias=True):
        w = self.weights[name + ".weight"]
        self.add(gradients, name + ".weight", in_order(e[:, :, None] * x[:, None, :], 0))
        if bias:
            self.add(gradients, name + ".bias", in_order(e, 0))
        return in_order(e[:, :, None] * w[None], 1)

    @staticmethod
    def add(gradients, name, value):
        gradients[name] = gradients[name] + value if name in gradients else value

    def forward(self, block, x):
        own = {"block": block, "shape": x.shape, "before": self.before}
        own["pooled"] = x if x.ndim == 2 else in_order(x.reshape(x.shape[0], x.shape[1], -1), 2) / F(x[0, 0].size)
        own["first"] = self.linear(block + ".gate.first", own["pooled"])
        own["relu"] = np.maximum(own["first"], F(0))
        own["seen"] = self.linear(block + ".gate.second", own["relu"])
        for part in ("input", "candidate", "output", "forget"):
            if part == "forget" and self.before is None:
                continue
            total = self.linear("gates." + part, own["seen"])
            if self.before is not None:
                total = total + self.linear(f"gates.{part}.before", self.before[0], False)
            own[part] = tanh32(total) if part == "candidate" else sigmoid32(total)
        own["memory"] = own["input"] * own["candidate"]
        if self.before is not None:
            own["memory"] = own["forget"] * self.before[1] + own["memory"]
        own["bent"] = tanh32(own["memory"])
        own["result"] = own["output"] * own["bent"]
        self.before = own["result"], own["memory"]
        scores = self.linear("gates.choice", own["result"])
        e = ops.exp32(scores - scores.max(1, keepdims=True))
        own["soft"] = e / in_order(e, 1)[:, None]
        choice = np.zeros_like(scores)
        choice[np.arange(len(choice)), own["soft"].argmax(1)] = F(1)
        self.kept.append(own)
        return choice

    def backward(self, e, gradients):
        """The error of what the newest block's gate looks at, by that of its choice."""
        own = self.kept.pop()
        y = own["soft"]
        e = y * (e - in_order(e * y, 1)[:, None])
        e = self.linear_error("gates.choice", own["result"], e, gradients)
        # Errors of several uses are added in the order of the uses.
        result, memory = e, None
        if self.left is not None:
            uses, memory = self.left
            for error in uses:
                result = result + error
        output = result * own["bent"]
        bent = result * own["output"]
        own_memory = bent * (F(1) - own["bent"] * own["bent"])
        memory = own_memory if memory is None else own_memory + memory
        slope = lambda y: y * (F(1) - y)
        parts = {"output": output * slope(own["output"]), "input": (memory * own["candidate"]) * slope(own["input"]),
                 "candidate": (memory * own["input"]) * (F(1) - own["candidate"] * own["candidate"])}
        before, seen = [], None
        if own["before"] is not None:
            parts["forget"] = (memory * own["before"][1]) * slope(own["forget"])
        for part in ("input", "candidate", "output", "forget"):
            if part not in parts:
                continue
            if own["before"] is not None:
                before.append(self.linear_error(f"gates.{part}.before", own["before"][0], parts[part], gradients, False))
            error = self.linear_error("gates." + part, own["seen"], parts[part], gradients)
            seen = error if seen is None else seen + error
        self.left = None if own["before"] is None else (before, memory * own["forget"])
        e = self.linear_error(own["block"] + ".gate.second", own["relu"], seen, gradients)
        e = np.where(own["relu"] > 0, e, F(0))
        e = self.linear_error(own["block"] + ".gate.first", own["pooled"], e, gradients)
        if len(own["shape"]) == 2:
            return e
        size = own["shape"][2] * own["shape"][3]
        return np.broadcast_to((e / F(size))[:, :, None, None], own["shape"])


class Dfq:
    """Products in the precision that each example chose."""

    def __init__(self):
        self.streams = 0

    @staticmethod
    def steps(bits, choice):
        return in_order(choice * np.array([2**b - 1 for b in bits], F), 1)

    @staticmethod
    def chosen(x, steps, noise=None):
        """(codes less 128, step of each example, what a code of 0 stands for)."""
        rows = x.reshape(len(x), -1)
        least, largest = rows.min(1) + F(0), rows.max(1) + F(0)
        step = np.maximum((largest - least) / steps, F(1e-8)).reshape(by_example(x))
        least = least.reshape(by_example(x))
        q = (x - least) / step
        q = np.rint(q) if noise is None else np.floor(q + noise)
        return np.clip(q, 0, 255).astype(np.int64) - 128, step, least + step * F(128)

    value = staticmethod(Sbm.value)
    product = staticmethod(Sbm.product)

    def forward(self, layer, x, w):
        layer.plain = layer.first or layer.last
        if layer.plain:
            layer.x, layer.w = x, w
            return layer.product.float_forward(x, w)
        layer.w = Sbm.quantized(w, w.min(), w.max(), WEIGHT_BITS)
        if layer.choice is None:
            layer.x = Sbm.activation(x)
        else:
            layer.x = self.chosen(x, self.steps([b for b, _ in OPTIONS], layer.choice))
            layer.options = [self.value(self.chosen(x, F(2**b - 1))) for b, _ in OPTIONS]
        own = layer.product
        return self.product(own.forward, layer.x, layer.w, own.one_row(x), own.one_weight(w, False))

    def error_codes(self, layer, e, run):
        layer.e = e
        if layer.plain:
            return
        noise = uniform(run, self.streams, e.shape)
        self.streams += 1
        if layer.choice is None:
            layer.codes = Sbm.quantized(e, e.min(), e.max(), 8, noise)
        else:
            layer.codes = self.chosen(e, self.steps([g for _, g in OPTIONS], layer.choice), noise)
        layer.e = self.value(layer.codes)

    def error(self, layer):
        own = layer.product
        if layer.plain:
            return own.float_error(layer.e, layer.w)
        return self.product(own.error, layer.codes, layer.w, own.one_row(layer.e), own.one_weight(layer.w[0], True))

    def gradient(self, layer):
        x = layer.x if layer.plain else self.value(layer.x)
        return layer.product.float_gradient(x, layer.e)


class Gated:
    """A network with gates; BLOCKS: for each layer that chooses, its block's name."""

    def begin(self, target):
        self.target, self.gate = target, Gate(self.weights)
        self.counts = {block: np.zeros(len(OPTIONS), F) for block in self.BLOCKS.values()}
        self.cost = np.zeros(1, F)

    def looks_at(self, name, x):
        return x

    def product(self, name, x):
        layer, block = self.layers[name], self.BLOCKS.get(name)
        layer.choice = None if block is None else self.gate.forward(block, self.looks_at(name, x))
        y = super().product(name, x)
        layer.multiplications = self.weights[name + ".weight"].size * (y[0, 0].size if y.ndim > 2 else 1)
        return y

    def term(self):
        """The term of cost, counted, and the gradient of each block's choice by it."""
        costs = [(b * WEIGHT_BITS + g * WEIGHT_BITS + b * g) / 1024 for b, g in OPTIONS]
        every = 3.0 * sum(self.layers[name].multiplications for name in self.BLOCKS)
        percent = lambda own: np.array([100.0 * c * own / (every * BATCH) for c in costs], F)
        share, own = None, {}
        for name in self.BLOCKS:
            own[name] = percent(self.layers[name].multiplications)
            products = self.layers[name].choice * own[name]
            total = make_fixtures.sequential_sum(products)
            share = total if share is None else share + total
        self.share = share
        sign = F(float(F(self.target + BAND) <= share) - float(share < F(self.target)))
        weighted = sign * F(BETA * 3.0 * len(self.BLOCKS) / 100.0)
        cost = weighted * share
        self.cost = self.cost + cost
        for name, block in self.BLOCKS.items():
            self.counts[block] = self.counts[block] + in_order(self.layers[name].choice, 0)
        return cost, {name: np.broadcast_to(weighted * own[name], (BATCH, len(OPTIONS))) for name in own}

    def product_error(self, name, e, gradients, run):
        layer = self.layers[name]
        self.algorithm.error_codes(layer, e, run)
        gradients[name + ".bias"] = ops.channel_sums(e if layer.choice is None else layer.e)
        gradients[name + ".weight"] = self.algorithm.gradient(layer)
        if layer.first:
            return None
        error = self.algorithm.error(layer)
        if layer.choice is None:
            return error
        sums = [in_order((error * value).reshape(len(error), -1), 1) for value in layer.options]
        choice = np.stack(sums, 1) + self.choice_costs[name]
        return self.joined(error, self.gate.backward(choice, gradients))

    def joined(self, error, of_gate):
        return error + of_gate

    def step(self, images, labels, rate, run):
        self.algorithm.streams = 0
        self.gate.begin()
        scores = self.forward(images)
        cost, self.choice_costs = self.term()
        gradients = {}
        self.backward(ops.cross_entropy_gradient(scores, labels), gradients, run)
        assert set(gradients) == set(self.weights), set(gradients) ^ set(self.weights)
        self.optimizer.update(self.weights, gradients, rate)
        return ops.cross_entropy(scores, labels) + cost

    def state(self):
        own = super().state()
        for block, count in self.counts.items():
            own[block + ".gate.count"], own[block + ".gate.rounds"] = count.copy(), np.zeros(len(OPTIONS), F)
        own["gates.cost"] = self.cost.copy()
        return own


class GatedLeNet(Gated, LeNet):
    BLOCKS = {"conv2": "conv2", "fc1": "fc1"}
    INPUTS = {"conv2": 3, "fc1": 36}


class GatedResidual(Gated, Residual):
    """The gate of the block, the addition, looks at where its branches begin."""
    BLOCKS = {"conv3": "sum"}
    INPUTS = {"sum": 4}

    def looks_at(self, name, x):
        return self.kept

    def joined(self, error, of_gate):
        self.of_gate = of_gate
        return error

    def backward(self, e, gradients, run):
        e = self.product_error("fc", e, gradients, run)
        joined = self.active_error(self.c, e.reshape(self.c.shape))
        e = self.product_error("conv3", joined, gradients, run)
        e = self.product_error("conv2", self.active_error(self.b, e), gradients, run)
        self.product_error("conv1", self.active_error(self.a, (e + self.of_gate) + joined), gradients, run)


# Each with targets that the choices are below, at and above.
NETWORKS = {"lenet": (GatedLeNet, (2.5, 3.9)), "residual": (GatedResidual, (1.7, 2.0))}


def gate_shapes(kind):
    first, second = GATE
    shapes = {}
    for block, inputs in kind.INPUTS.items():
        shapes.update({f"{block}.gate.first.weight": (first, inputs), f"{block}.gate.first.bias": (first,),
                       f"{block}.gate.second.weight": (second, first), f"{block}.gate.second.bias": (second,)})
    recurrent = len(kind.INPUTS) > 1
    for part in ("input", "candidate", "output") + (("forget",) if recurrent else ()):
        shapes.update({f"gates.{part}.weight": (second, second), f"gates.{part}.bias": (second,)})
        if recurrent:
            shapes[f"gates.{part}.before.weight"] = (second, second)
    shapes.update({"gates.choice.weight": (len(OPTIONS), second), "gates.choice.bias": (len(OPTIONS),)})
    return shapes


def write(path, number, kind, target):
    rng, parameters, images, labels = drawn_data(number, kind)
    weights = {key: value.copy() for key, value in parameters.items()}
    for name, shape in gate_shapes(kind).items():
        # Biases that leave the choice to the example.
        weights[name] = rng.normal(0, 0.2 if name == "gates.choice.bias" else 3, shape).astype(F)
    net = kind(Dfq(), weights, Sgd(weights), RELU)
    net.begin(target)
    states, losses, shares = [net.state()], [], []
    for step, rate in enumerate(RATES):
        losses.append(net.step(images[step % 3], labels[step % 3], rate, (0, step)))
        shares.append(net.share)
        states.append(net.state())
    arrays = {f"state.{key}": np.stack([state[key] for state in states]) for key in states[0]}
    arrays.update(images=images, labels=labels, rates=np.array(RATES, F), losses=np.array(losses, F))
    np.savez_compressed(path, **arrays)
    print(path.name, "loss", losses, "share", shares, "counts", net.counts)


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "dfq"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    folder.mkdir(exist_ok=True)
    for number, (network, (kind, targets)) in enumerate(NETWORKS.items()):
        for target in targets:
            write(folder / f"{network}.{target}.npz", number, kind, target)


if __name__ == "__main__":
    main()
