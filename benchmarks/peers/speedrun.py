#!/usr/bin/env python3
"""The recipes of `cifar10 --recipe` in PyTorch, for the same data: speedrun and record (Jordan, airbench94_compiled and
airbench94_muon, 2024), and resnet (He et al., "Deep residual learning for image recognition", 2015, section 4.2).

    speedrun.py --recipe=speedrun --data_dir=DIR --dtype=bfloat16 --log=speedrun.jsonl

prints the loss, the accuracy and the seconds of training after each epoch, and writes the lines of `--log` with the names
that Belfry's metrics have, for plot_run. Order, crops and initial values are PyTorch's own."""
import argparse
import json
import math
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional

RECIPES = {  # batch, epochs or steps, label smoothing, views of a test image
    "speedrun": {"batch": 1024, "epochs": 9.9, "smoothing": 0.2, "views": 6},
    "record": {"batch": 2000, "epochs": 8, "smoothing": 0.2, "views": 6},
    "resnet": {"batch": 128, "steps": 64000, "smoothing": 0, "views": 1},
}
WHITEN_EPOCHS = 3  # in which the biases of the first layer train


# Data

def read_images(paths, limit):
    """Bytes [N, 3, 32, 32] and labels of files in CIFAR-10's binary layout."""
    records = torch.cat([torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).view(-1, 3073) for path in paths])
    records = records[:limit or len(records)]
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


class Data:
    """Normalised images, and training batches of them."""

    def __init__(self, options, device):
        folder = pathlib.Path(options.data_dir)
        if not (folder / "data_batch_1.bin").exists():
            folder = folder / "cifar-10-batches-bin"
        if not (folder / "data_batch_1.bin").exists():
            sys.exit(f"--data_dir={options.data_dir} has no data_batch_1.bin, nor a folder cifar-10-batches-bin with one")
        train, labels = read_images(sorted(folder.glob("data_batch_*.bin")), options.limit)
        test, test_labels = read_images([folder / "test_batch.bin"], options.test_limit)
        self.per_pixel = options.recipe == "resnet"
        pixels = train.double()
        if self.per_pixel:
            mean, deviation = pixels.mean(0, keepdim=True), 255.0
        else:
            mean = pixels.mean((0, 2, 3), keepdim=True)
            deviation = ((pixels - mean) ** 2).mean((0, 2, 3), keepdim=True).sqrt()
        self.train, self.test = (((images.double() - mean) / deviation).float().to(device, memory_format=torch.channels_last)
                                 for images in (train, test))
        self.labels, self.test_labels = labels.to(device), test_labels.to(device)
        pad = 4 if self.per_pixel else 2
        self.padded = functional.pad(self.train, (pad,) * 4, "constant" if self.per_pixel else "reflect")
        self.first_flips = torch.rand(len(train), device=device) < 0.5

    def flips(self, epoch):
        """The images to be mirrored: at random, or those of the epoch before last."""
        if self.per_pixel:
            return torch.rand(len(self.train), device=self.train.device) < 0.5
        return self.first_flips ^ (epoch % 2 == 1)

    def epoch(self, epoch, batch, drop_remainder):
        places = self.padded.shape[-1] - 31
        corners = torch.randint(0, places, (len(self.train), 2), device=self.train.device)  # of the crops in the padded images
        flips, images = self.flips(epoch), torch.empty_like(self.train)
        for y in range(places):
            for x in range(places):
                chosen = (corners[:, 0] == y) & (corners[:, 1] == x)
                images[chosen] = self.padded[chosen, :, y:y + 32, x:x + 32]
        images = torch.where(flips.view(-1, 1, 1, 1), images.flip(-1), images)
        order = torch.randperm(len(images), device=images.device)
        for begin in range(0, len(images), batch):
            indices = order[begin:begin + batch]
            if len(indices) == batch or not drop_remainder:
                yield images[indices], self.labels[indices]


# Networks

def convolution(channels, filters):
    """Its first filters pass on a channel each."""
    layer = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight.data[:channels])
    return layer


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad = False
    return layer


class SpeedrunNet(nn.Module):
    def __init__(self, unit_logits):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        nn.init.zeros_(self.whiten.bias)
        layers, channels = [nn.GELU()], 24
        for width in (64, 256, 256):
            layers += [convolution(channels, width), nn.MaxPool2d(2), norm(width), nn.GELU(),
                       convolution(width, width), norm(width), nn.GELU()]
            channels = width
        self.layers = nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten())
        self.head = nn.Linear(channels, 10, bias=False)
        self.scale = 1 / 9
        if unit_logits:
            self.head.weight.data /= self.head.weight.data.std()
            self.scale = 1 / channels

    def set_whitening(self, images):
        patches = images.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12).double()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        filters = (vectors / (values + 5e-4).sqrt()).T.flip(0).reshape(12, 3, 2, 2)
        self.whiten.weight.data.copy_(torch.cat([filters, -filters]))

    def forward(self, x):
        return self.head(self.layers(self.whiten(x))).float() * self.scale


