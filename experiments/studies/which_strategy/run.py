#!/usr/bin/env python3
"""Which strategy for which model on how many GPUs: what does `twofold plan` recommend, what do the documents, and why do they differ?"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import lines  # noqa: E402
import picture  # noqa: E402
from asked import Plans  # noqa: E402
from common import ROOT, Study, progress, row  # noqa: E402
from documents import advice  # noqa: E402
from jobs import CLUSTERS, MODELS, jobs, plain, spec  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold`. No GPU.", takes="about half an hour on two cores with --budget=45.",
              writes="table.md, results.json, grid.svg and the tables of docs/which-strategy.md")
GUIDE = ROOT / "docs/which-strategy.md"
GAP = "3%"  # intervals of predicted times are wider


def fastest(answer):
    return answer["layouts"][0] if answer["layouts"] else None


def plan(plans, job):
    """The fastest layout that fits; with states or parameters in the host's memory only if nothing else does."""
    answer = plans.ask(spec(job), job.gpus)
    if answer["layouts"] or answer["open"]:
        return answer, False
    return plans.ask(spec(job, offload=True), job.gpus), True


def of_documents(plans, job):
    """The documents' row, and (layout, answer) of each layout that it names; none where the row asks for more GPUs."""
    found, layouts = advice(job.model.billions, job.gpus, job.cluster.node)
    if job.gpus < found.least:
        return found, []
    return found, [(layout, plans.ask(spec(job, layout), job.gpus)) for layout in layouts]


def result(plans, job):
    """A row of results.json. `predicted`: seconds of the fastest step; nothing was measured."""
    answer, offloaded = plan(plans, job)
    found, layouts = of_documents(plans, job)
    known = [fastest(a) for a in (answer, *(other for _, other in layouts)) if fastest(a)]
    if not known and answer["open"]:  # the budget ended before a layout was simulated
        known = [fastest(a) for a in [plans.ask(spec(job, plain(job), offloaded), job.gpus)] if fastest(a)]
    best = min(known, key=lambda layout: layout["seconds"], default=None)
    theirs = [{"words": layout.words, "fits": bool(other["layouts"]), "open": other["open"], "closest": other["closest"],
               **({key: fastest(other)[key] for key in ("text", "seconds", "low", "high", "bytes")} if other["layouts"] else {})}
              for layout, other in layouts]
    more = {key: best[key] for key in ("text", "low", "high", "tokens_per_second", "mfu", "bubble", "exposed", "bytes", "device_bytes")} if best else {}
    return row(job.name, best["seconds"] if best else None, None, "s", "none", model=job.model.name, cluster=job.cluster.name, gpus=job.gpus,
               tokens=job.tokens, **{f"layout_{key}" if key in ("text", "bytes") else key: value for key, value in more.items()},
               only_with_offload=offloaded, legal=answer["legal"], do_not_fit=answer["do_not_fit"], slower=answer["slower"], open=answer["open"],
               simulated=answer["simulated"], proven=answer["proven"], budget=answer["budget"], least_seconds=answer["least_seconds"], closest=answer["closest"],
               documents_row=found.words, documents_gpus=found.gpus, documents_covers=found.covers(job.gpus), documents=theirs)


def wrong(options):
    for given, known, name in ((options.model, [m.name for m in MODELS], "model"), (options.cluster, [c.name for c in CLUSTERS], "cluster")):
        if given and given not in known:
            return f"--{name}={given}: use one of {', '.join(known)}"
    if options.budget <= 0:
        return "--budget must be above 0 s"
    if options.write and (options.model or options.cluster):
        return "--write needs all models and clusters; answers are kept, so that nothing is asked twice"
    return None


def main():
    study.option("--budget", type=float, default=30, help="seconds of one plan (default: 30)")
    study.option("--model", help="plan for this model alone")
    study.option("--cluster", help="plan for this cluster alone")
    study.option("--answers", type=pathlib.Path, default=ROOT / "runs/which_strategy",
                 help="folder of answers, from which a study that was cut goes on (default: runs/which_strategy); delete it to ask all again")
    options, twofold = study.start(wrong)
    plans = Plans(twofold, options.answers, options.budget, GAP)
    asked = jobs([m for m in MODELS if options.model in (None, m.name)], [c for c in CLUSTERS if options.cluster in (None, c.name)])
    rows = []
    for job in asked:
        rows.append(result(plans, job))
        progress(f"{job.name}: {lines.cell(rows[-1])}; documents: {lines.against(rows[-1])}")
    if plans.kept:
        progress(f"{plans.kept} answers were taken from {options.answers}")
    study.publish("Which strategy for which model?", lines.page(rows, GAP, options.budget), rows)
    if options.write:
        (study.folder / "grid.svg").write_text(picture.svg(rows))
        lines.into_guide(GUIDE, rows)


if __name__ == "__main__":
    main()
