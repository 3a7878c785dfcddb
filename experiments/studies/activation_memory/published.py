"""The rows of this study as the scoreboard takes them: a layer's activations by formula, and those of a first stage."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import run  # noqa: E402
from common import read_csv  # noqa: E402
from common.published import Job, MEMORY, Prediction, Row, word  # noqa: E402

TABLE = "Korthikanti et al., activations (computed)"


def job(name, gpus, paper, model, layers, settings):
    """The difference of the peaks with two numbers of layers."""
    row = Row(name, TABLE, "validation", MEMORY, "any", gpus, paper, "B")

    def predict(twofold):
        less, more = (run.peak(twofold, model, count, settings) for count in layers)
        return {row.id: Prediction(more - less)}

    def command(_):
        everything = run.settings_of(model, layers[1], settings)
        return ["memory", run.study.folder / "gpt.textproto", *(f"--set={path}={value}" for path, value in everything.items())]

    return Job((row,), predict, command)


def jobs():
    formulas = {line["technique"]: line["bytes_per_layer"] for line in read_csv(run.study.folder / "formulas.csv")}
    for model in read_csv(run.study.folder / "models.csv"):
        for name, ranks, technique, settings in run.PUBLISHED:
            paper = run.published(formulas, technique, model, ranks)
            yield job(word("layer", model["model"], f"tp{ranks}", name), ranks, paper, model, run.LAYERS, {**settings, run.TENSOR: ranks})
        depth, stages, factor = run.first_stage(model)
        for name, ranks, technique, settings in run.FIRST_STAGE:
            paper = run.published(formulas, technique, model, ranks) * depth * factor
            yield job(word("stage", model["model"], name), ranks * stages, paper, model, (depth, 2 * depth), {**run.pipeline_settings(model), **settings})
