#!/usr/bin/env python3
"""Pack the ONNX node tests this compiler is measured against into one archive.

Reads the backend node tests inside an installed `onnx` wheel (newer wheels no
longer hold them, hence the pinned version) and writes
`tests/data/onnx-node-tests/node-tests.tar.gz` and the README beside it.

    pip install onnx==1.20.1
    python tests/reference/pack_onnx_node_tests.py

The archive depends on nothing but the wheel: entries are sorted, times and
owners are zero, and the gzip header carries neither a name nor a time.
"""

import collections
import gzip
import io
import pathlib
import sys
import tarfile

import onnx

ONNX_VERSION = "1.20.1"
MAX_TEST_BYTES = 300_000
DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "onnx-node-tests"

OPERATORS = frozenset(
    """
    Conv Gemm MatMul Add Sub Mul Div Neg Abs Exp Log Sqrt Reciprocal Pow Tanh
    Sigmoid Erf Relu LeakyRelu Clip Max Min MaxPool AveragePool
    GlobalAveragePool GlobalMaxPool BatchNormalization Dropout Softmax
    LogSoftmax SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss ReduceSum
    ReduceMean ReduceMax Concat Flatten Reshape Transpose Squeeze Unsqueeze
    Slice Split Pad Expand Shape Size Gather Cast Constant ConstantOfShape
    Identity Where Equal Range Sum Mean Sign Floor Ceil HardSwish HardSigmoid
    Gelu LayerNormalization QuantizeLinear DequantizeLinear
    GatherElements GatherND ScatterElements ScatterND Less LessOrEqual Greater
    GreaterOrEqual And Or Xor Not Bernoulli Celu Elu Selu Mish Softplus
    Softsign ThresholdedRelu PRelu DepthToSpace SpaceToDepth Trilu Einsum Resize
    Upsample ConvTranspose InstanceNormalization GroupNormalization
    LpNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMin
    ReduceSumSquare LSTM GRU RNN
    """.split()
)

_T = onnx.TensorProto
# Cast between these only: no strings and no types narrower than a byte.
CAST_TYPES = frozenset(
    (_T.FLOAT, _T.DOUBLE, _T.FLOAT16, _T.BFLOAT16, _T.BOOL)
    + (_T.INT8, _T.INT16, _T.INT32, _T.INT64)
    + (_T.UINT8, _T.UINT16, _T.UINT32, _T.UINT64)
)


def attribute(node, name):
    """The value of a node's attribute, or None."""
    for item in node.attribute:
        if item.name == name:
            return onnx.helper.get_attribute_value(item)
    return None


def reason_to_drop(model, size):
    """Why a test is not packed, in words, or None if it is."""
    graph = model.graph
    names = {(node.domain, node.op_type) for node in graph.node}
    if not any(op in OPERATORS for _, op in names):
        return "other operators"
    if not all(domain in ("", "ai.onnx") and op in OPERATORS for domain, op in names):
        # Mostly `_expanded` tests, which spell one operator as several.
        return "selected operators together with others"
    values = list(graph.input) + list(graph.output)
    if not all(value.type.HasField("tensor_type") for value in values):
        return "sequences or optionals"
    types = {value.name: value.type.tensor_type for value in values}
    for node in graph.node:
        present = [types[name] for name in node.input if name in types]
        if node.op_type in ("MaxPool", "AveragePool"):
            if any(len(item.shape.dim) not in (3, 4) for item in present):
                return "pooling that is not 1-D or 2-D"
        elif node.op_type in ("Max", "Min"):
            if len(node.input) != 2:
                return "Max or Min without two inputs"
        elif node.op_type == "Pad":
            if attribute(node, "mode") not in (None, b"constant"):
                return "Pad that is not constant"
        elif node.op_type == "Cast":
            kinds = {item.elem_type for item in present} | {attribute(node, "to")}
            if not kinds <= CAST_TYPES:
                return "Cast of strings or narrow types"
    if size > MAX_TEST_BYTES:
        return f"larger than {MAX_TEST_BYTES} bytes"
    return None


def main():
    if onnx.__version__ != ONNX_VERSION:
        sys.exit(f"onnx {ONNX_VERSION} is needed, found {onnx.__version__}")
    source = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    kept, dropped = [], collections.Counter()
    per_operator, alone = collections.Counter(), collections.Counter()
    largest = []
    for folder in sorted(source.iterdir()):
        if not (folder / "model.onnx").is_file():
            continue
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in files)
        model = onnx.load(folder / "model.onnx")
        reason = reason_to_drop(model, size)
        if reason:
            dropped[reason] += 1
            if reason.startswith("larger"):
                largest.append(f"{folder.name} ({size})")
            continue
        kept.append((folder, files, size))
        operators = {node.op_type for node in model.graph.node}
        per_operator.update(operators)
        if len(operators) == 1:
            alone.update(operators)

    missing = OPERATORS - set(alone)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder, files, _ in kept:
            for path in files:
                data = path.read_bytes()
                entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
                entry.size, entry.mode, entry.mtime = len(data), 0o644, 0
                archive.addfile(entry, io.BytesIO(data))
    DESTINATION.mkdir(parents=True, exist_ok=True)
    with open(DESTINATION / "node-tests.tar.gz", "wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=raw, mtime=0) as out:
            out.write(packed.getvalue())
    unpacked_bytes = sum(size for _, _, size in kept)
    packed_bytes = (DESTINATION / "node-tests.tar.gz").stat().st_size
    write_readme(kept, dropped, largest, per_operator, alone, unpacked_bytes, packed_bytes)
    print(f"{len(kept)} tests, {unpacked_bytes} bytes, {packed_bytes} packed")
    print("dropped:", dict(dropped), largest)
    print("operators without a test of their own:", sorted(missing))


def write_readme(kept, dropped, largest, per_operator, alone, unpacked_bytes, packed_bytes):
    """Write the README with where the tests come from and what was counted."""
    lines = [
        "# ONNX node tests",
        "",
        f"`node-tests.tar.gz` holds {len(kept)} of the backend node tests in the Python wheel of",
        f"[ONNX](https://github.com/onnx/onnx) {ONNX_VERSION} (`onnx/backend/test/data/node`),",
        "copyright of the ONNX project contributors, licensed under Apache-2.0",
        "(`LICENSE-APACHE` in the root of this repository has the text). The files are unchanged.",
        "",
        f"Unpacked they are {unpacked_bytes:,} bytes, packed {packed_bytes:,}. The layout is that of the wheel:",
        "`<test>/model.onnx`, and `<test>/test_data_set_<k>/input_<i>.pb` and `output_<i>.pb`, each one `TensorProto`",
        "for the i-th input and output of the graph. The `test_training_dropout_*` outputs come from NumPy's generator,",
        "so only that generator can reproduce them.",
        "",
        "`tests/reference/pack_onnx_node_tests.py` recreates the archive and this page.",
        "",
        "## Selection",
        "",
        "A test is packed when every operator of its graph is one of those counted below. Left out:",
        "",
    ]
    lines += [f"- {reason}: {count}" for reason, count in sorted(dropped.items())]
    if largest:
        lines += ["", "Too large: " + ", ".join(f"`{name}`" for name in largest) + "."]
    lines += ["", "## Tests per operator", "", "| operator | tests | of it alone |"]
    lines += ["| --- | ---: | ---: |"]
    lines += [f"| {name} | {per_operator[name]} | {alone[name]} |" for name in sorted(per_operator)]
    lines += ["", "A test whose graph has several operators counts once for each in the first column.", ""]
    (DESTINATION / "README.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
