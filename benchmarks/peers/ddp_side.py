#!/usr/bin/env python3
"""Trains the tutorial network on random images in several PyTorch processes (DistributedDataParallel over Gloo), and
prints the images per second of all of them together. Started once for each rank by processes.py."""
import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import networks
from pytorch_side import Ops, to_torch

SHAPES = {"conv1/weights": (5, 5, 3, 64), "conv1/biases": (64,), "conv2/weights": (5, 5, 64, 64), "conv2/biases": (64,),
          "local3/weights": (2304, 384), "local3/biases": (384,), "local4/weights": (384, 192), "local4/biases": (192,),
          "softmax_linear/weights": (192, 10), "softmax_linear/biases": (10,)}


class Network(torch.nn.Module):
    """The parameters of the tutorial network, and its loss."""

    def __init__(self):
        super().__init__()
        self.ops = Ops("cpu")
        torch.manual_seed(1)
        values = [0.05 * torch.randn(shape) for shape in SHAPES.values()]
        self.values = torch.nn.ParameterList(torch.nn.Parameter(to_torch(value.numpy(), "cpu")) for value in values)

    def forward(self, images, labels):
        return networks.loss(self.ops, "cifar_net", dict(zip(SHAPES, self.values)), images, labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, required=True, help="images of this rank in a step")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warm_up", type=int, default=5, help="steps that are not timed")
    parser.add_argument("--bucket_mib", type=float, default=25, help="of DistributedDataParallel; 25 is its default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    network = Network()
    model = DistributedDataParallel(network, bucket_cap_mb=options.bucket_mib) if size > 1 else network
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, fused=True)
    images = torch.randn(options.batch, 3, 24, 24).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (options.batch,))

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(images, labels).backward()
        optimizer.step()

    for _ in range(options.warm_up):
        step()
    dist.barrier()
    begin = time.monotonic()
    for _ in range(options.steps):
        step()
    dist.barrier()
    if rank == 0:
        print(f"{size * options.batch * options.steps / (time.monotonic() - begin):.0f} images/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
