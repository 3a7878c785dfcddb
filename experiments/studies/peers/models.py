"""The models of Twofold's specs in PyTorch: the same layers, parameters and initial distributions.

No module registers a buffer of booleans (the causal mask is a plain attribute): Debian's PyTorch cannot broadcast them over Gloo.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, hidden, heads, sequence, how):
        super().__init__()
        self.heads, self.how = heads, how
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mask = torch.full((sequence, sequence), float("-inf")).triu(1)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        if self.how == "sdpa":  # the name it had before PyTorch 2
            attend = getattr(F, "scaled_dot_product_attention", None)
            y = attend(q, k, v, is_causal=True) if attend else F._scaled_dot_product_attention(q, k, v, is_causal=True)[0]
        elif self.how == "baddbmm":  # scale and mask in the product
            q, k, v = (part.reshape(b * self.heads, t, -1) for part in (q, k, v))
            scores = torch.baddbmm(self.mask[:t, :t], q, k.transpose(1, 2), alpha=1 / math.sqrt(q.shape[-1]))
            y = torch.bmm(scores.softmax(-1), v).view(b, self.heads, t, -1)
        else:
            y = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + self.mask[:t, :t]).softmax(-1) @ v
        return self.projection(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, hidden, heads, sequence, how):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, sequence, how)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(approximate="tanh"), nn.Linear(4 * hidden, hidden))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """core/nn/gpt.h: pre-norm blocks, learned positions, a final norm, the head tied to the token table."""

    def __init__(self, layers, hidden, heads, vocab, sequence, attention="manual"):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads, sequence, attention) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)
        self.index = torch.arange(sequence)
        for name, p in self.named_parameters():
            if p.dim() < 2:
                continue
            joins_residual = name.endswith(("projection.weight", "mlp.2.weight"))
            deviation = 0.01 if name == "positions.weight" else 0.02 / math.sqrt(2 * layers) if joins_residual else 0.02
            nn.init.normal_(p, std=deviation)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(self.index[: ids.shape[1]])
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


class Cnn(nn.Sequential):
    """core/nn/cnn.h: a small stem, stages of basic blocks that halve the image, global average pooling, a linear head."""

    def __init__(self, channels, widths, blocks, classes):
        layers = [nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True)]
        inputs = widths[0]
        for stage, (width, count) in enumerate(zip(widths, blocks)):
            for block in range(count):
                layers.append(BasicBlock(inputs, width, 2 if stage > 0 and block == 0 else 1))
                inputs = width
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
