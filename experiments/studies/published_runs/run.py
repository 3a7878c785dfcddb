#!/usr/bin/env python3
"""Published training runs of GPTs under Megatron-LM on A100, predicted by `twofold run` from model, mesh and cluster alone.

    experiments/studies/published_runs/run.py [--write | --golden | --only=TEXT] [PATH_OF_TWOFOLD]

Held against: the four tables beside this file, whose first lines name the sources. A row's role says whether it calibrated the
device of *.textproto (its launches, kernel_us, efficiencies and kernels) or validates: of the 576 configurations of one node 25
calibrate, chosen by the rule in single_node.csv before any error was looked at, and so does all of table4.csv; the other 609
validate. all_reduce.csv calibrates the links of vtrain.textproto. Each configuration of single_node.csv counts once, at 16 sequences a replica: its times are exactly linear in the number
of micro-batches.

What was seen while the model was built: the rows' roles have not moved since they were committed, and no constant was fitted to
a validation row. But validation errors were printed between changes of the model's structure: those were not blind. They are

* launches of the forward pass take the host longer than those of the backward pass;
* a weight's gradient is added up by a kernel of its own in what ran before Megatron-LM fused the two in 2022 (tables 4 and 5 ran
  after; all others before);
* the host waits for the device before and after every pass and for every message: Megatron-LM's timers call
  torch.cuda.synchronize(), which stood around every pass until 2022 (microsoft/Megatron-DeepSpeed @55ba1f7b, megatron/global_vars.py
  and schedules.py), and so do its messages (p2p_communication.py);
* the ranks of tp send a part each of what passes between stages (SC21 paper, section 4.1; its default) where there is no sequence
  parallelism;
* products do not exceed what the limit of power sustains, whatever tiles they are cut into;
* rows of single_node.csv did not recompute activations, though their configurations say so, and had a vocabulary that was not padded,
  each rank 50257 / tp rows of it rounded down (odd where tp is 1: loads of 2 bytes). With recomputation the products of their larger
  layers would exceed an A100's peak (explained.md), and the source's own predictor computes nothing again on the last stage, which with
  pp 1 is the only one (src/predictor.py), and does not pad (src/model/gpt_modeling.py). The runs on several nodes recompute, since
  they would not fit otherwise, and are padded as Megatron-LM does by default;
* the priors of efficiencies, where calibration leaves them open (constants.csv).

Fails where on validation multi-node rows have a median above 6 % or a mean above 10 %, or where SC21's rows, table 5's or the
single-node configurations have a mean above 8 %; or where a row takes more than 60 s of a core or 8 GB, or its error is no longer what
golden.json has. --write renews table.md, predicted.csv, errors.svg and golden.json beside this file; --golden holds GATE's rows against
golden.json and does nothing else (experiments/studies/common/golden.py); --only=TEXT runs the rows with TEXT in their names and checks nothing.
"""
import collections
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent / "common"))
import golden  # noqa: E402

MOST_SECONDS, MOST_BYTES = 60, 8e9
# table: (cluster, what it is, most median, most mean)
TABLES = {"multi_node": ("vtrain", "vTrain, several nodes", 0.06, 0.10), "sc21": ("selene", "SC21, table 1", None, 0.08),
          "table5": ("selene-fused", "Korthikanti et al., table 5", None, 0.08), "single_node": ("vtrain", "vTrain, one node", None, 0.08)}
# Of every table, mesh of one node, and kind of recomputation, schedule and sequence parallelism; those that are soon predicted.
GATE = ["multi_0000", "multi_0002", "multi_0014", "multi_0021", "sc21_1.7B", "sc21_3.6B", "sc21_39.1B", "table5_175B_dp1_selective",
        *(f"single_{n:04}" for n in (0, 1, 7, 19, 20, 23, 25, 28, 43, 70, 81, 86, 99, 119))]
