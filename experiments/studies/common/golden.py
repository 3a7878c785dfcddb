"""Golden errors: a study fails if the error of a prediction is no longer what it was when somebody last looked.

golden.json in a study's folder has a row per figure: what was published, what was predicted, and the error, predicted / published - 1.
`run.py --write` renews it with the table. `run.py --golden`, which the tests' gate runs, predicts a few rows of every kind that are
quickly predicted and compares them; the whole study compares all. An error may change by a tenth of itself, or by FLOOR of what was
published if it is near zero. A figure that nobody published (null) may change by UNPUBLISHED of itself.
"""
import json

FLOOR = 1e-4
UNPUBLISHED = 0.01


def rows_of(figures):
    """By key, of (key, published or None, predicted)."""
    rows = {}
    for key, published, predicted in figures:
        assert key not in rows, key
        error = None if published is None else float(f"{predicted / published - 1:.6g}")
        rows[key] = {"published": published, "predicted": float(f"{predicted:.10g}"), "error": error}
    return rows


def moved(key, was, now):
    """What is wrong with one row, with both numbers; None: nothing."""
    if was["published"] != now["published"]:
        return f"{key}: published was {was['published']}, is {now['published']}"
    if now["published"] is None:
        change, most = abs(now["predicted"] / was["predicted"] - 1), UNPUBLISHED
        return f"{key}: predicted was {was['predicted']:g}, is {now['predicted']:g}" if not change <= most else None
    most = max(abs(was["error"]) / 10, FLOOR)
    if abs(now["error"] - was["error"]) <= most:
        return None
    return (f"{key}: the error was {was['error']:+.4%}, is {now['error']:+.4%} "
            f"(published {now['published']:g}, predicted was {was['predicted']:g}, is {now['predicted']:g})")


def differences(golden, rows, everything):
    """Messages of rows that moved or that only one of both has; `everything`: `rows` are all there are."""
    found = [moved(key, golden[key], row) if key in golden else f"{key}: is not in golden.json" for key, row in rows.items()]
    if everything:
        found += [f"{key}: is in golden.json, and was not predicted" for key in golden if key not in rows]
    return [message for message in found if message]


def hold(folder, figures, everything=False, write=False):
    """Messages of all that moved, [] if nothing did; or renews golden.json."""
    rows, path = rows_of(figures), folder / "golden.json"
    if write:
        path.write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items()) + "\n}\n")
        return []
    if not rows:
        return [f"{path}: no figure was predicted"]
    found = differences(json.loads(path.read_text()), rows, everything)
    for message in found:
        print(f"golden: {message}")
    print(f"golden: {len(rows)} figures, {len(found)} of which moved")
    return found
