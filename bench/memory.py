#!/usr/bin/env python3
"""memory.py [TILESH]: the peak of a program that puts a 1 GiB tensor through an elementwise kernel on
the CPU, as the system counts it, and of parts of it. Needs 3 GiB of free memory. tests/memory/run
holds the ratio with smaller tensors."""
import os
import sys

TILESH = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/tilesh")
KERNEL = """
kernel scale[B = 4096](x: f32[N]) -> (y: f32[N]) {
  grid b = ceildiv(N, B)
  fragment t: f32[B]
  copy(x[b*B], t)
  t = t * 2 + 1
  copy(t, y[b*B])
}
"""
N = 1 << 28


def peak(text):
    pid = os.fork()
    if pid == 0:
        os.execv(TILESH, ["tilesh", "--device", "cpu", "-e", KERNEL + text])
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, text
    return usage.ru_maxrss / (1 << 20)


for what, text in (("start and a kernel of 1024 elements", "let y = scale(ones(f32, 1024))"),
                   ("a tensor of 1 GiB", f"let x = ones(f32, {N})"),
                   ("a tensor of 1 GiB through the kernel",
                    f"let y = scale(ones(f32, {N}))\nassert y[{N - 1}] == 3"),
                   ("the same on the host, x * 2 + 1", f"let y = ones(f32, {N}) * 2 + 1")):
    print(f"{peak(text):6.3f} GiB  {what}")
