#!/usr/bin/env python3
"""Which constants do the calibration rows give if those of one system take no part?"""
import csv
import functools

import calibrate
from common import Study

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates, on all cores.", takes="about 2 minutes on 2 cores.",
              writes="left_out.csv and *-left-out.textproto, which the scoreboard predicts", always=True)
study.option("--rounds", type=int, default=30, metavar="N", help="of a search, at most (default: 30)")
HERE = study.folder
SYSTEMS = {"vTrain": ("vtrain",), "Selene": ("selene", "selene-fused")}  # whose rows are left out, and its clusters
# all_reduce.csv is vTrain's, too: without it nothing is known of its links, and they are the catalogue's
UNKNOWN = {"vTrain": calibrate.LINKS, "Selene": ()}


def fitted_without(twofold, system, rounds):
    """Constants from the priors and from the rows of the other system. The search begins at the priors: constants.csv has seen all rows."""
    known = [row for row in calibrate.constants() if row["name"] not in UNKNOWN[system]]
    start = {row["name"]: float(row["value" if row["name"] in calibrate.LINKS else "prior"]) for row in known}
    searched = [row for row in known if row["name"] not in calibrate.LINKS]
    errors = functools.partial(calibrate.errors, without=system)
    return calibrate.search(calibrate.Objective(twofold, searched, start, errors), start, rounds)[1]


def write_table(found):
    with open(HERE / "left_out.csv", "w", newline="") as file:
        file.write("# leave_out.py: constants.csv, and what calibration rows give without those of one system (none: as in the catalogue)\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "value", *(f"without_{system}" for system in found)])
        for row in calibrate.constants():
            writer.writerow([row["name"], row["value"], *(f"{c[row['name']]:.4g}" if row["name"] in c else "none" for c in found.values())])


def main():
    options, twofold = study.start()
    try:
        found = {system: fitted_without(twofold, system, options.rounds) for system in SYSTEMS}
    finally:
        calibrate.write_clusters({row["name"]: float(row["value"]) for row in calibrate.constants()})  # where the search put its own
    write_table(found)
    for system, c in found.items():
        rounded = {name: float(f"{value:.4g}") for name, value in c.items()}
        calibrate.write_clusters(rounded, SYSTEMS[system], "leave_out.py from left_out.csv", "-left-out")


if __name__ == "__main__":
    main()
