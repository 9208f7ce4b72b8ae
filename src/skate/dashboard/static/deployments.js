// Deployments: how many requests a second, and how long one takes.

import { clock, el, number, seconds, stateClass } from "./dom.js";
import { Chart } from "./chart.js";
import { Table } from "./table.js";

const TIMES = [
  { name: "mean", key: "mean_s", color: "var(--warn)" },
  { name: "p50", key: "p50_s", color: "var(--good)" },
  { name: "p90", key: "p90_s", color: "var(--accent)" },
  { name: "p99", key: "p99_s", color: "var(--bad)" },
];

function card(first) {
  const rate = new Chart({ height: 150, x: clock, zero: true, legend: false, label: "requests a second" });
  const latency = new Chart({ height: 150, x: clock, y: seconds, zero: true, label: "time of a request" });
  const head = el("div", { class: "row" });
  const message = el("pre", { hidden: true });
  const replicas = new Table({
    nothing: "no replica has started",
    columns: [
      { label: "replica", value: (row) => row.replica, mono: true },
      { label: "process", value: (row) => row.pid, numeric: true, shown: (row) => String(row.pid) },
      { label: "answers now", value: (row) => row.ongoing, numeric: true },
      { label: "answered", value: (row) => row.answered, numeric: true, shown: (row) => number(row.answered) },
      ...TIMES.map(({ name, key }) => ({ label: name, value: (row) => row[key], numeric: true, shown: (row) => (row[key] === null ? "" : seconds(row[key])) })),
    ],
  });
  const node = el("section", { class: "card" }, head, message,
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Requests a second"), rate.node),
      el("div", {}, el("h3", {}, "Time of a request"), latency.node)),
    replicas.node);
  return {
    node,
    update(row) {
      const last = row.samples.at(-1);
      head.replaceChildren(
        el("h2", {}, `${row.application} / ${row.deployment}`),
        el("span", { class: stateClass(row.state) }, row.state),
        el("span", { class: "quiet" }, Object.entries(row.replicas).map(([state, count]) => `${count} ${state}`).join(", ")),
        el("span", { class: "quiet" }, last ? `${number(Number(last.rate.toFixed(1)))} requests/s` : ""),
        el("span", { class: "quiet" }, last?.p99_s ? `p50 ${seconds(last.p50_s)}, p99 ${seconds(last.p99_s)}` : ""));
      message.textContent = row.message;
      message.hidden = !row.message;
      rate.update([{ name: "requests/s", color: "var(--accent)", points: row.samples.map((one) => [one.time, one.rate]) }]);
      latency.update(TIMES.map(({ name, key, color }) => ({ name, color, points: row.samples.filter((one) => one[key] !== null).map((one) => [one.time, one[key]]) })));
      replicas.update(row.processes);
    },
    key: `${first.application}/${first.deployment}`,
  };
}

export function deployments(data) {
  const node = el("div");
  const cards = new Map();
  const nothing = el("p", { class: "empty" }, "nothing is deployed");
  return {
    node,
    update() {
      const rows = data.libraries.deployments ?? [];
      const keys = new Set(rows.map((row) => `${row.application}/${row.deployment}`));
      for (const [key, one] of cards) {
        if (!keys.has(key)) {
          one.node.remove();
          cards.delete(key);
        }
      }
      for (const row of rows) {
        const key = `${row.application}/${row.deployment}`;
        if (!cards.has(key)) {
          cards.set(key, card(row));
          node.append(cards.get(key).node);
        }
        cards.get(key).update(row);
      }
      if (rows.length) nothing.remove();
      else node.append(nothing);
    },
  };
}
