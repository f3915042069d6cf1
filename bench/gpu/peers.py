#!/usr/bin/env python3
"""Compares tilesh's kernels with cuBLAS and cuDNN (through PyTorch) in one run on one GPU.

usage: peers.py TILESH [gemm] [attn] [--rounds N] [--rest SECONDS] [--json FILE]

tilesh runs as a child at its own prompt, on a pseudo terminal; each round takes, after a rest, one burst of ten launches
from tilesh and one from the peer, in turn, so that both see the same clocks. The figure is the median over the rounds of
tilesh's speed over the mean of the peer's bursts before and after it. Data is random (never zeros), made by PyTorch and
handed over as .npy files; results come back the same way and are compared bit by bit (products) or by error against
float32 (attention). Run it from the top of the source tree.
"""
import argparse, json, os, pty, re, select, statistics, subprocess, sys, tempfile, time
import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

MARK = "tilesh-is-ready"


class Tilesh:
    """A tilesh prompt. run() sends one line and returns what it printed."""

    def __init__(self, path):
        master, slave = pty.openpty()
        env = dict(os.environ, TERM="dumb", COLUMNS="1000", NO_COLOR="1")
        self.child = subprocess.Popen(
            [path, "--device", "cuda:0", "--no-init", "--color", "never", "--bench-bursts", "1"],
            stdin=slave, stdout=slave, stderr=slave, env=env, close_fds=True)
        os.close(slave)
        self.fd = master
        self.run("nil")

    def run(self, line, timeout=300):
        os.write(self.fd, f'{line}\nprint("{MARK[:4]}" + "{MARK[4:]}")\n'.encode())
        text, end = "", time.time() + timeout
        while MARK not in text:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.time()))
            if not ready:
                raise RuntimeError(f"no answer to {line!r}: {text[-2000:]}")
            try:
                got = os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise RuntimeError(f"tilesh ended at {line!r}: {text[-2000:]}")
            text += got
        if "error" in text:
            raise RuntimeError(f"{line!r}: {text}")
        return text

    def value(self, line):
        found = re.findall(r"<<([^>]*)>>", self.run(line))
        if not found:
            raise RuntimeError(f"no value from {line!r}")
        return float(found[-1])

    def close(self):
        os.close(self.fd)
        self.child.wait(20)


def burst(f, n=10):
    """Milliseconds a call, over one burst of n queued behind a spin, so that launch gaps do not count."""
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(1_500_000)
    a.record()
    for _ in range(n):
        f()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b) / n


def compare(name, tile_call, peer, flop, t, args):
    """Rounds of peer, tilesh, peer, …; prints and returns the median ratio."""
    for _ in range(3):
        peer()
    torch.cuda.synchronize()
    t.run(f"let r = bench {tile_call}")
    peers, ours = [], []
    for i in range(args.rounds + 1):
        time.sleep(args.rest)
        peers.append(burst(peer))
        if i < args.rounds:
            time.sleep(args.rest)
            ours.append(t.value(f'let r = bench {tile_call}; print("<<" + str(r.ms) + ">>")'))
    ratios = [(peers[i] + peers[i + 1]) / 2 / ours[i] for i in range(args.rounds)]
    ratio = statistics.median(ratios)
    row = dict(name=name, tilesh=flop / statistics.median(ours) / 1e9, peer=flop / statistics.median(peers) / 1e9,
               ratio=ratio, low=min(ratios), high=max(ratios))
    print(f"{name:34s} tilesh {row['tilesh']:7.1f}  peer {row['peer']:7.1f} TFLOP/s   ratio {ratio:.3f} "
          f"({row['low']:.3f} to {row['high']:.3f})", flush=True)
    return row


def give(t, folder, name, x):
    path = os.path.join(folder, name + ".npy")
    np.save(path, x.view(torch.int16).cpu().numpy().view("V2"))
    t.run(f'let {name} = load("{path}")')


def take(t, folder, expr):
    path = os.path.join(folder, "back.npy")
    t.run(f'save("{path}", {expr})')
    return torch.from_numpy(np.load(path).view(np.int16)).cuda().view(torch.bfloat16)


def gemm(t, folder, args):
    rows = []
    t.run('let gemm_nn = read_ir("tests/lower/gemm_nn.ir")')
    t.run('let gemm_nt = read_ir("tests/lower/gemm_nt.ir")')
    for m, n, k in ((1000, 1200, 520), (4096, 4096, 4096), (8192, 8192, 8192)):
        a, b = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (k, n)))
        bt = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        for name, x in (("a", a), ("b", b), ("bt", bt)):
            give(t, folder, name, x)
        for name, call, peer in (("nn", "gemm_nn(a, b)", lambda: a @ b), ("nt", "gemm_nt(a, bt)", lambda: a @ bt.T)):
            t.run(f"let c = {call}")
            same = torch.equal(take(t, folder, "c").view(torch.int16), peer().view(torch.int16))
            print(f"gemm {name} {m}x{n}x{k}: bit-equal to cuBLAS: {same}", flush=True)
            rows.append(dict(name=f"gemm {name} {m}x{n}x{k} bits", equal=same))
            if m >= 4096:
                rows.append(compare(f"gemm bf16 {name} {m}x{n}x{k}", call, peer, 2 * m * n * k, t, args))
    return rows


def attn(t, folder, args):
    rows = []
    t.run('let attn_full = read_ir("tests/lower/attn_full.ir")')
    t.run('let attn_causal = read_ir("tests/lower/attn_causal.ir")')
    for B, H, S in ((1, 3, 1000), (4, 32, 4096)):
        q, k, v = (torch.randn(B, H, S, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        for name, x in (("q", q), ("k", k), ("v", v)):
            give(t, folder, name, x)
        scale = 128 ** -0.5 * 1.4426950408889634
        for name, causal in (("full", False), ("causal", True)):
            call = f"attn_{name}(q, k, v, {scale})"

            def peer(causal=causal):
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

            t.run(f"let o = {call}")
            got, h = take(t, folder, "o").float(), min(H, 4)
            want = torch.empty(B, h, S, 128, device="cuda")
            for i in range(B):
                for j in range(h):
                    s = (q[i, j].float() @ k[i, j].float().T) * 128 ** -0.5
                    if causal:
                        s.masked_fill_(torch.ones(S, S, device="cuda", dtype=torch.bool).triu(1), float("-inf"))
                    want[i, j] = s.softmax(-1) @ v[i, j].float()
            err = ((got[:, :h] - want).norm() / want.norm()).item()
            ref = ((peer()[:, :h].float() - want).norm() / want.norm()).item()
            print(f"attention {name} B{B} H{H} S{S}: error {err:.2e}, cuDNN's {ref:.2e}", flush=True)
            rows.append(dict(name=f"attention {name} B{B} H{H} S{S} error", error=err, peer=ref))
            if S >= 4096:
                flop = 4 * B * H * S * S * 128 * (0.5 if causal else 1)
                rows.append(compare(f"attention {name} B{B} H{H} S{S} D128", call, peer, flop, t, args))
    return rows


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tilesh")
    p.add_argument("what", nargs="*", default=[])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--rest", type=float, default=1.0)
    p.add_argument("--json")
    args = p.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    what = args.what or ["gemm", "attn"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        t = Tilesh(args.tilesh)
        for w in what:
            rows += dict(gemm=gemm, attn=attn)[w](t, folder, args)
        t.close()
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    bad = [r for r in rows if r.get("equal") is False or r.get("ratio", 1) < 0.97 or r.get("error", 0) > 3e-3]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
