"""The rows of this study as the scoreboard takes them: one run of a job tells its time and its memory."""
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import leave_out  # noqa: E402
import run  # noqa: E402
from common import Failed  # noqa: E402
from common.published import Job, MEMORY, once_more, Prediction, Row, run_words, STEP, word  # noqa: E402
from common.short_steps import fewer, short_step, Step, times  # noqa: E402
from tables import job as job_of, rows_of, seconds_of  # noqa: E402

SYSTEMS = {"bigscience_prequel": "A100, Jean Zay", "bigscience_1b3": "V100, Jean Zay", "lumi_time": "MI250X, LUMI", "lumi_memory": "MI250X, LUMI",
           "mosaic_h100": "H100, Mosaic", "vldb23": "A100, FSDP's paper", "nemo": "H100, NeMo", "llama3": "H100, Meta"}
OWNERS = {"mosaic_a100": "Mosaic", "fms": "fms-fsdp", "llmc": "llm.c", "torchtitan": "torchtitan", "megatron_bridge": "Megatron-Bridge"}  # of tables with several GPUs
PIPELINES = ("bigscience_prequel", "bigscience_1b3", "lumi_time", "lumi_memory")  # their steps begin as the one before ended
SECONDS_OF_A_LAYER = 1e-3


def system_of(case):
    return SYSTEMS.get(case["table"]) or f"{case['gpu']}, {OWNERS[case['table']]}"


def row_of(case, name, kind, measured, unit, **more):
    gpus = case.get("gpus") or case["dp"] * case.get("tp", 8) * case.get("pp", 8)
    return Row(name, run.TABLES[case["table"]][0], case["role"], kind, system_of(case), gpus, measured, unit, **more)


def family(case):
    names = ("source_table", "layers", "hidden", "heads", "gpus", "global_batch", "precision")
    return word("prequel", *(case[name] for name in names)) if case["table"] == "bigscience_prequel" else ""


# ---- Jobs of which the source tells the time, and that they ran ----
def whole_step(twofold, row, spec, settings):
    report = twofold.report(spec, settings)
    if report["outcome"] != "OK":
        raise Failed(f"{row.id}: {report['outcome']}: {report['message']}")
    return {row.id: Prediction(*times(report), report.get("missing_memory_bytes", 0) == 0)}


def extended_step(twofold, row, spec, settings):
    step = short_step(twofold, spec, settings)
    if step.report["outcome"] != "OK":
        raise Failed(f"{row.id}: {step.report['outcome']}: {step.report['message']}")
    return {row.id: Prediction(step.seconds, step.low, step.high, step.report.get("missing_memory_bytes", 0) == 0)}


def job_of_step(row, spec, settings):
    if settings.get("parallel.pp", 1) > 1:
        count, few = fewer(settings)
        cost = 2e-4 * settings.get("parallel.virtual_stages", 1) * settings["parallel.pp"] * settings["parallel.dp"] * (sum(few) if few else count)
        return Job((row,), lambda twofold: extended_step(twofold, row, spec, settings), lambda row: run_words(spec, settings), cost)
    return Job((row,), lambda twofold: whole_step(twofold, row, spec, settings), lambda row: run_words(spec, settings))


def sharded(case):
    row = row_of(case, case["row_id"], STEP, seconds_of(case), "s", fitted=True)
    spec, settings = job_of(case)
    yield job_of_step(row, spec, settings)
    if without := leave_out.of_case(case):
        unseen, changed = without
        yield job_of_step(once_more(row, unseen), spec, {**settings, **changed})


# ---- Jobs with pipelines: also memory, and whether they ran out of it ----
def of_pipeline(case):
    """Rows of a case, in the order of `predicted`."""
    if case["table"] == "lumi_memory":
        for what, field in (("allocated", "peak"), ("reserved", "reserved")):
            yield row_of(case, f"{case['row_id']}.{what}", MEMORY, float(case[f"{field}_MiB"]), "MiB")
        return
    has_memory = case.get("gpu_GB") or case.get("oom")
    if case.get("seconds"):
        yield row_of(case, case["row_id"], STEP, float(case["seconds"]), "s", family=family(case), fitted=None if has_memory or "oom" not in case else True)
    if has_memory:
        measured = float(case["gpu_GB"]) * run.GB_OF_SMI / run.GIB if case["gpu_GB"] else None
        yield row_of(case, f"{case['row_id']}.memory", MEMORY, measured, "GiB", fitted=case["oom"] == 0)


def predicted(step, case):
    """A Prediction for every row of a case, from the job's Step."""
    memory = {"ranks": [{"ranks": [rank["rank"]], **rank} for rank in step.report["ranks"]]}
    first = memory["ranks"][0]["framework"]
    judged = "oom" in case  # in other tables nobody says that a job was near its device's memory
    found = run.memory_rows(memory, case) if judged or case["table"] == "lumi_memory" else []
    for row in of_pipeline(case):
        if row.kind == STEP:
            yield row.id, Prediction(step.seconds, step.low, step.high, found[0]["predicted_fits"] if judged and row.fitted is not None else None)
        elif case["table"] == "lumi_memory":
            yield row.id, Prediction(next(r["predicted"] for r in found if r["name"].endswith(row.id.rpartition(".")[2])))
        else:
            yield row.id, Prediction(found[0]["predicted"], first["device_low_bytes"] / run.GIB, first["device_high_bytes"] / run.GIB, found[0]["predicted_fits"])


def job_of_cases(cases):
    """Of one run: the first case that has a time is the spec."""
    main = next((case for case in cases if case.get("seconds")), cases[0])
    spec, settings = job_of(main)
    if settings["parallel.dp"] * settings["parallel.tp"] == 1:
        settings = {**settings, "fabric.simulated.folding": "AUTO"}  # nothing to fold
    rows = tuple(row for case in cases for row in of_pipeline(case))

    def predict(twofold):
        step = short_step(twofold, spec, settings)
        if step.report["outcome"] != "OK":
            raise Failed(f"{main['row_id']}: {step.report['outcome']}: {step.report['message']}")
        return dict(one for case in cases for one in predicted(step, case))

    count, few = fewer(settings)
    cost = SECONDS_OF_A_LAYER * settings["model.gpt.layers"] * (sum(few) if few else count)
    return Job(rows, predict, lambda row: run_words(spec, settings), cost)


def left_out_pipeline(case):
    """Of a run's time alone."""
    unseen, changed = leave_out.of_case(case)
    row, = (once_more(row, unseen) for row in of_pipeline(case))
    spec, settings = job_of(case)
    settings = {**settings, **changed}

    def predict(twofold):
        step = short_step(twofold, spec, settings)
        return {row.id: Prediction(step.seconds, step.low, step.high)}

    return Job((row,), predict, lambda row: run_words(spec, settings), SECONDS_OF_A_LAYER * settings["model.gpt.layers"] * sum(fewer(settings)[1]))


def jobs():
    runs = collections.defaultdict(list)
    for table in run.TABLES:
        for case in rows_of(table):
            if table in PIPELINES:
                key = case["dp"] if table.startswith("lumi") else case["row_id"]
                runs[table.partition("_")[0], key].append(case)
            else:
                yield from sharded(case)
    for cases in runs.values():
        job = job_of_cases(cases)
        if job.rows:
            yield job
        yield from (left_out_pipeline(case) for case in cases if case["table"] == "lumi_time")
