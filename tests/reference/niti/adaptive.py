"""Training steps whose forward products are shifted by amounts kept between steps (Xu et al., Mandheling, MobiCom 2022,
section 3.3), in numpy: `niti:adaptive=1`.

Each place that rescales sums looks at their width at step t if t >= its next look; then with P the steps since the last one,
f = steps per change over the last 8 looks (twice their span if none), P = max(1, floor(f / 2)), at most 64, and 1 until
there were 8 looks; the next look is at t + P. Between looks the shift of the last one is used and results saturate.
"""

from fractions import Fraction
from math import floor

import numpy as np

import network as net
import niti

LOOKS, LONGEST = 8, 64


class Place:
    """One rescaling and what it keeps."""

    def __init__(self):
        self.step, self.next, self.period, self.shift = 0, 0, 1, None
        self.looks = []  # (steps since the one before, whether the shift changed), the newest last
        self.rescaled = 0

    def amount(self, accumulator):
        t, self.step = self.step, self.step + 1
        if t >= self.next:
            self.rescaled += 1
            found = max(niti.bit_width(niti.max_abs(accumulator)) - 7, 0)
            self.looks.append((self.period, self.shift not in (None, found)))
            self.looks = self.looks[-LOOKS:]
            self.shift = found
            if len(self.looks) == LOOKS:
                span, changes = sum(p for p, _ in self.looks), sum(c for _, c in self.looks)
                f = Fraction(span, changes) if changes else 2 * span
                self.period = min(max(1, floor(f / 2)), LONGEST)
            self.next = t + self.period
        return self.shift

    def state(self):
        """What trainc keeps: steps left, shift, period, looks from the newest on, less than 0 where the shift changed."""
        looks = [-p if c else p for p, c in reversed(self.looks)]
        numbers = [self.next - self.step, self.shift or 0, self.period, *looks]
        return np.array(numbers + [0] * (3 + LOOKS - len(numbers)), np.float32)


class Network(net.Network):
    """A network whose forward rescalings are `places`, by the names of their tensors."""

    def __init__(self, description, float_parameters):
        super().__init__(description, float_parameters)
        rounded = [n for n in self.nodes if n["op"] in ("conv", "linear", "avgpool")]
        self.places = {n["name"] + (".product" if n.get("bias") else ""): Place() for n in rounded}

    def forward(self, x, keep=True):
        """As of the base, which rescales in the nodes' order; with `keep` by what is kept."""
        if not keep:
            return super().forward(x)
        places, plain = iter(self.places.values()), niti.requantize

        def requantize(accumulator, exponent):
            accumulator = niti.as_int32(accumulator)
            s = next(places).amount(accumulator)
            rounded = niti.round_half_away(accumulator, s) if s else accumulator
            return np.clip(rounded, -127, 127).astype(np.int8), exponent + s

        niti.requantize = requantize
        try:
            result = super().forward(x)
        finally:
            niti.requantize = plain
        assert next(places, None) is None, "a place rescaled nothing"
        return result

    def step(self, *arguments, **named):
        """As of the base, with the states after it."""
        taken = super().step(*arguments, **named)
        return taken | {"state": {name: place.state() for name, place in self.places.items()}}
