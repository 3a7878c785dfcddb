#!/usr/bin/env python3
"""Does every rule hold in 50,000 seeded schedules of disasters?"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import bugs  # noqa: E402
from common import Study, Table, count, progress, read_json, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold`. No GPU.", takes="about 20 minutes on 2 cores.", quick="a hundredth of the schedules")
study.option("--seed", type=int, default=2026, metavar="N", help="draws all schedules (default: 2026)")
study.option("--bugs", action="store_true", help="instead: apply each of bugs/*.patch to a copy of the sources in build/storm-bugs, build it, and let the storm look for it; "
             "a build and up to --minutes for each. With --quick: only see whether the patches apply. With --write: renew bugs/table.md")
study.option("--minutes", type=float, default=5, metavar="M", help="with --bugs: how long to look for each (default: 5)")

SPECS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "storm"
# spec: (what it is, schedules)
STORMS = {
    "ddp": ("DDP, elastic", 12000),
    "zero3": ("ZeRO-3 with copies of shards, elastic", 7000),
    "tp2_dp4": ("tp 2, dp 4, elastic", 4000),
    "pp2_dp4": ("pp 2, dp 4, elastic", 8000),
    "diloco": ("DiLoCo, four ranks on two islands", 9000),
    "async_sgd": ("asynchronous SGD, two servers and four workers", 7000),
    "zero1_files": ("ZeRO-1, elastic from checkpoints", 2000),
    "top_k": ("DDP with top-k gradients, elastic", 1000),
    "local_files": ("ZeRO-1, elastic from checkpoints, KEEP_LOCAL", 2000),
    "spares": ("DDP with dropout and ranks that stand by", 4000),
}


def rage(twofold, options):
    """By spec: the storm's summary."""
    found = {}
    for spec, (what, schedules) in STORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            # status 1: a rule was broken
            twofold("storm", SPECS / f"{spec}.textproto", f"--schedules={schedules // 100 if options.quick else schedules}", f"--seed={options.seed}", f"--out={folder}",
                    timeout=7200, statuses=(0, 1))
            found[spec] = read_json(f"{folder}/summary.json")
        progress(f"{what}: {found[spec]['schedules']} schedules, {found[spec]['broken']} broke a rule")
    return found


def main():
    options, twofold = study.start(lambda o: "--minutes must be greater than 0" if not o.minutes > 0 else "")
    if options.bugs:
        return bugs.hunt(study, options, twofold, [SPECS / f"{spec}.textproto" for spec in STORMS])
    found = rage(twofold, options)
    table, rows, broken = Table("what trains", "schedules", "broke a rule", "an hour", "processor time each"), [], []
    for spec, (what, _) in STORMS.items():
        s = found[spec]
        table.add(what, count(s["schedules"]), s["broken"], count(round(3600 * s["schedules"] / s["real_seconds"])), f"{1000 * s['processor_seconds'] / s['schedules']:.0f} ms")
        rows.append(row(f"schedules that broke a rule: {spec}", 0, s["broken"], "schedules", role="none", schedules=s["schedules"], seed=options.seed,
                        outcomes=s["outcomes"], happened=s["happened"]))
        if s["broken"]:
            broken.append(f"{what}: {s['broken']} schedules broke a rule (twofold storm tests/storm/{spec}.textproto --seed={options.seed} shows them)")
    total, seconds = sum(s["schedules"] for s in found.values()), sum(s["real_seconds"] for s in found.values())
    kinds = Table("what happened", "times")
    happened = {}
    for s in found.values():
        for kind, times in s["happened"].items():
            happened[kind] = happened.get(kind, 0) + times
    for kind in sorted(happened):
        kinds.add(kind, count(happened[kind]))
    text = f"{count(total)} schedules in {seconds / 60:.0f} minutes, {count(round(3600 * total / seconds))} an hour; {sum(s['broken'] for s in found.values())} broke a rule."
    study.publish("Storms", [text, "", *table.lines, "", *kinds.lines, "", *[f"* not met: {line}" for line in broken]], rows)
    study.end(broken)


if __name__ == "__main__":
    main()
