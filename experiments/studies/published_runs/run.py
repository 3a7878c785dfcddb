#!/usr/bin/env python3
"""How far are predicted step times from those that papers published for GPTs under Megatron-LM on A100 clusters?"""
import collections
import concurrent.futures
import math
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Failed, Study, count, figures, markdown, percent, progress, read_csv, row, signed  # noqa: E402
from common.short_steps import short_step  # noqa: E402
import composed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates, on all cores.", takes="about 4 minutes on 2 cores.",
              writes="table.md, results.json, predicted.csv, errors.svg and golden.json", golden="GATE's rows")
study.option("--only", default="", metavar="TEXT", help="run the rows with TEXT in their names, and check nothing")
SPEC = study.folder / "megatron.textproto"
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


def table_rows(name):
    return read_csv(study.folder / f"{name}.csv")


def cases():
    """Every row that is run: validation, and calibration as far as it is a run."""
    for table in TABLES:
        for row in table_rows(table):
            case = {k: int(v) if v.isdigit() and k != "seconds" else v for k, v in row.items()}
            case.update(table=table, measured=float(row["seconds"]))
            if table != "single_node" or case["global_batch"] == 16 * case["dp"]:
                yield case


def settings(case):
    """Of megatron.textproto, for one row. Megatron-LM pads the vocabulary to a multiple of 128 tp, but those of one node were not."""
    chunks = case["pp"] * case["virtual_stages"]
    cluster = TABLES[case["table"]][0] + ("-left-out" if case.get("left_out") else "")
    padded = 128 * case["tp"]
    vocab = case["vocab"] // case["tp"] * case["tp"] if case["table"] == "single_node" else -(-case["vocab"] // padded) * padded
    found = {"fabric.simulated.cluster": study.folder / f"{cluster}.textproto", "train.micro_batch": case["micro_batch"],
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
    if case["table"] == "table5" and case["tp"] > 1:  # Megatron-LM of 2022; the others' sums along tp are waited for
        found["parallel.tp_backward_overlap"] = "true"
    if case["sequence_parallel"] and case["tp"] > 1:
        found["parallel.sequence_parallel"] = "true"
    if case["tp"] > 1 and case["pp"] > 1 and not case["sequence_parallel"]:
        found["parallel.scatter_gather_messages"] = "true"
    assert case["layers"] % chunks == 0, case
    return found


def predict(twofold, case):
    """Adds the step's seconds, and the seconds of a core and the bytes that it took to predict them."""
    try:
        if case["table"] == "single_node":
            seconds, profile = composed.predict(twofold, SPEC, settings(case), case)
            case.update(predicted=seconds, took=profile.core_seconds, memory=profile.peak_bytes)
            return case
        step = short_step(twofold, SPEC, settings(case))
    except Failed as error:
        raise Failed(f"{case['row_id']}: {error}") from None
    if step.report["outcome"] != "OK":
        raise Failed(f"{case['row_id']}: {step.report['outcome']}: {' '.join(map(str, step.report.get('notes', [])))}")
    case.update(predicted=step.seconds, took=step.core_seconds, memory=step.peak_bytes)
    return case


def predict_all(twofold, chosen):
    """The longest first, as many at a time as there are cores; in the order of the tables."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(lambda case: predict(twofold, case), sorted(chosen, key=lambda c: -c["gpus"]))
        return sorted(done, key=lambda c: (list(TABLES).index(c["table"]), c["row_id"]))


def error(case):
    return case["predicted"] / case["measured"] - 1


def summary(name, members):
    errors = [error(c) for c in members]
    sizes = [abs(e) for e in errors]
    return [name, len(members), percent(statistics.median(sizes)), percent(statistics.mean(sizes)), signed(statistics.mean(errors)), percent(max(sizes))]


def name_of(case):
    return (f"{case['row_id']}: {case['layers']} x {count(case['hidden'])}, tp {case['tp']} pp {case['pp']} dp {case['dp']}, "
            f"micro-batch {case['micro_batch']} of {count(case['global_batch'])}")


def bounds(all_cases):
    """(rows, what, the most there may be, what there is) of every bound."""
    for t, (_, name, most_median, most_mean) in TABLES.items():
        errors = [abs(error(c)) for c in all_cases if c["table"] == t and c["role"] == "validation"]
        if most_median:
            yield name, "median", most_median, statistics.median(errors)
        yield name, "mean", most_mean, statistics.mean(errors)


def worst(validation):
    seen, found = set(), []
    for c in sorted(validation, key=lambda c: -abs(math.log(1 + error(c)))):
        kind = (c["table"], c["hidden"], c["tp"], c["pp"], c["micro_batch"]) if c["table"] == "single_node" else c["row_id"]
        if kind not in seen:
            seen.add(kind)
            found.append(c)
    return found[:10]


def line_of(case):
    return [name_of(case), f"{case['measured']:.3f}", f"{case['predicted']:.3f}", signed(error(case))]


SUMMARY = ["rows", "number", "median", "mean", "mean, signed", "worst"]


def summaries(all_cases):
    """By table, and of one node by mesh and by micro-batch."""
    validation = [c for c in all_cases if c["role"] == "validation"]
    lines = [summary(f"**{name}**", [c for c in validation if c["table"] == t]) for t, (_, name, *_) in TABLES.items()]
    several = [c for c in validation if c["table"] == "multi_node" and c["row_id"] not in CONTRADICTING]
    lines.append(summary("of several nodes, without the three that contradict their neighbours", several))
    lines.append(summary("calibration: configurations of one node", [c for c in all_cases if c["role"] == "calibration"]))
    groups = collections.defaultdict(list)
    for c in validation:
        for key in ("tp", "pp", "dp", "hidden", "micro_batch") if c["table"] == "single_node" else ():
            groups[(key, c[key])].append(c)
    return lines, [summary(f"{key} {count(value)}", members) for (key, value), members in sorted(groups.items())]


def page(all_cases):
    validation = [c for c in all_cases if c["role"] == "validation"]
    by_table, by_mesh = summaries(all_cases)
    of_bounds = [[name, what, percent(most), percent(seen), "met" if seen <= most else "**missed**"] for name, what, most, seen in bounds(all_cases)]
    head = ["row", "measured, s", "predicted, s", "error"]
    return ["[README.md](README.md) says what is compared. Errors are of a step's time, absolute but where signed.", "",
            "Validation, by table:", "", *markdown(SUMMARY, by_table), "", "Against the bounds that `run.py` checks:", "",
            *markdown(["rows", "of errors", "at most", "seen", ""], of_bounds), "",
            "One node, by mesh and by micro-batch:", "", *markdown(SUMMARY, by_mesh), "", "Three rows of several nodes contradict their neighbours:", "",
            *(f"* {c['row_id']}: {CONTRADICTING[c['row_id']]}; predicted {signed(error(c), 0)}" for c in validation if c["row_id"] in CONTRADICTING), "",
            "The worst ten, each configuration of one node but once (its rows of other layers and dp are alike):", "",
            *markdown(head, map(line_of, worst(validation))), "", "Several nodes, SC21 and table 5:", "",
            *markdown(head, [line_of(c) for c in validation if c["table"] != "single_node"]), "", (study.folder / "explained.md").read_text()]


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
                           f'<title>{name_of(c)}: {signed(error(c))}</title></circle>')
    for (t, colour), at in zip(COLOURS.items(), (8, 135, 235, 400)):
        out.append(f'<circle cx="{left + at}" cy="{high - 8}" r="3" fill="{colour}"/><text x="{left + at + 7}" y="{high - 5}">{TABLES[t][1]}</text>')
    return "\n".join([*out, "</svg>", ""])


def row_of(case):
    """Of results.json."""
    more = {key: case[key] for key in ("table", "gpus", "layers", "hidden", "tp", "pp", "dp", "virtual_stages", "micro_batch", "global_batch", "recompute")}
    return row(case["row_id"], case["predicted"], case["measured"], "s", case["role"], **more)


def write_files(done):
    (study.folder / "errors.svg").write_text(picture(done))
    lines = [f"{c['row_id']},{c['role']},{c['measured']:.6g},{c['predicted']:.6g}\n" for c in done]
    (study.folder / "predicted.csv").write_text("".join(["row_id,role,measured_s,predicted_s\n", *lines]))


def main():
    options, twofold = study.start()
    begin = time.monotonic()
    done = predict_all(twofold, [c for c in cases() if (c["row_id"] in GATE if options.golden else options.only in c["row_id"])])
    if options.only:
        for c in done:
            print(f"{name_of(c)}: {c['measured']:.3f} {c['predicted']:.3f} {signed(error(c))}  ({c['took']:.1f} s)")
        return
    rows = [row_of(c) for c in done]
    problems = study.hold(figures(rows))
    if options.golden:
        study.end(problems)
    slowest, largest = max(done, key=lambda c: c["took"]), max(done, key=lambda c: c["memory"])
    progress(f"{len(done)} runs in {time.monotonic() - begin:.0f} s on {os.cpu_count()} cores; the longest {slowest['took']:.1f} s "
             f"({slowest['row_id']}), the largest {largest['memory'] / 1e9:.2f} GB ({largest['row_id']})")
    if options.write:
        write_files(done)
    study.publish("Published training runs", page(done), rows)
    problems += [f"{c['row_id']}: took {c['took']:.0f} s and {c['memory'] / 1e9:.1f} GB" for c in done
                 if c["took"] > MOST_SECONDS or c["memory"] > MOST_BYTES]
    study.end(problems + [f"{name}: {what} {percent(seen)}, at most {percent(most)}" for name, what, most, seen in bounds(done) if seen > most])


if __name__ == "__main__":
    main()
