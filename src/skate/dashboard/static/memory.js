// Memory: the object store, processes, and who holds what.

import { bytes, clock, styled, el } from "./dom.js";
import { Chart } from "./chart.js";
import { Table } from "./table.js";

export function memory(data, ask) {
  let objects = [];
  const store = new Chart({ x: clock, y: bytes, zero: true, label: "bytes of objects over time" });
  const all = new Chart({ x: clock, y: bytes, zero: true, label: "memory of processes over time" });
  const processes = new Table({
    sort: ["resident", true],
    columns: [
      { label: "process", value: (row) => row.pid, numeric: true, shown: (row) => String(row.pid) },
      { label: "role", value: (row) => row.role },
      { label: "state", value: (row) => row.state },
      { label: "resident", value: (row) => row.resident, numeric: true, shown: (row) => bytes(row.resident) },
      { label: "its own", value: (row) => row.resident - row.shared, numeric: true, shown: (row) => bytes(row.resident - row.shared) },
      { label: "", value: () => "", shown: (row) => bar(row) },
    ],
  });
  const held = new Table({
    filter: true,
    nothing: "no objects with bytes",
    sort: ["size", true],
    columns: [
      { label: "size", value: (row) => row.size, numeric: true, shown: (row) => bytes(row.size) },
      { label: "where", value: (row) => row.where },
      { label: "made by", value: (row) => row.made_by },
      { label: "held by", value: (row) => row.held_by.join(", ") },
      { label: "line", value: (row) => row.line },
      { label: "object", value: (row) => row.object_id.replace(/^0+/, ""), mono: true },
    ],
  });
  const node = el("div", {},
    el("div", { class: "columns" },
      el("section", { class: "card" }, el("h2", {}, "Object store"), store.node),
      el("section", { class: "card" }, el("h2", {}, "Processes"), all.node)),
    el("section", { class: "card" }, el("h2", {}, "Now"), processes.node),
    el("section", { class: "card" }, el("h2", {}, "Largest objects"), held.node));
  let most = 1;

  function bar(row) {
    const own = styled(el("i", { class: "first" }), `${(100 * (row.resident - row.shared)) / most}%`, "width");
    const shared = styled(el("i", { class: "second" }), `${(100 * row.shared) / most}%`, "width");
    return el("div", { class: "bar", title: "its own, and what it may share with others" }, own, shared);
  }

  return {
    node,
    async refresh(round) {
      if (round % 3 === 0) objects = await ask("objects");
    },
    update() {
      const curve = (name, color, value) => ({ name, color, points: data.memory.map((one) => [one.time, value(one)]) });
      store.update([
        curve("in memory", "var(--accent)", (one) => one.store),
        curve("on disk", "var(--warn)", (one) => one.spilled),
      ]);
      const sum = (pick) => (one) => one.processes.filter(pick).reduce((total, [, resident, shared]) => total + resident - shared, 0);
      all.update([
        curve("driver, its own", "var(--warn)", sum(([pid]) => pid === data.pid)),
        curve("workers, their own", "var(--accent)", sum(([pid]) => pid !== data.pid)),
      ]);
      const last = data.memory.at(-1)?.processes ?? [];
      const known = new Map((data.facts?.workers ?? []).map((one) => [one.pid, one]));
      most = Math.max(1, ...last.map(([, resident]) => resident));
      processes.update(last.map(([pid, resident, shared]) => ({
        pid, resident, shared,
        role: pid === data.pid ? "driver" : "worker",
        state: pid === data.pid ? "" : [known.get(pid)?.state, known.get(pid)?.runs.join(", ")].filter(Boolean).join(": "),
      })));
      const lines = objects.some((row) => row.line);
      held.update(objects, held.columns.filter((one) => one.label !== "line" || lines));
    },
  };
}
