#!/usr/bin/env python3
"""Times the CIFAR-10 networks in PyTorch and in Belfry, in turn, on one device.

  pytorch_training.py --belfry=build/release/benchmarks/training --model=resnet56 --batch_size=512 --device=cuda

Sides: PyTorch eager with channels-last images, PyTorch with torch.compile, and Belfry's benchmark `training`, each on
synthetic images that stay the same, with momentum, weight decay as in the models, TF32 products allowed. Every round
times each side once; the medians of all rounds are printed, and the ratio of Belfry to the faster of the others.
"""
import argparse
import re
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class CifarNet(nn.Module):
    """The network of TensorFlow's CIFAR-10 tutorial: models/cifar_net.h."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.local3 = nn.Linear(2304, 384)
        self.local4 = nn.Linear(384, 192)
        self.logits = nn.Linear(192, 10)

    @staticmethod
    def norm(x):
        return functional.local_response_norm(x, 9, alpha=0.001, beta=0.75, k=1.0)

    @staticmethod
    def pool(x):
        return functional.max_pool2d(functional.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2)

    def forward(self, x):
        x = self.norm(self.pool(functional.relu(self.conv1(x))))
        x = self.pool(self.norm(functional.relu(self.conv2(x))))
        x = functional.relu(self.local3(x.flatten(1)))
        return self.logits(functional.relu(self.local4(x)))

    def decay(self):
        return 0.004 / 2 * (self.local3.weight.square().sum() + self.local4.weight.square().sum())


class Block(nn.Module):
    """Two 3x3 convolutions with batch norm, and a shortcut of option A."""

    def __init__(self, channels_in, channels):
        super().__init__()
        self.stride = channels // channels_in
        self.conv1 = nn.Conv2d(channels_in, channels, 3, self.stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        if self.stride == 2:
            x = x[:, :, ::2, ::2]
            x = functional.pad(x, (0, 0, 0, 0, 0, x.shape[1]))
        return functional.relu(x + y)


class ResNet(nn.Module):
    """The residual networks of He et al., section 4.2: models/resnet.h."""

    def __init__(self, depth):
        super().__init__()
        n = (depth - 2) // 6
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        widths = [16] * (n + 1) + [32] * n + [64] * n
        self.blocks = nn.Sequential(*[Block(a, b) for a, b in zip(widths, widths[1:])])
        self.logits = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(functional.relu(self.norm(self.conv(x))))
        return self.logits(x.mean((2, 3)))

    def decay(self):
        weights = [m.weight for m in self.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
        return 1e-4 / 2 * sum(w.square().sum() for w in weights)


class Trainer:
    """Steps of one model in PyTorch."""

    def __init__(self, options, compiled):
        cifar_net = options.model == "cifar_net"
        side = 24 if cifar_net else 32
        model = CifarNet() if cifar_net else ResNet(int(options.model[len("resnet"):]))
        self.model = model.to(options.device, memory_format=torch.channels_last)
        self.images = torch.randn(options.batch_size, 3, side, side, device=options.device)
        self.images = self.images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(10, (options.batch_size,), device=options.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=options.device == "cuda")
        self.bfloat16 = options.dtype == "bfloat16"
        self.device = options.device
        self.loss_function = torch.compile(self.loss, mode="max-autotune") if compiled else self.loss

    def loss(self, images, labels):
        return functional.cross_entropy(self.model(images), labels) + self.model.decay()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bfloat16):
            loss = self.loss_function(self.images, self.labels)
        loss.backward()
        self.optimizer.step()

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def rate(self, seconds, batch_size):
        for _ in range(5):
            self.step()
        self.synchronize()
        steps, begin = 0, time.perf_counter()
        while steps == 0 or time.perf_counter() - begin < seconds:
            for _ in range(10):
                self.step()
            steps += 10
            self.synchronize()
        return steps * batch_size / (time.perf_counter() - begin)


def belfry_rate(options):
    devices = "gpu:1" if options.device == "cuda" else "cpu:1"
    command = [options.belfry, f"--devices={devices}", f"--model={options.model}",
               f"--batch_size={options.batch_size}", f"--dtype={options.dtype}", f"--seconds={options.seconds}",
               "--rounds=1"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: {run.stderr.strip()}")
    output = run.stdout
    return float(re.search(r"([0-9.]+) images/s", output).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--belfry", required=True, help="the benchmark `training`")
    parser.add_argument("--model", default="cifar_net", help="cifar_net, resnet20, resnet56 ...")
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"],
                        help="of what is computed; weights are float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    eager = Trainer(options, compiled=False)
    sides = {"PyTorch, eager, channels-last": lambda: eager.rate(options.seconds, options.batch_size)}
    if not options.no_compile:
        compiled = Trainer(options, compiled=True)
        sides["PyTorch, torch.compile"] = lambda: compiled.rate(options.seconds, options.batch_size)
    sides["Belfry"] = lambda: belfry_rate(options)
    rates = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, run in sides.items():
            rates[name].append(run())

    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{options.model}, batch {options.batch_size}, {options.dtype}, {where}, PyTorch {torch.__version__}")
    for name, values in rates.items():
        print(f"  {name:32} {statistics.median(values):10.0f} [{min(values):.0f} .. {max(values):.0f}] images/s")
    best = max(statistics.median(values) for name, values in rates.items() if name != "Belfry")
    print(f"  Belfry / the faster of the others: {statistics.median(rates['Belfry']) / best:.3f}")


if __name__ == "__main__":
    main()
