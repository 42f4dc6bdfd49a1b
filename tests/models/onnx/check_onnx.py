"""Compares what ONNX Runtime computes with the expected outputs: check_onnx.py FOLDER

For each NAME.onnx in the folder, NAME.*.safetensors have inputs "in/..." and outputs "out/...", and the tolerance, a
factor of the largest output, in their metadata. Prints the largest difference of each model, and what is wrong.
"""
import glob
import json
import os
import struct
import sys

import numpy
import onnx
import onnxruntime

TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "U8": "uint8",
         "BOOL": "bool", "BF16": "uint16"}


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tolerance = float(header.pop("__metadata__")["tolerance"])
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        value = numpy.frombuffer(data[begin:end], TYPES[info["dtype"]])
        if info["dtype"] == "BF16":
            value = (value.astype(numpy.uint32) << 16).view(numpy.float32)
        tensors[name] = value.reshape(info["shape"])
    return tensors, tolerance


def in_float32(model):
    """NumPy has no bfloat16, so outputs of it are cast."""
    for output in model.graph.output:
        if output.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            for node in model.graph.node:
                if output.name in node.output:
                    node.op_type = "Cast"
                    node.attribute.append(onnx.helper.make_attribute("to", onnx.TensorProto.FLOAT))
    return model


def compare(actual, expected):
    """What differs in kind, or "" and the largest difference as a factor of the largest element."""
    if actual.shape != expected.shape:
        return f"has shape {actual.shape}, not {expected.shape}", 0
    if actual.dtype != expected.dtype:
        return f"is {actual.dtype}, not {expected.dtype}", 0
    a, b = actual.astype(numpy.float64), expected.astype(numpy.float64)
    if not numpy.array_equal(numpy.isnan(a), numpy.isnan(b)):
        return "has other NaNs", 0
    if not a.size or numpy.isnan(a).all():
        return "", 0
    return "", numpy.nanmax(numpy.abs(a - b)) / max(numpy.nanmax(numpy.abs(b)), 1e-30)


def check(path):
    """The number of outputs compared, their largest difference, and what is wrong."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(in_float32(model).SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    compared, worst, wrong = 0, 0, []
    for case in sorted(glob.glob(glob.escape(path[:-len("onnx")]) + "*.safetensors")):
        tensors, tolerance = read(case)
        inputs = {key[3:]: value for key, value in tensors.items() if key.startswith("in/")}
        for output, actual in zip(outputs, session.run(outputs, inputs)):
            compared += 1
            what, difference = compare(actual, tensors["out/" + output])
            worst = max(worst, difference)
            if not what and not difference <= tolerance:
                what = f"differs by {difference:.3g} of the largest element, more than {tolerance:g}"
            if what:
                wrong.append(f"{os.path.basename(case)}: {output} {what}")
    return compared, worst, wrong


def main(folder):
    all_compared, all_wrong = 0, []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.onnx"))):
        name = os.path.basename(path)
        try:
            compared, worst, wrong = check(path)
        except Exception as error:  # of any library, for one model of many
            compared, worst, wrong = 0, float("nan"), [f"{name}: {type(error).__name__}: {error}"]
        print(f"{name}: {compared} outputs, largest difference {worst:.2g}")
        all_compared += compared
        all_wrong += wrong
    print("\n".join(all_wrong + [f"{all_compared} outputs compared, {len(all_wrong)} wrong"]))
    return 1 if all_wrong or not all_compared else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
