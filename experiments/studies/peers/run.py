#!/usr/bin/env python3
"""One training step of the quickstart GPT, and of a small CNN, in Twofold and in PyTorch, side by side.

    experiments/studies/peers/run.py [--write] [--rounds=5] [--steps=16] [BUILD_FOLDER]

Needs Debian's PyTorch: apt-get install -y --no-install-recommends python3-torch. Both train in f32, the GPT on the same text; per
round every job of both runs once, by turns, and a row's ratio is the median over the rounds. PyTorch is given its best: the
variant of LIBRARIES and its model's that is fastest here, found before, OpenBLAS's kernels among them (Debian's OpenBLAS does not know
processors newer than itself and then computes five times more slowly; PyTorch without help is shown as a row of its own).
Calibrated by nothing; held against the bounds in the table. --write renews table.md beside this file.
"""
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
SPEC = ROOT / "experiments/quickstart/gpt.textproto"
PYTHON = "/usr/bin/python3"  # the one that Debian's packages are for
GPT = {"layers": 4, "hidden": 256, "heads": 4, "vocab": 256, "sequence": 128}  # the preset gpt-3m
CNN = {"channels": 3, "side": 32, "widths": "16,32,64", "blocks": "1,1,2", "classes": 10, "lr": 2e-3}  # the preset cnn-small
CNN_SPEC = HERE / "cnn.textproto"
TIMEOUT = 1800  # seconds that a run of PyTorch's may take
# What PyTorch may be given: tried one after another, each kept where it is faster than what was there.
LIBRARIES = [("OPENBLAS_CORETYPE", ["Haswell", "SkylakeX", "Cooperlake"]), ("ATEN_CPU_CAPABILITY", ["avx2", "avx512"])]


class Model:
    def __init__(self, spec, sizes, batch, micro_batch, variants):
        self.spec, self.sizes, self.batch, self.micro_batch, self.variants = spec, sizes, batch, micro_batch, LIBRARIES + variants


MODELS = {"GPT": Model(SPEC, GPT, 16, 8, [("micro_batch", [16]), ("attention", ["baddbmm", "sdpa"]), ("foreach", [0])]),
          "CNN": Model(CNN_SPEC, CNN, 64, 64, [("channels_last", [1]), ("micro_batch", [32]), ("foreach", [0])])}
JOBS = [  # name, model, ranks, threads, fabric, ratio at most
    ("GPT, 1 process, 1 thread", "GPT", 1, 1, "in_memory", 0.75),
    ("GPT, 1 process, 2 threads", "GPT", 1, 2, "in_memory", 0.75),
    ("GPT, 2 ranks in memory, 1 thread each; DDP over Gloo", "GPT", 2, 1, "in_memory", 0.75),
    ("GPT, 2 ranks over MPI, 1 thread each; DDP over Gloo", "GPT", 2, 1, "mpi", 0.75),
    ("CNN, 1 process, 1 thread", "CNN", 1, 1, "in_memory", 1.0),
    ("CNN, 1 process, 2 threads", "CNN", 1, 2, "in_memory", 1.0),
]


def twofold(build, model, ranks, threads, fabric, steps):
    """The report of one run."""
    program = build / "experiments/program/twofold"
    with tempfile.TemporaryDirectory() as out:
        command = [program, "launch", f"--ranks={ranks}", "--"] if fabric == "mpi" else [program]
        command += ["run", model.spec, "--quiet", f"--out={out}", f"--fabric={fabric}"]
        for setting in (f"parallel.dp={ranks}", f"train.micro_batch={model.micro_batch}", f"train.steps={steps}",
                        f"train.threads_per_rank={threads}"):
            command += ["--set", setting]
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        return json.loads((pathlib.Path(out) / "report.json").read_text())


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pytorch(model, choice, ranks, threads, steps):
    """What train.py prints; `choice` holds its flags and, in capitals, environment variables."""
    micro_batch = min(choice.get("micro_batch", model.micro_batch), model.batch // ranks)
    flags = {**model.sizes, **{k: v for k, v in choice.items() if k.islower()}, "micro_batch": micro_batch,
             "accumulation": model.batch // ranks // micro_batch, "threads": threads, "steps": steps}
    command = [PYTHON, str(HERE / "train.py")] + [f"--{k}={v}" for k, v in flags.items()]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads),
                       **{k: v for k, v in choice.items() if k.isupper()})
    if ranks > 1:
        environment.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                           GLOO_SOCKET_IFNAME="lo")
    processes = [subprocess.Popen(command, env={**environment, **({"RANK": str(r)} if ranks > 1 else {})},
                                  stdout=subprocess.PIPE, text=True) for r in range(ranks)]
    try:
        outputs = [p.communicate(timeout=TIMEOUT)[0] for p in processes]
    except subprocess.TimeoutExpired:
        sys.exit(f"train.py is not done after {TIMEOUT} s; a process that died leaves the others waiting")
    finally:
        for p in processes:  # none outlives this call
            p.kill()
            p.wait()
    if any(p.returncode for p in processes):
        sys.exit("train.py failed")
    return json.loads(outputs[0])


