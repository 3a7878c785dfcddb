"""The jobs of this study, as the parts of a spec."""
import dataclasses
import pathlib

GPT = "gpt { layers: 8 hidden: 512 heads: 8 vocab: 2048 sequence: 128 }"
LLAMA = "llama { layers: 8 hidden: 512 heads: 8 kv_heads: 2 ffn: 1024 vocab: 2048 sequence: 128 }"
WIDE = "llama { layers: 8 hidden: 512 heads: 8 kv_heads: 8 ffn: 1024 vocab: 2048 sequence: 128 }"
LONG = "llama { layers: 4 hidden: 1024 heads: 8 kv_heads: 4 ffn: 1024 vocab: 2048 sequence: 32768 }"
MIXTURE = "moe { llama { layers: 4 hidden: 256 heads: 8 vocab: 1024 sequence: 64 } experts: 8 top_k: 2 }"
UNEVEN = MIXTURE.replace("top_k: 2", "top_k: 2 dropless: true routing { zipf { exponent: 1 } }")
OPEN_MPI = f'cluster: "{pathlib.Path(__file__).resolve().parent}/open-mpi.textproto"'
H100, A100 = 'cluster: "dgx-h100-16k"', 'cluster: "dgx-a100"'


@dataclasses.dataclass
class Job:
    name: str
    model: str
    parallel: str
    train: str = ""
    simulated: str = H100
    seconds: float = 0  # at most; 0: no bound
    megabytes: float = 0
    steps: int = 2

    def text(self, *, folding="AUTO", steady_state="COUNT", trace="enabled: false"):
        return (f"model {{ {self.model} }}\ntrain {{ steps: {self.steps} warmup_steps: 0 micro_batch: 1 {self.train} }}\nparallel {{ {self.parallel} }}\n"
                f"fabric {{ simulated {{ {self.simulated} folding: {folding} steady_state: {steady_state} }} }}\ntrace {{ {trace} }}\n")


META = "tp: 8 pp: 16 dp: {} sequence_parallel: true sharding: ZERO_1"
BLOCKS = "activation_checkpointing { every: 1 }"
MIXTRAL = "moe { llama { layers: 56 hidden: 6144 heads: 48 kv_heads: 8 ffn: 16384 vocab: 32768 sequence: 4096 } experts: 8 top_k: 2 }"
MANY_EXPERTS = "moe { llama { layers: 60 hidden: 7168 heads: 56 kv_heads: 8 ffn: 2048 vocab: 131072 sequence: 4096 } experts: 256 top_k: 8 }"
# DeepSeek-V3's number of experts and their width, in fewer and narrower layers: parameters of all but the experts are on every rank.
UNEVEN_EXPERTS = ("moe { llama { layers: 16 hidden: 4096 heads: 32 kv_heads: 8 ffn: 2048 vocab: 32768 sequence: 4096 } experts: 256 top_k: 8 dropless: true "
                  "routing { zipf { exponent: 1 } } }")
BIG = 'preset: "llama3-405b"'
# Bounds are what a user would want to wait, and what a small machine has.
LARGE = [
    Job("405B on 16,384 GPUs, TP8 PP16 DP128", BIG, META.format(128), f"global_batch: 2048 {BLOCKS}", seconds=2, megabytes=250),
    Job("the same, interleaved in 7 chunks", BIG, META.format(128) + " schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 7", f"global_batch: 2048 {BLOCKS}", seconds=5),
    Job("405B on 16,384 GPUs, TP8 CP16 PP16 DP8, 131,072 tokens", BIG + " llama { sequence: 131072 }", META.format(8) + " cp: 16", f"global_batch: 128 {BLOCKS}", seconds=10),
    Job("Mixtral 8x22B on 4,096 GPUs, EP8 TP4 PP8", MIXTRAL, "tp: 4 pp: 8 dp: 128 ep: 8 sequence_parallel: true sharding: ZERO_1", f"global_batch: 1024 {BLOCKS}", seconds=20),
    Job("256 experts of top 8 on 2,048 GPUs, EP64 PP16", MANY_EXPERTS, "pp: 16 dp: 128 ep: 64 sharding: ZERO_1", f"global_batch: 2048 {BLOCKS}", seconds=20),
    Job("256 experts of top 8 on 16,384 GPUs, EP64 in 256 groups, uneven", UNEVEN_EXPERTS, "dp: 16384 ep: 64 sharding: ZERO_1", f"global_batch: 16384 {BLOCKS}", seconds=20),
    Job("256 experts of top 8 on 16,384 GPUs, EP64 in 256 groups, uneven, without overlap", UNEVEN_EXPERTS, "dp: 16384 ep: 64 sharding: ZERO_1 overlap: false", f"global_batch: 16384 {BLOCKS}", seconds=20),
    Job("405B on 102,400 GPUs, TP8 PP16 DP800", BIG, META.format(800), f"global_batch: 12800 {BLOCKS}", 'cluster: "dgx-h100-100k"', seconds=6, megabytes=600),
    Job("70B on 16,384 GPUs, FULL_SHARD", 'preset: "llama3-70b"', "dp: 16384 sharding: FULL_SHARD", f"global_batch: 16384 {BLOCKS}", seconds=5),
    Job("70B on 16,384 GPUs, HYBRID_SHARD in groups of 128", 'preset: "llama3-70b"', "dp: 16384 sharding: HYBRID_SHARD shard_group: 128", f"global_batch: 16384 {BLOCKS}", seconds=5),
]
# `megabytes`: of trace.json and memory.csv.
TRACED_LARGE = dataclasses.replace(LARGE[0], name="405B on 16,384 GPUs, one rank of each class", seconds=10, megabytes=50)

