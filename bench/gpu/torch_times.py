#!/usr/bin/env python3
"""What PyTorch's own operations (cuDNN's among them) take on the shapes of library.tile and attention.tile.

usage: torch_times.py

One line each: what, median milliseconds of runs with a flushed L2 cache (triton.testing.do_bench), TFLOP/s or GB/s of
the least traffic. Random data. Run it right before or after `tilesh bench` of those files, on the same card.
"""
import torch
import torch.nn.functional as F
import triton.testing
from torch.nn.attention import SDPBackend, sdpa_kernel


def random(*shape, dtype=torch.float16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def timed(name, call, flops=0, bytes_=0):
    ms = triton.testing.do_bench(call, warmup=30, rep=100, return_mode="median")
    rate = f"{flops / ms / 1e9:.1f} TFLOP/s" if flops else f"{bytes_ / ms / 1e6:.0f} GB/s"
    print(f"torch {name}: {ms:.4f} ms, {rate}", flush=True)


def attention():
    shapes = [(4, 32, 32, 4096, 128), (4, 32, 32, 4096, 64), (2, 16, 16, 4096, 256), (4, 32, 8, 4096, 128),
              (1, 32, 32, 1024, 128), (32, 16, 16, 512, 64), (2, 16, 16, 4000, 80), (3, 16, 16, 1664, 128)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for b, h, g, s, d in shapes:
            q, k, v = random(b, h, s, d), random(b, g, s, d), random(b, g, s, d)
            for causal in (False, True):
                timed(f"cuDNN attention {b} {h} {g} {s} {d}{' causal' if causal else ''}",
                      lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=g != h),
                      4 * b * h * s * s * d // (2 if causal else 1))
        q = random(4, 16, 2048, 128).requires_grad_()
        k, v = random(4, 16, 2048, 128).requires_grad_(), random(4, 16, 2048, 128).requires_grad_()
        o, slope = F.scaled_dot_product_attention(q, k, v, is_causal=True), random(4, 16, 2048, 128)
        timed("cuDNN attention backward 4 16 2048 128 causal",
              lambda: torch.autograd.grad(o, (q, k, v), slope, retain_graph=True), 5 * 4 * 16 * 2048 * 2048 * 128)


def library():
    for channels, side in ((64, 56), (256, 28)):
        x = random(32, channels, side, side).to(memory_format=torch.channels_last)
        w = random(channels, channels, 3, 3).to(memory_format=torch.channels_last)
        timed(f"conv2d {side} {channels}", lambda: F.conv2d(x, w, padding=1), 18 * 32 * side * side * channels**2)
    for n in (16384, 4096):
        a, v = random(n, n), random(n)
        timed(f"gemv {n}", lambda: a @ v, bytes_=2 * n * n)
    x, w = random(16384, 4096, dtype=torch.bfloat16), random(4096, dtype=torch.bfloat16)
    timed("layernorm bf16", lambda: F.layer_norm(x, (4096,), w, w), bytes_=4 * x.numel())
    timed("softmax bf16 4096", lambda: torch.softmax(x, 1), bytes_=4 * x.numel())
    wide = random(4096, 32768, dtype=torch.bfloat16)
    timed("softmax bf16 32768", lambda: torch.softmax(wide, 1), bytes_=4 * wide.numel())
    y = random(16384, 8192, dtype=torch.float32)
    timed("row sum", lambda: y.sum(1), bytes_=4 * y.numel())
    timed("column sum", lambda: y.sum(0), bytes_=4 * y.numel())
    timed("total", lambda: y.sum(), bytes_=4 * y.numel())
    timed("row cumsum", lambda: y.cumsum(1), bytes_=8 * y.numel())
    timed("row argmax", lambda: y.max(1), bytes_=4 * y.numel())
    z = random(8192, 8192)
    timed("transposed f16", lambda: z.T.contiguous(), bytes_=4 * z.numel())


if __name__ == "__main__":
    attention()
    library()
