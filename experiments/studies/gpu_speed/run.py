#!/usr/bin/env python3
"""Are training steps of GPT-2 124M, GPT-2 1.5B and Llama 1B on one GPU as fast in Twofold as in PyTorch?"""
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Failed, Study, count, fail, markdown, milliseconds, percent, progress, row, run, write_tokens  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` with CUDA, a GPU to itself, and a PyTorch that sees it.", takes="not known: it has not run on a GPU yet.",
              quick="one round, PyTorch \"master\" alone, and blocks compiled instead of whole models")
MODELS = {"gpt2-124m": ("GPT-2 124M", 16, 1024), "gpt2-1.5b": ("GPT-2 1.5B", 8, 1024), "llama-1b": ("Llama 1B", 4, 2048)}  # name, samples, tokens
study.option("--rounds", type=int, default=3, metavar="N", help="turns of both (default: 3)")
study.option("--models", default=",".join(MODELS), metavar="A,B", help=f"of {', '.join(MODELS)} (default: all)")
study.option("--python", type=pathlib.Path, default=pathlib.Path(sys.executable), metavar="PATH", help="the interpreter that has PyTorch (default: this one)")
study.option("--libraries", type=pathlib.Path, metavar="FOLDER:...", help="where Twofold finds cuBLASLt and cuDNN, if not where the loader looks")
study.option("--json", type=pathlib.Path, metavar="FILE", help="write the figures there, too")
VOCABULARY = 50257  # of the tokens in the file
PRODUCT = 8192
AT_LEAST = 1.0  # PyTorch's step time over Twofold's
LOSSES_WITHIN = 0.5  # of each other after the last step: both are near ln(vocabulary) on random tokens
TIMEOUT = 600  # seconds of one run


class Sides:
    def __init__(self, twofold, tokens, folder, options):
        self.program, self.python, self.tokens, self.folder = twofold, options.python, tokens, folder
        self.compile = "blocks" if options.quick else "default"
        known = os.environ.get("LD_LIBRARY_PATH")
        paths = ":".join(str(p) for p in (known, options.libraries) if p)
        self.environment = {**os.environ, **({"LD_LIBRARY_PATH": paths} if paths else {})}

    def twofold(self, model, attention):
        report = self.program.report(study.folder / f"{model}.textproto", {"data.tokens.path": self.tokens, "cuda.attention": attention}, "--fabric=in_memory",
                                     timeout=TIMEOUT, env=self.environment)
        losses = [s["loss"] for s in report["steps"]]
        return {"seconds": report["median_step_seconds"], "flops": report["model_flops_per_step"], "parameters": report["parameters"],
                "loss": losses[-1], "finite": all(map(math.isfinite, losses)), "device": report["device"]}

    def script(self, *words):
        """The last line that pytorch.py prints."""
        return json.loads(run([self.python, study.folder / "pytorch.py", *words], timeout=TIMEOUT, cwd=ROOT).output.splitlines()[-1])

    def pytorch(self, model, precision):
        _, batch, _ = MODELS[model]
        steps = 25 if model == "gpt2-124m" else 15
        got = self.script(f"--model={model}", f"--batch={batch}", f"--steps={steps}", "--warmup=5", f"--tokens={self.tokens}", f"--precision={precision}",
                          f"--compile={self.compile}")
        return {**got, "seconds": got["median_step_seconds"], "loss": got["last_loss"]}

    def product_rate(self):
        return self.script(f"--products={PRODUCT}")["flops_per_second"]


def fastest_attention(sides, model, rate):
    """Twofold's faster attention, and its run; CUDNN may be unable to run."""
    name, batch, sequence = MODELS[model]
    tried = {}
    for attention in ("AUTO", "CUDNN"):
        try:
            tried[attention] = of = sides.twofold(model, attention)
        except Failed as error:
            if attention == "AUTO":
                raise
            progress(error)
        else:
            progress(f"{name}: Twofold alone, attention {attention}: {batch * sequence / of['seconds']:,.0f} tokens/s, {milliseconds(of['seconds'], 1)}, MFU "
                     f"{percent(of['flops'] / of['seconds'] / rate)} of {rate * 1e-12:.0f} TFLOP/s")
    return min(tried.items(), key=lambda item: item[1]["seconds"])


def check(name, ours, theirs):
    if not (ours["finite"] and theirs["finite"]) or abs(ours["loss"] - theirs["loss"]) > LOSSES_WITHIN:
        fail(f"{name}: losses {ours['loss']:.4f} (Twofold) and {theirs['loss']:.4f} (PyTorch): within {LOSSES_WITHIN} of each other is right")
    if ours["parameters"] != theirs["parameters"]:
        fail(f"{name}: {ours['parameters']} parameters in Twofold, {theirs['parameters']} in PyTorch")


def measure(sides, model, rounds, quick):
    name, batch, sequence = MODELS[model]
    rates, ours, theirs, ratios = [], [], [], []
    attention, before = fastest_attention(sides, model, sides.product_rate())
    precision = "master" if quick else min(("master", "autocast"), key=lambda p: sides.pytorch(model, p)["seconds"])
    for r in range(rounds):
        rates.append(sides.product_rate())
        peer, after = sides.pytorch(model, precision), sides.twofold(model, attention)
        ours.append((before["seconds"] + after["seconds"]) / 2)
        theirs.append(peer["seconds"])
        ratios.append(theirs[-1] / ours[-1])
        progress(f"{name}, round {r + 1}: {milliseconds(ours[-1], 1)} against {milliseconds(theirs[-1], 1)}, {ratios[-1]:.3f}")
        before = after
    check(name, after, peer)
    return {"name": name, "tokens": batch * sequence, "attention": attention, "precision": precision, "ours": statistics.median(ours),
            "theirs": statistics.median(theirs), "ratio": statistics.median(ratios), "ceiling": statistics.median(rates), "flops": after["flops"],
            "gpu": peer["gpu"], "torch": peer["torch"], "device": after["device"]}


def table(found):
    lines = []
    for f in found:
        rates = [f"{f['tokens'] / f[side]:,.0f} tokens/s" for side in ("ours", "theirs")]
        mfu = [percent(f["flops"] / f[side] / f["ceiling"]) for side in ("ours", "theirs")]
        lines.append([f["name"], count(f["tokens"]), *rates, f["attention"], f["precision"], f"{f['ratio']:.3f}", f"{AT_LEAST:.2f}",
                      f"{f['ceiling'] * 1e-12:.0f} TFLOP/s", *mfu])
    return markdown(["model", "tokens a step", "Twofold", "PyTorch", "attention", "faster of PyTorch's", "ratio", "at least", "product rate", "MFU, Twofold",
                     "MFU, PyTorch"], lines)


def wrong(options):
    unknown = [model for model in options.models.split(",") if model not in MODELS]
    return f"--models: \"{unknown[0]}\": of {', '.join(MODELS)} is right" if unknown else None


def main():
    options, twofold = study.start(wrong)
    rounds = 1 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin", VOCABULARY)
        sides = Sides(twofold, folder / "tokens.bin", folder, options)
        sides.product_rate()  # fails at once where PyTorch or the GPU is missing
        found = [measure(sides, model, rounds, options.quick) for model in options.models.split(",")]
    if options.json:
        options.json.write_text(json.dumps(found))
    study.only_from_a_gpu(" ".join(f["device"] + f["gpu"] for f in found))
    rows = [row(f["name"], None, f["ours"], "s", "none", pytorch=f["theirs"], **{key: f[key] for key in ("ratio", "tokens", "attention", "precision")},
                flops=f["flops"], product_rate=f["ceiling"], at_least=AT_LEAST) for f in found]
    about = f"One GPU, {found[0]['gpu']}; PyTorch {found[0]['torch']}; medians of {rounds} rounds. [README.md](README.md) says what was compared and how."
    study.publish("Training steps on one GPU beside PyTorch's", [about, "", *table(found)], rows)
    study.end([f"slower than PyTorch: {f['name']}" for f in found if f["ratio"] < AT_LEAST])


if __name__ == "__main__":
    main()
