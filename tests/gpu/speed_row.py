#!/usr/bin/env python3
"""For tests/gpu/run.sh: "figure|result" of what experiments/studies/gpu_speed/run.py wrote of one model: speed_row.py FILE.json"""
import json
import sys

row, = json.load(open(sys.argv[1]))
mfu = [row["flops"] / row[side] / row["ceiling"] for side in ("ours", "theirs")]
rates = [row["tokens"] / row[side] for side in ("ours", "theirs")]
print(f"{row['ratio']:.3f} ({row['attention']}): {rates[0]:,.0f} against {rates[1]:,.0f} tokens/s; MFU {mfu[0]:.1%}, {mfu[1]:.1%}|"
      f"{'passed' if row['ratio'] >= 1 else 'FAILED'}")
