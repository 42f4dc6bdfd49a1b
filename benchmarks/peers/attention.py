#!/usr/bin/env python3
"""Times self-attention in Belfry and in PyTorch (scaled_dot_product_attention), in turn, after checking that both
compute the same. From one tensor [N, T, (H + 2 G) D], as a projection gives it, to [N, T, H D], and back.

  benchmarks/peers/attention.py --python=build/peers/venv/bin/python --threads=1,2
"""
import layer


def make(options, n, t, h, g, d):
    import torch

    dtype = getattr(torch, options.dtype)
    dy, qkv = layer.numbers((n, t, h * d), 0).to(dtype), layer.numbers((n, t, (h + 2 * g) * d), 1).to(dtype)

    def forward():
        q, k, v = (part.view(n, t, -1, d).transpose(1, 2) for part in qkv.split([h * d, g * d, g * d], dim=2))
        if g != h:  # enable_gqa does the same on a CPU
            k, v = k.repeat_interleave(h // g, 1), v.repeat_interleave(h // g, 1)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n, t, h * d)

    return [qkv], dy, forward


def main():
    parser = layer.parser(__doc__, "attention", "8x256x6x6x64,1x256x12x12x64,1x1024x12x4x64",
                          "batch x length x heads x heads of keys x width")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    options = parser.parse_args()
    layer.run(options, __file__, make, [f"--dtype={options.dtype}"],
              ["batch_size", "length", "heads", "kv_heads", "width"], lambda shape: f"{shape:>18} {options.dtype:>8}")


if __name__ == "__main__":
    main()
