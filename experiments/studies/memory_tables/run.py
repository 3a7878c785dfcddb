#!/usr/bin/env python3
"""Does predicted memory agree with the ZeRO paper's tables, with documented figures, and with what fitted BigScience's GPUs?"""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Failed, Study, count, figures, markdown, read_csv, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates.", takes="about 15 seconds.", writes="table.md, results.json and golden.json",
              golden="every fifth row")
STATES = ("parameters", "gradients", "optimizer_state")
STAGES = {"DDP baseline": "NO_SHARD", "ZeRO-1": "ZERO_1", "ZeRO-2": "ZERO_2", "ZeRO-3": "ZERO_3"}
# (layers, hidden, heads, sequence): the vocabulary makes up what is missing of the parameter count.
GPTS = {7.5: (37, 4096, 32, 1024), 128: (70, 12288, 96, 2048), 1000: (127, 25600, 160, 2048)}
GIB = 2**30
CONTEXT_GIB = 1113 / 1024  # of CUDA and PyTorch on both kinds of V100, as the source's "calibration" has it


def table(name):
    return read_csv(study.folder / name)


def chosen(rows):
    """All of a table's rows; with --golden a few, of every kind that alternates there."""
    return rows[::5] if study.options.golden else rows


def memory_of(twofold, spec, settings):
    """memory.json of a spec; that it does not fit is an answer, too. None: this build does not have what it asks for."""
    try:
        return twofold.report(study.folder / spec, settings, command=("memory",), file="memory.json", statuses=(0, 3))
    except Failed as error:
        if "is not in this build" in str(error):
            return None
        raise


def largest(memory):
    return max(memory["ranks"], key=lambda kind: kind["peak_bytes"])


def between_steps(memory, key="between_steps_bytes"):
    return sum(c[key] for c in largest(memory)["categories"] if c["name"] in STATES)


# ---- The ZeRO paper ----
def gpt_settings(billion):
    layers, hidden, heads, sequence = GPTS[billion]
    rest = billion * 1e9 - layers * (12 * hidden**2 + 13 * hidden) - 2 * hidden
    return {"model.gpt.layers": layers, "model.gpt.hidden": hidden, "model.gpt.heads": heads, "model.gpt.sequence": sequence,
            "model.gpt.vocab": round(rest / hidden) - sequence}


def agrees(predicted, printed):
    """Whether the paper's digits are those of `predicted`, rounded or cut off; it does both."""
    digits = len(printed.partition(".")[2])
    unit = 10.0**digits
    return float(printed) in (round(predicted * unit) / unit, math.floor(predicted * unit) / unit)


def zero_rows():
    for row in table("zero_fig1.csv"):
        yield "figure 1", float(row["n_params_billion"]), row["config"], int(row["dp_degree"]), row["per_gpu_GB"]
    for row in table("zero_table1.csv"):
        billion = 1000 if row["model"] == "1T" else float(row["model"].rstrip("B"))
        yield "table 1", billion, row["stage"].partition(" ")[0], int(row["dp_degree"]), row["model_states_per_gpu_GB"]


def zero_row(twofold, source, billion, config, dp, printed):
    """A row of results.json."""
    memory = memory_of(twofold, "gpt.textproto", {**gpt_settings(billion), "parallel.dp": dp, "parallel.sharding": STAGES[config]})
    predicted, blocks = between_steps(memory, "between_steps_requested_bytes"), between_steps(memory)
    return row(f"{source}, {billion:g}B, {config}, {dp} ranks", predicted / 1e9, float(printed), "GB", source=source,
               model=f"{billion:g}B" if billion < 1000 else "1T", layout=config, ranks=dp, agrees=agrees(predicted / 1e9, printed),
               parameters=memory["parameters"], padding_bytes=round(predicted - sum(s["formula_bytes"] for s in memory["model_states"])), beyond_bytes=blocks - predicted)


def zero(twofold):
    """Lines, and rows of results.json."""
    of_paper = chosen(list(zero_rows()))
    rows = [zero_row(twofold, *line) for line in of_paper]
    lines = [[r["source"], r["model"], r["layout"], count(r["ranks"]), f"{r['predicted']:,.4f}", f"{r['measured']:,.{len(printed.partition('.')[2])}f}",
              "yes" if r["agrees"] else "NO", count(r["padding_bytes"]), f"{r['beyond_bytes'] / 1e6:,.1f}"] for r, (*_, printed) in zip(rows, of_paper)]
    counts = {r["model"]: r["parameters"] for r in rows}
    text = [f"{sum(r['agrees'] for r in rows)} of {len(rows)} agree to the paper's last digit (it rounds most figures and cuts off others, such as 4,187.5 to "
            "4,187).",
            "Predicted: parameters, gradients and optimizer state that a rank holds between steps, BF16 for the paper's FP16, AdamW with",
            "F32 masters (K = 12). Models are GPTs whose vocabulary fills up the count: "
            + ", ".join(f"{psi:,} parameters for {model}" for model, psi in counts.items()) + ".",
            f"Padding: units are padded to shards of whole elements, at most {count(max(r['padding_bytes'] for r in rows))} bytes a rank here. Blocks: what the "
            "allocator's",
            "blocks hold beyond what was asked for, since a rest of up to 1 MiB of a large one stays with it; `twofold memory` counts it.", ""]
    header = ["row", "model", "layout", "ranks", "predicted GB", "paper GB", "agree", "padding, bytes", "blocks beyond, MB"]
    return ["## Model states of the ZeRO paper", "", *markdown(header, lines), "", *text], rows


