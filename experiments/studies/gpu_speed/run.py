#!/usr/bin/env python3
"""Training steps of GPT-2 124M, GPT-2 1.5B and Llama 1B on one GPU, in Twofold and in PyTorch, side by side.

    experiments/studies/gpu_speed/run.py [--write] [--rounds=3] [--models=gpt2-124m,gpt2-1.5b,llama-1b] [--quick] [--json=FILE] [PATH_OF_TWOFOLD]

Needs a GPU and a PyTorch that sees it (--python=PATH names the interpreter; default: this one). --libraries=FOLDER:... is where Twofold
finds cuBLASLt and cuDNN, if not where the loader looks. Both train on the same file of random
tokens, with the same batch, sequence, optimizer and clipping. What holds what in which precision:

                       Twofold   PyTorch "master"   PyTorch "autocast"
    activations          bf16          bf16         bf16; norms, residuals f32
    parameters           bf16          bf16         f32
    gradients            bf16          bf16         f32
    master copies         f32           f32         (the parameters)
    moments of AdamW      f32           f32         f32

PyTorch is compiled, with fused AdamW and flash attention; of "master" and "autocast" (--quick: "master" alone, and each block of layers
compiled once, as compiling the whole takes minutes), tried first, the faster is held against Twofold; and of Twofold's `cuda.attention`
AUTO (results repeat to the last bit) and CUDNN (they may not, as PyTorch's), tried likewise, the faster against PyTorch. Then by turns, A-B-A: Twofold, PyTorch, Twofold, `rounds` times; before each turn the rate of a bf16 product of
8192 x 8192 matrices, whose median is the ceiling that MFU is a share of. A ratio is the median over the rounds of PyTorch's step
time over the mean of the two of Twofold's around it: 1 and above is at least as fast. FLOPs of a step are those of the
model (forward and backward, no recomputation), from Twofold's report, for both. Fails where a ratio is below 1.

--write renews table.md beside this file; only from a GPU: not where `twofold` was built with an emulated one.
"""
import array
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MODELS = {"gpt2-124m": ("GPT-2 124M", 16, 1024), "gpt2-1.5b": ("GPT-2 1.5B", 8, 1024), "llama-1b": ("Llama 1B", 4, 2048)}  # name, samples, tokens
VOCABULARY = 50257  # of the tokens in the file
PRODUCT = 8192
AT_LEAST = 1.0  # PyTorch's step time over Twofold's
LOSSES_WITHIN = 0.5  # of each other after the last step: both are near ln(vocabulary) on random tokens
TIMEOUT = 600  # seconds of one run


def fail(text):
    sys.exit(f"experiments/studies/gpu_speed/run.py: {text}")


