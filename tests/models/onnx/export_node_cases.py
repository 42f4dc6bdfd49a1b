"""Writes the cases of nodes that the onnx package has, with their stated outputs: export_node_cases.py FOLDER

NAME.onnx is a model of one node, and NAME.known.onnx the same with all its inputs but the first as initializers, for
ops that need to know them. NAME.safetensors has inputs "in/0" ... and outputs "out/0" ..., and NAME.known.safetensors
its own. Cases of dtypes that NumPy or Belfry lack, of operators beside the standard's and of opsets before 7 are left
out.
"""
import json
import os
import struct
import sys
import warnings

import numpy
import onnx
from onnx.backend.test.case.node import collect_testcases

warnings.filterwarnings("ignore")
TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8",
         "bool": "BOOL"}


def save(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        piece = numpy.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": TYPES[str(value.dtype)], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write(path, model, inputs, outputs):
    onnx.save(model, path + ".onnx")
    tensors = {f"in/{i}": value for i, value in enumerate(inputs)}
    save(path + ".safetensors", {**tensors, **{f"out/{k}": value for k, value in enumerate(outputs)}})


def known(model, inputs):
    """The model with its later inputs as initializers."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for end, value in zip(model.graph.input[1:], inputs[1:]):
        result.graph.initializer.append(onnx.numpy_helper.from_array(value, end.name))
    del result.graph.input[1:]
    return result


def main(folder):
    for case in collect_testcases(None):
        opset = case.model.opset_import[0]
        if len(case.model.graph.node) != 1 or len(case.data_sets) == 0 or opset.domain != "" or opset.version < 7:
            continue
        inputs, outputs = case.data_sets[0]
        plain = all(isinstance(value, (numpy.ndarray, numpy.generic)) and str(value.dtype) in TYPES
                    for value in [*inputs, *outputs])
        if not plain or any(not end.type.HasField("tensor_type") for end in case.model.graph.input):
            continue
        inputs = [numpy.asarray(value) for value in inputs]
        outputs = [numpy.asarray(value) for value in outputs]
        path = os.path.join(folder, case.name)
        write(path, case.model, inputs, outputs)
        if len(inputs) > 1:
            write(path + ".known", known(case.model, inputs), inputs[:1], outputs)


main(sys.argv[1])
