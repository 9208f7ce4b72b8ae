// Trainings and searches: curves, trials, parallel coordinates, errors.

import { styled, colorOf, el, number, stateClass } from "./dom.js";
import { Chart } from "./chart.js";
import { Parallel } from "./parallel.js";
import { Table } from "./table.js";

const MOST_METRICS = 6;
const MOST_AXES = 9;

const lastLine = (text) => (text ?? "").trim().split("\n").at(-1);
const varies = (trials, name) => new Set(trials.map((one) => JSON.stringify(one.config[name]))).size > 1;

export function runs(data, ask) {
  let chosen = null; // the number of the run
  let metric = null;
  let run = null;
  let trial = null;
  const list = el("select", { "aria-label": "run", onchange: () => pick(Number(list.value)) });
  const metrics = el("select", { "aria-label": "metric", onchange: () => { metric = metrics.value; run = null; reload(); } });
  const about = el("span", { class: "quiet" });
  const curves = new Chart({ height: 280, legend: false, label: "the metric by iteration" });
  const table = new Table({ columns: [], filter: true, nothing: "no trials yet", choose: { key: (row) => row.trial, onchoose: (name) => { trial = name; drawAll(); } } });
  const parallel = new Parallel(() => drawAll());
  const errors = el("div");
  const nothing = el("p", { class: "empty" }, "no training and no search is known");
  const cards = el("div", {},
    el("section", { class: "card" }, el("div", { class: "row" }, el("h2", {}, "Run"), list, el("label", {}, "metric", metrics), about), curves.node),
    el("section", { class: "card", id: "coordinates" }, el("h2", {}, "Parameters and results"), parallel.node, el("p", { class: "quiet" }, "Drag along an axis to keep the trials that cross it there; a click lets go.")),
    el("section", { class: "card", id: "trials" }, el("h2", {}, "Trials"), table.node),
    el("section", { class: "card", id: "trial-errors" }, el("h2", {}, "Errors"), errors));
  const node = el("div", {}, nothing, cards);
  table.onfilter = () => drawAll();

  function pick(value) {
    [chosen, run, metric, trial] = [value, null, null, null];
    parallel.brushes.clear();
    reload();
  }

  async function reload() {
    await refresh();
    update();
  }

  async function refresh() {
    const found = data.libraries.runs ?? [];
    if (!found.length) return;
    if (chosen === null) chosen = (found.find((one) => one.state === "RUNNING") ?? found[found.length === 1 || data.kind === "session" ? found.length - 1 : 0]).number;
    const query = { number: chosen, version: run?.version ?? "" };
    if (metric) query.metric = metric;
    const told = await ask("run", query);
    if (!told.unchanged) {
      run = told;
      run.fresh = true;
    }
  }

  function columns() {
    const named = [...new Set(run.trials.flatMap((one) => Object.keys(one.config)))].filter((name) => run.trials.length === 1 || varies(run.trials, name));
    const shown = [run.metric, ...run.metrics.filter((name) => name !== run.metric)].filter(Boolean).slice(0, MOST_METRICS);
    const value = (row, name) => row.metrics[name];
    return [
      { label: "trial", value: (row) => row.trial, shown: (row) => el("span", { class: "named" }, styled(el("i", { class: "swatch" }), colorOf(row.trial)), row.trial) },
      { label: "state", value: (row) => row.state, shown: (row) => el("span", { class: stateClass(row.state) }, row.state) },
      { label: "iterations", value: (row) => value(row, "training_iteration"), numeric: true },
      ...shown.map((name) => ({ label: name, value: (row) => value(row, name), numeric: true, shown: (row) => number(value(row, name)) })),
      ...named.map((name) => ({ label: name, value: (row) => (["number", "boolean", "string"].includes(typeof row.config[name]) ? row.config[name] : JSON.stringify(row.config[name])), numeric: run.trials.every((one) => typeof one.config[name] === "number"), shown: (row) => number(typeof row.config[name] === "object" ? JSON.stringify(row.config[name]) : row.config[name]) })),
    ];
  }

  function names() {
    const all = [...new Set(run.trials.flatMap((one) => Object.keys(one.config)))];
    const simple = all.filter((name) => varies(run.trials, name) && run.trials.every((one) => typeof one.config[name] !== "object"));
    return [...simple.slice(0, MOST_AXES), run.metric].filter(Boolean);
  }

  function drawAll() {
    if (!run) return;
    const axes = names();
    table.update(run.trials, columns());
    const byFilter = new Set(table.shown().map((row) => row.trial));
    const rows = run.trials.map((one) => ({ key: one.trial, shown: byFilter.has(one.trial), values: { ...one.config, [run.metric]: one.metrics[run.metric] } }));
    parallel.update(rows, axes, run.mode, trial);
    const kept = new Set(rows.filter((row) => row.shown && parallel.keeps(row)).map((row) => row.key));
    table.update(run.trials.filter((one) => kept.has(one.trial) || !parallel.brushes.size), columns());
    curves.update(run.trials.filter((one) => one.curve?.length && kept.has(one.trial)).map((one) => ({
      name: one.trial, color: colorOf(one.trial), points: one.curve, strong: one.trial === trial, faint: trial !== null && one.trial !== trial,
    })));
  }

  function drawErrors() {
    const failed = run.trials.filter((one) => one.error);
    document.getElementById("trial-errors").hidden = !failed.length;
    errors.replaceChildren(...failed.slice(0, 100).map((one) => el("details", {},
      el("summary", {}, el("b", {}, one.trial), " ", el("span", { class: "bad" }, lastLine(one.error))), el("pre", {}, one.error))));
  }

  function options(select, values, current) {
    const key = JSON.stringify(values);
    if (select.dataset.key !== key) {
      select.dataset.key = key;
      select.replaceChildren(...values.map(([value, label]) => el("option", { value }, label)));
    }
    select.value = String(current);
  }

  function update() {
    const found = data.libraries.runs ?? [];
    nothing.hidden = Boolean(found.length);
    cards.hidden = !found.length;
    if (!run) return;
    options(list, found.map((one) => [String(one.number), `${one.name} (${one.kind}${one.state ? `, ${one.state}` : ""})`]), chosen);
    options(metrics, run.metrics.map((name) => [name, name]), run.metric);
    if (!run.fresh) return;
    run.fresh = false;
    about.textContent = `${run.trials.length} ${run.trials.length === 1 ? "trial" : "trials"} · ${run.path}`;
    document.getElementById("coordinates").hidden = run.trials.length < 2;
    drawAll();
    drawErrors();
  }

  return { node, refresh, update };
}
