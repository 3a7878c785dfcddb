"use strict";
// The desk's page: the list of runs, and what-if questions. Scripts of all pages come after this one.

const ask = async (path, body) => {
  const response = await fetch(path, body === undefined ? {} : {method: "POST", body: JSON.stringify(body)});
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
};
const byId = (id) => document.getElementById(id);

// ---- The list ----
class Shelf {
  constructor() {
    this.chosen = [];
    byId("filter").addEventListener("input", () => this.draw());
    byId("reload").addEventListener("click", () => this.load());
    byId("open").addEventListener("click", () => window.open("report?" + this.chosen.map((path) => "dir=" + encodeURIComponent(path)).join("&"), "_blank"));
  }

  async load() {
    this.items = await ask("items");
    this.chosen = this.chosen.filter((path) => this.items.some((item) => item.path === path));
    this.draw();
  }

  draw() {
    const text = byId("filter").value.trim().toLowerCase();
    const shown = this.items.filter((item) => [item.path, item.name, item.kind, item.title, item.outcome].join(" ").toLowerCase().includes(text));
    byId("count").textContent = `${countText(shown.length)} of ${countText(this.items.length)}`;
    const head = ["", "folder", "job", "kind", "ranks", "step time", "peak memory", "written"];
    byId("items").replaceChildren(element("tr", {}, ...head.map((h) => element("th", {}, h))), ...shown.map((item) => this.row(item)));
    const alone = this.chosen.some((path) => this.items.find((i) => i.path === path).kind !== "run") && this.chosen.length > 1;
    byId("open").disabled = this.chosen.length === 0 || alone;
    byId("open").textContent = alone ? "plans, sweeps and storms have pages of their own" : this.chosen.length > 1 ? `hold ${this.chosen.length} side by side` : "open";
  }

  row(item) {
    const box = element("input", {type: "checkbox", "aria-label": item.path});
    box.checked = this.chosen.includes(item.path), box.disabled = item.error !== "";
    box.addEventListener("change", () => {
      this.chosen = box.checked ? [...this.chosen, item.path] : this.chosen.filter((path) => path !== item.path);
      this.draw();
    });
    const link = element("a", {href: "report?dir=" + encodeURIComponent(item.path), target: "_blank"}, item.path);
    const kind = item.error || (item.kind === "run" ? item.title + (item.outcome === "OK" ? "" : `: ${item.outcome}`) : item.kind);
    return element("tr", {}, element("td", {}, box), element("td", {class: "left"}, item.error ? item.path : link), element("td", {class: "left"}, item.name), element("td", {class: "left"}, kind),
                   element("td", {}, item.ranks ? countText(item.ranks) : ""), element("td", {}, item.seconds ? secondsText(item.seconds) : ""),
                   element("td", {}, item.peak_bytes ? bytesText(item.peak_bytes) : ""), element("td", {}, new Date(1000 * item.written).toLocaleString()));
  }
}

// ---- What if ----
const SLIDERS = {gpus: "GPUs", tp: "tp", pp: "pp", cp: "cp", micro: "micro-batch", batch: "global batch"};

class WhatIfView {
  constructor(shelf) {
    this.shelf = shelf, this.answers = [], this.asked = 0;
    for (const input of document.querySelectorAll("#question input, #question select")) input.addEventListener("input", () => this.changed(input.id));
    byId("copy").addEventListener("click", () => { byId("spec").select(), document.execCommand("copy"); });
    byId("question").addEventListener("submit", (event) => event.preventDefault());
  }

  async load() {
    const {models, clusters} = await ask("choices");
    const runs = this.shelf.items.filter((item) => item.kind === "run" && item.error === "");
    byId("base").replaceChildren(
      element("optgroup", {label: "a model"}, ...models.map((model) => element("option", {value: "model:" + model}, model))),
      element("optgroup", {label: "the spec of a run"}, ...runs.map((run) => element("option", {value: "run:" + run.path}, run.path))));
    byId("cluster").replaceChildren(...clusters.map(({name, summary}) => element("option", {value: name, title: summary}, name)));
    byId("base").value = "model:llama3-8b", byId("cluster").value = "dgx-h100";
    for (const [id, value] of Object.entries({gpus: 3, tp: 0, pp: 0, cp: 0, micro: 0, batch: 6})) byId(id).value = value;
    byId("sharding").value = "FULL_SHARD", byId("recompute").checked = true;
  }

  value(id) { return 2 ** Number(byId(id).value); }
  dp() { return this.value("gpus") / (this.value("tp") * this.value("pp") * this.value("cp")); }

