"""The rows of this study, and the settings of each: what a spec of this folder needs to be that run."""
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from common import read_csv  # noqa: E402

NUMBERS = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "sequence", "gpus", "dp", "tp", "pp", "cp", "virtual_stages", "stage", "micro_batch", "global_batch", "recompute",
           "oom", "device_GB")
GB_OF_SMI = 1000 * 2**20  # the sources shorten nvidia-smi's MiB: 37 GB stands for 37,000 MiB or more


def rows_of(table):
    """Of a CSV of this folder, with whole numbers as such; `source_table` is the source's own table."""
    rows = []
    for row in read_csv(FOLDER / f"{table}.csv"):
        numbers = {key: int(value) if key in NUMBERS and value else value for key, value in row.items()}
        rows.append({**numbers, "table": table, "source_table": row.get("table", "")})
    return rows


def padded(vocab, tp):
    """Megatron-LM pads to a multiple of 128 tp."""
    return -(-vocab // (128 * tp)) * 128 * tp


def mesh(row, dp=None):
    return {f"parallel.{axis}": row.get(axis, 1) for axis in ("tp", "pp")} | {"parallel.dp": dp or row["dp"]}


def batches(row):
    return {"train.micro_batch": row["micro_batch"], "train.global_batch": row["global_batch"]}


def sizes(row, kind, names):
    return {f"model.{kind}.{name}": row[name] for name in names}


def layers_of_stages(row):
    """From table 35 on, the embedding and the head count as layers."""
    inner = (row["layers"] + 2) // row["pp"]
    return ",".join(map(str, [inner - 1] + [inner] * (row["pp"] - 2) + [inner - 1]))


def prequel(row):
    found = {**sizes(row, "gpt", ("layers", "hidden", "heads")), **mesh(row), **batches(row), "model.gpt.vocab": padded(250880, row["tp"]),
             "fabric.simulated.cluster": FOLDER / "jean-zay.textproto", "train.precision.parameter": row["precision"]}
    if row["precision"] == "BF16":
        found |= {"train.precision.gradient": "F32", "parallel.stage_layers": layers_of_stages(row)}
    return "bigscience", found


def small(row):
    """The 1.3B runs. Their learning rates, losses and times do not matter here: two micro-batches a stage show the most that is held."""
    batch = 2 * row["pp"] * row["dp"] * row["micro_batch"]
    return "bigscience", {"model.gpt.layers": 24, "model.gpt.hidden": 2048, "model.gpt.heads": 16, "model.gpt.vocab": padded(50257, row["tp"]),
                          "model.gpt.positions": "LEARNED", "model.gpt.dropout": 0.1, "model.gpt.attention_dropout": 0.1, **mesh(row),
                          "train.micro_batch": row["micro_batch"], "train.global_batch": batch, "train.activation_checkpointing.every": row["recompute"],
                          "fabric.simulated.cluster": FOLDER / "jean-zay-v100.textproto"}


def lumi(row):
    batch = 16 * row["dp"] * 2
    return "bigscience", {"model.gpt.layers": 70, "model.gpt.hidden": 14336, "model.gpt.heads": 112, "model.gpt.vocab": padded(50257, 8),
                          "model.gpt.positions": "LEARNED", "parallel.tp": 8, "parallel.pp": 8, "parallel.dp": row["dp"],
                          "parallel.stage_layers": "9,9,9,9,9,9,9,7", "train.micro_batch": 2, "train.global_batch": row.get("global_batch", batch),
                          "train.precision.parameter": "BF16", "train.precision.gradient": "F32", "fabric.simulated.cluster": FOLDER / "lumi.textproto"}


def accumulated(row):
    return {"train.micro_batch": row["micro_batch"], "train.global_batch": row.get("global_batch") or row["gpus"] * row["micro_batch"]}


MOSAIC_CLUSTERS = {"A100-80GB": "dgx-a100", "A100-40GB": FOLDER / "mosaic-a100-40.textproto"}  # eight NICs of 200 Gb/s a node


def mosaic(row):
    found = {**sizes(row, "gpt", ("layers", "hidden", "heads", "vocab", "sequence")), "parallel.dp": row["gpus"], **accumulated(row),
             "parallel.sharding": row["sharding"], "train.activation_checkpointing.every": row["recompute"], "framework_profile": FOLDER / "llm-foundry.textproto",
             "model.gpt.biases": "false"}
    if "gpu" in row:
        found["fabric.simulated.cluster"] = MOSAIC_CLUSTERS[row["gpu"]]
    if row.get("precision") == "FP8":
        found["train.precision.matmul"] = "FP8"
    if row["mixed_precision"] == "PURE":
        found["train.precision.reduce"] = "BF16"
    return "fsdp", found


def llmc(row):
    return "llmc", {**sizes(row, "gpt", ("layers", "hidden", "heads", "vocab", "sequence")), "parallel.dp": row["gpus"], **batches(row),
                    "fabric.simulated.cluster": f"dgx-{row['gpu'].lower()}"}


def fms(row):
    found = {**sizes(row, "llama", ("layers", "hidden", "heads", "kv_heads", "ffn", "sequence")), "parallel.dp": row["gpus"], **accumulated(row),
             "fabric.simulated.cluster": FOLDER / f"fms-{row['gpu'].lower()}.textproto", "train.activation_checkpointing.every": row["recompute"]}
    if row["sharding"] == "HSDP":
        found |= {"parallel.sharding": "HYBRID_SHARD", "parallel.shard_group": 8}
    return "fsdp_llama", found


CLUSTERS_OF_MEGATRON = {"H100": "dgx-h100", "B200": "dgx-b200", "GB200": "gb200-nvl72"}
NEMOTRON = {"activation": "SQUARED_RELU", "positions": "ROTARY", "layer_norm_1p": "true", "biases": "false", "tied_embeddings": "false"}


def chunks_of_layers(row):
    """Layers that do not divide evenly: the embedding and the head count as one each (account_for_embedding_in_pipeline_split)."""
    chunks = row["pp"] * row["virtual_stages"]
    inner = (row["layers"] + 2) // chunks
    return {} if row["layers"] % chunks == 0 else {"parallel.stage_layers": ",".join(map(str, [inner - 1] + [inner] * (chunks - 2) + [inner - 1]))}


def megatron(row):
    kind = "llama" if row["kind"] == "llama" else "gpt"
    found = {**sizes(row, kind, ("layers", "hidden", "heads", "kv_heads", "ffn", "sequence")), f"model.{kind}.vocab": padded(row["vocab"], row["tp"]),
             **mesh(row, row["gpus"] // (row["tp"] * row["pp"] * row["cp"])), "parallel.cp": row["cp"], **batches(row), "parallel.sharding": row["sharding"],
             "fabric.simulated.cluster": CLUSTERS_OF_MEGATRON[row["gpu"]]}
    if row["kind"] == "nemotron":
        found |= {f"model.gpt.{name}": value for name, value in NEMOTRON.items()}
    if row["tp"] > 1:
        found |= {"parallel.sequence_parallel": "true", "parallel.tp_overlap": "true"}
    if row["virtual_stages"] > 1:
        found |= {"parallel.schedule": "INTERLEAVED_ONE_F_ONE_B", "parallel.virtual_stages": row["virtual_stages"], **chunks_of_layers(row)}
    return "megatron_fp8", found


def torchtitan(row):
    return "fsdp_llama", {**sizes(row, "llama", ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "sequence")), "framework": "PYTORCH_EAGER",
                          "parallel.dp": row["gpus"], **accumulated(row), "train.precision.reduce": "F32",
                          "train.activation_checkpointing.every": row["recompute"], "fabric.simulated.cluster": "dgx-a100"}


def llama3(row):
    ends_alone = ",".join(map(str, [0] + [1] * row["layers"] + [0]))  # the embedding and the head are parts of their own
    return "llama3", {**sizes(row, "llama", ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "sequence")), **mesh(row), **batches(row),
                      "parallel.sequence_parallel": "true", "parallel.schedule": "INTERLEAVED_ONE_F_ONE_B", "parallel.virtual_stages": row["virtual_stages"],
                      "parallel.stage_layers": ends_alone, "fabric.simulated.cluster": FOLDER / "llama3-cluster.textproto"}


