// The task stream: a row per worker, a bar per task.

import { button, clock, styled, colorOf, el, hideTip, number, seconds, showTip } from "./dom.js";
import { ticks } from "./chart.js";
import { Table } from "./table.js";

const ROW = 20;
const LEFT = 86;
const BOTTOM = 22;
const MOST_ROWS = 64;
const WINDOWS = { "10 s": 10, "1 min": 60, "5 min": 300, all: Infinity };

export function tasks(data) {
  let window = 60;
  let only = null;
  let bars = [];
  const canvas = el("canvas", { role: "img" });
  const choices = el("div", { class: "row" });
  const note = el("span", { class: "quiet" });
  const functions = new Table({
    filter: true,
    nothing: "no task has ended yet",
    sort: ["time", true],
    choose: { key: (row) => row.name, onchoose: (name) => { only = name; draw(); } },
    columns: [
      { label: "function", value: (row) => row.name, shown: (row) => el("span", { class: "named" }, styled(el("i", { class: "swatch" }), colorOf(row.name)), row.name) },
      { label: "running", value: (row) => row.running, numeric: true, shown: (row) => String(row.running || "") },
      { label: "ended", value: (row) => row.count, numeric: true, shown: (row) => number(row.count) },
      { label: "failed", value: (row) => row.failed, numeric: true, shown: (row) => el("span", { class: row.failed ? "bad" : "" }, String(row.failed || "")) },
      { label: "time", value: (row) => row.micros, numeric: true, shown: (row) => seconds(row.micros / 1e6) },
      { label: "mean", value: (row) => row.micros / Math.max(1, row.count), numeric: true, shown: (row) => seconds(row.micros / 1e6 / Math.max(1, row.count)) },
      { label: "longest", value: (row) => row.longest, numeric: true, shown: (row) => seconds(row.longest / 1e6) },
    ],
  });
  const node = el("div", {},
    el("section", { class: "card" }, el("div", { class: "row" }, el("h2", {}, "Task stream"), el("span", { class: "grow" }), choices), canvas, note),
    el("section", { class: "card" }, el("h2", {}, "Functions"), functions.node));
  new ResizeObserver(() => draw()).observe(canvas);
  canvas.addEventListener("pointermove", (event) => hover(event));
  canvas.addEventListener("pointerleave", hideTip);

  function choose() {
    choices.replaceChildren(...Object.entries(WINDOWS).map(([label, length]) =>
      button(label, window === length, () => { window = length; choose(); draw(); })));
  }

  function rowsOf(begin) {
    const pids = new Set((data.facts?.workers ?? []).map((one) => one.pid).filter((pid) => pid > 0));
    for (const [, pid, end] of data.tasks) if (end >= begin && pid) pids.add(pid);
    return [...pids].sort((a, b) => a - b);
  }

  function span() {
    const now = data.facts?.time ?? 0;
    if (window !== Infinity) return [now - window, now];
    const first = data.tasks.reduce((low, task) => Math.min(low, task[2] - task[3] / 1e6), now - 1);
    return [first, now];
  }

  function draw() {
    const width = canvas.clientWidth;
    if (!width || !data.facts) return;
    const [begin, now] = span();
    const pids = rowsOf(begin);
    const shown = pids.slice(0, MOST_ROWS);
    const height = Math.max(1, shown.length) * ROW + BOTTOM;
    const scale = globalThis.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * scale, height: height * scale });
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(name);
    const toX = (moment) => LEFT + ((moment - begin) / (now - begin)) * (width - LEFT);
    pen.font = "11px system-ui, sans-serif";
    frame(pen, shown, width, height, ink);
    pen.fillStyle = ink("--quiet");
    pen.textAlign = "center";
    for (const back of ticks(0, now - begin, Math.max(2, width / 160))) {
      const label = back === 0 ? "now" : `−${seconds(back)}`;
      const place = toX(now - back);
      if (place > LEFT + 20) pen.fillText(label, Math.min(place, width - 14), height - 6);
    }
    const places = new Map(shown.map((pid, place) => [pid, place * ROW]));
    bars = [];
    for (const [name, pid, end, micros, failed] of data.tasks) {
      if (end >= begin && places.has(pid)) bar(pen, toX, { name, pid, begin: end - micros / 1e6, end, failed }, begin, places, ink);
    }
    for (const task of data.facts.running) {
      if (places.has(task.pid)) bar(pen, toX, { name: task.name, pid: task.pid, begin: task.since, end: now, running: true }, begin, places, ink);
    }
    const more = pids.length - shown.length;
    const told = data.facts.ended - data.tasks.length;
    note.textContent = [
      more > 0 ? `${more} more workers are not shown.` : "",
      told > 0 ? `${number(told)} of ${number(data.facts.ended)} tasks that ended are not drawn.` : "",
    ].filter(Boolean).join(" ");
    canvas.setAttribute("aria-label", `${bars.length} tasks of ${shown.length} workers`);
    canvas.dataset.bars = String(bars.length);
  }

  function frame(pen, shown, width, height, ink) {
    shown.forEach((pid, place) => {
      pen.fillStyle = ink("--band");
      if (place % 2 === 0) pen.fillRect(LEFT, place * ROW, width - LEFT, ROW);
      const worker = data.facts.workers.find((one) => one.pid === pid);
      pen.fillStyle = worker ? ink("--ink") : ink("--quiet");
      pen.textAlign = "left";
      pen.fillText(String(pid), 4, place * ROW + 14);
      pen.fillStyle = worker?.state === "WAITING" ? ink("--warn") : ink("--good");
      if (worker && worker.state !== "IDLE") pen.fillRect(LEFT - 12, place * ROW + 7, 6, 6);
    });
  }

  function bar(pen, toX, task, begin, places, ink) {
    const left = toX(Math.max(task.begin, begin));
    const width = Math.max(1, toX(task.end) - left);
    const top = places.get(task.pid) + 3;
    pen.globalAlpha = only && only !== task.name ? 0.12 : task.running ? 0.55 : 1;
    pen.fillStyle = colorOf(task.name);
    pen.fillRect(left, top, width, ROW - 6);
    if (task.failed) {
      pen.fillStyle = ink("--bad");
      pen.fillRect(left, top + ROW - 9, Math.max(3, width), 3);
    }
    pen.globalAlpha = 1;
    bars.push({ ...task, left, right: left + width, top });
  }

  function hover(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const task = bars.findLast((one) => x >= one.left - 1 && x <= one.right + 1 && y >= one.top && y < one.top + ROW - 6);
    if (!task) return hideTip();
    const how = task.running ? "runs, seen for" : task.failed ? "failed after" : "took";
    return showTip(event, `${task.name}\n${how} ${seconds(task.end - task.begin)}\nprocess ${task.pid}, ${clock(task.begin)}`);
  }

  const sums = new Map();
  let counted = 0;

  function sum() {
    const row = (name) => {
      if (!sums.has(name)) sums.set(name, { name, running: 0, count: 0, failed: 0, micros: 0, longest: 0 });
      return sums.get(name);
    };
    const fresh = Math.min(data.tasks.length, (data.seen.tasks ?? 0) - counted);
    for (const [name, , , micros, failed] of fresh > 0 ? data.tasks.slice(-fresh) : []) {
      const one = row(name);
      one.count += 1;
      one.failed += Number(failed);
      one.micros += micros;
      one.longest = Math.max(one.longest, micros);
    }
    counted = data.seen.tasks ?? 0;
    for (const one of sums.values()) one.running = 0;
    for (const task of data.facts?.running ?? []) row(task.name).running += 1;
    return [...sums.values()];
  }

  choose();
  return { node, update() { draw(); functions.update(sum()); } };
}
