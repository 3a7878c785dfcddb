"""results.json, as this package's first lines describe it."""
import json
import math

ROLES = ("calibration", "development", "validation", "none")
LAST = ("predicted", "measured", "error", "role", "unit")


def row(name, predicted, measured, unit, role="validation", **more):
    """A row; `more` are the study's own fields."""
    error = predicted / measured - 1 if predicted is not None and measured else None
    return {"name": name, **more, **dict(zip(LAST, (predicted, measured, error, role, unit)))}


def figures(rows):
    """What golden.py holds of rows: (name, published, predicted)."""
    return [(row["name"], row["measured"], row["predicted"]) for row in rows]


def rounded(key, value):
    return float(f"{value:.{6 if key == 'error' else 10}g}") if isinstance(value, float) else value


def write(folder, command, rows):
    document = {"study": folder.name, "command": command, "rows": [{key: rounded(key, value) for key, value in row.items()} for row in rows]}
    if found := problems(document, folder.name):
        raise ValueError("; ".join(found))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in document["rows"])
    (folder / "results.json").write_text(f'{{\n"study": {json.dumps(folder.name)},\n"command": {json.dumps(command)},\n"rows": [\n{lines}\n]\n}}\n')


def problems(document, study):
    """What is wrong with the contents of a results.json."""
    found = [] if list(document) == ["study", "command", "rows"] else ["the fields are not study, command, rows"]
    found += [] if document.get("study") == study else [f"study is {document.get('study')}"]
    rows = document.get("rows", [])
    found += [] if rows else ["there are no rows"]
    names = [row.get("name") for row in rows]
    found += [f"{name}: two rows have this name" for name in sorted({name for name in names if names.count(name) > 1})]
    return found + [f"{row.get('name')}: {what}" for row in rows for what in problems_of_row(row)]


def problems_of_row(row):
    if next(iter(row), None) != "name" or tuple(row)[-len(LAST):] != LAST:
        return [f"the fields are not name, ..., {', '.join(LAST)}"]
    numbers = [row[key] for key in ("predicted", "measured", "error")]
    if not all(n is None or (type(n) in (int, float) and math.isfinite(n)) for n in numbers):
        return ["predicted, measured and error are numbers or null"]
    found = [] if row["role"] in ROLES else [f"role is {row['role']}"]
    found += [] if isinstance(row["unit"], str) and row["unit"] else ["unit is missing"]
    predicted, measured, error = numbers
    expected = predicted / measured - 1 if predicted is not None and measured else None
    if (error is None) != (expected is None) or (error is not None and not math.isclose(error, expected, rel_tol=1e-5, abs_tol=1e-9)):
        found.append(f"error is {error}, but predicted / measured - 1 is {expected}")
    return found
