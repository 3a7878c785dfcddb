from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

import pandas

__version__: str
__all__: list[str]

_Path: TypeAlias = str | PathLike[str]
_Spec: TypeAlias = str | PathLike[str] | Mapping[str, Any]  # a path, a text or a dict
_Settings: TypeAlias = Mapping[str, Any] | None
_Row: TypeAlias = dict[str, Any]

class Error(Exception): ...
class InputError(Error, ValueError): ...
class RunError(Error, RuntimeError): ...

class _Result:
    def __getattr__(self, name: str) -> Any: ...
    def __eq__(self, other: object) -> bool: ...
    def to_dict(self) -> dict[str, Any]: ...
    def rows(self) -> list[_Row]: ...
    def to_frame(self) -> pandas.DataFrame: ...

class _Text(_Result):
    text: str
    def _repr_html_(self) -> str: ...

class Report(_Result):
    summary: dict[str, str]
    settings: dict[str, str]
    name: str
    fabric: str
    predicted: bool
    outcome: str
    message: str
    world_size: int
    median_step_seconds: float
    low: float
    high: float
    tokens_per_second: float
    exposed_communication_seconds: float
    bubble_fraction: float
    model_flops_per_step: float
    mfu: float
    hfu: float
    steps: list[dict[str, Any]]
    ranks: list[dict[str, Any]]
    collectives: list[dict[str, Any]]
    notes: list[str]
    @property
    def ok(self) -> bool: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def reserved_bytes(self) -> int: ...
    def figures(self) -> _Row: ...
    def rows(self, table: str | None = None) -> list[_Row]: ...
    def to_frame(self, table: str | None = None) -> pandas.DataFrame: ...
    def _repr_html_(self) -> str: ...

class Prediction(Report): ...

class Run(Report):
    spec: str
    folder: str

class Memory(_Text):
    fits: bool | None
    message: str
    world_size: int
    parameters: int
    device_bytes: int
    ranks: list[dict[str, Any]]
    advice: dict[str, Any] | None
    report: dict[str, Any]

class Plan(_Text):
    layouts: list[dict[str, Any]]
    proven: bool
    proof: str
    least_seconds: float
    @property
    def best(self) -> dict[str, Any] | None: ...

class Sweep(_Text):
    name: str
    points: list[dict[str, Any]]
    def __len__(self) -> int: ...

class Bench(_Text):
    operation: str
    results: list[dict[str, Any]]
    average_bus_bandwidth: float | None
    notes: list[str]

class Predictions(list[Prediction | Error]):
    settings: list[dict[str, str]]
    def rows(self) -> list[_Row]: ...
    def to_frame(self) -> pandas.DataFrame: ...
    def _repr_html_(self) -> str: ...

class Predictor:
    def __init__(self, processes: int = 0) -> None: ...
    @property
    def processes(self) -> int: ...
    def predict(self, spec: _Spec, *, set: _Settings = None, **overrides: Any) -> Prediction: ...
    def predict_each(self, spec: _Spec, changes: Iterable[Mapping[str, Any]] | None = None, *, vary: Mapping[str, Any] | None = None,
                     set: _Settings = None, **overrides: Any) -> Predictions: ...
    def close(self) -> None: ...
    def __enter__(self) -> Predictor: ...
    def __exit__(self, *error: object) -> None: ...

def predict(spec: _Spec, *, set: _Settings = None, **overrides: Any) -> Prediction: ...
def predict_each(spec: _Spec, changes: Iterable[Mapping[str, Any]] | None = None, *, vary: Mapping[str, Any] | None = None,
                 set: _Settings = None, **overrides: Any) -> Predictions: ...
def memory(spec: _Spec, *, fabric: str | None = None, advice: bool = True, set: _Settings = None, **overrides: Any) -> Memory: ...
def plan(spec: _Spec | None = None, *, model: str | None = None, cluster: str | None = None, nodes: int | None = None,
         ranks: int | None = None, global_batch: int | None = None, sequence: int | None = None, framework: str | None = None,
         codecs: str | Sequence[str] | None = None, gap: float | str | None = None, budget: float | str | None = None,
         top: int | None = None, price: float | None = None, what_if: bool | None = None, exhaustive: bool | None = None,
         processes: int | None = None, out: _Path | None = None, set: _Settings = None, **overrides: Any) -> Plan: ...
def sweep(spec: _Spec, vary: Mapping[str, Any], *, fixed: str | Sequence[str] | None = None, scaling: str | None = None,
          predicted: bool | None = None, measured: bool | None = None, fabric: str | None = None, repeats: int | None = None,
          processes: int | None = None, again: bool | None = None, out: _Path | None = None, set: _Settings = None,
          **overrides: Any) -> Sweep: ...
def bench(operation: str, *, minbytes: int | str | None = None, maxbytes: int | str | None = None, stepfactor: int | None = None,
          stepbytes: int | str | None = None, iters: int | None = None, warmup_iters: int | None = None, wait: bool | None = None,
          op: str | None = None, datatype: str | None = None, root: int | None = None, check: bool | int | None = None,
          fabric: str | None = None, device: str | None = None, ranks: int | None = None, cluster: _Path | None = None,
          nodes: int | None = None, ranks_per_node: int | None = None, algorithm: str | None = None,
          protocol: str | None = None) -> Bench: ...
def load_run(folder: _Path) -> Run: ...
