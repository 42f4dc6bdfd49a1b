"""Prints what a card itself reaches, by PyTorch: copies in its memory, and products of 8192 x 8192 matrices."""
import sys
import time

try:
    import torch
except ImportError:
    print("Skipped 1: this Python has no PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("Skipped 1: PyTorch finds no GPU")
    sys.exit(77)

SECONDS, SIZE, BYTES = 1.0, 8192, 1 << 30


def seconds_each(work):
    """The time of one run of `work`, over about SECONDS."""
    work()
    torch.cuda.synchronize()
    runs, begin = 0, time.monotonic()
    while time.monotonic() - begin < SECONDS:
        for _ in range(10):
            work()
        runs += 10
        torch.cuda.synchronize()
    return (time.monotonic() - begin) / runs


def main():
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    source = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    print(f"copy: {2 * BYTES / seconds_each(lambda: target.copy_(source)) / 1e9:.0f} GB/s read and written")
    for name, dtype, tf32 in [("float32", torch.float32, False), ("TF32", torch.float32, True),
                              ("bfloat16", torch.bfloat16, False), ("float16", torch.float16, False)]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a = torch.randn(SIZE, SIZE, device="cuda", dtype=dtype)
        b = torch.randn(SIZE, SIZE, device="cuda", dtype=dtype)
        print(f"product of {SIZE}, {name}: {2 * SIZE**3 / seconds_each(lambda: a @ b) / 1e12:.0f} TFLOP/s", flush=True)


main()
