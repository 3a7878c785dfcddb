#!/usr/bin/env python3
"""Where do the steps of a small GPT go, in Twofold and in PyTorch, on two ranks without a GPU?

Trains it with DDP over Gloo under PyTorch's profiler, imports the traces (`twofold import`), trains the same job in Twofold, and prints
`twofold compare`. Debian's PyTorch is built without Kineto, so its traces have operators of the CPU alone.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, fail  # noqa: E402
from run import PYTHON, environment, free_port  # noqa: E402

RANKS, SAMPLES = 2, 8  # of a rank


def flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--twofold", metavar="PROGRAM", default=str(ROOT / "build/release/experiments/program/twofold"))
    parser.add_argument("--out", metavar="DIR", default="runs/pytorch-on-cpus", help="traces, and the folders of both runs (default: %(default)s)")
    for name, size in (("layers", 4), ("hidden", 256), ("heads", 4), ("sequence", 128), ("steps", 8)):
        parser.add_argument(f"--{name}", type=int, default=size, metavar="N")
    parser.add_argument("--format", default="text", help="of `twofold compare`")
    return parser.parse_args()


def train(f, folder):
    """PyTorch's run; returns its traces, one of each rank."""
    variables = {**environment({}, threads=1), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                 "GLOO_SOCKET_IFNAME": "lo"}
    sizes = {"layers": f.layers, "hidden": f.hidden, "heads": f.heads, "vocab": 256, "sequence": f.sequence, "micro_batch": SAMPLES,
             "accumulation": 1, "threads": 1, "steps": f.steps}
    command = [PYTHON, str(pathlib.Path(__file__).with_name("train.py"))] + [f"--{k}={v}" for k, v in sizes.items()]
    traces = [folder / f"rank{r}.json" for r in range(RANKS)]
    processes = [subprocess.Popen(command + [f"--trace={trace}"], env={**variables, "RANK": str(r)}, stdout=subprocess.DEVNULL)
                 for r, trace in enumerate(traces)]
    try:
        statuses = [p.wait(timeout=600) for p in processes]
    except subprocess.TimeoutExpired:
        fail("train.py is not done after 600 s; a process that died leaves the others waiting")
    finally:
        for p in processes:  # none outlives this call
            p.kill()
            p.wait()
    if any(statuses):
        fail(f"train.py failed: exit statuses {statuses}")
    return traces


def main():
    f = flags()
    folder = pathlib.Path(f.out)
    folder.mkdir(parents=True, exist_ok=True)
    traces = train(f, folder)

    def twofold(*words, **how):
        result = subprocess.run([f.twofold, *map(str, words)], text=True, check=False, **how)
        if result.returncode:
            fail(f"twofold {words[0]} failed: exit status {result.returncode}")
    with tempfile.TemporaryDirectory() as scratch:
        spec = pathlib.Path(scratch, "gpt.textproto")
        spec.write_text(f"""model {{ gpt {{ vocab: 256 layers: {f.layers} hidden: {f.hidden} heads: {f.heads} sequence: {f.sequence} }} }}
data {{ text {{ path: "" }} }}
parallel {{ dp: {RANKS} }}
train {{ steps: {f.steps} global_batch: {RANKS * SAMPLES} micro_batch: {SAMPLES} threads_per_rank: 1 clip_norm: 1 }}
""")
        twofold("import", *traces, "--step=step", f"--spec={spec}", "--name=pytorch", f"--out={folder / 'pytorch'}",
                stdout=subprocess.DEVNULL)
        twofold("run", spec, "--fabric=in_memory", f"--out={folder / 'twofold'}", "--quiet", stdout=subprocess.DEVNULL)
    twofold("compare", folder / "twofold", folder / "pytorch", f"--format={f.format}")


if __name__ == "__main__":
    main()
