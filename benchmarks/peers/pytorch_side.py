#!/usr/bin/env python3
"""The benchmark models in PyTorch: eager with channels-last images, or compiled by torch.compile."""
import torch
from torch.nn import functional

import networks
import serving


class Ops:
    """Images are [N, C, H, W] tensors in channels-last format."""

    def __init__(self, device):
        # Sums nine neighbouring channels of 64, written as a convolution; this halves the time of a step of the
        # tutorial network compared with functional.local_response_norm.
        near = (torch.arange(64)[:, None] - torch.arange(64)).abs() <= 4
        self.window = (near * (0.001 / 9))[:, :, None, None].to(device, memory_format=torch.channels_last)

    relu = staticmethod(functional.relu)
    relu6 = staticmethod(functional.relu6)
    cross_entropy = staticmethod(functional.cross_entropy)
    dense = staticmethod(functional.linear)
    embedding = staticmethod(functional.embedding)

    @staticmethod
    def convolution(x, weights, biases, stride=1):
        # Padding SAME: with stride 2 and an even image, one pixel on the far sides only.
        if stride == 2:
            return functional.conv2d(functional.pad(x, (0, 1, 0, 1)), weights, biases, 2)
        return functional.conv2d(x, weights, biases, padding=weights.shape[-1] // 2)

    @staticmethod
    def padded_convolution(x, weights, biases, stride=1, groups=1):
        return functional.conv2d(x, weights, biases, stride, weights.shape[-1] // 2, groups=groups)

    @staticmethod
    def doubling_convolution(x, weights, biases):
        return functional.conv_transpose2d(x, weights, biases, stride=2)

    @staticmethod
    def padded_max_pool(x):
        return functional.max_pool2d(x, 3, 2, padding=1)

    @staticmethod
    def halving_max_pool(x):
        return functional.max_pool2d(x, 2)

    @staticmethod
    def max_pool(x):
        return functional.max_pool2d(x, 3, 2, ceil_mode=True)

    def local_response_norm(self, x):
        return x * (1 + functional.conv2d(x * x, self.window)).pow(-0.75)

    @staticmethod
    def rows(x):
        return x.flatten(0, -2)

    @staticmethod
    def layer_norm(x, gamma, beta):
        return functional.layer_norm(x, gamma.shape, gamma, beta)

    @staticmethod
    def gelu(x):
        return functional.gelu(x, approximate="tanh")

    @staticmethod
    def causal_attention(qkv, width_of_head):
        n, t, c = qkv.shape
        q, k, v = (part.view(n, t, -1, width_of_head).transpose(1, 2) for part in qkv.split(c // 3, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n, t, c // 3)

    @staticmethod
    def concat(parts):
        return torch.cat(parts, 1)

    @staticmethod
    def flatten(x):
        return x.permute(0, 2, 3, 1).flatten(1)

    @staticmethod
    def batch_norm(x, p, name):
        return functional.batch_norm(x, p[f"{name}/moving_mean"], p[f"{name}/moving_variance"], p[f"{name}/gamma"],
                                     p[f"{name}/beta"], training=True, momentum=0.1, eps=1e-5)

    @staticmethod
    def half_size_twice_the_channels(x):
        half = x.shape[1] // 2
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, half))

    @staticmethod
    def mean_of_image(x):
        return x.mean((2, 3))

    @staticmethod
    def mean_square(x):
        return x.square().mean()

    @staticmethod
    def sum_of_squares(x):
        return x.square().sum()


def to_torch(value, device):
    """Dense weights as [out, in], those of convolutions as [out, in, H, W], images as [N, C, H, W]."""
    tensor = torch.from_numpy(value.copy())
    if tensor.dim() == 4:
        return tensor.permute(3, 2, 0, 1).to(device, memory_format=torch.channels_last)
    return (tensor.t().contiguous() if tensor.dim() == 2 else tensor).to(device)


def images(value, device):
    tensor = torch.from_numpy(value.copy())
    tensor = tensor.permute(0, 3, 1, 2) if tensor.dim() == 4 else tensor
    return tensor.to(device, memory_format=torch.channels_last) if tensor.dim() == 4 else tensor.to(device)


def make_optimizer(model, variables):
    if networks.is_transformer(model):
        decayed, others = ([v for v in variables if (v.dim() >= 2) == matrix] for matrix in (True, False))
        return torch.optim.AdamW([{"params": decayed, "weight_decay": networks.ADAMW_DECAY},
                                  {"params": others, "weight_decay": 0}], **networks.ADAMW, fused=True)
    momentum = networks.MOMENTUM if networks.has_momentum(model) else 0
    sparse = model == "dlrm"  # fused updates do not take sparse gradients
    return torch.optim.SGD(variables, lr=networks.LEARNING_RATE, momentum=momentum, fused=not sparse)


def build(options):
    device, problem = options.device, serving.read_problem(options.problem)
    examples = [images(problem[name], device) for name in networks.fields(options.model)]
    examples = [value if value.is_floating_point() else value.long() for value in examples]
    hosts = [value.cpu().pin_memory() for value in examples] if options.examples == "host" else []
    p = {name: to_torch(value, device) for name, value in problem.items() if networks.is_statistic(name)}
    trained = {name: (images if name.startswith("table") or name.endswith("embedding") else to_torch)(value, device).requires_grad_()
               for name, value in problem.items() if networks.is_trained(name)}
    p |= trained
    optimizer = make_optimizer(options.model, trained.values())

    ops = Ops(device)

    def loss(p, *examples):
        return networks.loss(ops, options.model, p, *examples)

    if options.compile:
        loss = torch.compile(loss, mode=options.compile)

    # Each part's loss is a mean over what counts in it.
    parts = list(zip(*(value.chunk(options.micro_batches) for value in examples)))
    counted = [(part[-1] != networks.PADDING).sum() for part in parts]
    shares = [count / sum(counted) for count in counted]

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = 0
        for on_host, on_card in zip(hosts, examples):
            on_card.copy_(on_host, non_blocking=True)  # the parts are views of it
        for part, share in zip(parts, shares):
            with torch.autocast(device, torch.bfloat16, enabled=options.dtype == "bfloat16"):
                result = loss(p, *part) * share
            result.backward()
            total += result.detach()
        optimizer.step()
        return total

    return step, torch.cuda.synchronize if device == "cuda" else lambda: None


def main():
    parser = serving.parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--micro_batches", type=int, default=1, help="parts of the batch, whose gradients are accumulated")
    parser.add_argument("--compile", default="", help="mode of torch.compile; empty: do not compile")
    parser.add_argument("--tf32", default="true", choices=["true", "false"], help="products of float32 in TF32 on a GPU")
    parser.add_argument("--examples", default="device", choices=["device", "host"],
                        help="host: copy them to the GPU at every step")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32 == "true"
    torch.backends.cudnn.benchmark = True
    where = f" on {torch.cuda.get_device_name()}" if options.device == "cuda" else ""
    peak = torch.cuda.max_memory_allocated if options.device == "cuda" else None
    serving.serve(networks.compared_losses(options.model), lambda: build(options), f"PyTorch {torch.__version__}{where}", peak)


if __name__ == "__main__":
    main()
