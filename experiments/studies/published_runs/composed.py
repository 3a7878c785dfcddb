"""Rows of single_node.csv, which vTrain's program added up from profiles of single layers (structure.md): what such profiles would show.

One step of one layer is simulated, and taken apart as src/predictor.py takes a trace apart (VIA-Research/vTrain @f8dda84): into the embedding, the
layer, head and loss, and the update. A kernel counts from its beginning to that of the next. The profiler (profiler/cupti.cpp) asks CUPTI for
records of the kind CUPTI_ACTIVITY_KIND_KERNEL, for which "all kernel executions are serialized" (cupti_activity.h). That is read so: the host
prepares a launch while the kernel before runs, but submits it only when that has ended.
"""
import dataclasses
import functools
import pathlib
import re
import tempfile

SLOW = 1e4  # launches are this many times slower where they are looked at: then every kernel begins when it is launched
SUBMITTED_US = 5  # the calls that submit a kernel take 4 to 6 us (susun-blog.com/blog/pegainfer-3-cuda-graph)
TABLE_BYTES = 2**30  # above, that program divides bytes by the table's last rate, without the factor 2 (n - 1) / n of an all-reduce
LAYER_TENSORS = 12  # weights and biases of a layer, each with an update of its own


@dataclasses.dataclass(frozen=True)
class Profile:
    """Microseconds of a micro-batch (of a step: the updates). `layer` has its four sums along tp, if any."""
    layer: float
    embedding: float
    head: float
    update_layer: float
    update_embedding: float
    core_seconds: float  # that it took to predict it
    peak_bytes: float


def slow_host(cluster, ranks):
    """The cluster's text with SLOW launches. Those of communication are as long as the last of `ranks` takes."""
    last = sum(1 / n for n in range(1, ranks + 1))  # of exponentially distributed times with mean 1, the longest
    cluster = re.sub(r"\bcommunication_launch_us: (\S+)", lambda found: f"communication_launch_us: {float(found[1]) * last:g}", cluster)
    return re.sub(r"launch_us: (\S+)", lambda found: f"launch_us: {float(found[1]) * SLOW:g}", cluster)


def serialized(kernels):
    """Microseconds from each kernel's beginning to that of the next."""
    begins = [kernel["ts"] + kernel["args"].get("waiting_us", 0) for kernel in kernels]
    launches = [(after - before) / SLOW for before, after in zip(begins, begins[1:])] + [0]
    return [max(launch, kernel["dur"] - kernel["args"].get("waiting_us", 0) + SUBMITTED_US) for launch, kernel in zip(launches, kernels)]


def parts(events):
    """A Profile's times, from the trace of one step of one layer on a slow host."""
    kernels = sorted((e for e in events if e["ph"] == "X" and e["pid"] == 0 and e["dur"] > 0), key=lambda e: e["ts"])
    names = [e["name"] for e in kernels]
    where = lambda name: [i for i, n in enumerate(names) if n == name]
    (first, _, last), (last_back, _, first_back) = where("layer_norm_forward"), where("layer_norm_weights")  # of the layer two, and the last one
    end, updates = where("squared_norm")[0], where("adam_step")
    took = serialized(kernels)
    update = [kernels[i]["dur"] for i in updates]
    embeddings = len(update) - LAYER_TENSORS - 2  # two tensors are the last norm's, which that program leaves out
    return dict(layer=sum(took[first:last]) + sum(took[last_back + 1:first_back + 1]), embedding=sum(took[:first]) + sum(took[first_back + 1:end]),
                head=sum(took[last + 1:last_back - 1]), update_embedding=sum(update[:embeddings]), update_layer=sum(update[embeddings:embeddings + LAYER_TENSORS]))


@functools.lru_cache(maxsize=None)
def profile(twofold, spec, cluster, settings):
    """A Profile; `cluster` is a text, `settings` are pairs."""
    with tempfile.TemporaryDirectory() as folder:
        slow = pathlib.Path(folder) / "slow-host.textproto"
        slow.write_text(slow_host(cluster, dict(settings)["parallel.tp"]))
        step = {**dict(settings), "fabric.simulated.cluster": slow, "fabric.simulated.noise": "OFF", "train.steps": 1, "train.warmup_steps": 0,
                "trace.enabled": "true", "trace.ranks": 1}
        trace, ran = twofold.job(spec, step, file="trace.json")
    return Profile(**parts(trace["traceEvents"]), core_seconds=ran.core_seconds, peak_bytes=ran.peak_bytes)


def message_us(case):
    """What src/predictor.py counts for a message between stages: twice its bytes at a quarter of 800 Gb/s, in powers of two."""
    return 2 * 2 * case["micro_batch"] * case["sequence"] * case["hidden"] / (800 * 2**30 / 8 / 4) * 1e6


@functools.lru_cache(maxsize=None)
def all_reduce_us(twofold, links, size, ranks):
    """Of an all-reduce that no framework calls; `links` are the lines of a cluster from its machines on."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = pathlib.Path(folder) / "links.textproto"
        cluster.write_text(f'name: "links"\ndevice_profile: "a100-sxm"\n{links}')
        return next(iter(twofold.bench("all_reduce", size, size, f"--cluster={cluster}", f"--ranks={ranks}", side="in_place").values()))


def gradient_bytes(case):
    """Of a rank of the first stage, in f16."""
    layer = 12 * case["hidden"] ** 2 // case["tp"]
    return 2 * (case["layers"] // case["pp"] * layer + (case["vocab"] // case["tp"] + case["sequence"]) * case["hidden"])


def predict(twofold, spec, settings, case):
    """(seconds of a row, its Profile), added up as src/predictor.py does."""
    dp, pp, layers = case["dp"], case["pp"], case["layers"] // case["pp"]
    cluster = settings["fabric.simulated.cluster"].read_text()
    one = {**settings, "model.gpt.layers": 1, "train.global_batch": case["micro_batch"], "parallel.dp": 1, "parallel.pp": 1,
           "fabric.simulated.folding": "AUTO"}
    one.pop("parallel.scatter_gather_messages", None)
    p = profile(twofold, spec, cluster, tuple(one.items()))
    micro_batches = case["global_batch"] // (case["micro_batch"] * dp)
    us = (micro_batches + pp - 1) * layers * p.layer + micro_batches * p.head + (micro_batches if pp == 1 else 1) * p.embedding
    us += 2 * (pp - 1) * message_us(case) + layers * p.update_layer + p.update_embedding
    if dp > 1:
        size = gradient_bytes(case)
        us += all_reduce_us(twofold, cluster[cluster.index("machines {"):], size, dp) * (dp / (2 * (dp - 1)) if size > TABLE_BYTES else 1)
    return us * 1e-6, p
