#!/usr/bin/env python3
"""What a start and a warm call take beside a bare C program that makes the same driver calls, in turns.

usage: start.py TILESH BARE CUBIN [--rounds N]

BARE is bench/gpu/bare.c, CUBIN the kernel `add` of latency.tile. Each round runs one after the other: the bare program and
vector add from a warm cache, in both orders (a driver's start takes 320 to 390 ms: medians of
few differ by ten for nothing); a product with an empty cache; NVRTC alone, which compiles the same text in a process of its
own, timed inside it; a bare launch, latency.tile and latency.lua for warm calls, without the loop and the empty function.
Medians of the wall times of processes in milliseconds and of calls in microseconds, least and greatest in brackets. Last
lines: what the warm start takes above the bare program (at most 15 ms wanted), the cold one above the bare program and
NVRTC (15 ms), and calls above a bare launch (0.5 us, 1.5 from Lua, 1.5 more with a new output).
"""
import argparse, ctypes, os, re, statistics, subprocess, sys, tempfile, time

ADD = """kernel add(X: f32[N], Y: f32[N]) -> (Z: f32[N]) { for i in parallel(N) { Z[i] = X[i] + Y[i] } }
assert all(add(ones(f32, 1024), ones(f32, 1024)) == 2)"""
MATMUL = """kernel matmul[BM = 128, BN = 128, BK = 64](A: f16[M, K], B: f16[K, N]) -> (C: f16[M, N]) {
  grid bx, by = ceildiv(N, BN), ceildiv(M, BM)
  shared As: f16[BM, BK], Bs: f16[BK, BN]
  fragment acc: f32[BM, BN] = 0
  for ko in pipelined(ceildiv(K, BK), 3) {
    copy(A[by*BM, ko*BK], As)
    copy(B[ko*BK, bx*BN], Bs)
    acc += As @ Bs
  }
  copy(acc, C[by*BM, bx*BN])
}
assert matmul(ones(f16, 1000, 520), ones(f16, 520, 1200))[999, 1199] == 520"""


def run(command, **env):
    start = time.perf_counter()
    done = subprocess.run(command, env=dict(os.environ, **env), capture_output=True, text=True)
    took = 1e3 * (time.perf_counter() - start)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return took, done.stdout


def compile_alone(path, arch):
    """Milliseconds from opening NVRTC to the cubin, the options those of src/gpu/nvrtc.c."""
    text = open(path, "rb").read()
    start = time.perf_counter()
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        sys.exit("NVRTC is not there")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [b"--gpu-architecture=" + arch.encode(), b"-default-device", b"--fmad=false"]
    if (lib.nvrtcCreateProgram(ctypes.byref(program), text, b"matmul.cu", 0, None, None)
            or lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
            or lib.nvrtcGetCUBINSize(program, ctypes.byref(size))):
        sys.exit("NVRTC does not take the text")
    lib.nvrtcGetCUBIN(program, ctypes.create_string_buffer(size.value))
    print(1e3 * (time.perf_counter() - start))


def calls(args, took):
    """One round: microseconds of a bare launch and of the calls that the two programs time."""
    took["bare launch"].append(float(re.search(r"takes ([0-9.]+) us", run([args.bare, args.cubin, "add"])[1])[1]))
    here = os.path.dirname(os.path.abspath(__file__))
    for name, file in (("call", "latency.tile"), ("Lua call", "latency.lua")):
        text = run([args.tilesh, "--no-init", os.path.join(here, file)])[1]
        given, fresh, empty = map(float, re.findall(r"[0-9]+\.[0-9]+", text))
        took[name].append(given - empty)
        took[name + ", new output"].append(fresh - empty)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--compile":
        return compile_alone(sys.argv[2], sys.argv[3])
    p = argparse.ArgumentParser()
    p.add_argument("tilesh")
    p.add_argument("bare")
    p.add_argument("cubin")
    p.add_argument("--rounds", type=int, default=7)
    args = p.parse_args()
    took = {"bare": [], "warm add": [], "cold matmul": [], "NVRTC alone": [], "bare launch": [], "call": [],
            "call, new output": [], "Lua call": [], "Lua call, new output": []}
    with tempfile.TemporaryDirectory() as folder:
        warm, text = os.path.join(folder, "warm"), os.path.join(folder, "matmul.cu")
        starts = {"bare": [args.bare, args.cubin, "add", "once"], "warm add": [args.tilesh, "--no-init", "-e", ADD]}
        run(starts["warm add"], TILESH_CACHE_DIR=warm)
        cuda = run([args.tilesh, "--emit", "cuda", "-e", MATMUL], TILESH_CACHE_DIR=warm)[1]
        open(text, "w").write(cuda)
        arch = cuda.split("\n", 1)[0].split()[-1]
        for i in range(args.rounds):
            for name in ("bare", "warm add", "warm add", "bare"):
                took[name].append(run(starts[name], TILESH_CACHE_DIR=warm)[0])
            cold = os.path.join(folder, f"cold{i}")
            took["cold matmul"].append(run([args.tilesh, "--no-init", "-e", MATMUL], TILESH_CACHE_DIR=cold)[0])
            took["NVRTC alone"].append(float(run([sys.executable, __file__, "--compile", text, arch])[1]))
            calls(args, took)
    middle = {}
    for name, t in took.items():
        middle[name] = statistics.median(t)
        unit, digits = ("us", 2) if "launch" in name or "call" in name else ("ms", 1)
        print(f"{name:20} {middle[name]:7.{digits}f} {unit} ({min(t):.{digits}f} to {max(t):.{digits}f})")
    print(f"ratio: a warm start {middle['warm add'] - middle['bare']:+.1f} ms of the bare program,"
          f" a cold one {middle['cold matmul'] - middle['bare'] - middle['NVRTC alone']:+.1f} of it and NVRTC")
    print("ratio: above a bare launch", ", ".join(f"a {n} {middle[n] - middle['bare launch']:+.2f} us" for n in took if "call" in n))


if __name__ == "__main__":
    sys.exit(main())
