// Actors, those that are gone too.

import { el, stateClass } from "./dom.js";
import { Table } from "./table.js";

const reason = (row) => row.death_cause?.actor_died_error_context?.error_message ?? "";
const isMeant = (row) => reason(row).includes("INTENDED"); // it was killed, or nobody had it any more

// The cause alone: class and number are in other columns.
const brief = (text) => text.split("\n")[0].replace(/^.*The actor is dead because /, "").replace(/ \(class_name: .*$/, "");

export function actors(data) {
  const table = new Table({
    filter: true,
    nothing: "no actors",
    columns: [
      { label: "class", value: (row) => row.class_name },
      { label: "name", value: (row) => row.name },
      { label: "state", value: (row) => row.state, shown: (row) => el("span", { class: isMeant(row) ? "quiet" : stateClass(row.state) }, row.state) },
      { label: "process", value: (row) => row.pid || null, numeric: true, shown: (row) => String(row.pid || "") },
      { label: "runs", value: (row) => row.runs },
      { label: "restarts", value: (row) => row.num_restarts, numeric: true, shown: (row) => String(row.num_restarts || "") },
      { label: "needs", value: (row) => Object.entries(row.required_resources).map(([name, amount]) => `${name}: ${amount}`).join(", ") },
      { label: "why it is gone", value: reason, shown: (row) => (reason(row) ? el("details", {}, el("summary", {}, brief(reason(row))), el("pre", {}, reason(row))) : "") },
      { label: "id", value: (row) => row.actor_id.replace(/^0+/, ""), mono: true },
    ],
  });
  const node = el("section", { class: "card" }, el("h2", {}, "Actors"), table.node);
  let drawn = "";
  return {
    node,
    update() {
      const runs = new Map((data.facts?.workers ?? []).map((one) => [one.pid, one.runs.join(", ")]));
      const rows = [...(data.facts?.actors ?? []), ...data.ended_actors].map((row) => ({ ...row, runs: runs.get(row.pid) ?? "" }));
      const text = JSON.stringify(rows);
      if (text === drawn) return; // what is open stays open
      drawn = text;
      table.update(rows);
    },
  };
}