def best_variant(model, threads):
    """PyTorch's fastest settings with so many threads, found by trying one change after another; by the fastest step, to
    which it does not matter what else the machine did meanwhile."""
    best, seconds = {}, pytorch(model, {}, 1, threads, 8)["fastest_step_seconds"]
    for name, values in model.variants:
        for value in values:
            trial = {**best, name: value}
            took = pytorch(model, trial, 1, threads, 8)["fastest_step_seconds"]
            print(f"  {threads} thread(s) {trial}: {took * 1e3:.1f} ms", file=sys.stderr, flush=True)
            if took < seconds:
                best, seconds = trial, took
    return best


def product_rate(choice, threads):
    """Multiply-adds that OpenBLAS reaches, twice them a second: a large product, and the step's own."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads),
                       **{k: v for k, v in choice.items() if k.isupper()})
    command = [PYTHON, str(HERE / "products.py"), f"--threads={threads}", f"--rows={MODELS['GPT'].micro_batch * GPT['sequence']}",
               f"--hidden={GPT['hidden']}", f"--vocab={GPT['vocab']}", f"--layers={GPT['layers']}"]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def learns(first, last):
    return last < 0.9 * first


def main():
    options = {a.split("=")[0]: a.split("=")[-1] for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    build = pathlib.Path(arguments[0] if arguments else ROOT / "build/release").resolve()
    rounds, steps = int(options.get("--rounds", 5)), int(options.get("--steps", 16))
    choices = {(name, threads): best_variant(model, threads) for name, model in MODELS.items() for threads in (1, 2)}
    ours, theirs = [[] for _ in JOBS], [[] for _ in JOBS]
    plain, rates = [], {1: [], 2: []}
    problems, flops, torch_version = [], {}, ""
    for r in range(rounds):
        for i, (name, kind, ranks, threads, fabric, _) in enumerate(JOBS):
            model = MODELS[kind]
            report = twofold(build, model, ranks, threads, fabric, steps)
            peer = pytorch(model, choices[kind, threads], ranks, threads, steps)
            flops[kind], torch_version = report["model_flops_per_step"], peer["torch"]
            ours[i].append(report["median_step_seconds"])
            theirs[i].append(peer["median_step_seconds"])
            print(f"round {r + 1}: {name}: {ours[i][-1] * 1e3:.1f} ms against {theirs[i][-1] * 1e3:.1f} ms, "
                  f"{ours[i][-1] / theirs[i][-1]:.2f}", file=sys.stderr, flush=True)
            if report["parameters"] != peer["parameters"]:
                problems.append(f"{report['parameters']} parameters against {peer['parameters']}")
            losses = [s["loss"] for s in report["steps"]]
            if not learns(losses[0], losses[-1]) or not learns(peer["first_loss"], peer["last_loss"]):
                problems.append(f"{name}: a loss did not fall by a tenth in {steps} steps")
        plain.append(pytorch(MODELS["GPT"], {}, 1, 1, 8)["median_step_seconds"])
        for threads in rates:
            rates[threads].append(product_rate(choices["GPT", threads], threads))
    lines = ["| job | Twofold | PyTorch | ratio | lowest, highest round | at most |", "|---|---|---|---|---|---|"]
    for (name, _, _, _, _, bound), a, b in zip(JOBS, ours, theirs):
        ratios = sorted(x / y for x, y in zip(a, b))
        ratio = statistics.median(ratios)
        lines.append(f"| {name} | {statistics.median(a) * 1e3:.1f} ms | {statistics.median(b) * 1e3:.1f} ms | {ratio:.2f} | "
                     f"{ratios[0]:.2f}, {ratios[-1]:.2f} | {bound} |")
        if ratio > bound:
            problems.append(f"{name}: {ratio:.2f} is more than {bound}")
    lines.append(f"| GPT, 1 process, 1 thread; PyTorch as it is installed | {statistics.median(ours[0]) * 1e3:.1f} ms | "
                 f"{statistics.median(plain) * 1e3:.1f} ms | {statistics.median(ours[0]) / statistics.median(plain):.2f} | | |")
    lines += ["", "Share of the product rate that OpenBLAS reaches here, from the GPT's FLOPs:", "",
              "| threads | 2048 x 2048 x 2048 | products of the step | Twofold's step, of the large one | of its own | PyTorch's step, of the large one | of its own |",
              "|---|---|---|---|---|---|---|"]
    for i, threads in ((0, 1), (1, 2)):
        large, own = (statistics.median(r[k] for r in rates[threads]) for k in ("large", "own"))
        shares = [flops["GPT"] / statistics.median(side[i]) / rate for side in (ours, theirs) for rate in (large, own)]
        lines.append(f"| {threads} | {large / 1e9:.0f} GFLOP/s | {own / 1e9:.0f} GFLOP/s | " +
                     " | ".join(f"{100 * s:.0f} %" for s in shares) + " |")
    lines += ["", f"{rounds} rounds of {steps} steps; {MODELS['GPT'].batch} sequences of {GPT['sequence']} bytes, or {MODELS['CNN'].batch} "
              f"images, a step; PyTorch {torch_version}; {os.cpu_count()} cores. PyTorch's best settings: " +
              "; ".join(f"{name}, {threads} thread(s): {choice}" for (name, threads), choice in choices.items()) + "."]
    text = "# A training step beside PyTorch's\n\n" + "\n".join(lines) + "\n"
    print(text)
    for problem in problems:
        print("NOT MET:", problem)
    if "--write" in options:
        (HERE / "table.md").write_text(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
