#!/usr/bin/env python3
"""Times self-attention in Belfry and in PyTorch (scaled_dot_product_attention), in turn, after checking that both
compute the same. From one tensor [N, T, (H + 2 G) D], as a projection gives it, to [N, T, H D], and back.

  benchmarks/peers/attention.py --python=build/peers/venv/bin/python --threads=1,2
"""
import argparse
import os
import statistics
import sys

import side as sides_of

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--belfry", default="build/release/benchmarks/attention")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--shapes", default="8x256x6x6x64,1x256x12x12x64,1x1024x12x4x64",
                        help="batch x length x heads x heads of keys x width, separated by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--side", help=argparse.SUPPRESS)  # this process is PyTorch's side, of this shape
    parser.add_argument("--backward", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def pytorch_side(options):
    import numpy
    import torch
    import serving

    n, t, h, g, d = map(int, options.side.split("x"))
    before = serving.memory("RssAnon")
    torch.set_num_threads(int(options.threads))
    dtype = getattr(torch, options.dtype)

    def numbers(shape, seed):
        count = int(numpy.prod(shape))
        bits = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32(seed)
        return torch.from_numpy(bits.view(numpy.int32).astype(numpy.float32) * 2.0**-31).reshape(shape).to(dtype)

    qkv, dy = numbers((n, t, (h + 2 * g) * d), 1), numbers((n, t, h * d), 2)

    def forward(x):
        q, k, v = (part.view(n, t, -1, d).transpose(1, 2) for part in x.split([h * d, g * d, g * d], dim=2))
        if g != h:  # enable_gqa does the same on a CPU
            k, v = k.repeat_interleave(h // g, 1), v.repeat_interleave(h // g, 1)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n, t, h * d)

    def step():
        if not options.backward:
            with torch.no_grad():
                return [forward(qkv)]
        qkv.grad = None
        y = forward(qkv.requires_grad_())
        y.backward(dy)
        return [y, qkv.grad]

    compared = [x.detach().float().square().mean().sqrt().item() for x in step()]
    for _ in range(serving.WARM_UP_STEPS):
        step()
    serving.answer(compared, f"PyTorch {torch.__version__}", step, lambda: None,
                   lambda: serving.memory("VmHWM") - serving.memory("RssFile") - before)


def compare(options, shape, threads, backward):
    n, t, h, g, d = shape.split("x")
    common = [f"--threads={threads}", f"--dtype={options.dtype}"] + ["--backward"] * backward
    belfry = [options.belfry, "--serve", f"--batch_size={n}", f"--length={t}", f"--heads={h}", f"--kv_heads={g}",
              f"--width={d}", *common]
    pytorch = [options.python, os.path.abspath(__file__), f"--side={shape}", *common]
    sides = []
    try:
        for name, command in (("Belfry", belfry), ("PyTorch", pytorch)):
            sides.append(sides_of.Side(name, command, threads))
        problem = sides_of.losses_differ(sides, options.dtype)
        if problem:
            sys.exit(problem)
        sides_of.run_in_turn(sides, options.rounds, options.seconds, 1)
    finally:
        for each in sides:
            each.close()
    ours, theirs = (each.rates for each in sides)
    ratio = [a / b for a, b in zip(ours, theirs)]
    print(f"{shape:>18} {options.dtype:>8} {threads} thread(s) {'forward+backward' if backward else 'forward':16} "
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
