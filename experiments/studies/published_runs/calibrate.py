#!/usr/bin/env python3
"""Which constants of A100s under Megatron-LM fit the calibration rows best?"""
import concurrent.futures
import csv
import math
import os

import run
from common import Study, progress, read_csv, signed

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates, on all cores.", takes="about 3 minutes on 2 cores: two searches.",
              writes="constants.csv and the clusters", always=True)
study.option("--rounds", type=int, default=30, metavar="N",
             help="of a search, at most; 0: write the clusters from constants.csv as it is (default: 30)")
HERE = study.folder
FORWARD = ("matmul_nt", "batched_matmul_nt", "batched_matmul_nn", "layer_norm_forward", "softmax_forward", "masked_dropout_forward",
           "gelu_forward", "add", "embedding_forward", "position_forward", "cross_entropy_forward", "split_max", "split_sums", "split_losses")
LINKS = ("nvlink_efficiency", "call_us")  # of vtrain.textproto alone, from all_reduce.csv alone
CLUSTERS = {"vtrain": (4, False, "Nodes of 8 A100 with 800 Gb/s of HDR InfiniBand, running Megatron-LM"),
            "selene": (8, False, "DGX A100 with 8 HDR InfiniBand NICs, running Megatron-LM as of 2021"),
            "selene-fused": (8, True, "DGX A100 with 8 HDR InfiniBand NICs, running Megatron-LM as of 2022: products add gradients up themselves")}


def constants():
    return read_csv(HERE / "constants.csv")


def kernels(c):
    """How kernels of this framework differ from the model's: {name: {field: value}}."""
    found = {name: {"launch_us": c["forward_launch_us"]} for name in FORWARD}
    for name in ("batched_matmul_nt", "batched_matmul_nn", "batched_matmul_tn"):
        found.setdefault(name, {})["factor"] = c["batched_factor"]
    found["masked_dropout_forward"]["factor"] = c["dropout_factor"]
    # The fused causal softmax (megatron/fused_kernels/scaled_upper_triang_masked_softmax.h) reads the lower half alone, and writes all
    found["softmax_forward"]["factor"] = 3 / 4
    found["softmax_backward"] = {"factor": 2 / 3}
    found["add"]["factor"] = 1 / 3  # fused with the dropout before it: the residual alone is read
    found["add_bias"] = {"factor": 0}  # of a row-parallel layer: in the pass of the dropout and the sum behind it (bias_dropout_add)
    found["cross_entropy_forward"]["factor"] = c["cross_entropy_factor"]
    found["cross_entropy_backward"] = {"factor": c["cross_entropy_backward_factor"]}
    for name in ("split_max", "split_sums"):  # which read the logits once each
        found[name]["factor"] = c["cross_entropy_factor"] / 2
    found["split_backward"] = {"factor": c["cross_entropy_backward_factor"]}
    for name in ("add_to", "gelu_backward"):  # kernels of their own, as add and gelu_forward are (sim/cost/gpu_cost_model.h)
        found[name] = {}
    for name in ("adam_step", "squared_norm"):  # one launch for a hundred tensors
        found[name] = {"launch_us": 1}
    return found


def cluster(name, c, origin, suffix=""):
    """A cluster's text. Without a constant of LINKS it has what the catalogue has."""
    nics, fused, summary = CLUSTERS[name]
    links = " " + " ".join(f"{n}: {c[n]:.3g}" for n in LINKS) if name == "vtrain" and all(n in c for n in LINKS) else ""
    lines = []
    for kernel, fields in kernels(c).items():
        lines.append(f'    kernels {{ name: "{kernel}" ' + "".join(f"{field}: {value:.3g} " for field, value in fields.items()) + "}")
    return f"""# Written by {origin}.
name: "{name}{suffix}"
summary: "{summary}"
source: "topologies/catalogue/dgx-a100.textproto; host times, kernels of the framework, kernel_us, memory_efficiency and training_tflops: calibration rows of experiments/studies/published_runs"
device_profile: "a100-sxm"
device {{
  name: "A100-80GB SXM under Megatron-LM"
  launch_us: {c["backward_launch_us"]:.3g} communication_launch_us: {c["communication_launch_us"]:.3g} kernel_us: {c["kernel_us"]:.3g} memory_efficiency: {c["memory_efficiency"]:.3g}
  laws {{ training_tflops: {c["training_tflops"]:.4g} }}
  kernels {{
    separate_accumulation: {"false" if fused else "true"}
{chr(10).join(lines)}
  }}
}}
machines {{
  nodes: 560
  node {{
    nvswitch {{ gbytes_per_second: 300 }}
    devices: 8 nics: {nics} link_us: 0.5 pcie_gbytes_per_second: 25 pcie_us: 0.3
  }}
  network {{
    fat_tree {{ levels: 3 radix: 40 rail_optimised: true }}
    link_gbytes_per_second: 25 cable_us: 0.025 switch_us: 0.13 nic_us: 0.6
  }}
}}
library {{
  name: "nccl"
  nccl {{ generation: "ampere" post_us: 2{links} }}
}}
"""