class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.added = filters - channels
        # As in Belfry, padding of an even image goes to the far sides with stride 2.
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1 if stride == 1 else 0, bias=False)
        self.pad = (0, 1, 0, 1) if stride == 2 else None
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(filters), nn.BatchNorm2d(filters)

    def forward(self, x):
        y = self.conv1(functional.pad(x, self.pad) if self.pad else x)
        y = self.norm2(self.conv2(functional.relu(self.norm1(y))))
        if self.added:
            half = self.added // 2
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, self.added - half))
        return functional.relu(x + y)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, channels = [], 16
        for filters in (16, 32, 64):
            for block in range(3):
                blocks.append(Block(channels, filters, 2 if filters > 16 and block == 0 else 1))
                channels = filters
        self.conv, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(64, 10)
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        return self.head(self.blocks(functional.relu(self.norm(self.conv(x)))).mean((2, 3))).float()


# Optimizers. The losses of speedrun and record are sums over the batch.

class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                buffer = self.state[p].setdefault("buffer", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).add_(p.grad)
                x = p.grad.add(buffer, alpha=group["momentum"]).flatten(1)
                p.mul_(len(p) ** 0.5 / p.norm())
                x = x / (x.norm() + 1e-7)
                tall = x.shape[0] > x.shape[1]
                x = x.T if tall else x
                for _ in range(3):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
                p.add_((x.T if tall else x).reshape(p.shape), alpha=-group["lr"])


def triangle(step, steps):
    top = max(1, int(0.23 * steps))
    return 0.2 + 0.8 * step / top if step < top else 1 - 0.93 * (step - top) / (steps - top)


def with_rate(parameters, rate, decay=0.0, schedule="all"):
    return {"params": list(parameters), "lr": rate, "initial": rate, "weight_decay": decay / rate, "schedule": schedule}


