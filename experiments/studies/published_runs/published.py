"""The rows of this study as the scoreboard takes them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import calibrate  # noqa: E402
import composed  # noqa: E402
import run  # noqa: E402
from common import Failed  # noqa: E402
from common.published import Job, Prediction, Row, STEP, Unseen, once_more, run_words, word  # noqa: E402
from common.short_steps import fewer, short_step  # noqa: E402

SPEC = run.study.folder / "megatron.textproto"
SYSTEMS = {"vtrain": "A100, vTrain's cluster", "selene": "A100, Selene", "selene-fused": "A100, Selene"}
LAYER = "Korthikanti et al., table 4 (a layer)"
CONSTANTS = "Megatron-LM's on A100 (constants.csv)"
WITHOUT = {"vtrain": Unseen(CONSTANTS, "vTrain", "Selene's 5 layers and the priors; links as in the catalogue"), "selene": Unseen(CONSTANTS, "Selene", "vTrain's 25 rows and the priors")}
WITHOUT["selene-fused"] = WITHOUT["selene"]


def step_of(twofold, case):
    step = short_step(twofold, SPEC, run.settings(case))
    if step.report["outcome"] not in ("OK", "OUT_OF_MEMORY"):
        raise Failed(f"{case['row_id']}: {step.report['outcome']}: {step.report['message']}")
    return step


def predict(twofold, case, row):
    """Rows that were put together have the interval of a step, as a share."""
    step = step_of(twofold, case)
    fits = step.report["outcome"] == "OK"
    if not fits:
        return {row.id: Prediction(None, None, None, fits)}
    put_together = case["table"] == "single_node"
    scale = composed.predict(twofold, SPEC, run.settings(case), case)[0] / step.seconds if put_together else 1
    return {row.id: Prediction(*(scale * time for time in (step.seconds, step.low, step.high)), fits)}


def family(case):
    return word(*(case[key] for key in ("table", "layers", "hidden", "gpus", "global_batch", "recompute")))


def seconds_of_a_core(settings):
    count, few = fewer(settings)
    return 0.1 + 1e-3 * settings["model.gpt.layers"] * (sum(few) if few else count)


def job_of(case, row):
    settings = run.settings(case)
    return Job((row,), lambda twofold: predict(twofold, case, row), lambda row: run_words(SPEC, settings), seconds_of_a_core(settings))


def runs():
    for case in run.cases():
        cluster, table, *_ = run.TABLES[case["table"]]
        row = Row(case["row_id"], table, case["role"], STEP, SYSTEMS[cluster], case["gpus"], case["measured"], "s", family(case), fitted=True)
        yield job_of(case, row)
        if (case["table"], case["role"]) != ("single_node", "validation"):  # 551 rows, which take longest
            yield job_of({**case, "left_out": True}, once_more(row, WITHOUT[cluster]))


def layer_seconds(twofold, cases):
    """Half of what a micro-batch takes longer in four layers than in two."""
    (less, more), (less4, more4) = ([step_of(twofold, case) for case in pair] for pair in (cases[:2], cases[2:]))
    return Prediction(((more4.seconds - less4.seconds) - (more.seconds - less.seconds)) / 2)


def job_of_layer(row, cases):
    return Job((row,), lambda twofold: {row.id: layer_seconds(twofold, cases)}, lambda row: run_words(SPEC, run.settings(cases[-1])))


def layers():
    for line, cases in calibrate.layer_cases():
        measured = (float(line["forward_ms"]) + float(line["backward_ms"])) / 1e3
        row = Row(word("table4", line["experiment"]), LAYER, "calibration", STEP, "A100, Selene", 8, measured, "s")
        yield job_of_layer(row, cases)
        yield job_of_layer(once_more(row, WITHOUT["selene"]), [{**case, "left_out": True} for case in cases])


def jobs():
    yield from runs()
    yield from layers()
