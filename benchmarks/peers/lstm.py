#!/usr/bin/env python3
"""Times a layer of LSTM, or of gated recurrent units, in Belfry and in PyTorch (torch.nn.LSTM and GRU), in turn, after
checking that both compute the same.

  benchmarks/peers/lstm.py --python=build/peers/venv/bin/python --threads=1,2
"""
import argparse
import os
import statistics
import sys

import side as sides_of

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--belfry", default="build/release/benchmarks/lstm")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--shapes", default="32x64x256x256,32x128x512x512,1x128x128x512",
                        help="batch x length x inputs x units, separated by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--gru", action="store_true", help="gated recurrent units")
    parser.add_argument("--side", help=argparse.SUPPRESS)  # this process is PyTorch's side, of this shape
    parser.add_argument("--backward", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def pytorch_side(options):
    import numpy
    import torch
    import serving

    n, t, inputs, units = map(int, options.side.split("x"))
    columns = (3 if options.gru else 4) * units
    before = serving.memory("RssAnon")
    torch.set_num_threads(int(options.threads))

    def numbers(shape, seed, scale):
        bits = numpy.arange(numpy.prod(shape), dtype=numpy.uint32) * numpy.uint32(2654435761)
        bits += numpy.uint32(seed * 40503)
        values = bits.view(numpy.int32).astype(numpy.float32) * numpy.float32(2.0**-31) * numpy.float32(scale)
        return torch.from_numpy(values).reshape(shape)

    scale = 2 / units**0.5
    dy, x = numbers((n, t, units), 0, 1), numbers((n, t, inputs), 1, 1)
    layer = (torch.nn.GRU if options.gru else torch.nn.LSTM)(inputs, units, batch_first=True)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(numbers((inputs, columns), 2, scale).T)
        layer.weight_hh_l0.copy_(numbers((units, columns), 3, scale).T)
        layer.bias_ih_l0.copy_(numbers((columns,), 4, 1))
        layer.bias_hh_l0.copy_(numbers((columns,), 5, 1) if options.gru else torch.zeros(columns))

    def step():
        if not options.backward:
            with torch.no_grad():
                return [layer(x)[0]]
        x.grad = None
        layer.zero_grad()
        y = layer(x.requires_grad_())[0]
        y.backward(dy)
        gradients = [x.grad, layer.weight_ih_l0.grad, layer.weight_hh_l0.grad, layer.bias_ih_l0.grad]
        return [y] + gradients + [layer.bias_hh_l0.grad] * options.gru

    compared = [each.detach().square().mean().sqrt().item() for each in step()]
    for _ in range(serving.WARM_UP_STEPS):
        step()
    serving.answer(compared, f"PyTorch {torch.__version__}", step, lambda: None,
                   lambda: serving.memory("VmHWM") - serving.memory("RssFile") - before)


def compare(options, shape, threads, backward):
    n, t, inputs, units = shape.split("x")
    common = [f"--threads={threads}"] + ["--backward"] * backward + ["--gru"] * options.gru
    belfry = [options.belfry, "--serve", f"--batch_size={n}", f"--length={t}", f"--inputs={inputs}", f"--units={units}",
              *common]
    pytorch = [options.python, os.path.abspath(__file__), f"--side={shape}", *common]
    sides = []
    try:
        for name, command in (("Belfry", belfry), ("PyTorch", pytorch)):
            sides.append(sides_of.Side(name, command, threads))
        problem = sides_of.losses_differ(sides, "float32")
        if problem:
            sys.exit(problem)
        sides_of.run_in_turn(sides, options.rounds, options.seconds, 1)
    finally:
        for each in sides:
            each.close()
    ours, theirs = (each.rates for each in sides)
    ratio = [a / b for a, b in zip(ours, theirs)]
    print(f"{'GRU' if options.gru else 'LSTM'} {shape:>16} {threads} thread(s) "
          f"{'forward+backward' if backward else 'forward':16} "
          f"{1e3 / statistics.median(ours):8.3f} ms, PyTorch {1e3 / statistics.median(theirs):8.3f} ms, "
          f"{statistics.median(ratio):5.2f} times as fast [{min(ratio):.2f} .. {max(ratio):.2f}]; peak "
          f"{sides[0].peak_bytes / 2**20:.0f} MiB, PyTorch {sides[1].peak_bytes / 2**20:.0f} MiB", flush=True)


def main():
    options = arguments()
    if options.side:
        return pytorch_side(options)
    for shape in options.shapes.split(","):
        for threads in options.threads.split(","):
            for backward in (False, True):
                compare(options, shape, int(threads), backward)


if __name__ == "__main__":
    main()