# Each of them contradicts its neighbours, which differ in the micro-batch alone.
CONTRADICTING = {"multi_0013": "1.3 x the row of micro-batch 4 (multi_0010); from 4 to 32 the time changes by 6 %",
                 "multi_0015": "2.0 x the row of micro-batch 32 (multi_0016); 8 to 32 are within 4 %",
                 "multi_0020": "1.6 x the row of micro-batch 4 (multi_0019); 4 to 32 are within 13 %"}


def rows(name):
    with open(HERE / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def cases():
    """Every row that is run: validation, and calibration as far as it is a run."""
    for table in TABLES:
        for row in rows(table):
            case = {k: int(v) if v.isdigit() and k != "seconds" else v for k, v in row.items()}
            case.update(table=table, measured=float(row["seconds"]))
            if table != "single_node" or case["global_batch"] == 16 * case["dp"]:
                yield case


def settings(case):
    """Of megatron.textproto, for one row. Megatron-LM pads the vocabulary to a multiple of 128 tp, but those of one node were not."""
    chunks = case["pp"] * case["virtual_stages"]
    cluster = TABLES[case["table"]][0]
    padded = 128 * case["tp"]
    vocab = case["vocab"] // case["tp"] * case["tp"] if case["table"] == "single_node" else -(-case["vocab"] // padded) * padded
    found = {"fabric.simulated.cluster": HERE / f"{cluster}.textproto", "train.micro_batch": case["micro_batch"],
             "train.global_batch": case["global_batch"], "model.gpt.vocab": vocab,
             **{f"model.gpt.{name}": case[name] for name in ("layers", "hidden", "heads", "sequence")},
             **{f"parallel.{axis}": case[axis] for axis in ("dp", "tp", "pp")}}
    if case["dp"] * case["tp"] == 1:
        found["fabric.simulated.folding"] = "AUTO"  # nothing to fold
    if case["virtual_stages"] > 1:
        found.update({"parallel.schedule": "INTERLEAVED_ONE_F_ONE_B", "parallel.virtual_stages": case["virtual_stages"]})
    if case["recompute"] == "none":
        found["train.activation_checkpointing.every"] = 0
    if case["recompute"] == "selective":
        found["train.activation_checkpointing.recompute"] = "SELECTIVE"
    if case["sequence_parallel"] and case["tp"] > 1:
        found["parallel.sequence_parallel"] = "true"
    if case["tp"] > 1 and case["pp"] > 1 and not case["sequence_parallel"]:
        found["parallel.scatter_gather_messages"] = "true"
    assert case["layers"] % chunks == 0, case
    return found


def predict(program, case):
    """The step's seconds; and the seconds of a core and the bytes that it took to predict them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", str(HERE / "megatron.textproto"), "--quiet", f"--out={folder}"]
        command += [f"--set={path}={value}" for path, value in settings(case).items()]
        with open(f"{folder}/messages", "w+") as messages:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=messages, cwd=HERE)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            messages.seek(0)
            if process.returncode not in (0, 3):
                raise SystemExit(f"{case['row_id']}: {' '.join(command)}: {messages.read()}")
        report = json.loads((pathlib.Path(folder) / "report.json").read_text())
    if report["outcome"] != "OK":
        raise SystemExit(f"{case['row_id']}: {report['outcome']}: {' '.join(map(str, report.get('notes', [])))}")
    case.update(predicted=report["median_step_seconds"], low=report.get("low", 0), high=report.get("high", 0),
                took=usage.ru_utime + usage.ru_stime, memory=usage.ru_maxrss * 1024)
    return case


def error(case):
    return case["predicted"] / case["measured"] - 1


def percent(value):
    return f"{100 * value:.1f} %"


def summary(name, members):
    errors = [error(c) for c in members]
    sizes = [abs(e) for e in errors]
    return [name, len(members), percent(statistics.median(sizes)), percent(statistics.mean(sizes)), f"{100 * statistics.mean(errors):+.1f} %",
            percent(max(sizes))]


def markdown(head, lines):
    return "\n".join(["| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *lines)]) + "\n"


def name_of(case):
    return (f"{case['row_id']}: {case['layers']} x {case['hidden']}, tp {case['tp']} pp {case['pp']} dp {case['dp']}, "
            f"micro-batch {case['micro_batch']} of {case['global_batch']}")


def bounds(all_cases):
    """(rows, what, the most there may be, what there is) of every bound."""
    for t, (_, name, most_median, most_mean) in TABLES.items():
        errors = [abs(error(c)) for c in all_cases if c["table"] == t and c["role"] == "validation"]
        if most_median:
            yield name, "median", most_median, statistics.median(errors)
        yield name, "mean", most_mean, statistics.mean(errors)


def table(all_cases):
    head = ["rows", "number", "median", "mean", "mean, signed", "worst"]
    validation = [c for c in all_cases if c["role"] == "validation"]
    lines = [summary(f"**{TABLES[t][1]}**", [c for c in validation if c["table"] == t]) for t in TABLES]
    multi = [c for c in validation if c["table"] == "multi_node"]
    lines.append(summary("of several nodes, without the three that contradict their neighbours", [c for c in multi if c["row_id"] not in CONTRADICTING]))
    lines.append(summary("calibration: configurations of one node", [c for c in all_cases if c["role"] == "calibration"]))
    text = ["Validation, by table:", "", markdown(head, lines), "Against the bounds that `run.py` checks:", "",
            markdown(["rows", "of errors", "at most", "seen", ""], [[name, what, percent(most), percent(seen), "met" if seen <= most else "**missed**"]
                                                                  for name, what, most, seen in bounds(all_cases)]),
            "One node, by mesh and by micro-batch:", ""]
    groups = collections.defaultdict(list)
    for c in validation:
        if c["table"] == "single_node":
            for key in ("tp", "pp", "dp", "hidden", "micro_batch"):
                groups[(key, c[key])].append(c)
    text.append(markdown(head, [summary(f"{key} {value}", members) for (key, value), members in sorted(groups.items())]))
    text += ["Three rows of several nodes contradict their neighbours:", ""]
    text += [f"* {row}: {why}; predicted {100 * error(c):+.0f} %" for row, why in CONTRADICTING.items() for c in multi if c["row_id"] == row]
    text += ["", "The worst ten, each configuration of one node but once (its rows of other layers and dp are alike):", ""]
    head = ["row", "measured, s", "predicted, s", "error"]
    text.append(markdown(head, [[name_of(c), f"{c['measured']:.3f}", f"{c['predicted']:.3f}", f"{100 * error(c):+.1f} %"] for c in worst(validation)]))
    text += ["Several nodes, SC21 and table 5:", ""]
    text.append(markdown(head, [[name_of(c), f"{c['measured']:.3f}", f"{c['predicted']:.3f}", f"{100 * error(c):+.1f} %"]
                                for c in validation if c["table"] != "single_node"]))
    return "\n".join(text)


def worst(validation):
    seen, found = set(), []
    for c in sorted(validation, key=lambda c: -abs(math.log(1 + error(c)))):
        kind = (c["table"], c["hidden"], c["tp"], c["pp"], c["micro_batch"]) if c["table"] == "single_node" else c["row_id"]
        if kind not in seen:
            seen.add(kind)
            found.append(c)
    return found[:10]


# ---- The picture: predicted over measured, a mark a row ----
COLOURS = {"multi_node": "#036", "sc21": "#c40", "table5": "#075", "single_node": "#999"}


def picture(all_cases):
    wide, high, left, top = 560, 420, 50, 30
    span = (math.log10(0.02), math.log10(200))
    x = lambda v: left + (wide - left - 20) * (math.log10(v) - span[0]) / (span[1] - span[0])
    most = math.log(2.2)
    y = lambda r: top + (high - top - 40) * (0.5 - math.log(r) / most / 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="10">',
           f'<rect width="{wide}" height="{high}" fill="white"/>',
           f'<text x="{left}" y="16" font-size="11">Predicted over measured seconds of a step, by measured seconds</text>']
    for ratio in (0.5, 0.7, 0.9, 1, 1.1, 1.4, 2):
        out.append(f'<line x1="{left}" x2="{wide - 20}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}" stroke="{"#333" if ratio == 1 else "#ddd"}"/>')
        out.append(f'<text x="{left - 5}" y="{y(ratio) + 3:.1f}" text-anchor="end">{ratio:g}</text>')
    for seconds in (0.1, 1, 10, 100):
        out.append(f'<text x="{x(seconds):.1f}" y="{high - 25}" text-anchor="middle">{seconds:g} s</text>')
    for t in ("single_node", "multi_node", "sc21", "table5"):
        for c in all_cases:
            if c["table"] == t and c["role"] == "validation":
                out.append(f'<circle cx="{x(c["measured"]):.1f}" cy="{y(1 + error(c)):.1f}" r="{1.8 if t == "single_node" else 3}" fill="{COLOURS[t]}">'
                           f'<title>{name_of(c)}: {100 * error(c):+.1f} %</title></circle>')
    for (t, colour), at in zip(COLOURS.items(), (8, 135, 235, 400)):
        out.append(f'<circle cx="{left + at}" cy="{high - 8}" r="3" fill="{colour}"/><text x="{left + at + 7}" y="{high - 5}">{TABLES[t][1]}</text>')
    return "\n".join([*out, "</svg>", ""])


def figures(all_cases):
    return [(c["row_id"], c["measured"], c["predicted"]) for c in all_cases]


def check(all_cases, moved):
    for c in all_cases:
        if c["took"] > MOST_SECONDS or c["memory"] > MOST_BYTES:
            raise SystemExit(f"{c['row_id']}: took {c['took']:.0f} s and {c['memory'] / 1e9:.1f} GB")
    missed = [f"{name}: {what} {percent(seen)}, at most {percent(most)}" for name, what, most, seen in bounds(all_cases) if seen > most] + moved
    if missed:
        raise SystemExit("; ".join(missed))


def main():
    write = "--write" in sys.argv[1:]
    only = next((a.removeprefix("--only=") for a in sys.argv[1:] if a.startswith("--only=")), "")
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    program = str(pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve())
    begin = time.monotonic()
    gate = "--golden" in sys.argv[1:]
    chosen = sorted((c for c in cases() if (c["row_id"] in GATE if gate else only in c["row_id"])), key=lambda c: -c["gpus"])  # long ones first
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = sorted(pool.map(lambda c: predict(program, c), chosen), key=lambda c: (list(TABLES).index(c["table"]), c["row_id"]))
    if gate:
        sys.exit(1 if golden.hold(HERE, figures(done)) else 0)
    slowest, largest = max(done, key=lambda c: c["took"]), max(done, key=lambda c: c["memory"])
    cost = (f"{len(done)} runs in {time.monotonic() - begin:.0f} s on {os.cpu_count()} cores; the longest {slowest['took']:.1f} s "
            f"({slowest['row_id']}), the largest {largest['memory'] / 1e9:.2f} GB ({largest['row_id']})\n")
    if only:
        for c in done:
            print(f"{name_of(c)}: {c['measured']:.3f} {c['predicted']:.3f} {100 * error(c):+.1f} %  ({c['took']:.1f} s)")
        return
    text = table(done)
    print(text, cost, sep="\n")
    if write:
        (HERE / "table.md").write_text("# Published training runs\n\n`run.py` says what is compared. Errors are of a step's time, absolute but "
                                       "where signed.\n\n" + text + "\n" + (HERE / "explained.md").read_text())
        (HERE / "errors.svg").write_text(picture(done))
        with open(HERE / "predicted.csv", "w") as file:
            file.write("row_id,role,measured_s,predicted_s\n")
            for c in done:
                file.write(f"{c['row_id']},{c['role']},{c['measured']:.6g},{c['predicted']:.6g}\n")
    check(done, golden.hold(HERE, figures(done), everything=True, write=write))


if __name__ == "__main__":
    main()