# ---- The seeds' tables ----
LLAMAS = {1: {},
          7: {"model.llama.layers": 32, "model.llama.hidden": 4096, "model.llama.heads": 32, "model.llama.kv_heads": 32,
              "model.llama.ffn": 11008, "model.llama.vocab": 32000},
          13: {"model.llama.layers": 40, "model.llama.hidden": 5120, "model.llama.heads": 40, "model.llama.kv_heads": 40,
               "model.llama.ffn": 13824, "model.llama.vocab": 32000}}
LAYOUTS = {"DDP": {"parallel.sharding": "NO_SHARD"}, "SHARD_GRAD_OP": {"parallel.sharding": "SHARD_GRAD_OP"},
           "FULL_SHARD": {"parallel.sharding": "FULL_SHARD"},
           "FULL_SHARD + checkpointing": {"parallel.sharding": "FULL_SHARD", "train.activation_checkpointing.every": 1}}
# What might have been counted, in bytes a parameter on four ranks.
ASSUMPTIONS = {"F32 weights alone, whole": 4, "16-bit weights alone, whole": 2, "F32 weights alone, a quarter": 1,
               "16-bit weights alone, a quarter": 0.5, "16-bit weights and gradients, a quarter": 1,
               "16-bit weights whole, all else a quarter": 2 + 14 / 4, "all model states (16 bytes), a quarter": 4,
               "all model states (16 bytes), whole": 16}


def nearest(line):
    """The assumption that comes nearest to what is stated, and its GB."""
    billion, stated = float(line["parameters_billion"]), float(line["stated_GB"])
    name, per = min(ASSUMPTIONS.items(), key=lambda item: abs(item[1] * billion - stated))
    return name, per * billion


SEEDS_NOTES = [
    "Stated figures are those of AiDotNet's documentation, which does not say what they count (its example of FSDP has F32",
    "parameters and recomputes every second block; here every block is recomputed). Under DDP they are F32 weights alone,",
    "4 bytes a parameter: no gradients and no optimizer. The sharded ones fit no accounting that holds for all of them: 14 is",
    "16-bit weights alone, which SHARD_GRAD_OP does keep whole, without a quarter of gradients and optimizer state; 8 is a quarter",
    "of F32 weights and something more, 5 a quarter of 16-bit weights and something more. Training with AdamW takes 16 bytes a",
    "parameter, in F32 (4 + 4 + 8) as in BF16 with masters (2 + 2 + 12): four times F32 weights alone. States alone are about 4",
    "times what is stated under DDP, 3.4 times under FULL_SHARD and 5.4 times with checkpointing.",
    "Predicted: Llama models of 1.0, 6.7 and 13.0 billion parameters, one sequence of 2,048 tokens a rank, tiled attention; states",
    "are held between steps, the peak holds activations, gradients and gathered units besides.", ""]


def seeds(twofold):
    """Lines, and rows of results.json. They prove nothing: what the stated figures count is not known."""
    lines, rows = [], []
    for line in chosen(table("seeds.csv")):
        settings = {**LLAMAS[int(line["parameters_billion"])], **LAYOUTS[line["strategy"]]}
        name, gigabytes = nearest(line)
        cells = [line["model"], line["strategy"], line["stated_GB"], f"{name}: {gigabytes:.1f}"]
        for precision in ("F32", "BF16"):
            memory = memory_of(twofold, "llama.textproto", {**settings, "train.precision.parameter": precision})
            if memory is None:
                cells += ["not in this build"] * 2
                continue
            states, peak = between_steps(memory) / 1e9, largest(memory)["peak_bytes"] / 1e9
            cells += [f"{states:.1f}", f"{peak:.1f}"]
            rows.append(row(f"seeds, {line['model']}, {line['strategy']}, {precision}", peak, float(line["stated_GB"]), "GB", "none", states=states))
        lines.append(cells)
    header = ["model", "layout on 4 ranks", "stated GB", "nearest assumption: GB", "F32: states GB", "F32: peak GB", "BF16: states GB", "BF16: peak GB"]
    return ["## The seeds' tables", "", *markdown(header, lines), "", *SEEDS_NOTES], rows


