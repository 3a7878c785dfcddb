"""What the documents that Twofold grew from recommend ("Strategy Selection Guide", "Memory Usage")."""
import dataclasses

GB = 1e9


@dataclasses.dataclass(frozen=True)
class Layout:
    """A layout of the documents, as fields of `parallel`. What they leave open (micro-batch, recomputation, schedule) is planned."""
    words: str
    fields: str


@dataclasses.dataclass(frozen=True)
class Advice:
    sizes: str  # the documents' row
    gpus: str
    words: str  # what it recommends
    least: int
    most: float  # GPUs

    def covers(self, gpus):
        return self.least <= gpus <= self.most


DDP = Layout("DDP", "tp: 1 pp: 1 ep: 1 sharding: NO_SHARD")
SHARD_GRAD_OP = Layout("FSDP ShardGradOp", "tp: 1 pp: 1 ep: 1 sharding: SHARD_GRAD_OP")
FULL_SHARD = Layout("FSDP FullShard", "tp: 1 pp: 1 ep: 1 sharding: FULL_SHARD")

# By the models' billions of parameters up to which a row holds. The sizes that two rows share belong to the first that names them.
TABLE = [
    (0.999, Advice("< 1B", "1-4", "DDP", 1, 4), [DDP]),
    (7, Advice("1B - 7B", "2-8", "DDP or FSDP ShardGradOp", 2, 8), [DDP, SHARD_GRAD_OP]),
    (13.1, Advice("7B - 13B", "4-8", "FSDP FullShard", 4, 8), [FULL_SHARD]),
    (71, Advice("13B - 70B", "8-16", "FSDP + ZeRO-3", 8, 16), [FULL_SHARD]),
    (float("inf"), Advice("> 70B", "16+", "FSDP + Pipeline + Tensor", 16, float("inf")), None),
]
DDP_GIGABYTES = {"1B": 4, "7B": 28, "13B": 52}  # "Memory Usage": of a GPU under DDP


def three_axes(gpus, node):
    """FSDP + Pipeline + Tensor: tensor parallelism fills a node, stages are as many as leave at least as many replicas."""
    tp = min(node, 8)
    nodes = max(1, gpus // tp)
    pp = 1
    while pp * 2 <= nodes and (pp * 2) ** 2 <= max(4, nodes):
        pp *= 2
    return Layout(f"FullShard, tp {tp}, pp {pp}", f"tp: {tp} pp: {pp} sharding: FULL_SHARD")


def advice(billions, gpus, node):
    """(the row, the layouts that it names)."""
    for most, row, layouts in TABLE:
        if billions <= most:
            return row, layouts or [three_axes(gpus, node)]
    raise AssertionError(billions)