def run(command, environment=None):
    command = [str(c) for c in command]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, cwd=ROOT, env=environment)
    except subprocess.TimeoutExpired:
        fail(f"{' '.join(command)}: not done after {TIMEOUT} s")
    if done.returncode != 0:
        fail(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


def write_tokens(path, count=4 << 20):
    """As llm.c writes them: 256 int32 (magic, version, count), then uint16 tokens."""
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    wide = array.array("I", random.Random(1).randbytes(4 * count))
    tokens = array.array("H", (w % VOCABULARY for w in wide))
    path.write_bytes(header.tobytes() + tokens.tobytes())


class Sides:
    def __init__(self, twofold, python, tokens, folder, libraries, quick):
        self.program, self.python, self.tokens, self.folder = twofold, python, tokens, folder
        self.compile = "blocks" if quick else "default"
        known = os.environ.get("LD_LIBRARY_PATH")
        paths = ":".join(p for p in (known, libraries) if p)
        self.environment = {**os.environ, **({"LD_LIBRARY_PATH": paths} if paths else {})}

    def twofold(self, model, attention):
        out = self.folder / "run"
        run([self.program, "run", HERE / f"{model}.textproto", "--quiet", "--fabric=in_memory", f"--out={out}", f"--set=data.tokens.path={self.tokens}",
             f"--set=cuda.attention={attention}"], self.environment)
        report = json.loads((out / "report.json").read_text())
        losses = [s["loss"] for s in report["steps"]]
        return {"seconds": report["median_step_seconds"], "flops": report["model_flops_per_step"], "parameters": report["parameters"],
                "loss": losses[-1], "finite": all(map(math.isfinite, losses)), "device": report["device"]}

    def pytorch(self, model, precision):
        _, batch, _ = MODELS[model]
        steps = 25 if model == "gpt2-124m" else 15
        got = json.loads(run([self.python, HERE / "pytorch.py", f"--model={model}", f"--batch={batch}", f"--steps={steps}", "--warmup=5",
                              f"--tokens={self.tokens}", f"--precision={precision}", f"--compile={self.compile}"]).splitlines()[-1])
        return {**got, "seconds": got["median_step_seconds"], "loss": got["last_loss"]}

    def product_rate(self):
        return json.loads(run([self.python, HERE / "pytorch.py", f"--products={PRODUCT}"]).splitlines()[-1])


def measure(sides, model, rounds, quick):
    name, batch, sequence = MODELS[model]
    rates, ours, theirs, ratios = [], [], [], []
    rate = sides.product_rate()["flops_per_second"]
    tried = {}
    for attention in ("AUTO", "CUDNN"):
        try:
            tried[attention] = of = sides.twofold(model, attention)
        except SystemExit as e:
            if attention == "AUTO":
                raise
            print(e, file=sys.stderr, flush=True)
        else:
            print(f"{name}: Twofold alone, attention {attention}: {batch * sequence / of['seconds']:,.0f} tokens/s, {of['seconds'] * 1e3:.1f} ms, MFU "
                  f"{of['flops'] / of['seconds'] / rate:.1%} of {rate * 1e-12:.0f} TFLOP/s", file=sys.stderr, flush=True)
    attention = min(tried, key=lambda a: tried[a]["seconds"])
    before = tried[attention]
    precision = "master" if quick else min(("master", "autocast"), key=lambda p: sides.pytorch(model, p)["seconds"])
    for r in range(rounds):
        rates.append(sides.product_rate()["flops_per_second"])
        peer = sides.pytorch(model, precision)
        after = sides.twofold(model, attention)
        ours.append((before["seconds"] + after["seconds"]) / 2)
        theirs.append(peer["seconds"])
        ratios.append(theirs[-1] / ours[-1])
        print(f"{name}, round {r + 1}: {ours[-1] * 1e3:.1f} ms against {theirs[-1] * 1e3:.1f} ms, {ratios[-1]:.3f}", file=sys.stderr, flush=True)
        before = after
    if not (after["finite"] and peer["finite"]) or abs(after["loss"] - peer["loss"]) > LOSSES_WITHIN:
        fail(f"{name}: losses {after['loss']:.4f} (Twofold) and {peer['loss']:.4f} (PyTorch): within {LOSSES_WITHIN} of each other is right")
    if after["parameters"] != peer["parameters"]:
        fail(f"{name}: {after['parameters']} parameters in Twofold, {peer['parameters']} in PyTorch")
    tokens = batch * sequence
    return {"name": name, "tokens": tokens, "attention": attention, "precision": precision, "ours": statistics.median(ours), "theirs": statistics.median(theirs),
            "ratio": statistics.median(ratios), "ceiling": statistics.median(rates), "flops": after["flops"], "gpu": peer["gpu"],
            "torch": peer["torch"], "device": after["device"]}


def table(rows):
    lines = ["| model | tokens a step | Twofold | PyTorch | attention | faster of PyTorch's | ratio | at least | product rate | MFU, Twofold | MFU, PyTorch |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        mfu = [r["flops"] / r[side] / r["ceiling"] for side in ("ours", "theirs")]
        lines.append(f"| {r['name']} | {r['tokens']} | {r['tokens'] / r['ours']:,.0f} tokens/s | {r['tokens'] / r['theirs']:,.0f} tokens/s | "
                     f"{r['attention']} | {r['precision']} | {r['ratio']:.3f} | {AT_LEAST:.2f} | {r['ceiling'] * 1e-12:.0f} TFLOP/s | {mfu[0]:.1%} | {mfu[1]:.1%} |")
    return "\n".join(lines)


def main():
    known = ("--write", "--rounds", "--models", "--quick", "--json", "--python", "--libraries")
    options = {a.split("=")[0]: a.split("=", 1)[-1] for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    for option in options:
        if option not in known:
            fail(f"{option}: one of {', '.join(known)} is right")
    models = options.get("--models", ",".join(MODELS)).split(",")
    for model in models:
        if model not in MODELS:
            fail(f"--models: \"{model}\": of {', '.join(MODELS)} is right")
    rounds = 1 if "--quick" in options else int(options.get("--rounds", 3))
    program = pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        sides = Sides(program, options.get("--python", sys.executable), folder / "tokens.bin", folder, options.get("--libraries", ""),
                      "--quick" in options)
        sides.product_rate()  # fails at once where PyTorch or the GPU is missing
        rows = [measure(sides, model, rounds, "--quick" in options) for model in models]
    print(table(rows))
    if "--json" in options:
        pathlib.Path(options["--json"]).write_text(json.dumps(rows))
    if "--write" in options:
        if any("emulated" in (r["device"] + r["gpu"]).lower() for r in rows):
            fail("--write: figures of an emulated GPU are none")
        text = (f"One GPU, {rows[0]['gpu']}; PyTorch {rows[0]['torch']}. Written by experiments/studies/gpu_speed/run.py, whose first lines say what was compared and "
                f"how; medians of {rounds} rounds.\n\n{table(rows)}\n")
        (HERE / "table.md").write_text(text)
    slow = [r["name"] for r in rows if r["ratio"] < AT_LEAST]
    if slow:
        fail(f"slower than PyTorch: {', '.join(slow)}")


if __name__ == "__main__":
    main()