PARAMETERS_OF_LLAMA3 = 405.85e9


def llama3_seconds(row):
    """Of the TFLOP/s, by the formula of Chowdhery et al. 2022 (PaLM), appendix B, which the paper cites: masked scores count."""
    flops = 6 * PARAMETERS_OF_LLAMA3 + 12 * row["layers"] * row["hidden"] * row["sequence"]
    return row["global_batch"] * row["sequence"] * flops / (float(row["tflops"]) * 1e12 * row["gpus"])


def seconds_of(row):
    """Of a step; None: the source has none."""
    if row["table"] == "vldb23":
        return vldb_seconds(row)
    if row["table"] == "llama3":
        return llama3_seconds(row)
    if rate := row.get("tokens_per_second_and_gpu"):
        samples = row.get("global_batch") or row["gpus"] * row["micro_batch"]
        return samples * row["sequence"] / (float(rate) * row["gpus"])
    return float(row["seconds"]) if row.get("seconds") else None


def vldb23(row):
    return "fsdp", {**sizes(row, "gpt", ("layers", "hidden", "heads", "vocab", "sequence")), "parallel.dp": row["gpus"], **accumulated(row),
                    "train.precision.reduce": "BF16", "train.activation_checkpointing.every": 1, "fabric.simulated.cluster": FOLDER / "vldb23.textproto",
                    "train.activation_checkpointing.early_stop": "false"}  # PyTorch 2.0


def vldb_seconds(row):
    """Of the TFLOP/s: the paper counts what is computed, recomputation included; 96 layers of 12 hidden^2 parameters, attention and the head."""
    tokens = row["micro_batch"] * row["sequence"]
    forward = 2 * tokens * (12 * row["layers"] * row["hidden"] ** 2 + row["vocab"] * row["hidden"]) + 4 * tokens * row["sequence"] * row["hidden"] * row["layers"]
    return 4 * forward / (float(row["tflops_at_least"]) * 1e12)


SETTINGS = {"bigscience_prequel": prequel, "bigscience_1b3": small, "lumi_memory": lumi, "lumi_time": lumi, "mosaic_h100": mosaic, "mosaic_a100": mosaic, "llmc": llmc, "fms": fms, "vldb23": vldb23,
            "nemo": megatron, "megatron_bridge": megatron, "torchtitan": torchtitan, "llama3": llama3}


def job(row):
    """(spec of this folder, settings)"""
    spec, settings = SETTINGS[row["table"]](row)
    return FOLDER / f"{spec}.textproto", settings
