"""Runs a saved model from Python, by the C interface of libbelfry_inference and without any other package: prints its
inputs and outputs, and what it computes for one example of zeros.

  python3 run_model.py cifar.safetensors [libbelfry_inference.so.0.1]
"""
import ctypes
import sys


class Tensor(ctypes.Structure):  # belfry_tensor
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("extents", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]

    def shape(self):
        return self.extents[:self.rank]

    def values(self):
        element = (ctypes.c_float, ctypes.c_double, ctypes.c_uint16, ctypes.c_uint16, ctypes.c_int32, ctypes.c_int64,
                   ctypes.c_uint8, ctypes.c_bool)[self.dtype]
        count = self.bytes // ctypes.sizeof(element)
        return list((element * count).from_address(self.data)) if count else []


def load(path):
    library = ctypes.CDLL(path)
    for name, result, *arguments in (
        ("model_open", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
        ("model_close", None, ctypes.c_void_p), ("runner_destroy", None, ctypes.c_void_p),
        ("model_input", ctypes.POINTER(Tensor), ctypes.c_void_p, ctypes.c_int),
        ("model_output", ctypes.POINTER(Tensor), ctypes.c_void_p, ctypes.c_int),
        ("runner_create", ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)),
         ctypes.POINTER(ctypes.c_char_p)),
        ("runner_input", ctypes.POINTER(Tensor), ctypes.c_void_p, ctypes.c_int), ("free", None, ctypes.c_void_p),
        ("runner_output", ctypes.POINTER(Tensor), ctypes.c_void_p, ctypes.c_int),
        ("runner_run", ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p))):
        function = getattr(library, "belfry_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def all_of(function, handle):
    tensors = []
    while tensor := function(handle, len(tensors)):
        tensors.append(tensor.contents)
    return tensors


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: run_model.py MODEL [LIBRARY]")
    library = load(sys.argv[2] if len(sys.argv) > 2 else "libbelfry_inference.so.0.1")
    error = ctypes.c_char_p()
    model = library.belfry_model_open(sys.argv[1].encode(), 0, ctypes.byref(error))
    if not model:
        sys.exit("run_model.py: " + error.value.decode())
    inputs = all_of(library.belfry_model_input, model)
    for tensor in inputs:
        print(f"input   {tensor.name.decode()}: {tensor.shape()}")
    shapes = [(ctypes.c_int64 * tensor.rank)(*(max(extent, 1) for extent in tensor.shape())) for tensor in inputs]
    pointers = (ctypes.POINTER(ctypes.c_int64) * len(shapes))(
        *(ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)) for shape in shapes))
    runner = library.belfry_runner_create(model, pointers, ctypes.byref(error))
    for tensor in all_of(library.belfry_runner_input, runner) if runner else []:
        ctypes.memset(tensor.data, 0, tensor.bytes)
    if not runner or library.belfry_runner_run(runner, ctypes.byref(error)):
        sys.exit("run_model.py: " + error.value.decode())
    for tensor in all_of(library.belfry_runner_output, runner):
        print(f"output  {tensor.name.decode()}: {tensor.shape()} {tensor.values()[:10]}")
    library.belfry_runner_destroy(runner)
    library.belfry_model_close(model)


if __name__ == "__main__":
    main()
