#!/usr/bin/env python3
"""Train a binary network with Larq on the repository's digits, convert it, and record what Larq Compute Engine predicts.

    pip install larq-compute-engine==0.16.0 larq==0.13.3 'tensorflow-cpu>=2.10,<2.19' tf-keras
    TF_USE_LEGACY_KERAS=1 python tests/reference/larq_digits.py

Writes `larq_digits.tflite` and its archive: the test images (`in_0`, pixels from 0 to 1 as FP32), their labels and the scores
of Larq's own interpreter (`out_0`).
"""

import gzip
import os
import pathlib

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import larq as lq
import larq_compute_engine as lce
import numpy as np
import tensorflow as tf
from larq_compute_engine.tflite.python.interpreter import Interpreter

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DESTINATION = ROOT / "tests" / "data" / "tflite"


def digits():
    """As `Dataset::digits` splits them: of each class every fourth image is a test image."""
    folder = ROOT / "compiler" / "data" / "digits"
    images = np.frombuffer(gzip.decompress((folder / "images.idx3.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((folder / "labels.idx1.gz").read_bytes()), np.uint8, offset=8)
    images = ((images.reshape(-1, 8, 8, 1).astype(np.int32) * 255 + 8) // 16).astype(np.float32) / np.float32(255)
    seen = np.zeros(10, int)
    test = np.zeros(len(labels), bool)
    for i, label in enumerate(labels):
        seen[label] += 1
        test[i] = seen[label] % 4 == 0
    labels = labels.astype(np.int32)
    return (images[~test], labels[~test]), (images[test], labels[test])


def network():
    """A first layer of FP32 values by signs, borders of ones and of zeros, none, a shortcut, a stride, and an FP32 end."""
    layers = tf.keras.layers
    signs = dict(input_quantizer="ste_sign", kernel_quantizer="ste_sign", kernel_constraint="weight_clip", use_bias=False)
    first = dict(signs, input_quantizer=None)

    def normalized(y):
        return layers.BatchNormalization(momentum=0.9)(y)

    x = tf.keras.Input((8, 8, 1))
    y = normalized(lq.layers.QuantConv2D(32, 3, padding="same", **first)(x))
    z = normalized(lq.layers.QuantConv2D(32, 3, padding="same", pad_values=1.0, **signs)(y))
    y = layers.Add()([y, z])
    y = lq.layers.QuantConv2D(48, 3, padding="same", pad_values=1.0, **signs)(y)
    y = normalized(layers.MaxPool2D(2)(y))
    y = normalized(lq.layers.QuantConv2D(64, 3, padding="same", pad_values=0.0, activation="relu", **signs)(y))
    y = normalized(lq.layers.QuantConv2D(40, 3, strides=1, padding="valid", **signs)(y))
    y = normalized(lq.layers.QuantConv2D(32, 1, padding="valid", **signs)(y))
    y = layers.Dense(10)(layers.Flatten()(y))
    return tf.keras.Model(x, y)


def main():
    tf.keras.utils.set_random_seed(7)
    (images, labels), (tests, answers) = digits()
    model = network()
    model.compile(
        tf.keras.optimizers.Adam(0.01),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(images, labels, batch_size=32, epochs=8, verbose=2, validation_data=(tests, answers))
    model.optimizer.learning_rate = 0.001
    model.fit(images, labels, batch_size=32, epochs=6, verbose=2, validation_data=(tests, answers))
    content = lce.convert_keras_model(model)
    # `use_reference_bconv` selects Larq's plain loops; its optimised kernels must agree with them.
    results = {}
    for reference in (True, False):
        interpreter = Interpreter(content, use_reference_bconv=reference)
        results[reference] = np.asarray(interpreter.predict(tests, verbose=0), np.float32)
    scores = results[True]
    worst = np.abs(scores - results[False]).max()
    print(f"optimised kernels: {worst} off of {np.abs(scores).max()}")
    assert np.array_equal(scores.argmax(1), results[False].argmax(1))
    print(f"Larq Compute Engine: {(scores.argmax(1) == answers).mean():.4f} right; {len(content)} bytes")
    (DESTINATION / "larq_digits.tflite").write_bytes(content)
    np.savez_compressed(DESTINATION / "larq_digits.npz", in_0=tests, labels=answers.astype(np.float32), out_0=scores)


if __name__ == "__main__":
    main()
