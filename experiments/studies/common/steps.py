"""Training steps, predicted and measured: cells of tables and rows of results.json."""
import statistics

from .program import Failed
from .results import row
from .table import milliseconds, signed

STEP_COLUMNS = ("predicted step", "measured step (p10 to p90)", "error")


def predict_and_measure(twofold, spec, settings, links, folder):
    """Reports of a spec on the simulated fabric and in memory, with the same links; their files are in `folder`, predicted/ and measured/."""
    return [twofold.report(spec, {**settings, **{f"fabric.{fabric}.{name}": value for name, value in links.items()}}, f"--fabric={fabric}", out=f"{folder}/{out}")
            for fabric, out in (("simulated", "predicted"), ("in_memory", "measured"))]


def memory_differences(name, predicted, measured, ledgers=("peak_bytes", "reserved_bytes")):
    """Messages, if the memory of a rank is not equal to the byte."""
    return [f"{name}: rank {rank}: {ledger} is {p.get(ledger)} predicted, {m.get(ledger)} measured"
            for rank, (p, m) in enumerate(zip(predicted["ranks"], measured["ranks"], strict=True)) for ledger in ledgers if p.get(ledger, 0) != m.get(ledger, 0)]


def check_memory(*reports):
    """Raises Failed if there are any."""
    if found := memory_differences(*reports):
        raise Failed("\n".join(found))


def step_cells(predicted, measured, digits=2):
    p, m, low, high = (milliseconds(s, digits) for s in (predicted["median_step_seconds"], measured["median_step_seconds"], measured["low"], measured["high"]))
    return p, f"{m} ({low} to {high})", signed(predicted["median_step_seconds"] / measured["median_step_seconds"] - 1, digits)


def exposed_cells(predicted, measured):
    return [milliseconds(report["exposed_communication_seconds"]) for report in (predicted, measured)]


def step_row(name, predicted, measured, role="validation", **more):
    return row(name, predicted["median_step_seconds"], measured["median_step_seconds"], "s", role, **more, measured_p10=measured["low"],
               measured_p90=measured["high"], predicted_exposed=predicted["exposed_communication_seconds"],
               measured_exposed=measured["exposed_communication_seconds"])


def error_summary(rows):
    """The median and the largest absolute error."""
    errors = [abs(row["error"]) for row in rows if row["error"] is not None]
    return statistics.median(errors), max(errors)
