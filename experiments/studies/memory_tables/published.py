"""The rows of this study that name what they count, as the scoreboard takes them. BigScience's 1.3B are in other_frameworks, with the framework's memory."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import run  # noqa: E402
from common.published import Job, MEMORY, Prediction, Row, word  # noqa: E402

TABLE = "ZeRO's tables (computed)"


def jobs():
    for line in run.zero_rows():
        source, billion, config, dp, printed = line
        row = Row(word("zero", source, f"{billion:g}B", config, dp), TABLE, "validation", MEMORY, "any", dp, float(printed), "GB")
        settings = {**run.gpt_settings(billion), "parallel.dp": dp, "parallel.sharding": run.STAGES[config]}
        yield Job((row,), lambda twofold, row=row, line=line: {row.id: Prediction(run.zero_row(twofold, *line)["predicted"])},
                  lambda row, settings=settings: ["memory", run.study.folder / "gpt.textproto", *(f"--set={k}={v}" for k, v in settings.items())])