def write_clusters(c, names=tuple(CLUSTERS), origin="calibrate.py from constants.csv", suffix=""):
    for name in names:
        (HERE / f"{name}{suffix}.textproto").write_text(cluster(name, c, origin, suffix))


def layer_cases():
    """Of each row of table 4 four runs, of two and of four layers with two and with three micro-batches."""
    for row in run.table_rows("table4"):
        base = {"table": "table5", "vocab": 51200, "heads": 64, "hidden": 6144, "sequence": 2048, "tp": 8, "pp": 1, "dp": 1, "micro_batch": 4,
                "virtual_stages": 1, "recompute": row["recompute"], "sequence_parallel": int(row["sequence_parallel"])}
        yield row, [{**base, "row_id": f"{row['experiment']}_{layers}", "layers": layers, "global_batch": 4 * count}
                    for layers in (2, 4) for count in (2, 3)]


def errors(twofold, _, without=""):
    """log(predicted / measured) by the constants in the clusters, of every calibration row but those of one system, vTrain or Selene."""
    single = [c for c in run.cases() if c["role"] == "calibration"] if without != "vTrain" else []
    layers = list(layer_cases()) if without != "Selene" else []
    runs = single + [case for _, four in layers for case in four]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda case: run.predict(twofold, case), runs))
    of_rows = {run.name_of(case): math.log(case["predicted"] / case["measured"]) for case in single}
    for row, four in layers:
        less, more, less4, more4 = (case["predicted"] for case in four)
        measured = (float(row["forward_ms"]) + float(row["backward_ms"])) / 1e3
        of_rows["table 4: " + row["experiment"]] = math.log(((more4 - less4) - (more - less)) / 2 / measured)
    return of_rows


def all_reduce_errors(twofold, _):
    """log(predicted / measured) of every all-reduce."""
    measured = {(int(row["gpus"]), int(row["bytes"])): float(row["us"]) for row in run.table_rows("all_reduce")}
    found = {}
    for gpus in sorted({gpus for gpus, _ in measured}):
        sizes = [size for g, size in measured if g == gpus]
        times = twofold.bench("all_reduce", min(sizes), max(sizes), f"--cluster={HERE / 'vtrain.textproto'}", f"--ranks={gpus}", side="in_place")
        found.update({f"all-reduce of {size} bytes by {gpus}": math.log(us / measured[gpus, size]) for size, us in times.items()})
    return found


class Objective:
    """Of constants in `table`: the sizes of the rows' errors, and how far each constant is from its prior, in sigmas.

    The sizes are smoothed, sqrt(error^2 + SMOOTH^2), so that they have a slope and a curvature everywhere."""
    SMOOTH, WEIGHT, DIFFERENCE, LEAST_GAIN = 0.02, 0.3, 0.05, 0.002

    def __init__(self, twofold, table, fixed, errors):
        self.twofold, self.table, self.fixed, self.errors_of = twofold, table, fixed, errors

    def at(self, constants):
        """Where constants stand, in sigmas from their priors."""
        return [math.log(constants[row["name"]] / float(row["prior"])) / float(row["sigma"]) for row in self.table]

    def constants(self, point):
        return {**self.fixed, **{row["name"]: float(row["prior"]) * math.exp(u * float(row["sigma"])) for row, u in zip(self.table, point)}}

    def errors(self, point):
        found = self.constants(point)
        write_clusters(found)
        return list(self.errors_of(self.twofold, found).values())

    def value(self, point, errors):
        return sum(math.hypot(e, self.SMOOTH) for e in errors) + self.WEIGHT * sum(u * u for u in point)

    def slopes(self, point, errors):
        """Of every error, by every constant: one row of the result is of one constant."""
        found = []
        for j, row in enumerate(self.table):
            by = self.DIFFERENCE / float(row["sigma"])
            moved = self.errors([u + by if k == j else u for k, u in enumerate(point)])
            found.append([(after - before) / by for before, after in zip(errors, moved)])
        return found

    def gradient_and_curvature(self, point, errors, slopes):
        """Of the objective; the curvature is Gauss and Newton's, of errors that are linear in the constants."""
        sizes = [math.hypot(e, self.SMOOTH) for e in errors]
        gradient = [sum(e * s / size for e, s, size in zip(errors, slope, sizes)) + 2 * self.WEIGHT * u for slope, u in zip(slopes, point)]
        curvature = [[sum(s * t / size for s, t, size in zip(slope, other, sizes)) + (2 * self.WEIGHT if i == j else 0)
                      for j, other in enumerate(slopes)] for i, slope in enumerate(slopes)]
        return gradient, curvature


