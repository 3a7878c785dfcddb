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

function runViews(data) {
  data.runs.forEach((run, i) => { run.index = i, addTotals(run); });
  const shared = new Shared(d3.max(data.runs, (run) => run.trace_end) || 1);
  const any = (test) => data.runs.some(test);
  const views = {
    step: section("step", any((run) => run.report.traced_step_seconds > 0), (root) => new StepView(root, data.runs)),
    timeLine: section("time-line", any((run) => run.lanes.length > 0), (root) => new TimeLine(root, data.runs, shared)),
    pipeline: section("pipeline", any((run) => run.schedule.length > 0), (root) => new PipelineView(root, data.runs, shared)),
    network: section("network", any((run) => run.links.rows.length > 0), (root) => new NetworkView(root, data.runs, shared)),
    memory: section("memory", any((run) => run.memory.length > 0), (root) => new MemoryView(root, data.runs, shared)),
  };
  for (const frame of document.querySelectorAll(".scroll")) frame.addEventListener("scroll", () => shared.set({}));
  return {shared, views};
}

// What is drawn once, and anew when the page's width or colours change.
function onePicture(data, id, View) {
  theme.read();
  const view = new View(document.getElementById(id), data), shared = new Shared(1);
  shared.changed(() => view.draw());
  window.addEventListener("resize", () => shared.set({}));
  return {shared, views: {[id]: view}};
}

function stormViews(data) {
  theme.read();
  const shared = new Shared(data.end || 1);
  return {shared, views: {storm: new StormView(document.getElementById("storm"), data, shared)}};
}

async function main() {
  const data = await readData();
  const made = data.kind === "desk" ? {shared: new Shared(1), views: await deskViews()} : data.kind === "plan" ? onePicture(data, "plan", PlanView) : data.kind === "sweep" ? onePicture(data, "sweep", SweepView) : data.kind === "study" ? onePicture(data, "study", StudyView) : data.kind === "storm" ? stormViews(data) : runViews(data);
  themeButton(made.shared);
  made.shared.set({});
  window.twofold = {data, ...made};
  requestAnimationFrame(() => { document.body.dataset.ready = "yes"; });
}

main().catch((error) => {
  const box = document.getElementById("failed");
  box.hidden = false;
  box.textContent = `The interactive views cannot be shown: ${error.message}. They need a browser of 2023 or later. The tables of this page are complete without them.`;
  document.body.dataset.ready = "failed";
  throw error;
});
