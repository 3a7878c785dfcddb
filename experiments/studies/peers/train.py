#!/usr/bin/env python3
"""Trains one of models.py with PyTorch and prints one line of JSON: median step, losses, parameters. experiments/studies/peers/run.py
calls it; a process of several finds the others through RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (DDP over Gloo).
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import time

import torch
from torch import distributed, nn
from torch.nn import functional as F

import models

TEXT = pathlib.Path("/usr/share/common-licenses")  # what a spec's text { path: "" } means


def batches_of_text(sequence, batch, seed):
    text = b"".join(f.read_bytes() for f in sorted(TEXT.iterdir()) if f.is_file())
    text = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    dice = torch.Generator().manual_seed(seed)
    while True:
        first = torch.randint(len(text) - sequence - 1, (batch,), generator=dice)
        windows = torch.stack([text[i : i + sequence + 1] for i in first.tolist()]).long()
        yield windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def batches_of_images(channels, side, classes, batch, seed, layout):
    """A pattern for each class, and noise on it; drawn beforehand, so that steps do not wait for random numbers."""
    dice = torch.Generator().manual_seed(seed)
    patterns = torch.randn(classes, channels, side, side, generator=torch.Generator().manual_seed(0))
    ready = []
    for _ in range(16):
        labels = torch.randint(classes, (batch,), generator=dice)
        images = patterns[labels] + torch.randn(batch, channels, side, side, generator=dice)
        ready.append((images.contiguous(memory_format=layout), labels))
    while True:
        yield from ready


def optimizer_for(model, sizes):
    """AdamW as the spec's; decay for matrices alone."""
    matrices, others = ([p for p in model.parameters() if (p.dim() > 1) == wanted] for wanted in (True, False))
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}],
                             lr=sizes.lr, foreach=sizes.foreach)


def step(model, optimizer, batches, accumulation):
    """One optimizer step; returns the mean loss of this process."""
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for i in range(accumulation):
        inputs, targets = next(batches)
        parallel = isinstance(model, nn.parallel.DistributedDataParallel)
        with model.no_sync() if parallel and i + 1 < accumulation else torch.enable_grad():
            logits = model(inputs)
            loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
            (loss / accumulation).backward()
        total += loss.item() / accumulation
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def numbers(text):
    return [int(n) for n in text.split(",")]


def flags():
    parser = argparse.ArgumentParser()
    for name in ("micro_batch", "accumulation", "threads", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("layers", "hidden", "heads", "vocab", "sequence", "channels", "side", "classes"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--widths", type=numbers, help="of the CNN's stages; absent: the model is a GPT")
    parser.add_argument("--blocks", type=numbers)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--attention", default="manual")
    parser.add_argument("--channels_last", type=int, default=0)
    parser.add_argument("--foreach", type=int, default=1)
    parser.add_argument("--bucket_mb", type=int, default=25)
    parser.add_argument("--trace", metavar="FILE", help="write what the profiler saw of the last half of the steps, for `twofold import --step=step`")
    return parser.parse_args()


def model_and_batches(f, rank):
    if not f.widths:
        return (models.Gpt(f.layers, f.hidden, f.heads, f.vocab, f.sequence, f.attention),
                batches_of_text(f.sequence, f.micro_batch, seed=rank))
    layout = torch.channels_last if f.channels_last else torch.contiguous_format
    return (models.Cnn(f.channels, f.widths, f.blocks, f.classes).to(memory_format=layout),
            batches_of_images(f.channels, f.side, f.classes, f.micro_batch, rank, layout))


@contextlib.contextmanager
def profiled(file):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        yield
    profiler.export_chrome_trace(file)


def main():
    f = flags()
    torch.set_num_threads(f.threads)
    torch.manual_seed(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    model, batches = model_and_batches(f, rank)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = optimizer_for(model, f)
    if world > 1:
        distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=f.bucket_mb, gradient_as_bucket_view=True,
                                                    broadcast_buffers=False)
    seconds, losses = [], []
    with contextlib.ExitStack() as until_the_end:
        for number in range(f.steps):
            if f.trace and number == f.steps // 2:
                until_the_end.enter_context(profiled(f.trace))
            begin = time.perf_counter()
            with torch.profiler.record_function(f"step {number}"):
                losses.append(step(model, optimizer, batches, f.accumulation))
            seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"median_step_seconds": statistics.median(seconds[2:]), "fastest_step_seconds": min(seconds[2:]),
                          "parameters": parameters,
                          "first_loss": losses[0], "last_loss": losses[-1], "torch": torch.__version__}))
    if world > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