# Name, job, how often it is predicted.
OF_70B = [
    ("FULL_SHARD", Job("", 'preset: "llama3-70b"', "dp: 512 sharding: FULL_SHARD", f"global_batch: 512 {BLOCKS}"), 200),
    ("TP8 PP4 DP16, 16 micro-batches", Job("", 'preset: "llama3-70b"', "tp: 8 pp: 4 dp: 16 sequence_parallel: true sharding: ZERO_1", f"global_batch: 256 {BLOCKS}"), 20),
]

CLIP, SLOW = "clip_norm: 1", " stragglers { rank: 37 factor: 1.5 }"
# (name, model, parallel, train, simulated); 4 samples a rank along dp
EXACT = [Job(name, model, parallel, train, simulated) for name, model, parallel, train, simulated in [
    ("DDP", GPT, "dp: 64", "", H100),
    ("ZeRO-1", GPT, "dp: 64 sharding: ZERO_1", "", H100),
    ("ZeRO-3, clipped", GPT, "dp: 64 sharding: ZERO_3", CLIP, H100),
    ("hybrid shards", GPT, "dp: 128 sharding: HYBRID_SHARD shard_group: 8", CLIP, H100),
    ("TP8, clipped", GPT, "tp: 8 dp: 8", CLIP, H100),
    ("TP8, sequence parallel, clipped", GPT, "tp: 8 dp: 8 sequence_parallel: true", CLIP, H100),
    ("TP8, sequence parallel, ZeRO-1", GPT, "tp: 8 dp: 16 sequence_parallel: true sharding: ZERO_1", "", H100),
    ("the same, clipped", GPT, "tp: 8 dp: 16 sequence_parallel: true sharding: ZERO_1", CLIP, H100),
    ("norms in few shards, ZeRO-1", WIDE, "tp: 8 pp: 4 dp: 16 sequence_parallel: true sharding: ZERO_1", "", H100),
    ("norms in few shards, ZeRO-2", WIDE, "tp: 8 pp: 2 dp: 16 sequence_parallel: true sharding: ZERO_2", "", H100),
    ("norms in few shards, ZeRO-3", WIDE, "tp: 8 dp: 32 sequence_parallel: true sharding: ZERO_3", "", H100),
    ("norms in few shards, hybrid shards", WIDE, "tp: 8 dp: 64 sequence_parallel: true sharding: HYBRID_SHARD shard_group: 16", "", H100),
    ("norms in few shards, TP4 cp", WIDE, "tp: 4 cp: 4 dp: 16 sequence_parallel: true sharding: ZERO_1", "", H100),
    ("norms in few shards, A100, zero bubble", WIDE, "tp: 4 pp: 2 dp: 32 sequence_parallel: true sharding: ZERO_1 schedule: ZERO_BUBBLE_H1", "", A100),
    ("norms in few shards, TP16", WIDE.replace("heads: 8 kv_heads: 8", "heads: 16 kv_heads: 16"), "tp: 16 dp: 16 sequence_parallel: true sharding: ZERO_1", "", H100),
    ("norms in few shards, a slow rank", WIDE, "tp: 8 pp: 2 dp: 16 sequence_parallel: true sharding: ZERO_1", "", H100 + SLOW),
    ("norms in few shards, slow first rank", WIDE, "tp: 8 pp: 2 dp: 16 sequence_parallel: true sharding: ZERO_2", "", H100 + " stragglers { rank: 0 factor: 1.2 }"),
    ("norms in few shards, a fast node", WIDE, "tp: 8 pp: 2 dp: 16 sequence_parallel: true sharding: ZERO_1", "", H100 + " stragglers { rank: 3 factor: 0.5 }"),
    ("TP8, few key/value heads, ZeRO-1", LLAMA, "tp: 8 dp: 8 sequence_parallel: true sharding: ZERO_1", CLIP, H100),
    ("TP4, few key/value heads, ZeRO-3", LLAMA, "tp: 4 dp: 16 sharding: ZERO_3", CLIP, H100),
    ("3D, 1F1B", LLAMA, "tp: 4 pp: 4 dp: 8 sequence_parallel: true sharding: ZERO_1", CLIP, H100),
    ("3D, interleaved", LLAMA, "tp: 2 pp: 4 dp: 16 sharding: ZERO_1 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", CLIP, H100),
    ("3D, zero bubble", LLAMA, "tp: 2 pp: 4 dp: 8 schedule: ZERO_BUBBLE_H1", CLIP, H100),
    ("3D, GPipe, ZeRO-2", GPT, "tp: 2 pp: 4 dp: 8 sharding: ZERO_2 schedule: GPIPE", CLIP, H100),
    ("3D, a table of two stages", GPT, "tp: 4 pp: 4 dp: 8 sequence_parallel: true sharding: ZERO_2", CLIP, H100),
    ("3D on 1,024 ranks", LLAMA, "tp: 8 pp: 8 dp: 16 sequence_parallel: true sharding: ZERO_1", CLIP, H100),
    ("3D, replicas outermost", LLAMA, 'tp: 4 pp: 4 dp: 4 cp: 2 order: "dp pp cp tp" sharding: ZERO_1', CLIP, H100),
    ("context parallel", LLAMA, "tp: 2 pp: 2 cp: 4 dp: 8 sharding: ZERO_1", CLIP, H100),
    ("context and sequence parallel, ZeRO-3", LLAMA, "tp: 4 cp: 4 dp: 8 sequence_parallel: true sharding: ZERO_3", "", H100),
    ("context parallel, long sequences", LONG, "cp: 4 dp: 16 sharding: ZERO_1", CLIP, H100),
    ("context parallel, blocks limited by memory", LLAMA, "cp: 8 dp: 8", CLIP, H100),
    ("3D and context parallel, long sequences", LONG, "tp: 2 pp: 2 cp: 8 dp: 4", "precision { parameter: BF16 }", H100),
    ("experts, 3D", MIXTURE, "tp: 2 ep: 8 dp: 16 pp: 2 sharding: ZERO_1", CLIP, H100),
    ("experts, ZeRO-3", MIXTURE, "ep: 4 dp: 64 sharding: ZERO_3", CLIP, H100),
    ("uneven experts", UNEVEN, "ep: 8 dp: 64 sharding: ZERO_1", "", H100),
    ("uneven experts, 3D", UNEVEN, "tp: 2 ep: 4 dp: 16 pp: 2 sharding: ZERO_1", CLIP, H100),
    ("dynamic loss scale", GPT, "tp: 4 dp: 16 sharding: ZERO_1", "precision { parameter: F16 loss_scale { dynamic {} } }", H100),
    ("8-bit gradients", GPT, "dp: 64 sharding: ZERO_1 compression { quantize { bits: 8 } }", "", H100),
    ("PowerSGD", GPT, "dp: 32 compression { power_sgd { rank: 4 start_step: 0 } }", "", H100),
    ("ZeRO++", GPT, "dp: 32 sharding: ZERO_3 zero_plus_plus { quantized_weights: true secondary_shard: 8 quantized_gradients: true }", "", H100),
    ("DiLoCo on islands", GPT, "dp: 32 islands: 4 sharding: ZERO_1", "local_update { diloco { every_steps: 2 } }", H100),
    ("a slow rank, 3D", LLAMA, "tp: 4 pp: 4 dp: 8 sharding: ZERO_1", CLIP, H100 + SLOW),
    ("a slow rank, ZeRO-3", GPT, "dp: 64 sharding: ZERO_3", "", H100 + SLOW),
    ("a slow rank, A100", LLAMA, "tp: 8 pp: 2 dp: 16", "", A100 + SLOW),
    ("jitter", LLAMA, "tp: 4 pp: 2 dp: 8", "", H100 + " network { jitter: 0.1 }"),
    ("a cable at half its rate", LLAMA, "tp: 4 pp: 2 dp: 16", "", H100 + ' network { faults { link: "leaf0-pod0.mid0*" bandwidth: 0.5 } }'),
    ("a failed cable", LLAMA, "tp: 4 pp: 2 dp: 64", "", H100 + ' nodes: 64 network { faults { link: "leaf0-pod0.mid0*" failed: true } }'),
    ("3D on A100", LLAMA, "tp: 4 pp: 4 dp: 8 sharding: ZERO_1", CLIP, A100),
    ("3D, ring", LLAMA, "tp: 4 pp: 4 dp: 8 sharding: ZERO_1", CLIP, H100 + ' algorithm: "ring"'),
    ("3D, ECMP", LLAMA, "tp: 4 pp: 2 dp: 16 sharding: ZERO_1", CLIP, H100 + ' routing: "ecmp"'),
    ("3D, spray", LLAMA, "tp: 4 pp: 2 dp: 16 sharding: ZERO_1", CLIP, H100 + ' routing: "spray"'),
    ("3D, random places", LLAMA, "tp: 4 pp: 2 dp: 16 sharding: ZERO_1", CLIP, H100 + " nodes: 32 placement { policy: RANDOM }"),
    ("3D, adaptive routing", LLAMA, "tp: 4 pp: 2 dp: 8", "", 'cluster: "polaris"'),
    ("TP4, adaptive routing", LLAMA, "tp: 4 dp: 16", "", 'cluster: "frontier"'),
    ("3D, ideal collectives", LLAMA, "tp: 4 pp: 2 dp: 8", "", 'cluster: "tpu-v4-pod"'),
    ("3D, Open MPI's algorithms", LLAMA, "tp: 2 pp: 2 dp: 16 sharding: ZERO_1", CLIP, OPEN_MPI),
    ("DDP, Open MPI's algorithms", GPT, "dp: 64", "", OPEN_MPI),
    ("3D, two sites", LLAMA, 'tp: 4 pp: 2 dp: 8 order: "dp pp cp tp"', "", H100 + " sites { count: 2 between_gbps: 100 latency_ms: 5 }"),
]]


