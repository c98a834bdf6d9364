"""Writes tests/data/dynasty/NETWORK.BITS.npz: training steps and ends of epochs of the two small networks under `dynasty`, in numpy; and
choice.npz, choices of widths for made-up sensitivities.

Run: python make_dynasty.py [output folder] (numpy and onnx). Written from DYNASTY's formulas, not from the algorithm file: block floating
point of 4 x 4 blocks, sensitivities, Algorithm 1 with means weighed by the multiplications of a block, and smoothing. Blocks that the loss
does not mind at all (S = 0) are left out of Algorithm 1 and get no bits.

`guards=(dead, inside, quotient)` of `choose` takes Algorithm 1 without one of: leaving out dead blocks, keeping lambda between the ends
of the search, and stopping where a quotient would be 0 / 0.
"""

import sys
from pathlib import Path

import numpy as np

import make_random
from make_fixtures import F, RATES, Conv, LeNet, Residual, Sgd, drawn_data, ops, partial_sums, RELU
from make_formats import inner, padded_shape, place, sources

SIDE = 4
LARGEST, KEPT, ROUNDS = F(8), F(0.5), 3
LOG2_E = F(1.4426950408889634)
GUARDS = (True, True, True)


# ---------------------------------------------------------------- blocks

def blocks(shape):
    """(place in the grid, slices of the block), over the first two axes."""
    rest = [range(n) for n in shape[2:]]
    for r in range(0, shape[0], SIDE):
        for c in range(0, shape[1], SIDE):
            for others in np.ndindex(*[len(n) for n in rest]):
                yield (r // SIDE, c // SIDE) + others, (slice(r, r + SIDE), slice(c, c + SIDE)) + others


def grid(shape):
    return tuple(-(-n // SIDE) for n in shape[:2]) + tuple(shape[2:])


def exponent(block):
    """e with all magnitudes below 2^e."""
    largest = float(np.abs(block).max())
    return int(np.frexp(largest)[1]) if largest > 0 else 0


def quantized(x, widths=None):
    """(integers, their steps, each as often as the block has elements); real widths go to the nearest even number of bits."""
    codes, steps = np.zeros(x.shape, np.int64), np.ones(x.shape, F)
    for at, own in blocks(x.shape):
        bits = 8 if widths is None else int(np.clip(2 * np.rint(widths[at] / F(2)), 0, 8))
        if bits == 0 or not np.abs(x[own]).max() > 0:
            continue
        step = F(2.0 ** (exponent(x[own]) - bits + 1))
        top = 2 ** (bits - 1) - 1
        codes[own] = np.clip(np.rint(x[own] / step), -top, top)
        steps[own] = step
    return codes, steps


def add_sensitivity(before, x, gradient):
    """In place: (2^e)^2 / 16 times the sum of the block's squared gradients."""
    for at, own in blocks(x.shape):
        squares = F(0)
        for g in gradient[own].ravel():
            squares = squares + g * g
        power = F(2.0 ** exponent(x[own]))
        if np.abs(x[own]).max() > 0:
            before[at] = before[at] + squares * power * power / F(16)


# ---------------------------------------------------------------- products

def runs(count, groups=1):
    length = SIDE if groups == 1 or count % SIDE == 0 else 1
    return [range(start, min(start + length, count)) for start in range(0, count, length)]


def forward(product, a, b):
    (x, sx), (w, sw) = a, b
    if not isinstance(product, Conv):
        y = np.zeros((len(x), len(w)), F)
        for own in runs(x.shape[1]):
            k = own[0]
            y = y + (x[:, own] @ w[:, own].T).astype(F) * (sx[:, k:k + 1] * sw[None, :, k])
        return y
    product.size = x.shape[2:]
    source = sources(product, len(w), w.shape[1])
    taps, scales = list(product._taps(x)), [scale for _, _, scale, _ in product._taps(sx)]
    y = np.zeros((len(x), len(w)) + taps[0][2].shape[2:], F)
    for own in runs(w.shape[1], product.groups):
        for (i, j, view, inside), scale in zip(taps, scales):
            part = sum(view[:, source + c] * w[None, :, c, i, j, None, None] for c in own)
            step = scale[:, source + own[0]] * sw[None, :, own[0], i, j, None, None]
            y = np.where(inside, y + part.astype(F) * step, y)
    return y


def error(product, a, b):
    (e, se), (w, sw) = a, b
    if not isinstance(product, Conv):
        y = np.zeros((len(e), w.shape[1]), F)
        for own in runs(len(w)):
            o = own[0]
            y = y + (e[:, own] @ w[own]).astype(F) * (se[:, o:o + 1] * sw[None, o])
        return y
    inputs, per_group = w.shape[1], len(w) // product.groups
    channels = np.arange(inputs * product.groups)
    y = np.zeros(padded_shape(product, len(e), len(channels)), F)
    for own in runs(per_group, product.groups):
        first = channels // inputs * per_group
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                taps = lambda values, member: values[first + member, channels % inputs, i, j][None, :, None, None]
                part = sum(e[:, first + m] * taps(w, m) for m in own)
                step = se[:, first + own[0]] * taps(sw, own[0])
                y[(slice(None), slice(None)) + place(product, i, j, *e.shape[2:])] += part.astype(F) * step
    return inner(product, y)


def gradient(product, a, b):
    (x, sx), (e, se) = a, b
    if not isinstance(product, Conv):
        y = np.zeros((e.shape[1], x.shape[1]), F)
        for own in runs(len(x)):
            n = own[0]
            y = y + (e[own].T @ x[own]).astype(F) * (se[n][:, None] * sx[n][None])
        return y
    inputs = x.shape[1] // product.groups
    source = sources(product, e.shape[1], inputs)[:, None] + np.arange(inputs)
    y = np.zeros((e.shape[1], inputs) + product.kernel, F)
    for (i, j, view, inside), (_, _, scale, _) in zip(product._taps(x), product._taps(sx)):
        for own in runs(len(x)):
            n = own[0]
            for oh, ow in np.argwhere(inside):
                part = sum(e[m, :, oh, ow][:, None] * view[m, source, oh, ow] for m in own)
                step = se[n, :, oh, ow][:, None] * scale[n, source, oh, ow]
                y[:, :, i, j] = y[:, :, i, j] + part.astype(F) * step
    return y


# ---------------------------------------------------------------- widths

def choose(state, tensors, budget, guards=GUARDS):
    """Algorithm 1: (next state, next widths) from lambda and the epochs so far, and each tensor's (widths, sensitivities, uses)."""
    dead, inside, quotient = guards
    budget = F(budget)
    weights = np.concatenate([np.full(s.size, F(16) * F(uses), F) for _, s, uses in tensors])
    shares = np.concatenate([s.ravel() for _, s, _ in tensors]) / weights
    live = (shares > 0) & (shares < np.inf)
    if dead and not live.any():
        return state.copy(), [widths.copy() for widths, _, _ in tensors]
    if not dead:
        live = np.ones_like(live)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(live, ops.log32(np.where(live & (shares > 0), shares, F(1))), F(0))
        logs = np.where(live & (shares == 0), F(-np.inf), logs)
        r = F(0.5) * (logs * LOG2_E)
        weights = np.where(live, weights, F(0))
        total = partial_sums(weights)
        mean = lambda values: partial_sums(np.where(weights > 0, weights * values, F(0))) / total
        average = lambda l: mean(np.minimum(np.maximum(r - l, F(0)), LARGEST))
        if state[1] == 0:
            l = mean(r) - budget
        else:
            l0, l1 = r[live].min() - budget, r[live].max() - budget
            l = np.minimum(np.maximum(state[0], l0), l1) if inside else state[0]
            for _ in range(ROUNDS):
                a = average(l)
                above = a > budget
                other = l1 if above else l0
                slope = a - average(other)
                if slope == 0 and quotient:
                    break
                t = (a - budget) / slope
                following = (F(1) - t) * l + t * other
                l0, l1 = (l, l1) if above else (l0, l)
                l = following
        bits = np.where(live, np.minimum(np.maximum(r - l, F(0)), LARGEST), F(0)).astype(F)
    widths, first = [], 0
    for own, _, _ in tensors:
        new = bits[first:first + own.size].reshape(own.shape)
        widths.append(own * KEPT + new * (F(1) - KEPT))
        first += own.size
    return np.array([l, state[1] + 1], F), widths


class Dynasty:
    """Weights of chosen widths, activations of 8 bits forward and of chosen ones in weight gradients, errors of 8."""

    def __init__(self, budget, layers):
        self.budget, self.layers = budget, layers
        self.width, self.sensitivity, self.uses = {}, {}, {}
        self.lambdas = {"weight": np.zeros(2, F), "activation": np.zeros(2, F)}

    def kept(self, name, x, uses):
        if name not in self.width:
            self.width[name] = np.full(grid(x.shape), 4, F)
            self.sensitivity[name] = np.zeros(grid(x.shape), F)
        self.uses[name] = F(uses)
        return self.width[name]

    def forward(self, layer, x, w):
        layer.values = x, w
        names = self.layers[layer.name], layer.name + ".weight"
        layer.x, layer.w = quantized(x), (w, None)
        multiplications = len(x) * w.size
        if isinstance(layer.product, Conv):
            view = next(layer.product._taps(x))[2]
            multiplications *= view.shape[2] * view.shape[3]
        multiplications = F(multiplications)
        layer.w = quantized(w, self.kept(names[1], w, multiplications / F(w.size)))
        # Nothing is known of the error of the first layer's activations.
        layer.dynamic = layer.x if layer.first else quantized(x, self.kept(names[0], x, multiplications / F(x.size)))
        return forward(layer.product, layer.x, layer.w)

    def error_codes(self, layer, e, run):
        layer.e = quantized(e)

    def gradient(self, layer):
        g = gradient(layer.product, layer.dynamic, layer.e)
        add_sensitivity(self.sensitivity[layer.name + ".weight"], layer.values[1], g)
        return g

    def error(self, layer):
        layer.error = error(layer.product, layer.e, layer.w)
        if not layer.shared:
            add_sensitivity(self.sensitivity[self.layers[layer.name]], layer.values[0], layer.error)
        return layer.error

    def end_epoch(self):
        for kind in self.lambdas:
            names = [name for name in self.width if name.endswith(".weight") == (kind == "weight")]
            tensors = [(self.width[name], self.sensitivity[name], self.uses[name]) for name in names]
            self.lambdas[kind], widths = choose(self.lambdas[kind], tensors, self.budget)
            for name, own in zip(names, widths):
                self.width[name], self.sensitivity[name] = own, np.zeros_like(own)

    def state(self):
        own = {f"widths.{kind}": value.copy() for kind, value in self.lambdas.items()}
        for name in self.width:
            own[name + ".width"], own[name + ".sensitivity"] = self.width[name].copy(), self.sensitivity[name].copy()
        return own


class DynastyResidual(Residual):
    """The gradient of what the shortcut and the second layer share is that of both."""

    def backward(self, e, gradients, run):
        e = self.product_error("fc", e, gradients, run)
        joined = self.active_error(self.c, e.reshape(self.c.shape))
        e = self.product_error("conv3", joined, gradients, run)
        e = self.product_error("conv2", self.active_error(self.b, e), gradients, run)
        both = joined + e
        add_sensitivity(self.algorithm.sensitivity["act1"], self.layers["conv2"].values[0], both)
        self.product_error("conv1", self.active_error(self.a, both), gradients, run)


NETWORKS = {
    "lenet": (LeNet, {"conv1": "images", "conv2": "act1", "fc1": "flat", "fc2": "act3"}),
    "residual": (DynastyResidual, {"conv1": "images", "conv2": "act1", "conv3": "act2", "fc": "flat"}),
}
# A step by its number, or the end of an epoch.
EVENTS = (0, 1, "end", 2, "end", 0, "end", 1)


def write(path, number, network, budget):
    kind, names = NETWORKS[network]
    write_events(path, kind, names, drawn_data(number, kind)[1:], budget, EVENTS, "conv2" if network == "residual" else None)


def write_random(path, number, inner_layer):
    """A network of random layers (make_random.py): a step, the end of an epoch and the step again."""
    kind = make_random.network(number, inner_layer)
    names = {layer: own[0] for layer, own in make_random.Afp.NAMES[f"random-{number}"].items()}
    write_events(path, kind, names, make_random.drawn(kind), 3, (0, "end", 0))


def write_events(path, kind, names, data, budget, events, shared=None):
    """What goes in and what comes of it; `shared` is the layer whose operand others use, too."""
    parameters, images, labels = data
    weights = {key: value.copy() for key, value in parameters.items()}
    net = kind(Dynasty(budget, names), weights, Sgd(weights), RELU)
    for name, layer in net.layers.items():
        layer.shared = name == shared
    net.forward(images[0])
    states, losses = [net.state()], []
    for event in events:
        if event == "end":
            net.algorithm.end_epoch()
        else:
            losses.append(net.step(images[event], labels[event], RATES[event], (0, event)))
        states.append(net.state())
    arrays = {f"state.{key}": np.stack([state[key] for state in states]) for key in states[0]}
    events = np.array([-1 if event == "end" else event for event in events], np.int32)
    arrays.update(events=events, images=images, labels=labels, rates=np.array(RATES, F), losses=np.array(losses, F))
    np.savez_compressed(path, **arrays)
    widths = np.concatenate([value.ravel() for value in net.algorithm.width.values()])
    print(path.name, "loss", losses, "widths", np.unique(2 * np.rint(widths / 2), return_counts=True))


def write_choices(path):
    """Traces of choices: a few epochs each, of tensors of odd sizes, some of whose blocks are dead."""
    rng = np.random.default_rng(5)
    arrays = {}
    for run in range(12):
        counts, uses = rng.integers(1, 40, 2), rng.integers(1, 2000, 2).astype(F) / F(4)
        budget = F(rng.choice([2, 2.5, 3, 4, 6, 8]))
        state, widths = np.zeros(2, F), [np.full(n, 4, F) for n in counts]
        states, chosen, drawn = [], [[], []], [[], []]
        for _ in range(4):
            sums = []
            for tensor, n in enumerate(counts):
                s = np.exp(rng.normal(0, 6, n)).astype(F) * F(1e-6)
                s[rng.random(n) < (1.0 if run == 11 else 0.2)] = 0
                sums.append(s)
                drawn[tensor].append(s)
            state, widths = choose(state, list(zip(widths, sums, uses)), budget)
            states.append(state)
            for tensor in (0, 1):
                chosen[tensor].append(widths[tensor])
        arrays.update({f"{run}.budget": np.array([budget], F), f"{run}.uses": uses, f"{run}.states": np.array(states)})
        for tensor in (0, 1):
            arrays[f"{run}.sensitivities{tensor}"] = np.array(drawn[tensor])
            arrays[f"{run}.widths{tensor}"] = np.array(chosen[tensor], F)
    np.savez_compressed(path, **arrays)


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "dynasty"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    folder.mkdir(exist_ok=True)
    for number, network in enumerate(NETWORKS):
        for budget in (4, 2.5):
            write(folder / f"{network}.{budget}.npz", number, network, budget)
    for number, inner_layer in enumerate(make_random.INNER):
        write_random(folder / f"random-{number}.npz", number, inner_layer)
    write_choices(folder / "choice.npz")


if __name__ == "__main__":
    main()
