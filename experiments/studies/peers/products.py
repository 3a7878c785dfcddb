#!/usr/bin/env python3
"""OpenBLAS's rate, through PyTorch: a large product, and those of a GPT's training step. Prints JSON, FLOP/s; the fastest of
several runs of each, so that what else the machine does counts little. experiments/studies/peers/run.py calls it.
"""
import argparse
import json
import time

import torch


def fastest(a, b, runs):
    out, best = torch.mm(a, b), float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - begin)
    return best


def main():
    flags = argparse.ArgumentParser()
    for name in ("threads", "rows", "hidden", "vocab", "layers"):
        flags.add_argument(f"--{name}", type=int, required=True)
    f = flags.parse_args()
    torch.set_num_threads(f.threads)
    large = 2 * 2048**3 / fastest(torch.randn(2048, 2048), torch.randn(2048, 2048), 8)
    h, flops, seconds = f.hidden, 0.0, 0.0
    # Layers of `inputs` to `outputs`: forward, the inputs' gradient, the weights' gradient.
    for inputs, outputs, count in ((h, 3 * h, f.layers), (h, h, f.layers), (h, 4 * h, f.layers), (4 * h, h, f.layers), (h, f.vocab, 1)):
        x, w, dy = torch.randn(f.rows, inputs), torch.randn(outputs, inputs), torch.randn(f.rows, outputs)
        seconds += count * (fastest(x, w.t(), 20) + fastest(dy, w, 20) + fastest(dy.t(), x, 20))
        flops += count * 3 * 2.0 * f.rows * inputs * outputs
    print(json.dumps({"large": large, "own": flops / seconds}))


if __name__ == "__main__":
    main()
