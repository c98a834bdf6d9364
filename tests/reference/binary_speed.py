#!/usr/bin/env python3
"""Inference of the zoo's binary networks on this machine beside TensorFlow Lite: the same shapes in FP32 and in INT8, one run.

    pip install ai-edge-litert==2.3.0 flatbuffers numpy
    python tests/reference/binary_speed.py TRAINC [--networks NAME ...] [--threads N] [--rounds N] [--without WAY ...]

TRAINC is the compiler's program (its `dev` profile optimises the host's kernels, too). Batch 1, images of bytes. trainc runs on the target host (`trainc bench`, the
second call), through the machine's OpenCL driver, and as NEON code in QEMU on one thread, which says little of a phone; TensorFlow Lite uses
XNNPACK. Its networks have ReLU behind each layer, batch norm
folded, random weights. Rounds alternate between all; printed are the least and the median in milliseconds, and what TensorFlow Lite
needs at least of what each does.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from tflite_writer import Net, options, write

# Channels, kernel, stride and pool (kernel, stride) of convolutions, features of fully connected layers, size of the image.
VGG = [(c, 3, 1, (2, 2) if i == n - 1 else None) for c, n in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)] for i in range(n)]
YOLO = [(c, 3, 1, (2, 2)) for c in (16, 32, 64, 128, 256)]
YOLO += [(512, 3, 1, (2, 1)), (1024, 3, 1, None), (1024, 3, 1, None), (125, 1, 1, None)]
ALEX = [(96, 11, 4, (3, 2)), (256, 5, 1, (3, 2)), (384, 3, 1, None), (384, 3, 1, None), (256, 3, 1, (3, 2))]
NETWORKS = {
    "alexnet-binary": (ALEX, [4096, 4096, 1000], 224),
    "vgg16-binary": (VGG, [4096, 4096, 1000], 224),
    "yolov2-tiny-binary": (YOLO, [], 416),
}
RELU = 1
MAIN = """
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "@p@.h"
static unsigned char arena[@P@_ARENA_BYTES + 64], state[@P@_STATE_BYTES + 64];
static uint8_t input[@P@_INPUT_ELEMENTS];
static float logits[@P@_LOGITS_ELEMENTS];
int main(void)
{
    for (size_t i = 0; i < @P@_INPUT_ELEMENTS; i++) {
        input[i] = (uint8_t)rand();
    }
    @p@_infer(arena, state, input, logits);
    while (getchar() != EOF) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        @p@_infer(arena, state, input, logits);
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%f\\n", (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) * 1e-6);
        fflush(stdout);
    }
    return 0;
}
"""


class Lite:
    """A network for TensorFlow Lite; in INT8 all activations have one scale, which does not change the time."""

    def __init__(self, name, integers):
        self.integers, self.rng = integers, np.random.default_rng(0)
        self.type = np.int8 if integers else np.float32
        convolutions, features, side = NETWORKS[name]
        self.net = Net()
        self.shape = (1, side, side, 3)
        self.x = self.scaled(self.net.input("x", self.shape, self.type))
        for i, (maps, kernel, stride, pool) in enumerate(convolutions):
            last = not features and i == len(convolutions) - 1
            self.layer("Conv2D", "CONV_2D", (maps, kernel, kernel, self.shape[3]), maps, stride, 0 if last else RELU)
            if pool:
                padding = 0 if pool[1] == 1 else 1
                self.shape = (1, *(self.window(s, *pool, padding) for s in self.shape[1:3]), maps)
                opts = options("Pool2D", padding=padding, strideH=pool[1], strideW=pool[1], filterHeight=pool[0], filterWidth=pool[0])
                self.x = self.scaled(self.net.op("MAX_POOL_2D", [self.x], [self.shape], opts, self.type))
        if features:
            self.shape = (1, int(np.prod(self.shape)))
            opts = options("Reshape", newShape=list(self.shape))
            self.x = self.scaled(self.net.op("RESHAPE", [self.x, self.net.ints(self.shape)], [self.shape], opts, self.type))
        for i, count in enumerate(features):
            self.layer("FullyConnected", "FULLY_CONNECTED", (count, self.shape[1]), count, 1, RELU if i + 1 < len(features) else 0)
        self.net.outputs = [self.x]

    @staticmethod
    def window(side, kernel, stride, padding):
        return -(-side // stride) if padding == 0 else (side - kernel) // stride + 1

    def scaled(self, tensor):
        if self.integers:
            self.net.quantized(tensor, 0.05, 0)
        return tensor

    def layer(self, kind, code, shape, maps, stride, activation):
        if self.integers:
            weights = self.net.constant(f"w{len(self.net.tensors)}", self.rng.integers(-127, 128, shape, np.int8), np.int8)
            bias = self.net.constant(f"b{len(self.net.tensors)}", np.zeros(maps, np.int32), np.int32)
            self.net.quantized(weights, np.full(maps, 0.01), np.zeros(maps))
            self.net.quantized(bias, np.full(maps, 0.0005), np.zeros(maps))
        else:
            data = self.rng.standard_normal(shape, np.float32) * np.float32((2 / np.prod(shape[1:])) ** 0.5)
            weights = self.net.constant(f"w{len(self.net.tensors)}", data)
            bias = self.net.constant(f"b{len(self.net.tensors)}", np.zeros(maps))
        if code == "CONV_2D":
            sides = (self.window(s, shape[1], stride, 0) for s in self.shape[1:3])
            self.shape = (1, *sides, maps)
            opts = options(kind, padding=0, strideH=stride, strideW=stride, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=activation)
        else:
            self.shape = (1, maps)
            opts = options(kind, fusedActivationFunction=activation)
        self.x = self.scaled(self.net.op(code, [self.x, weights, bias], [self.shape], opts, self.type))


def lite(name, integers, threads):
    """A function that takes the time of an inference."""
    runtime = Interpreter(model_content=bytes(write([Lite(name, integers).net])), num_threads=threads)
    runtime.allocate_tensors()
    detail = runtime.get_input_details()[0]
    image = np.random.default_rng(1).integers(-128 if integers else 0, 127, detail["shape"]).astype(detail["dtype"])
    runtime.set_tensor(detail["index"], image)

    def run():
        start = time.perf_counter()
        runtime.invoke()
        return (time.perf_counter() - start) * 1e3

    run()
    return run


BUILDS = {
    "opencl": (["cc", "-O2"], ["-lOpenCL"], []),
    "neon": (["aarch64-linux-gnu-gcc", "-O3", "-static"], [], ["qemu-aarch64", "-cpu", "max"]),
}


def emitted(trainc, model, folder, threads, target):
    """Likewise, of the code that a target emits."""
    compiler, libraries, runner = BUILDS[target]
    subprocess.run([trainc, "compile", model, *WORDS, "--target", target, "-o", folder], check=True, capture_output=True)
    header = next(p for p in folder.glob("*.h") if p.with_suffix(".rs").exists())
    (folder / "main.c").write_text(MAIN.replace("@p@", header.stem).replace("@P@", header.stem.upper()))
    program = folder / "main"
    sources = [str(p) for p in folder.glob("*.c")]
    subprocess.run([*compiler, "-std=c99", "-ffp-contract=off", *sources, *libraries, "-o", program], check=True)
    environment = {**os.environ, "POCL_MAX_PTHREAD_COUNT": str(threads)}
    process = subprocess.Popen([*runner, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def run():
        process.stdin.write("x")
        process.stdin.flush()
        return float(process.stdout.readline())

    run()
    return run


def host(trainc, model, threads):
    """Likewise, of the target host."""
    def run():
        words = [trainc, "bench", model, *WORDS, "--target", "host", "--message-format", "json"]
        environment = {**os.environ, "TRAINC_THREADS": str(threads)}
        output = subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout
        return json.loads(output.splitlines()[-1])["units"] / 1e6

    return run


WORDS = ["--algorithm", "bnn-ste", "--freeze", "*", "--batch", "1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainc")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", nargs="+", default=[], choices=["opencl", "neon", "host"], help="what is not timed")
    arguments = parser.parse_args()
    for name in arguments.networks:
        with tempfile.TemporaryDirectory() as place:
            place = pathlib.Path(place)
            model = place / "model.onnx"
            subprocess.run([arguments.trainc, "zoo", name, "--bytes", "-o", model], check=True, capture_output=True)
            ways = {
                "TFLite FP32": lite(name, False, arguments.threads),
                "TFLite INT8": lite(name, True, arguments.threads),
            }
            for target in ("opencl", "neon"):
                if target not in arguments.without:
                    ways[f"trainc {target}"] = emitted(arguments.trainc, model, place / target, arguments.threads, target)
            if "host" not in arguments.without:
                ways["trainc host"] = host(arguments.trainc, model, arguments.threads)
            times = {way: [] for way in ways}
            for _ in range(arguments.rounds):
                for way, run in ways.items():
                    times[way].append(run())
            least = {way: min(all) for way, all in times.items()}
            for way, all in times.items():
                ratios = [f"{least[other] / least[way]:.2f} x as fast as {other}" for other in list(ways)[:2]]
                median = statistics.median(all)
                print(f"{name:20} {way:14} {least[way]:8.1f} ms, median {median:.1f}; {', '.join(ratios)}", flush=True)


if __name__ == "__main__":
    main()