def solved(matrix, right):
    """x of matrix x = right, by Gauss's elimination; `matrix` is symmetric and positive definite."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for i, pivot in enumerate(rows):
        for below in rows[i + 1:]:
            share = below[i] / pivot[i]
            below[i:] = [b - share * p for b, p in zip(below[i:], pivot[i:])]
    found = []
    for i in reversed(range(len(rows))):
        known = sum(a * x for a, x in zip(rows[i][i + 1:-1], found))
        found.insert(0, (rows[i][-1] - known) / rows[i][i])
    return found


def corrected(slopes, step, change):
    """Slopes that give the change of the errors that a step has made (Broyden's update, the least that does)."""
    length = sum(by * by for by in step)
    missing = [seen - sum(slope[i] * by for slope, by in zip(slopes, step)) for i, seen in enumerate(change)]
    return [[value + more * by / length for value, more in zip(slope, missing)] for slope, by in zip(slopes, step)]


def search(objective, start, rounds, slopes=None):
    """(objective, constants, slopes) where the objective is least, from `start` on, by damped steps of Gauss and Newton (Levenberg and Marquardt).

    Slopes are found by moving every constant, at the start unless `slopes` are known, and where steps gain nothing any more; between, every
    step corrects them."""
    point = objective.at(start)
    errors = objective.errors(point)
    least, damping, exact = objective.value(point, errors), 0.1, False
    for turn in range(rounds):
        if slopes is None:
            slopes, exact, damping = objective.slopes(point, errors), True, min(damping, 0.1)
        before = least
        for _ in range(4):
            gradient, curvature = objective.gradient_and_curvature(point, errors, slopes)
            damped = [[value * (1 + damping) if i == j else value for j, value in enumerate(line)] for i, line in enumerate(curvature)]
            step = [-by for by in solved(damped, gradient)]
            tried = [u + by for u, by in zip(point, step)]
            found = objective.errors(tried)
            slopes = corrected(slopes, step, [after - was for was, after in zip(errors, found)])
            value = objective.value(tried, found)
            if value < least:
                point, errors, least, damping = tried, found, value, damping / 4
                break
            damping *= 4
        shown = {name: float(f"{value:.4g}") for name, value in objective.constants(point).items()}
        progress(f"round {turn + 1}: {least:.4f}, sum of errors' sizes {sum(map(abs, errors)):.4f} {shown}")
        if before - least >= Objective.LEAST_GAIN:
            exact = False
        elif exact:
            break
        else:
            slopes = None
    return least, objective.constants(point), slopes


def best_of_two(twofold, table, priors, rounds):
    """A search can end in a hollow: this is the better of one from the priors and one from constants.csv."""
    objective = Objective(twofold, table, priors, errors)
    first = search(objective, priors, rounds)
    before = {**priors, **{row["name"]: float(row["value"]) for row in table}}
    return min(first, search(objective, before, rounds, first[2]), key=lambda found: found[0])[1]


def show(errors):
    for name, value in errors.items():
        print(f"{name}: {signed(math.expm1(value))}")


def main():
    options, twofold = study.start()
    table = constants()
    best = {row["name"]: float(row["prior" if options.rounds > 0 else "value"]) for row in table}
    if options.rounds > 0:
        links = [row for row in table if row["name"] in LINKS]
        silent = {**best, "communication_launch_us": 0}  # nccl-tests calls NCCL itself
        _, fitted, _ = search(Objective(twofold, links, silent, all_reduce_errors), silent, options.rounds)
        write_clusters(fitted)
        show(all_reduce_errors(twofold, fitted))
        best.update({name: fitted[name] for name in LINKS})
        best = best_of_two(twofold, [row for row in table if row["name"] not in LINKS], best, options.rounds)
        best = {name: float(f"{value:.4g}") for name, value in best.items()}  # as they are written, and read by --rounds=0
        with open(HERE / "constants.csv") as file:
            comments = [line for line in file if line.startswith("#")]
        with open(HERE / "constants.csv", "w", newline="") as file:
            file.writelines(comments)
            writer = csv.DictWriter(file, table[0].keys(), lineterminator="\n")
            writer.writeheader()
            for row in table:
                writer.writerow({**row, "value": f"{best[row['name']]:g}"})
    write_clusters(best)
    if options.rounds > 0:
        show(errors(twofold, best))


if __name__ == "__main__":
    main()
