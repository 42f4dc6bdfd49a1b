"""Exports networks of PyTorch with random weights, and writes what PyTorch computes: export_torch.py FOLDER

NAME.onnx is a network, and NAME.safetensors has an input "in/x" and the outputs "out/0" ... For some there are also an
"in/label", the cross-entropy "loss" and its gradients "grad/<parameter>" by parameters, filters as [R, S, C, K] and
weights of linear layers as [from, to]. Networks of torchvision are among them if it is installed.
"""
import json
import os
import struct
import sys
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32"}


def save(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        piece = value.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": TYPES[value.dtype], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Recurrent(nn.Module):
    def __init__(self, kind, bidirectional):
        super().__init__()
        self.layers = kind(5, 7, num_layers=2, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(14 if bidirectional else 7, 3)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


class Encoder(nn.Module):
    """As BERT: learned positions, and layers of torch.nn."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 16)
        self.positions = nn.Parameter(0.1 * torch.randn(32, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        return self.head(self.layers(self.tokens(tokens) + self.positions[:tokens.shape[1]]))[:, 0]


class Decoder(nn.Module):
    """As GPT-2: causal attention written out, and the approximate GELU."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.projection = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down, self.gelu = nn.Linear(16, 64), nn.Linear(64, 16), nn.GELU("tanh")
        self.head = nn.Linear(16, 50, bias=False)

    def forward(self, tokens):
        n, t = tokens.shape
        x = self.tokens(tokens) + self.positions(torch.arange(t))
        q, k, v = (part.view(n, t, 4, 4).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(16, 2))
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool))
        shares = (q @ k.transpose(-2, -1) * 0.5).masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.projection((shares @ v).transpose(1, 2).reshape(n, t, 16))
        x = x + self.down(self.gelu(self.up(self.norm2(x))))
        return self.head(x)[:, -1]


class Images(nn.Module):
    """Ops that the classifiers of torchvision lack."""

    def __init__(self):
        super().__init__()
        self.strided = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.dilated = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2)
        self.groups, self.instances = nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True)
        self.up, self.slopes, self.shuffle = nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), nn.PReLU(4), nn.PixelShuffle(2)

    def forward(self, x):
        x = nn.functional.hardswish(self.groups(self.dilated(torch.relu(self.strided(x)))))
        y = self.slopes(self.up(nn.functional.elu(self.instances(x))))
        large = nn.functional.interpolate(nn.functional.interpolate(y, scale_factor=2), scale_factor=2, mode="bilinear")
        pooled = torch.cat([nn.functional.max_pool2d(y, 3, 2, ceil_mode=True),
                            nn.functional.avg_pool2d(y, 3, 2, padding=1)], 1)
        return pooled.mean((2, 3)), self.shuffle(y), large.amax((2, 3)), y.flatten(1)[:, ::7]


def dense():
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.5), nn.BatchNorm1d(32), nn.Linear(32, 4))


def randomise(model):
    """Gives norms and what begins with zeros other values, without which much would be hidden."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.uniform_(0.2, 1)
        elif not parameter.any():
            parameter.data.normal_(0, 0.1)
    return model.eval()


def numbers(*shape):
    return lambda n: torch.randn(n, *shape)


def ids(length):
    return lambda n: torch.randint(0, 50, (n, length))


def networks():
    """(name, network, its input for n examples, axes that are open, classes to train with or 0)"""
    yield "dense", dense(), numbers(10), {0: "N"}, 4
    yield "lstm", Recurrent(nn.LSTM, False), numbers(6, 5), {0: "N", 1: "T"}, 3
    yield "bidirectional_gru", Recurrent(nn.GRU, True), numbers(6, 5), {0: "N"}, 3
    yield "encoder", Encoder(), ids(9), {0: "N", 1: "T"}, 50
    yield "decoder", Decoder(), ids(9), {0: "N", 1: "T"}, 50
    yield "images", Images(), numbers(3, 32, 32), {0: "N"}, 0
    try:
        from torchvision import models
    except ImportError:
        return
    vit = models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64)
    yield "resnet18", models.resnet18(num_classes=10), numbers(3, 64, 64), {0: "N"}, 10
    yield "mobilenet_v2", models.mobilenet_v2(num_classes=10), numbers(3, 64, 64), {0: "N"}, 0
    yield "efficientnet_b0", models.efficientnet_b0(num_classes=10), numbers(3, 64, 64), {0: "N"}, 0
    yield "vit", vit, numbers(3, 32, 32), {0: "N"}, 0


def export(path, model, x, axes, dynamo, training):
    if dynamo:
        dims = {axis: torch.export.Dim(name, min=2, max=30 if axis else 1000) for axis, name in axes.items()}
        torch.onnx.export(model, (x,), path, dynamo=True, input_names=["x"], dynamic_shapes=(dims,), verbose=False)
        return
    mode = torch.onnx.TrainingMode.PRESERVE if training else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, (x,), path, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": axes},
                      training=mode, do_constant_folding=not training)


def gradients(model, x, classes):
    label = torch.arange(len(x)) % classes
    loss = nn.functional.cross_entropy(model(x), label)
    loss.backward()
    tensors = {"in/label": label.int(), "loss": loss}
    linear = {name + ".weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        if gradient is not None:
            gradient = gradient.permute(2, 3, 1, 0) if gradient.ndim == 4 else gradient
            tensors["grad/" + name] = gradient.T if name in linear or name.endswith("in_proj_weight") else gradient
    return tensors


def main(folder):
    torch.manual_seed(0)
    for name, model, make, axes, classes in networks():
        randomise(model)
        ways = [("_trained", False, True)] if classes else [("", False, False)]
        if name in ("dense", "encoder", "resnet18"):
            ways.append(("", False, False))
        if name == "decoder":
            ways.append(("_dynamo", True, False))
        for suffix, dynamo, training in ways:
            path = os.path.join(folder, name + suffix)
            # In float32, PyTorch's own gradients of so many ReLUs differ from those in float64 by up to 3%, where one of
            # them is close to 0.
            wide = training and name == "resnet18"
            model = model.double() if wide else model.float()
            x = make(3).double() if wide else make(3)
            try:
                export(path + ".onnx", model, x[:2], axes, dynamo, training)
            except ImportError as error:  # dynamo's exporter needs onnxscript
                print(f"{name}{suffix}: {error}")
                continue
            outputs = model(x)
            tensors = {"in/x": x}
            for i, output in enumerate(outputs if isinstance(outputs, tuple) else [outputs]):
                tensors[f"out/{i}"] = output
            save(path + ".safetensors", {**tensors, **(gradients(model, x, classes) if training else {})})


if __name__ == "__main__":
    main(sys.argv[1])
