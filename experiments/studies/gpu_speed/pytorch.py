#!/usr/bin/env python3
"""Trains GPT-2 or Llama with PyTorch on a GPU and prints one line of JSON. experiments/studies/gpu_speed/run.py calls it.

    pytorch.py --model=gpt2-124m --batch=16 --steps=25 --warmup=5 --tokens=FILE --precision=master|autocast [--compile=MODE] [--device=cuda]

--precision=master: what Twofold's `precision { parameter: BF16 }` does. Parameters, activations and gradients are bf16; AdamW
    updates f32 master copies with f32 moments, and the parameters are their rounded copies.
--precision=autocast: parameters, gradients, masters and moments are f32; products and attention run in bf16 (torch.autocast).
Both: torch.compile, fused AdamW, scaled_dot_product_attention, which picks flash attention. Decay for matrices alone; gradients are
clipped to norm 1. --products=N prints the rate of a bf16 product of N x N matrices instead, in FLOP/s. --device=cpu and --model=tiny-*
are for trying this program where there is no GPU.
"""
import argparse
import array
import contextlib
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

SIZES = {
    "gpt2-124m": dict(kind="gpt", layers=12, hidden=768, heads=12, vocab=50304, sequence=1024),
    "gpt2-1.5b": dict(kind="gpt", layers=48, hidden=1600, heads=25, vocab=50304, sequence=1024),
    "llama-1b": dict(kind="llama", layers=16, hidden=2048, heads=32, kv_heads=8, ffn=8192, vocab=128256, sequence=2048, theta=500000.0),
    "tiny-gpt": dict(kind="gpt", layers=2, hidden=64, heads=4, vocab=512, sequence=32),
    "tiny-llama": dict(kind="llama", layers=2, hidden=64, heads=4, kv_heads=2, ffn=128, vocab=512, sequence=32, theta=10000.0),
}


class GptBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, vocab, sequence):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(GptBlock(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def rotate(x, cosines, sines):
    first, second = x.chunk(2, dim=-1)
    return (x * cosines + torch.cat((-second, first), dim=-1) * sines).to(x.dtype)


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, hidden // heads
        self.norm1, self.norm2 = RmsNorm(hidden), RmsNorm(hidden)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.head_dim, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.gate_up, self.down = nn.Linear(hidden, 2 * ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cosines, sines):
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, self.heads + 2 * self.kv_heads, self.head_dim).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        groups = self.heads // self.kv_heads  # (as Twofold's kernel reads them, without copies, where PyTorch can: enable_gqa)
        try:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        except TypeError:  # PyTorch before 2.5
            y = F.scaled_dot_product_attention(q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers, hidden, heads, kv_heads, ffn, vocab, sequence, theta):
        super().__init__()
        self.tokens = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = RmsNorm(hidden)
        head_dim = hidden // heads
        angles = torch.outer(torch.arange(sequence).double(), theta ** (-torch.arange(0, head_dim, 2).double() / head_dim)).repeat(1, 2)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cosines, self.sines)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make(name, device):
    sizes = dict(SIZES[name])
    torch.manual_seed(1)
    model = {"gpt": Gpt, "llama": Llama}[sizes.pop("kind")](**sizes)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    return model.to(device)


def batches(path, vocab, sequence, batch, device):
    """Of a file as llm.c writes them: 256 int32, then uint16 tokens."""
    with open(path, "rb") as f:
        f.seek(1024)
        tokens = array.array("H", f.read())
    tokens = torch.tensor(tokens, dtype=torch.int64) % vocab
    dice = torch.Generator().manual_seed(1)
    while True:
        first = torch.randint(len(tokens) - sequence - 1, (batch,), generator=dice)
        windows = torch.stack([tokens[i : i + sequence + 1] for i in first.tolist()])
        if device == "cuda":
            windows = windows.pin_memory().to(device, non_blocking=True)
        yield windows[:, :-1], windows[:, 1:]


class Optimizer:
    """AdamW, fused on a GPU, with clipping; over f32 copies where `master`."""

    def __init__(self, model, master, device):
        self.params = [p for p in model.parameters()]
        self.masters = [p.detach().clone().float().requires_grad_() for p in self.params] if master else self.params
        groups = [{"params": [m for m in self.masters if m.dim() > 1], "weight_decay": 0.1},
                  {"params": [m for m in self.masters if m.dim() <= 1], "weight_decay": 0.0}]
        self.adamw = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=device == "cuda")

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        if self.masters is not self.params:
            if self.masters[0].grad is None:
                for m in self.masters:
                    m.grad = torch.empty_like(m)
            torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.params])
        self.adamw.step()
        if self.masters is not self.params:
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.masters)
        for p in self.params:
            p.grad = None


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def train(options):
    device = options.device
    model = make(options.model, device)
    master = options.precision == "master"
    if master:
        buffers = {name: b.clone() for name, b in model.named_buffers()}
        model = model.to(torch.bfloat16)
        for name, b in model.named_buffers():  # angles stay f32, as Twofold's table does
            b.data = buffers[name]
    optimizer = Optimizer(model, master, device)
    sizes = SIZES[options.model]
    data = batches(options.tokens, sizes["vocab"], sizes["sequence"], options.batch, device)
    if options.compile == "blocks":  # which are alike, so that one is compiled; and the loss
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(model.loss)
        run = model
    else:
        run = model if options.compile == "none" else torch.compile(model, mode=None if options.compile == "default" else options.compile)
    seconds, losses = [], []
    for _ in range(options.steps):
        wait(device)
        start = time.perf_counter()
        ids, targets = next(data)
        with contextlib.nullcontext() if master else torch.autocast(device, torch.bfloat16):
            loss = run(ids, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        wait(device)
        seconds.append(time.perf_counter() - start)
    measured = seconds[options.warmup:]
    median = statistics.median(measured)
    return {"median_step_seconds": median, "fastest_step_seconds": min(measured), "first_step_seconds": seconds[0],
            "tokens_per_second": options.batch * sizes["sequence"] / median, "first_loss": losses[0], "last_loss": losses[-1],
            "finite": all(map(math.isfinite, losses)), "parameters": sum(p.numel() for p in model.parameters()),
            "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0}


def products(n, device):
    """FLOP/s of a bf16 product: the median of 30."""
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    rates = []
    for _ in range(33):
        wait(device)
        start = time.perf_counter()
        for _ in range(5):
            a @ b
        wait(device)
        rates.append(5 * 2 * n**3 / (time.perf_counter() - start))
    return {"flops_per_second": statistics.median(rates[3:])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=SIZES)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--tokens")
    parser.add_argument("--precision", choices=("master", "autocast"), default="master")
    parser.add_argument("--compile", default="default", help="none, blocks, default, or a mode of torch.compile")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--products", type=int)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("pytorch.py: this PyTorch sees no GPU")
    torch.set_float32_matmul_precision("high")
    result = products(options.products, options.device) if options.products else train(options)
    result["torch"] = torch.__version__
    result["gpu"] = torch.cuda.get_device_name() if options.device == "cuda" else ""
    print(json.dumps(result))


if __name__ == "__main__":
    main()
