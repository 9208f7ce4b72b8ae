// Datasets, operator by operator.

import { bytes, styled, el, number, seconds, stateClass } from "./dom.js";
import { Table } from "./table.js";

function operators(rows) {
  const work = rows.reduce((total, row) => total + row.busy_seconds, 0) || 1;
  const table = new Table({
    nothing: "no operator has begun",
    columns: [
      { label: "operator", value: (row) => row.operator },
      { label: "where", value: (row) => row.where },
      { label: "blocks", value: (row) => row.blocks, numeric: true, shown: (row) => number(row.blocks) },
      { label: "input", value: (row) => row.pieces_done, numeric: true, shown: (row) => (row.pieces ? `${number(row.pieces_done)} of ${number(row.pieces)}` : "") },
      { label: "rows", value: (row) => row.rows, numeric: true, shown: (row) => number(row.rows) },
      { label: "bytes", value: (row) => row.bytes, numeric: true, shown: (row) => bytes(row.bytes) },
      { label: "rows/s", value: (row) => row.rows / (row.seconds || 1), numeric: true, shown: (row) => number(Math.round(row.rows / (row.seconds || 1))) },
      { label: "worked", value: (row) => row.busy_seconds, numeric: true, shown: (row) => seconds(row.busy_seconds) },
      { label: "share", value: (row) => row.busy_seconds, shown: (row) => el("div", { class: "bar", title: `${Math.round((100 * row.busy_seconds) / work)} % of the work` }, styled(el("i", { class: "first" }), `${(100 * row.busy_seconds) / work}%`, "width")) },
    ],
  });
  table.update(rows);
  return table.node;
}

export function datasets(data) {
  const node = el("div");
  return {
    node,
    update() {
      const found = [...(data.libraries.datasets ?? [])].reverse();
      node.replaceChildren(...(found.length ? found.map((rows) => el("section", { class: "card" },
        el("div", { class: "row" },
          el("h2", {}, rows.map((row) => row.operator).join(" → ")),
          el("span", { class: stateClass(rows[0].state) }, rows[0].state),
          el("span", { class: "quiet" }, seconds(rows[0].seconds)),
          el("span", {}, rows[0].state === "RUNNING" ? rows[0].remaining : "")),
        operators(rows))) : [el("p", { class: "empty" }, "no dataset is under way")]));
    },
  };
}
