"""What the studies share: one command line, one way to run `twofold`, one style of tables, one results.json.

A study is a folder experiments/studies/NAME with README.md (the question, the source, the roles of the rows, what the result says),
run.py (`run.py --help`), specs, table.md and results.json. `run.py --write` renews the last two.

results.json holds the table's rows for programs: {"study": NAME, "command": how it was written, "rows": [...]}. A row has
    name       what the row is about; no two rows have the same. Fields of the study's own may follow (ranks, bytes, bounds, ...)
    predicted  Twofold's prediction, or null
    measured   what it is compared with: a measurement or a published figure; null if there is none
    error      predicted / measured - 1; null unless both are there
    role       "calibration": predictions were fitted to the row; "development": nothing was fitted to it, but its errors guided the model;
               "validation": it is compared, and nothing was fitted to it; "none": it is compared with nothing, or proves nothing
    unit       of predicted and measured: "s", "µs", "B", ...
Rows stand one on a line, in the table's order. Numbers have ten significant digits, errors six.
"""
# flake8: noqa: F401
from .hosts import EAGER_BYTES, testbed
from .program import ROOT, Failed, Twofold, fail, progress, read_csv, read_json, run, sets
from .results import figures, row
from .steps import STEP_COLUMNS, check_memory, error_summary, exposed_cells, memory_differences, predict_and_measure, step_cells, step_row
from .study import Study
from .table import Table, count, markdown, mebibytes, milliseconds, percent, signed
from .tokens import write_tokens
