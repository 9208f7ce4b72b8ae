// Asks for news once a second, and gives them to the view that is shown.

import { bytes, el, number, seconds } from "./dom.js";
import { actors } from "./actors.js";
import { datasets } from "./datasets.js";
import { deployments } from "./deployments.js";
import { errors } from "./errors.js";
import { logs } from "./logs.js";
import { memory } from "./memory.js";
import { runs } from "./runs.js";
import { tasks } from "./tasks.js";
import { waits } from "./waits.js";

const EVERY = 1000;
const LIBRARIES_EVERY = 10;
const KEPT = { tasks: 20000, failures: 1000, ended_actors: 1000, logs: 5000, memory: 900 };
const VIEWS = { tasks, memory, waits, actors, datasets, runs, deployments, errors, logs };
const LABELS = {
  tasks: "Tasks", memory: "Memory", waits: "Waits", actors: "Actors", datasets: "Datasets",
  runs: "Runs", deployments: "Deployments", errors: "Errors", logs: "Logs",
};

const byId = (id) => document.getElementById(id);
const data = {
  kind: "session", facts: null, over: false, libraries: {}, seen: {},
  tasks: [], failures: [], ended_actors: [], logs: [], memory: [],
};
let current = null;
let round = 0;

export async function ask(name, query = {}) {
  const words = new URLSearchParams(query).toString();
  const answer = await fetch(words ? `api/${name}?${words}` : `api/${name}`);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer.json();
}

function take(news) {
  data.kind = news.kind;
  data.title = news.title;
  data.over = news.over ?? false;
  data.answers = news.answers ?? true;
  data.pid = news.pid;
  if (news.facts?.time) data.facts = news.facts;
  for (const [name, most] of Object.entries(KEPT)) {
    const some = news[name];
    if (!some) continue;
    data.seen[name] = some.total;
    data[`new_${name}`] = some.rows;
    if (some.rows.length) data[name] = [...data[name], ...some.rows].slice(-most);
  }
}

function showHead() {
  const facts = data.facts;
  const state = byId("state");
  state.className = `dot ${data.over || data.kind === "folder" ? "" : data.answers ? "live" : "stuck"}`;
  byId("name").textContent = data.kind === "folder" ? "skate" : `skate ${data.pid ?? ""}`;
  byId("program").textContent = data.title ?? commandOf(facts?.program ?? []);
  byId("program").title = (facts?.program ?? []).join(" ");
  document.title = data.title ? `skate: ${data.title}` : `skate ${data.pid ?? ""}`;
  if (facts) byId("numbers").replaceChildren(...headNumbers(facts));
  const banner = byId("banner");
  if (data.over) banner.textContent = "The program has ended; this is what was seen of it last.";
  else if (!data.answers) {
    banner.textContent = `The program does not answer: it is busy or stopped. “skate stack ${data.pid}” shows where.`;
  }
  banner.hidden = !data.over && data.answers;
}

// The interpreter and the program by their names; where they are does not fit.
function commandOf(words) {
  const name = (word) => word.slice(word.lastIndexOf("/") + 1);
  return [...words.slice(0, 2).map(name), ...words.slice(2)].join(" ");
}

function headNumbers(facts) {
  const cpus = facts.resources.CPU ?? 0;
  const used = cpus - (facts.available.CPU ?? 0);
  return [
    ["ended", number(facts.ended)],
    ["running", number(facts.running.length)],
    ["queued", number(facts.queued)],
    ["CPUs", `${number(used)} of ${number(cpus)}`],
    ["workers", number(facts.workers.length)],
    ["objects", `${bytes(facts.store_bytes)} of ${bytes(facts.resources.object_store_memory)}`],
    ["up", seconds(facts.time - facts.started)],
  ].map(([label, value]) => el("span", {}, el("span", { class: "quiet" }, `${label} `), el("b", {}, value)));
}

function counts() {
  const found = data.libraries;
  return {
    actors: data.facts?.actors.length, datasets: found.datasets?.length, runs: found.runs?.length,
    deployments: found.deployments?.length, errors: data.failures.length,
  };
}

function showTabs() {
  const names = data.kind === "folder" ? ["runs"] : Object.keys(VIEWS);
  const numbers = counts();
  const tabs = byId("tabs");
  const key = JSON.stringify([names, numbers, current?.name]);
  if (tabs.dataset.key === key) return;
  tabs.dataset.key = key;
  const scrolled = tabs.scrollLeft;
  tabs.replaceChildren(...names.map((name) => el(
    "a",
    { href: `#${name}`, "aria-current": current?.name === name ? "page" : null },
    LABELS[name],
    numbers[name] ? el("span", { class: name === "errors" ? "count bad" : "count quiet" }, String(numbers[name])) : null,
  )));
  tabs.scrollLeft = scrolled;
  tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function show() {
  const fallback = data.kind === "folder" ? "runs" : "tasks";
  const asked = location.hash.slice(1);
  const name = Object.hasOwn(VIEWS, asked) && (data.kind !== "folder" || asked === "runs") ? asked : fallback;
  if (current?.name === name) return;
  current?.view.close?.();
  const view = VIEWS[name](data, ask);
  current = { name, view };
  byId("view").replaceChildren(view.node);
  view.update();
}

async function look() {
  try {
    take(await ask("news", data.seen));
    const needed = ["datasets", "runs", "deployments"].includes(current?.name);
    if (round % (needed ? 2 : LIBRARIES_EVERY) === 0) data.libraries = await ask("libraries");
    show();
    await current.view.refresh?.(round);
    showHead();
    showTabs();
    current.view.update();
    document.body.dataset.round = String(round);
  } catch (problem) {
    console.error(problem);
    byId("banner").textContent = "The page's own process has ended; this is what was seen last.";
    byId("banner").hidden = false;
    byId("state").className = "dot";
  }
  round += 1;
  setTimeout(look, EVERY);
}

window.addEventListener("hashchange", () => {
  show();
  showTabs();
  current.view.refresh?.(0)?.then(() => current.view.update());
});
look();