# ---- BigScience's 1.3B ----
BIGSCIENCE_NOTES = [
    "Predicted: fp16 with F32 masters, ZeRO-1 along dp, 1F1B along pp, unfused attention with stored masks, every layer recomputed in",
    "tables 1 and 3 (`--checkpoint-activations` of the source's script; table 2 is without), and 1,113 MiB for CUDA and PyTorch, which",
    "the source measured. The figures are not DeepSpeed's: measured ones are {least:.1f} to {most:.1f} GB higher, and a sequence more takes",
    "1.3 GB there, 0.7 GiB here, on one stage (0.7 GB and 0.8 GiB on two). DeepSpeed keeps buckets and copies for the optimizer's",
    "partition, Megatron-LM its logits in fp16 and fp32, and what PyTorch's allocator caches is counted; none of that is in this",
    "prediction, and what each takes was not measured. Of the four rows that ran out, two did so in 16 GB with layouts (pp 2 and",
    "pp 4, micro-batch 8) that table 1 has at 15 and 13 GB on larger devices: within what such a margin decides. The one in 32 GB (pp 2,",
    "micro-batch 16) follows from none of its neighbours, which take 15 GB at half the batch. The 16 GB row of dp 8 is \"borderline OOM\"",
    "in the source. Sources: [experiments/tr3m-1B3.md]"
    "(https://github.com/bigscience-workshop/bigscience/blob/master/experiments/tr3m-1B3.md) and the script it names.", ""]


def verdict(fits):
    return "fits" if fits else "OOM"


def bigscience_row(twofold, number, line, recomputes):
    """A row of results.json, or None."""
    axes = {f"parallel.{axis}": line[axis] for axis in ("tp", "pp", "dp")}
    memory = memory_of(twofold, "bigscience.textproto", {"train.micro_batch": line["micro_batch_seqs"],
                                                         "train.activation_checkpointing.every": int(recomputes), **axes})
    if memory is None:
        return None
    kind = largest(memory)
    held = kind["reserved_bytes"] / GIB + CONTEXT_GIB
    return row(f"bigscience, row {number}", held, float(line["gpu_mem_GB"]) if line["gpu_mem_GB"] else None, "GiB", peak=kind["peak_bytes"] / GIB,
               predicted_fits=held <= float(line["node_type"].partition("GB")[0]), measured_fits=line["oom"] == "0")


def bigscience(twofold):
    """Lines, and rows of results.json."""
    lines, rows = [], []
    for number, line in chosen(list(enumerate(table("bigscience_1b3.csv"), 1))):
        recomputes = line["table_no"] != "2"
        r = bigscience_row(twofold, number, line, recomputes)
        lines.append([line["table_no"], line["node_type"].split()[0], *(line[key] for key in ("tp", "pp", "dp", "micro_batch_seqs")), "yes" if recomputes else "no",
                      line["gpu_mem_GB"] or "-", verdict(line["oom"] == "0"),
                      *([f"{r['peak']:.1f}", f"{r['predicted']:.1f}", verdict(r["predicted_fits"])] if r else ["-", "-", "not in this build"])])
        rows += [r] if r else []
    right, too_large = (sum(map(of, rows)) for of in (lambda r: r["predicted_fits"] == r["measured_fits"], lambda r: r["measured_fits"] and not r["predicted_fits"]))
    over = [r["measured"] - r["predicted"] for r in rows if r["measured"]]
    header = ["table", "device", "tp", "pp", "dp", "micro-batch", "recomputes", "measured GB", "measured", "predicted peak GiB", "reserved and context GiB",
              "predicted"]
    notes = [text.format(least=min(over, default=0), most=max(over, default=0)) for text in BIGSCIENCE_NOTES]
    text = [f"Verdicts: {len(rows)}, of which right: {right}. Called too large though it fitted: {too_large}. Called fitting though it ran out of memory:",
            f"{len(rows) - right - too_large}, which is every row that did.", "", *notes]
    return ["## BigScience's 1.3B on V100s: does it fit?", "", *markdown(header, lines), "", *text], rows


def main():
    _, twofold = study.start()
    (zero_lines, of_zero), (seeds_lines, of_seeds), (science_lines, of_science) = zero(twofold), seeds(twofold), bigscience(twofold)
    problems = study.hold(figures(of_zero + of_science + of_seeds))
    if study.options.golden:
        study.end(problems)
    study.publish("Predicted memory beside published and stated figures", [*zero_lines, *seeds_lines, *science_lines], of_zero + of_seeds + of_science)
    problems += [f"{r['name']}: not the paper's digits" for r in of_zero if not r["agrees"]]
    study.end(problems + [f"{r['name']}: called too large, though it fitted" for r in of_science if r["measured_fits"] and not r["predicted_fits"]])


if __name__ == "__main__":
    main()
