"""The rows of this study as the scoreboard takes them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import calibrate  # noqa: E402
import run  # noqa: E402
from common import Failed  # noqa: E402
from common.published import Job, Prediction, Row, STEP, run_words, word  # noqa: E402
from common.short_steps import fewer, short_step  # noqa: E402

SPEC = run.study.folder / "megatron.textproto"
SYSTEMS = {"vtrain": "A100, vTrain's cluster", "selene": "A100, Selene", "selene-fused": "A100, Selene"}
LAYER = "Korthikanti et al., table 4 (a layer)"


def step_of(twofold, case):
    step = short_step(twofold, SPEC, run.settings(case))
    if step.report["outcome"] not in ("OK", "OUT_OF_MEMORY"):
        raise Failed(f"{case['row_id']}: {step.report['outcome']}: {step.report['message']}")
    return step


def predict(twofold, case):
    step = step_of(twofold, case)
    fits = step.report["outcome"] == "OK"
    return {case["row_id"]: Prediction(*((step.seconds, step.low, step.high) if fits else (None, None, None)), fits)}


def family(case):
    return word(*(case[key] for key in ("table", "layers", "hidden", "gpus", "global_batch", "recompute")))


def seconds_of_a_core(settings):
    count, few = fewer(settings)
    return 0.1 + 1e-3 * settings["model.gpt.layers"] * (sum(few) if few else count)


def runs():
    for case in run.cases():
        settings = run.settings(case)
        row = Row(case["row_id"], run.TABLES[case["table"]][1], case["role"], STEP, SYSTEMS[run.TABLES[case["table"]][0]], case["gpus"],
                  case["measured"], "s", family(case), fitted=True)
        yield Job((row,), lambda twofold, case=case: predict(twofold, case), lambda row, settings=settings: run_words(SPEC, settings),
                  seconds_of_a_core(settings))


def layer_seconds(twofold, cases):
    """Half of what a micro-batch takes longer in four layers than in two."""
    (less, more), (less4, more4) = ([step_of(twofold, case) for case in pair] for pair in (cases[:2], cases[2:]))
    return Prediction(((more4.seconds - less4.seconds) - (more.seconds - less.seconds)) / 2)


def layers():
    for line, cases in calibrate.layer_cases():
        measured = (float(line["forward_ms"]) + float(line["backward_ms"])) / 1e3
        row = Row(word("table4", line["experiment"]), LAYER, "calibration", STEP, "A100, Selene", 8, measured, "s")
        yield Job((row,), lambda twofold, row=row, cases=cases: {row.id: layer_seconds(twofold, cases)},
                  lambda row, cases=cases: run_words(SPEC, run.settings(cases[-1])))


def jobs():
    yield from runs()
    yield from layers()
