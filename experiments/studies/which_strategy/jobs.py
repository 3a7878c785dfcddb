"""The jobs of the study: models, clusters, and what is asked of `twofold plan`."""
import dataclasses

from documents import Layout


@dataclasses.dataclass(frozen=True)
class Model:
    name: str  # as the guide's tables have it
    preset: str
    kind: str  # the field of the spec that has its sizes
    billions: float  # parameters
    sequence: int
    batch: int  # sequences of a step
    most_tp: int = 8  # in a node; divides the heads


# Sequences of 4,096, or the model's own where it is shorter. 2.1 million tokens a step (4.2 of the largest model).
MODELS = [
    Model("1B", "llama3.2-1b", "llama", 1.24, 4096, 512),
    Model("7B", "llama2-7b", "llama", 6.74, 4096, 512),
    Model("13B", "llama2-13b", "llama", 13.0, 4096, 512),
    Model("30B", "llama-30b", "llama", 32.5, 2048, 1024, most_tp=4),
    Model("Mixtral 8x7B", "mixtral-8x7b", "moe { llama", 46.7, 4096, 512),
    Model("70B", "llama3-70b", "llama", 70.6, 4096, 512),
    Model("175B", "gpt3-175b", "gpt", 175, 2048, 1024),
    Model("405B", "llama3-405b", "llama", 406, 4096, 1024),
]


@dataclasses.dataclass(frozen=True)
class Cluster:
    name: str  # of the catalogue
    title: str
    node: int  # devices
    gpus: tuple  # sizes to plan for


CLUSTERS = [
    Cluster("dgx-a100", "A100-80GB, DGX", 8, (1, 2, 4, 8, 16, 64, 512)),
    Cluster("dgx-h100", "H100-80GB, DGX", 8, (1, 2, 4, 8, 16, 64, 512)),
    Cluster("azure-nc24ads-a100", "A100-80GB PCIe, Azure NC24ads v4", 1, (1, 4, 16)),
    Cluster("aws-p4d", "A100-40GB, AWS p4d.24xlarge", 8, (8, 32, 64)),
]


@dataclasses.dataclass(frozen=True)
class Job:
    model: Model
    cluster: Cluster
    gpus: int

    @property
    def name(self):
        return f"{self.model.name}, {self.gpus} x {self.cluster.name}"

    @property
    def tokens(self):
        return self.model.batch * self.model.sequence


# Axes that decide little are fixed, so that all plans take minutes, not hours.
FIXED = 'cp: 1 bucket_mib: 25 order: "pp dp cp tp"'


def spec(job, layout=None, offload=False):
    """The spec of a plan: the whole space, or of the documents' layout what they leave open."""
    model = job.model
    sizes = f"{model.kind} {{ sequence: {model.sequence} }}" + (" }" if "{" in model.kind else "")
    parallel = FIXED + ("" if offload else " offload: NO_OFFLOAD") + (f" {layout.fields}" if layout else "")
    return (f'model {{ preset: "{model.preset}" {sizes} }}\n'
            f"train {{ global_batch: {model.batch} clip_norm: 1 precision {{ parameter: BF16 reduce: F32 }} optimizer {{ adamw {{}} }} }}\n"
            f'parallel {{ {parallel} }}\nfabric {{ simulated {{ cluster: "{job.cluster.name}" }} }}\n')


def plain(job):
    """A small part of the space, where the whole was too large for the budget: tensor parallelism in a node; of mixtures, experts over the node."""
    node = min(job.cluster.node, job.gpus)
    tp = min(node, job.model.most_tp)
    sharding = "SHARD_OPTIMIZER" if job.gpus > node else "NO_SHARD"
    if job.model.kind.startswith("moe"):
        return Layout("expert parallelism", f"tp: 1 ep: {min(node, 8)} pp: 1 sharding: SHARD_OPTIMIZER")
    return Layout("tensor parallelism in a node", f"tp: {tp} {'' if job.gpus > node else 'pp: 1 '}sharding: {sharding}")


def jobs(models=MODELS, clusters=CLUSTERS):
    return [Job(model, cluster, gpus) for cluster in clusters for model in models for gpus in cluster.gpus]


__all__ = ["CLUSTERS", "FIXED", "Job", "Layout", "MODELS", "jobs", "plain", "spec"]
