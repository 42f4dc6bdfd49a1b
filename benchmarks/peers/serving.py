"""One side of a comparison: a process that trains when told to. README.md describes the protocol."""
import argparse
import json
import sys
import time

import numpy

WARM_UP_STEPS = 5


def read_problem(path):
    """The tensors of a safetensors file, by name."""
    types = {"F32": numpy.float32, "I32": numpy.int32, "I64": numpy.int64}
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        tensors[name] = numpy.frombuffer(data[begin:end], types[info["dtype"]]).reshape(info["shape"])
    return tensors


def parser(description):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--problem", required=True, help="file written by `training --write_problem`")
    result.add_argument("--model", required=True)
    result.add_argument("--threads", type=int, default=1)
    result.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    return result


def memory(key):
    """Memory of this process in bytes: RssAnon and RssFile are resident now, VmHWM is the peak."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


def peak(before=0):
    """The most bytes in use, without pages of files, beyond `before`."""
    return memory("VmHWM") - memory("RssFile") - before


def forget_peak():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:  # memory that was needed only to build and compile then counts too
        pass


def rate(step, finish, seconds):
    """Steps per second."""
    steps, batch, elapsed, begin = 0, 1, 0.0, time.perf_counter()
    while elapsed < seconds:
        for _ in range(batch):
            step()
        steps += batch
        elapsed = time.perf_counter() - begin
        if elapsed < seconds / 16:
            batch *= 2
    finish()
    return steps / (time.perf_counter() - begin)


def serve(compared, build, version, device_peak=None):
    """Serves the protocol for one model.

    `compared` is the number of first steps whose losses are compared. `build()` makes the model and returns two functions:
    one trains a step and returns a loss that float() converts, the other waits until all steps are done. `device_peak()`
    returns the peak bytes in use on a device with its own memory.
    """
    before = memory("RssAnon")
    step, finish = build()
    losses = [float(step()) for _ in range(compared)]
    for _ in range(WARM_UP_STEPS):
        step()
    finish()
    forget_peak()
    answer({"losses": losses, "version": version}, step, device_peak or (lambda: peak(before)), finish)


def answer(ready, step, peak_bytes, finish=lambda: None):
    """Prints `ready`, then times steps when told to. `peak_bytes()` returns their peak memory."""
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        if len(words) != 2 or words[0] != "go":
            sys.exit(f'expected "go SECONDS" or "quit", not "{line.strip()}"')
        steps = rate(step, finish, float(words[1]))
        print(json.dumps({"steps_per_second": steps, "peak_bytes": peak_bytes()}), flush=True)
