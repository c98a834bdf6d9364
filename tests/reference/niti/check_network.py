"""Checks network.py against finite differences of a float64 network, on the nets of the fixtures.

Run: python check_network.py. The integer error at the logits is taken as given; from there on the dequantised gradient
accumulators must agree with the derivative of <error, logits> in size and direction, up to 8-bit rounding. A wrong
exponent is a factor of 2, a lost contribution or a wrong slice turns the direction.
"""

import numpy as np

import make_fixtures
import network as net


def float_windows(x, node, outside):
    """(B, C, Ho, Wo, kh, kw) windows of a padded float image."""
    top, left, bottom, right = node.get("pads", [0, 0, 0, 0])
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=outside)
    (kh, kw), (dh, dw), (sh, sw) = node["kernel"], node.get("dilations", [1, 1]), node["strides"]
    spans = (dh * (kh - 1) + 1, dw * (kw - 1) + 1)
    return np.lib.stride_tricks.sliding_window_view(padded, spans, axis=(2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]


def float_forward(description, x, parameters):
    """float64 logits of the net; the arithmetic the integers approximate."""
    values = {net.INPUT: x}
    for node in description["nodes"]:
        name, op = node["name"], node["op"]
        operands = [values[i] for i in node["inputs"]]
        a = operands[0]
        if op == "conv":
            windows, weight = float_windows(a, node, 0.0), parameters[name + ".weight"]
            split_x, split_w = np.split(windows, node["groups"], axis=1), np.split(weight, node["groups"], axis=0)
            y = np.concatenate([np.einsum("bchwij,ocij->bohw", u, v) for u, v in zip(split_x, split_w)], axis=1)
            y = y + parameters[name + ".bias"][:, None, None] if node["bias"] else y
        elif op == "linear":
            y = np.einsum("bi,oi->bo", a, parameters[name + ".weight"]) + (parameters[name + ".bias"] if node["bias"] else 0)
        elif op == "batchnorm":
            axes = (0, *range(2, a.ndim))
            stretched = lambda v: np.asarray(v, float).reshape((1, -1) + (1,) * (a.ndim - 2))
            normal = (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + node["epsilon"])
            y = normal * stretched(parameters[name + ".weight"]) + stretched(parameters[name + ".bias"])
        elif op == "relu":
            y = np.where(a > 0, a, 0.0)
        elif op == "maxpool":
            y = float_windows(a, node, -np.inf).max(axis=(4, 5))
        elif op == "avgpool":
            y = np.nanmean(float_windows(a, node, np.nan), axis=(4, 5))
        elif op == "flatten":
            y = a.reshape(len(a), -1)
        elif op == "add":
            y = a + operands[1]
        elif op == "concat":
            y = np.concatenate(operands, axis=1)
        values[name] = y
    return values


def check_case(name, nodes, input_shape, mu, seed, factors):
    arrays, _, description, _ = make_fixtures.train(name, nodes, input_shape, mu, seed, factors)
    prefix = "parameter.float."
    model = net.Network(description, {k[len(prefix):]: v for k, v in arrays.items() if k.startswith(prefix)})
    real = {p: q * 2.0 ** model.exponent[p] for p, q in model.q.items()} | {p: np.float64(v) for p, v in model.float.items()}
    tensors, winners = model.forward(arrays["input.float"][0])
    x = tensors[net.INPUT][0] * 2.0 ** tensors[net.INPUT][1]
    values = float_forward(description, x, real)
    logits, e = tensors[model.logits]
    correlation = np.corrcoef((logits * 2.0**e).ravel(), values[model.logits].ravel())[0, 1]
    assert correlation > 0.98, (name, correlation)

    error = arrays[f"error.{model.logits}"][0]
    before = {p: q.copy() for p, q in model.q.items()}
    errors, accumulators = model.backward(tensors, winners, error)
    assert all((model.q[p] == before[p]).all() for p in before), "backward must not touch the weights"

    worst = (1.0, 1.0)
    for node in nodes:
        for parameter in (node["name"] + ".weight", node["name"] + ".bias"):
            if parameter not in real:
                continue
            # weight: error times input; bias: error alone; of what is FP32 the gradient itself
            scale = 0 if parameter in model.float else errors[node["name"]][1] + (tensors[node["inputs"][0]][1] if parameter.endswith("weight") else 0)
            integer = accumulators[parameter] * 2.0**scale
            wanted = np.zeros(integer.shape)
            step = 1e-6 * 2.0 ** (model.exponent.get(parameter, -7) + 7)
            for index in np.ndindex(integer.shape):
                sides = []
                for sign in (1, -1):
                    moved = dict(real)
                    moved[parameter] = real[parameter].copy()
                    moved[parameter][index] += sign * step
                    sides.append((float_forward(description, x, moved)[model.logits] * error).sum())
                wanted[index] = (sides[0] - sides[1]) / (2 * step)
            cosine = (integer * wanted).sum() / np.sqrt((integer**2).sum() * (wanted**2).sum())
            ratio = np.sqrt((integer**2).sum() / (wanted**2).sum())
            assert cosine > 0.9 and 0.8 < ratio < 1.25, (name, parameter, cosine, ratio)
            worst = min(worst, (cosine, ratio))
    print(f"ok {name}: logits correlate {correlation:.4f}; least cosine {worst[0]:.4f}, its size ratio {worst[1]:.3f}")


if __name__ == "__main__":
    for case_name, _, case_nodes, *case, scales in make_fixtures.cases():
        # Concatenation at one exponent rounds an operand that is scaled down to almost nothing; the stored case does
        # that on purpose, a comparison with real numbers needs operands of like size.
        check_case(case_name, case_nodes, *case, {} if case_name == "concat" else scales)