  // tp, pp and cp leave a dp of at least 1: what was moved stays, others give way.
  changed(moved) {
    for (const other of ["cp", "pp", "tp"])
      while (this.dp() < 1 && other !== moved && Number(byId(other).value) > 0) byId(other).value = Number(byId(other).value) - 1;
    if (this.dp() < 1) byId("gpus").value = Number(byId("tp").value) + Number(byId("pp").value) + Number(byId("cp").value);
    this.say();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), 120);
  }

  say() {
    for (const id of Object.keys(SLIDERS)) byId(id + "-shown").textContent = countText(this.value(id));
    byId("gpus-shown").textContent += ` (dp ${this.dp()})`;
    byId("bandwidth-shown").textContent = byId("bandwidth").value + " %";
  }

  sets() {
    const sets = {
      "fabric.simulated.cluster": byId("cluster").value, "parallel.tp": this.value("tp"), "parallel.pp": this.value("pp"), "parallel.cp": this.value("cp"),
      "parallel.dp": this.dp(), "parallel.sharding": byId("sharding").value, "train.micro_batch": this.value("micro"), "train.global_batch": this.value("batch"),
      "train.activation_checkpointing.every": byId("recompute").checked ? 1 : 0, "parallel.sequence_parallel": byId("sequence").checked,
    };
    if (byId("bandwidth").value !== "100") sets["fabric.simulated.network.background"] = 1 - byId("bandwidth").value / 100;
    return sets;
  }

  async ask() {
    this.say();
    const asked = ++this.asked, [kind, name] = byId("base").value.split(/:(.*)/s), sets = this.sets();
    byId("verdict").textContent = "predicting …";
    try {
      const answer = await ask("what-if", {[kind === "run" ? "base" : "model"]: name, sets});
      if (asked === this.asked) this.show(answer, `${name}, ${sets["fabric.simulated.cluster"]}, tp ${sets["parallel.tp"]} pp ${sets["parallel.pp"]} cp ${sets["parallel.cp"]} dp ${sets["parallel.dp"]}, ` +
        `${sets["parallel.sharding"]}, micro-batch ${sets["train.micro_batch"]}, batch ${sets["train.global_batch"]}` + (byId("recompute").checked ? ", recompute" : "") +
        (byId("sequence").checked ? ", sequence parallel" : "") + (byId("bandwidth").value === "100" ? "" : `, bandwidth ${byId("bandwidth").value} %`));
    } catch (error) {
      if (asked !== this.asked) return;
      byId("verdict").textContent = error.message;
      byId("memory-bar").hidden = true;
    }
  }

  show(answer, what) {
    const fine = answer.outcome === "OK";
    byId("verdict").textContent = fine ? `${secondsText(answer.seconds)} a step (${secondsText(answer.low)} to ${secondsText(answer.high)}), ${countText(Math.round(answer.tokens_per_second))} tokens a second, ` +
      `MFU ${shareText(answer.mfu)}, ${bytesText(answer.reserved_bytes)} of ${answer.device_bytes ? bytesText(answer.device_bytes) : "memory without a bound"}` : `${answer.outcome}: ${answer.message}`;
    byId("spec").value = answer.spec;
    byId("memory-bar").hidden = !answer.device_bytes;
    if (answer.device_bytes) byId("memory-bar").firstElementChild.style.width = Math.min(100, 100 * answer.reserved_bytes / answer.device_bytes) + "%";
    this.answers.unshift({what, ...answer});
    this.answers.length = Math.min(this.answers.length, 20);
    const before = this.answers[1];
    const head = ["asked", "step time", before ? "against the one before" : "", "tokens a second", "MFU", "memory", "bubble", "exposed communication"];
    byId("answers").replaceChildren(element("tr", {}, ...head.map((h) => element("th", {}, h))), ...this.answers.map((a, i) => {
      const other = this.answers[i + 1], both = other && a.outcome === "OK" && other.outcome === "OK";
      const cells = a.outcome === "OK" ? [secondsText(a.seconds), both ? d3.format("+.1%")(a.seconds / other.seconds - 1) : "", countText(Math.round(a.tokens_per_second)), shareText(a.mfu), bytesText(a.reserved_bytes),
                                          shareText(a.bubble), secondsText(a.exposed_seconds)] : [a.outcome, "", "", "", "", "", ""];
      return element("tr", {}, element("td", {}, a.what), ...cells.map((c) => element("td", {}, c)));
    }));
  }
}

async function deskViews() {
  const shelf = new Shelf();
  await shelf.load();
  const whatIf = new WhatIfView(shelf);
  await whatIf.load();
  whatIf.say();
  const show = (id) => {
    for (const other of ["runs", "what-if"]) {
      byId(other).hidden = other !== id;
      byId("show-" + other).setAttribute("aria-pressed", other === id);
    }
    if (id === "what-if" && whatIf.answers.length === 0) whatIf.ask();
  };
  byId("show-runs").addEventListener("click", () => show("runs"));
  byId("show-what-if").addEventListener("click", () => show("what-if"));
  return {shelf, whatIf};
}
