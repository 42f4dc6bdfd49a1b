"""Latency and memory of saved models in libbelfry_inference, beside onnxruntime on the same threads.

    ./dev build
    python3 -m venv peers && peers/bin/pip install onnxruntime numpy
    build/release/bin/cifar10 --model=resnet20 --steps=1 --export=/tmp/resnet20.safetensors
    peers/bin/python benchmarks/peers/inference.py /tmp/resnet20.safetensors

Each model is exported to ONNX; both sides then compute the same batch of random numbers (integers: below 10), must agree
within 1e-4 of the largest output, and are timed in turn, each in a process of its own. Printed are medians [fastest ..
slowest] of a call, the median ratio of the rounds, the time from the start of the process's work to the first answer,
and the peak of its memory without pages of files. With --runners=N, N threads of a process compute at the same time, each
with a runner or binding of its own on the one model, and the times are those of N calls divided by N.
"""
import argparse
import concurrent.futures
import os
import statistics
import subprocess
import sys
import tempfile
import time

import side as sides_of

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "build", "release")


def belfry(model, threads, extents):
    """Returns a function that makes a runner: its inputs, its outputs, and a function that computes."""
    import ctypes
    import numpy
    sys.path.insert(0, os.path.join(HERE, "..", "..", "examples"))
    import run_model

    library = run_model.load(os.path.join(BUILD, "lib", "libbelfry_inference.so"))
    library.belfry_runner_input.restype = ctypes.POINTER(run_model.Tensor)
    library.belfry_runner_input.argtypes = [ctypes.c_void_p, ctypes.c_int]
    error = ctypes.c_char_p()
    handle = library.belfry_model_open(model.encode(), threads, ctypes.byref(error))
    if not handle:
        sys.exit(error.value.decode())
    types = (numpy.float32, numpy.float64, numpy.float16, numpy.uint16, numpy.int32, numpy.int64, numpy.uint8, bool)
    inputs = run_model.all_of(library.belfry_model_input, handle)
    shapes = [(ctypes.c_int64 * t.rank)(*resolve(t.shape(), extents)) for t in inputs]
    pointers = (ctypes.POINTER(ctypes.c_int64) * len(shapes))(
        *(ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)) for shape in shapes))

    def array(tensor):
        bytes_of = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
        return numpy.frombuffer(bytes_of, types[tensor.dtype]).reshape(tensor.shape())

    def make():
        runner = library.belfry_runner_create(handle, pointers, ctypes.byref(error))
        if not runner:
            sys.exit(error.value.decode())

        def compute():
            if library.belfry_runner_run(runner, None) != 0:
                sys.exit("a run failed")

        return ([array(t) for t in run_model.all_of(library.belfry_runner_input, runner)],
                [array(t) for t in run_model.all_of(library.belfry_runner_output, runner)], compute)

    return make


def onnxruntime(model, threads, extents):
    import numpy
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model + ".onnx", options, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": numpy.float32, "tensor(int32)": numpy.int32, "tensor(int64)": numpy.int64}

    class Outputs:
        def __init__(self, binding):
            self.binding = binding

        def __iter__(self):
            return iter(self.binding.copy_outputs_to_cpu())

    def make():
        binding, fed = session.io_binding(), []
        for value in session.get_inputs():
            shape = resolve([-1 if isinstance(extent, str) else extent for extent in value.shape], extents)
            fed.append(numpy.zeros(shape, types[value.type]))
            binding.bind_cpu_input(value.name, fed[-1])
        for value in session.get_outputs():
            binding.bind_output(value.name)
        return fed, Outputs(binding), lambda: session.run_with_iobinding(binding)

    return make


def resolve(shape, extents):
    """The open extents: the first one is the batch, others are lengths."""
    return [extent if extent >= 0 else extents[min(i, 1)] for i, extent in enumerate(shape)]


def serve(side, model, threads, runners, extents):
    """Computes when told to."""
    begin = time.perf_counter()
    make = {"Belfry": belfry, "onnxruntime": onnxruntime}[side](model, threads, extents)
    all_runners = [make()]
    all_runners[0][2]()
    first = time.perf_counter() - begin
    import numpy
    import serving
    all_runners += [make() for _ in range(runners - 1)]
    for fed, _, compute in all_runners:
        random = numpy.random.default_rng(1)
        for array in fed:
            numbers = random.standard_normal(array.shape) if array.dtype.kind == "f" else random.integers(0, 10, array.shape)
            array[...] = numbers
        compute()
    outputs = [float(x) for array in all_runners[-1][1] for x in numpy.asarray(array, numpy.float64).ravel()[:100000]]
    pool = concurrent.futures.ThreadPoolExecutor(runners)

    def compute_all():
        for done in [pool.submit(compute) for _, _, compute in all_runners]:
            done.result()

    serving.answer({"first": first, "outputs": outputs}, all_runners[0][2] if runners == 1 else compute_all, serving.peak)


def compare(model, threads, runners, arguments):
    command = [sys.executable, __file__, model, f"--threads={threads}", f"--runners={runners}",
               f"--batch={arguments.batch}", f"--length={arguments.length}"]
    with sides_of.Sides() as sides:
        for name in ("Belfry", "onnxruntime"):
            sides.append(sides_of.Side(name, [*command, f"--serve={name}"], threads, environment={}))
        ours, theirs = (side.ready["outputs"] for side in sides)
        largest = max(map(abs, theirs), default=1)
        worst = max((abs(a - b) for a, b in zip(ours, theirs)), default=0)
        if len(ours) != len(theirs) or not worst <= 1e-4 * largest:
            sys.exit(f"{model}: outputs differ by {worst}, of up to {largest}")
        sides_of.run_in_turn(sides, arguments.rounds + 1, arguments.seconds, 1)  # the first one warms up
    for side in sides:
        times = sorted(1e6 / rate / runners for rate in side.rates[1:])
        print(f"{os.path.basename(model):28} {runners:2} x {threads} thread{'s' if threads > 1 else ' '}  {side.name:12}"
              f" {statistics.median(times):10.1f} us [{times[0]:.1f} .. {times[-1]:.1f}]"
              f"  first answer {1e3 * side.ready['first']:.1f} ms, {side.peak_bytes / 2**20:.0f} MiB")
    ratios = sorted(a / b for a, b in zip(sides[0].rates[1:], sides[1].rates[1:]))
    print(f"{'':28} {'':15} times faster {statistics.median(ratios):10.2f}    [{ratios[0]:.2f} .. {ratios[-1]:.2f}];"
          f" outputs differ by {worst / largest:.1e} of the largest", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="saved models")
    parser.add_argument("--threads", default="1", help="such as 1,2")
    parser.add_argument("--runners", default="1", help="such as 1,2,4,8,16,32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=64, help="of sequences")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a side in a round")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve, arguments.models[0], int(arguments.threads), int(arguments.runners),
                     (arguments.batch, arguments.length))
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, os.path.basename(model))
            os.symlink(os.path.abspath(model), copy)
            subprocess.run([os.path.join(BUILD, "bin", "export_onnx"), copy, "--output=" + copy + ".onnx"], check=True,
                           stdout=subprocess.DEVNULL)
            for threads in map(int, arguments.threads.split(",")):
                for runners in map(int, arguments.runners.split(",")):
                    compare(copy, threads, runners, arguments)


if __name__ == "__main__":
    main()
