"use strict";
// Builds the page's views from its data. Each view is in a file of its own and has a section of the template.

function section(id, wanted, build) {
  const root = document.getElementById(id);
  if (!wanted) return root.remove(), null;
  return build(root);
}

function themeButton(shared) {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  const read = () => { theme.read(), shared.set({}); };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    read();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", read);
  read();
}

async function main() {
  const data = await readData();
  data.runs.forEach((run, i) => { run.index = i, addTotals(run); });
  const end = d3.max(data.runs, (run) => run.trace_end) || 1;
  const shared = new Shared(end);
  const any = (test) => data.runs.some(test);
  const views = {
    step: section("step", any((run) => run.report.traced_step_seconds > 0), (root) => new StepView(root, data.runs)),
    timeLine: section("time-line", any((run) => run.lanes.length > 0), (root) => new TimeLine(root, data.runs, shared)),
    pipeline: section("pipeline", any((run) => run.schedule.length > 0), (root) => new PipelineView(root, data.runs, shared)),
    memory: section("memory", any((run) => run.memory.length > 0), (root) => new MemoryView(root, data.runs, shared)),
  };
  themeButton(shared);
  for (const frame of document.querySelectorAll(".scroll")) frame.addEventListener("scroll", () => shared.set({}));
  shared.set({});
  window.twofold = {data, shared, views};
  requestAnimationFrame(() => { document.body.dataset.ready = "yes"; });
}

main().catch((error) => {
  const box = document.getElementById("failed");
  box.hidden = false;
  box.textContent = `The interactive views cannot be shown: ${error.message}. They need a browser of 2023 or later. The tables of this page are complete without them.`;
  document.body.dataset.ready = "failed";
  throw error;
});