def grown(model, parallel, samples):
    """A job on so many ranks, which fits into their memory; the largest need the larger cluster."""
    return lambda n: Job("", model, parallel(n), f"global_batch: {samples(n)} {BLOCKS}", H100 if n <= 16384 else 'cluster: "dgx-h100-100k"')


SIZES = [64, 1024, 16384, 102400]
GROWTH = {  # by kind: the job on so many ranks, and the ranks
    "DDP": (grown('preset: "gpt2-124m"', lambda n: f"dp: {n}", lambda n: n), SIZES),
    "FSDP": (grown('preset: "llama3-8b"', lambda n: f"dp: {n} sharding: FULL_SHARD", lambda n: n), SIZES),
    "3D": (grown('preset: "llama3-8b"', lambda n: f"tp: 8 pp: 8 dp: {n // 64} sequence_parallel: true sharding: ZERO_1", lambda n: n // 4), [512, 1024, 16384, 102400]),
    "experts": (grown(MIXTRAL, lambda n: f"tp: 4 pp: 2 ep: 8 dp: {n // 8} sharding: ZERO_1", lambda n: n), SIZES),
    "context": (grown('preset: "llama3-8b"', lambda n: f"tp: 8 cp: 4 dp: {n // 32} sharding: ZERO_1", lambda n: n // 8), [128, 1024, 16384, 102400]),
}

# All combinations of these values, for one small model: 12,096 jobs of up to 64 GPUs and 8 micro-batches, and 3,456 that are refused,
# because schedules of pipelines need a pipeline.
SWEEP = """model { preset: "gpt2-124m" }
train { steps: 3 warmup_steps: 1 global_batch: 32 }
"""
VARIED = {
    "parallel.tp": "1,2,4", "parallel.pp": "1,2,4", "parallel.dp": "1,2,4", "train.micro_batch": "4,8",
    "parallel.sharding": "NO_SHARD,ZERO_1,ZERO_2,ZERO_3", "parallel.schedule": "ONE_F_ONE_B,GPIPE,ZERO_BUBBLE_H1",
    "train.activation_checkpointing.every": "0,1", "train.precision.parameter": "F32,BF16", "parallel.sequence_parallel": "false,true",
    "fabric.simulated.cluster": "dgx-a100,dgx-h100-16k,star-h100",
}
