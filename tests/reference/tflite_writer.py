"""Writes small TensorFlow Lite models table by table, with the schema that the LiteRT package ships."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

TYPES = {
    np.dtype(np.float32): schema.TensorType.FLOAT32,
    np.dtype(np.float16): schema.TensorType.FLOAT16,
    np.dtype(np.int32): schema.TensorType.INT32,
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.uint8): schema.TensorType.UINT8,
}
CODES = schema.BuiltinOperator
# From which on kernels take integers of 8 bits and what else the models have; 1 for all others.
VERSIONS = {
    "ADD": 2, "AVERAGE_POOL_2D": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "DEQUANTIZE": 3, "FULLY_CONNECTED": 5,
    "MAX_POOL_2D": 2, "SOFTMAX": 2, "TRANSPOSE": 2,
}


class Net:
    """One subgraph."""

    def __init__(self, name="main"):
        self.name = name
        self.tensors, self.data, self.operators = [], [], []
        self.inputs, self.outputs = [], []

    def tensor(self, name, shape, dtype=np.float32, data=None, signature=None):
        """A tensor: a constant if it has data. Its position."""
        t = schema.TensorT()
        t.name, t.shape = name.encode(), list(shape)
        t.type = dtype if isinstance(dtype, int) else TYPES[np.dtype(dtype)]
        t.hasRank = True
        if signature is not None:
            t.shapeSignature = list(signature)
        self.tensors.append(t)
        self.data.append(None if data is None else np.ascontiguousarray(data))
        return len(self.tensors) - 1

    def input(self, name, shape, dtype=np.float32, signature=None):
        self.inputs.append(self.tensor(name, shape, dtype, signature=signature))
        return self.inputs[-1]

    def constant(self, name, data, dtype=np.float32):
        data = np.asarray(data, dtype)
        return self.tensor(name, data.shape, dtype, data)

    def ints(self, values):
        return self.constant(f"ints_{len(self.tensors)}", np.asarray(values), np.int32)

    def op(self, code, inputs, shapes, options=None, dtype=np.float32, custom=None, signature=None):
        """An operator with results of these shapes; the position of the result, or of all."""
        results = [
            self.tensor(f"{code.lower()}_{len(self.operators)}_{i}", s, dtype, signature=signature)
            for i, s in enumerate(shapes)
        ]
        self.operators.append((code, list(inputs), results, options, custom))
        return results[0] if len(results) == 1 else results

    def quantized(self, tensor, scale, zero, axis=0):
        q = schema.QuantizationParametersT()
        q.scale = [float(s) for s in np.atleast_1d(scale)]
        q.zeroPoint = [int(z) for z in np.atleast_1d(zero)]
        q.quantizedDimension = axis
        self.tensors[tensor].quantization = q


def options(kind, **fields):
    """A table of options: its kind without `Options`, and its fields."""
    table = getattr(schema, kind + "OptionsT")()
    for key, value in fields.items():
        assert hasattr(table, key), key
        setattr(table, key, value)
    return getattr(schema.BuiltinOptions, kind + "Options"), table


def write(nets, signatures=()):
    """The bytes of a model of these subgraphs; signatures are (key, subgraph, inputs, outputs) with dicts of names."""
    model = schema.ModelT()
    model.version, model.description = 3, b"trainc"
    model.buffers, model.operatorCodes, model.subgraphs = [schema.BufferT()], [], []
    codes = {}
    for net in nets:
        g = schema.SubGraphT()
        g.name, g.tensors, g.operators = net.name.encode(), net.tensors, []
        g.inputs, g.outputs = net.inputs, net.outputs
        for tensor, data in zip(net.tensors, net.data):
            tensor.buffer = 0
            if data is not None:
                buffer = schema.BufferT()
                buffer.data = np.frombuffer(data.tobytes(), np.uint8)
                tensor.buffer = len(model.buffers)
                model.buffers.append(buffer)
        for code, inputs, outputs, opts, custom in net.operators:
            if code not in codes:
                entry = schema.OperatorCodeT()
                number = CODES.CUSTOM if custom is not None else getattr(CODES, code)
                entry.builtinCode, entry.deprecatedBuiltinCode = number, min(number, 127)
                entry.customCode = code.encode() if custom is not None else None
                entry.version = VERSIONS.get(code, 1)
                codes[code] = len(model.operatorCodes)
                model.operatorCodes.append(entry)
            op = schema.OperatorT()
            op.opcodeIndex, op.inputs, op.outputs = codes[code], inputs, outputs
            if opts is not None:
                op.builtinOptionsType, op.builtinOptions = opts
            if custom is not None:
                op.customOptions = np.frombuffer(bytes(flexbuffers.Dumps(custom)), np.uint8)
            g.operators.append(op)
        model.subgraphs.append(g)
    model.signatureDefs = []
    for key, subgraph, inputs, outputs in signatures:
        s = schema.SignatureDefT()
        s.signatureKey, s.subgraphIndex = key.encode(), subgraph

        def maps(names):
            found = []
            for name, tensor in names.items():
                entry = schema.TensorMapT()
                entry.name, entry.tensorIndex = name.encode(), tensor
                found.append(entry)
            return found

        s.inputs, s.outputs = maps(inputs), maps(outputs)
        model.signatureDefs.append(s)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
