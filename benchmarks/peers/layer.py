"""Times one layer in Belfry and in PyTorch, in turn, after checking that both compute the same."""
import argparse
import os
import statistics
import sys

import side as sides_of


def parser(description, program, shapes, dimensions):
    """`shapes` is the default of --shapes, and `dimensions` says what their numbers are."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--belfry", default=f"build/release/benchmarks/{program}")
    result.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    result.add_argument("--threads", default="1,2")
    result.add_argument("--shapes", default=shapes, help=f"{dimensions}, separated by commas")
    result.add_argument("--rounds", type=int, default=7)
    result.add_argument("--seconds", type=float, default=0.5)
    result.add_argument("--side", help=argparse.SUPPRESS)  # this process is PyTorch's side, of this shape
    result.add_argument("--backward", action="store_true", help=argparse.SUPPRESS)
    return result


def numbers(shape, seed, scale=1):
    """A tensor of the numbers that layer.cc has."""
    import numpy
    import torch

    bits = numpy.arange(numpy.prod(shape), dtype=numpy.uint32) * numpy.uint32(2654435761)
    bits += numpy.uint32(seed * 40503)
    values = bits.view(numpy.int32).astype(numpy.float32) * numpy.float32(2.0**-31) * numpy.float32(scale)
    return torch.from_numpy(values).reshape(shape)


def serve(options, make):
    """PyTorch's side, which `make` builds from the numbers of the shape: it returns the tensors that get gradients, the
    gradient of the result, and a function that computes the result."""
    import torch
    import serving

    before = serving.memory("RssAnon")
    torch.set_num_threads(int(options.threads))
    inputs, dy, forward = make(options, *map(int, options.side.split("x")))

    def step():
        if not options.backward:
            with torch.no_grad():
                return [forward()]
        for x in inputs:
            x.requires_grad_().grad = None
        y = forward()
        y.backward(dy)
        return [y] + [x.grad for x in inputs]

    compared = [x.detach().float().square().mean().sqrt().item() for x in step()]
    for _ in range(serving.WARM_UP_STEPS):
        step()
    serving.forget_peak()
    serving.answer({"losses": compared, "version": f"PyTorch {torch.__version__}"}, step, lambda: serving.peak(before))


def compare(options, file, flags, names, label, shape, threads, backward):
    common = [f"--threads={threads}", *flags] + ["--backward"] * backward
    commands = {"Belfry": [options.belfry, "--serve", *common, *map("--{}={}".format, names, shape.split("x"))],
                "PyTorch": [options.python, os.path.abspath(file), f"--side={shape}", *common]}
    with sides_of.Sides() as sides:
        for name, command in commands.items():
            sides.append(sides_of.Side(name, command, threads))
        problem = sides_of.losses_differ(sides, getattr(options, "dtype", "float32"))
        if problem:
            sys.exit(problem)
        sides_of.run_in_turn(sides, options.rounds, options.seconds, 1)
    ours, theirs = (each.rates for each in sides)
    ratio = [a / b for a, b in zip(ours, theirs)]
    print(f"{label(shape)} {threads} thread(s) {'forward+backward' if backward else 'forward':16} "
          f"{1e3 / statistics.median(ours):8.3f} ms, PyTorch {1e3 / statistics.median(theirs):8.3f} ms, "
          f"{statistics.median(ratio):5.2f} times as fast [{min(ratio):.2f} .. {max(ratio):.2f}]; peak "
          f"{sides[0].peak_bytes / 2**20:.0f} MiB, PyTorch {sides[1].peak_bytes / 2**20:.0f} MiB", flush=True)


def run(options, file, make, flags, names, label):
    """The main function of `file`. Both sides get `flags`, and Belfry's the numbers of a shape as the flags `names`;
    `label` is what a line begins with, by its shape."""
    if options.side:
        return serve(options, make)
    for shape in options.shapes.split(","):
        for threads in options.threads.split(","):
            for backward in (False, True):
                compare(options, file, flags, names, label, shape, int(threads), backward)
