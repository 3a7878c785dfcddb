#!/usr/bin/env python3
"""Does training that communicates less learn as much in the same steps?"""
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, count, percent, progress, read_json, row, signed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold`. No GPU.", takes="about 45 minutes on 2 cores.", writes="table.md, results.json and curves.svg",
              quick="one seed, a tenth of the steps: whether everything runs, not what it learns")
study.option("--keep", type=pathlib.Path, metavar="FOLDER", help="leave all reports there; a run whose report is there already is not repeated")
study.option("--only", metavar="MODEL", choices=("gpt", "cnn"), help="only this model (default: both)")

ADAM, SGD = "adamw { lr: 1e-3 }", "sgd { lr: 0.05 momentum: 0.9 }"
CNN_SGD = "sgd { lr: 0.05 momentum: 0.9 }"
SEEDS = (1, 2, 3)
NONE, DILOCO, AVERAGES, EVERY_STEP = "none", "DiLoCo, H = 30", "local SGD, H = 30", "DiLoCo, H = 1"


def compression(codec):
    return {"parallel.compression": "{" + codec + "}"}


def local(method):
    return {"train.local_update": "{" + method + "}"}


# method: (settings, largest allowed rise of the validation loss over that of the baseline with the same optimizer)
WITH_ADAM = {
    NONE: ({}, 0),
    "quantize, 8 bits": (compression("quantize {}"), 0.02),
    "quantize, 4 bits": (compression("quantize { bits: 4 }"), 0.02),
    "PowerSGD, rank 4": (compression("power_sgd {}"), 0.02),
    # It cannot clip what is exchanged, momenta
    "1-bit Adam": ({"train.optimizer": "{ one_bit_adam { lr: 1e-3 weight_decay: 0.01 freeze_step: 100 } }", "train.clip_norm": "0"}, 0.02),
    DILOCO: (local("diloco {}"), 0.03),
    "DiLoCo, H = 30, 4 bits": (local("diloco {} quantize { bits: 4 }"), 0.03),
    AVERAGES: (local("local_sgd { every_steps: 30 }"), None),
    EVERY_STEP: (local("diloco { every_steps: 1 }"), None),
}
WITH_SGD = {
    NONE: ({}, 0),
    "quantize, 8 bits": (compression("quantize {}"), 0.02),
    "1-bit": (compression("one_bit {}"), 0.02),
    "top-k, 1 %": (compression("top_k {}"), 0.05),
    "top-k, 1 %, as in DGC": (compression("top_k { momentum_correction: true clip_norm: 1 warmup_steps: 100 }"), None),
    "random-k, 10 %": (compression("random_k { density: 0.1 }"), 0.02),
    "PowerSGD, rank 4": (compression("power_sgd {}"), 0.02),
}
CASES = {  # model: optimizer, its methods
    "gpt": {ADAM: WITH_ADAM, SGD: WITH_SGD},
    "cnn": {CNN_SGD: {**WITH_SGD, DILOCO: (local("diloco {}"), None)}},
}
COLOURS = ("#000", "#c40", "#07a", "#590", "#a0a", "#e90", "#555", "#0aa", "#84f")


def train(twofold, model, optimizer, method, settings, seed, options, folder):
    """The report of one training."""
    steps = {"train.steps": 60 if model == "gpt" else 20, "train.validation.every_steps": 20, "train.schedule": "{ cosine {} warmup_steps: 5 }"} if options.quick else {}
    if options.quick:  # warm-ups of 5 steps, too
        settings = {field: value.replace("_steps: 100", "_steps: 5").replace("freeze_step: 100", "freeze_step: 5") for field, value in settings.items()}
    name = "".join(c if c.isalnum() else "_" for c in f"{model} {optimizer.split()[0]} {method} {seed}")
    out = folder / name
    report = read_json(out / "report.json") if (out / "report.json").exists() else {}
    if report.get("outcome") != "OK":  # also if the training was interrupted
        report = twofold.report(study.folder / f"{model}.textproto", {"train.seed": seed, "train.optimizer": "{" + optimizer + "}", **steps, **settings}, out=out)
    last = report["validations"][-1]
    progress(f"{model}, {optimizer.split()[0]}, {method}, seed {seed}: validation loss {last['loss']:.4f}"
             + (f", accuracy {percent(last['accuracy'])}" if model == "cnn" else ""))
    return report


def sent(report):
    """Bytes that one rank sends in a step, without the broadcasts at the start and the losses: of n bytes, 2 n (N - 1) / N in an all-reduce among N ranks, n (N - 1) / N
    in the others."""
    calls = (c for c in report["collectives"] if c["operation"] != "broadcast" and c["bytes"] > 8 * c["count"])
    ranks = report["world_size"]
    return sum(c["bytes"] * (2 if c["operation"] == "all_reduce" else 1) for c in calls) * (ranks - 1) / ranks / len(report["steps"])


def summary(reports):
    losses = [r["validations"][-1]["loss"] for r in reports]
    return {"loss": statistics.mean(losses), "spread": max(losses) - min(losses), "accuracy": statistics.mean(r["validations"][-1].get("accuracy") or 0 for r in reports),
            "bytes": statistics.mean(map(sent, reports)),
            "curve": [(v["step"], statistics.mean(r["validations"][i]["loss"] for r in reports)) for i, v in enumerate(reports[0]["validations"])]}


def judge(model, found, base, allowed):
    """Whether the method is as good as the baseline, and in which way; None: it has no bound."""
    if allowed is None:
        return None
    if model == "cnn" and found["accuracy"] < base["accuracy"] - 0.01:
        return False
    return found["loss"] <= base["loss"] * (1 + allowed) or found["loss"] - base["loss"] <= max(found["spread"], base["spread"])


def measure(twofold, options, folder):
    """By model, optimizer and method: the summary of the seeds."""
    seeds = SEEDS[:1] if options.quick else SEEDS
    return {model: {optimizer: {method: summary([train(twofold, model, optimizer, method, settings, seed, options, folder) for seed in seeds])
                                for method, (settings, _) in methods.items()} for optimizer, methods in optimizers.items()}
            for model, optimizers in CASES.items() if options.only in (None, model)}


def write_table(found):
    """The lines, the rows of results.json, and what misses its bound."""
    table, rows, missed = Table("model", "optimizer", "method", "validation loss", "spread of seeds", "against none", "allowed", "accuracy", "bytes a step", "fewer bytes", ""), [], []
    for model, optimizers in found.items():
        for optimizer, methods in optimizers.items():
            base = methods[NONE]
            for method, s in methods.items():
                allowed = CASES[model][optimizer][method][1]
                met = judge(model, s, base, allowed)
                rise = s["loss"] / base["loss"] - 1
                bound = "" if not allowed else signed(allowed, 0) + (", 1 point" if model == "cnn" else "")
                table.add(model, optimizer.split()[0], method, f"{s['loss']:.4f}", f"{s['spread']:.4f}", "" if method == NONE else signed(rise), bound,
                          percent(s["accuracy"]) if model == "cnn" else "", count(round(s["bytes"])), f"{base['bytes'] / s['bytes']:.1f}",
                          "" if not allowed else "met" if met else "NOT MET")
                rows.append(row(f"{model}, {optimizer.split()[0]}, {method}", base["loss"], s["loss"], "nats", role="none", spread=s["spread"], accuracy=s["accuracy"],
                                bytes_a_step=s["bytes"], curve=s["curve"]))
                if met is False:
                    missed.append(f"{model}, {optimizer.split()[0]}, {method}: {signed(rise)}")
            if DILOCO in methods and AVERAGES in methods and methods[DILOCO]["loss"] >= methods[AVERAGES]["loss"]:
                missed.append(f"{model}, {optimizer.split()[0]}: {DILOCO} is not better than {AVERAGES}")
    return table.lines, rows, missed


def picture(found):
    """A panel for each model and optimizer: validation loss over steps."""
    wide, high, panels, parts = 420, 260, 0, []
    for model, optimizers in found.items():
        for optimizer, methods in optimizers.items():
            x0 = panels * wide
            panels += 1
            points = [p for s in methods.values() for p in s["curve"]]
            last, low, high_loss = max(p[0] for p in points), min(p[1] for p in points), max(p[1] for p in points)
            x = lambda step: x0 + 45 + (wide - 60) * step / last
            y = lambda loss: high - 30 - (high - 70) * (loss - low) / max(1e-9, high_loss - low)
            parts.append(f'<rect x="{x0 + 45}" y="40" width="{wide - 60}" height="{high - 70}" class="frame"/>')
            parts.append(f'<text x="{x0 + 45}" y="32" class="title">{model}, {optimizer.split()[0]}: validation loss over steps, mean of seeds</text>')
            for value in (low, high_loss):
                parts.append(f'<text x="{x0 + 42}" y="{y(value) + 3:.1f}" text-anchor="end">{value:.2f}</text>')
            parts.append(f'<text x="{x(last):.1f}" y="{high - 18}" text-anchor="end">{last} steps</text>')
            for i, (method, s) in enumerate(methods.items()):
                colour = COLOURS[i % len(COLOURS)]
                parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.3" points="' + " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in s["curve"]) + '"/>')
                parts.append(f'<text x="{x0 + wide - 20}" y="{54 + 11 * i}" text-anchor="end" fill="{colour}">{method}</text>')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide * panels} {high}" font-family="sans-serif" font-size="9">',
                      "<style>.frame{fill:none;stroke:#bbb}.title{font-weight:bold}</style>", f'<rect width="{wide * panels}" height="{high}" fill="white"/>', *parts, "</svg>", ""])


def main():
    options, twofold = study.start()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(twofold, options, (options.keep or pathlib.Path(scratch)).resolve())
    lines, rows, missed = write_table(found)
    misses = [f"* not met: {text}" for text in missed]
    study.publish("Validation losses of training that communicates less", [*lines, "", *misses, "", "![Curves](curves.svg)"], rows)
    if options.write:
        (study.folder / "curves.svg").write_text(picture(found))
    study.end([f"not met: {text}" for text in missed] if not options.quick else [])


if __name__ == "__main__":
    main()