def make_optimizers(recipe, model, batch, momentum=0.85):
    if recipe == "resnet":
        weights = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() == 1]
        groups = [with_rate(weights, 0.1, 0.1 * 1e-4), with_rate(others, 0.1)]
        return [torch.optim.SGD(groups, momentum=0.9, fused=True)]
    offsets = [layer.bias for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    filters = [layer.weight for layer in model.layers if isinstance(layer, nn.Conv2d)]
    if recipe == "speedrun":
        scale = 1024 * (1 + 1 / (1 - momentum))
        rate, decay = 11.5 / scale, 0.0153 * batch / scale
        groups = [with_rate([model.whiten.bias], rate, decay, "whiten"), with_rate(offsets, 64 * rate, decay),
                  with_rate(filters + [model.head.weight], rate, decay)]
        return [torch.optim.SGD(groups, momentum=momentum, nesterov=True, fused=True)]
    decay = 2e-6 * batch
    groups = [with_rate([model.whiten.bias], 0.053, decay, "whiten"), with_rate(offsets, 0.053, decay),
              with_rate([model.head.weight], 0.67, decay)]
    muon = Muon(filters, 0.24, 0.6)
    for group in muon.param_groups:
        group |= {"initial": 0.24, "schedule": "all"}
    return [torch.optim.SGD(groups, momentum=momentum, nesterov=True, fused=True), muon]


def factor(recipe, schedule, step, steps, whiten_steps):
    """That of the learning rates at a step."""
    if recipe == "resnet":
        return 1 if step < steps // 2 else 0.1 if step < steps * 3 // 4 else 0.01
    if schedule == "whiten" and step >= whiten_steps:
        return 0
    if recipe == "speedrun":
        return triangle(step, steps)
    return 1 - step / (whiten_steps if schedule == "whiten" else steps)


class Lookahead:
    """Slow copies of all parameters and statistics, moved every five steps."""

    def __init__(self, model):
        self.slow = {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}

    @torch.no_grad()
    def move(self, model, keep):
        fast = model.state_dict()
        for name, slow in self.slow.items():
            slow.lerp_(fast[name], 1 - keep)
            fast[name].copy_(slow)


# Evaluation

def views(images, number):
    """Views of images with their weights."""
    plain = [(images, 1.0)]
    if number == 6:
        padded = functional.pad(images, (1,) * 4, "reflect")
        plain = [(images, 0.5), (padded[:, :, :32, :32], 0.25), (padded[:, :, 2:, 2:], 0.25)]
    if number == 1:
        return plain
    return [(view, weight / 2) for image, weight in plain for view in (image, image.flip(-1))]


@torch.no_grad()
def accuracy(model, data, number, autocast):
    model.eval()
    right = 0
    for images, labels in zip(data.test.split(500), data.test_labels.split(500)):
        with autocast():
            logits = sum(weight * model(view) for view, weight in views(images, number))
        right += (logits.argmax(1) == labels).sum().item()
    model.train()
    return right / len(data.test_labels)


# Training

def train(options, model, data, log):
    recipe = RECIPES[options.recipe]
    batch, drop = options.batch_size or recipe["batch"], options.recipe != "resnet"
    in_epoch = len(data.train) // batch if drop else math.ceil(len(data.train) / batch)
    epochs = options.epochs or recipe.get("epochs")
    steps = options.steps or (int(epochs * in_epoch) if epochs else recipe["steps"])
    lookahead = Lookahead(model) if options.recipe == "speedrun" else None
    if lookahead and not options.steps:
        steps -= steps % 5
    if steps < 1 or in_epoch < 1:
        sys.exit(f"nothing to train: batches of {batch} from {len(data.train)} images make {in_epoch} steps an epoch, and "
                 f"the run would have {steps}{', a multiple of the 5 of lookahead' if lookahead else ''}")
    optimizers = make_optimizers(options.recipe, model, batch)
    compiled = torch.compile(model) if options.compile else model
    reduction = "sum" if drop else "mean"

    def autocast():
        return torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bfloat16")

    print(f"{options.recipe}: {sum(p.numel() for p in model.parameters())} parameters, {len(data.train)} images, {steps} steps, "
          f"PyTorch {torch.__version__}, {options.dtype}, {options.threads} threads", flush=True)
    step, seconds, start = 0, 0.0, time.perf_counter()
    for epoch in range(math.ceil(steps / in_epoch)):
        for images, labels in data.epoch(epoch, batch, drop):
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = group["initial"] * factor(options.recipe, group["schedule"], step, steps,
                                                            WHITEN_EPOCHS * in_epoch)
            with autocast():
                logits = compiled(images)
            loss = functional.cross_entropy(logits, labels, label_smoothing=recipe["smoothing"], reduction=reduction)
            model.zero_grad(set_to_none=True)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            step += 1
            if lookahead and step % 5 == 0:
                lookahead.move(model, 0.95 ** 5 * (step / steps) ** 3)
            mean = loss.item() / (len(labels) if drop else 1)
            log({"step": step - 1, "cross_entropy": mean, "seconds_step": time.perf_counter() - start})
            seconds += time.perf_counter() - start
            start = time.perf_counter()
            if options.print_every and (step - 1) % options.print_every == 0:
                print(f"step {step - 1}  loss {mean:.4f}", flush=True)
            if step == steps:
                break
        every = options.evaluate_every_epochs
        if every and (epoch + 1) % every == 0 and step < steps:
            reached = accuracy(model, data, recipe["views"], autocast)
            log({"step": step, "test_accuracy": reached})
            print(f"epoch {epoch + 1}  loss {mean:.4f}  accuracy {100 * reached:.2f} %  {seconds:.1f} s", flush=True)
        start = time.perf_counter()
    reached = accuracy(model, data, recipe["views"], autocast)
    log({"step": step, "test_accuracy": reached})
    print(f"end  loss {mean:.4f}  accuracy {100 * reached:.2f} %  {seconds:.1f} s of training, "
          f"{step * batch / seconds:.0f} images/s, {seconds + time.perf_counter() - start:.1f} s with the last evaluation")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="speedrun", choices=list(RECIPES))
    parser.add_argument("--data_dir", required=True, help="CIFAR-10's binary files")
    parser.add_argument("--epochs", type=float, default=0, help="0: the recipe's")
    parser.add_argument("--steps", type=int, default=0, help="instead of epochs")
    parser.add_argument("--batch_size", type=int, default=0, help="0: the recipe's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="training images; 0: all")
    parser.add_argument("--test_limit", type=int, default=0, help="test images; 0: all")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--evaluate_every_epochs", type=int, default=1, help="0: only at the end")
    parser.add_argument("--print_every", type=int, default=0, help="steps between lines; 0: none but those of epochs")
    parser.add_argument("--log", default="", help="file for a JSON object a line")
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    data = Data(options, options.device)
    model = ResNet20() if options.recipe == "resnet" else SpeedrunNet(options.recipe == "record")
    model = model.to(options.device, memory_format=torch.channels_last)
    if options.recipe != "resnet":
        model.set_whitening(data.train[:5000])
    file = open(options.log, "w") if options.log else None
    train(options, model.train(), data, lambda line: file and print(json.dumps(line), file=file, flush=True))


if __name__ == "__main__":
    main()
