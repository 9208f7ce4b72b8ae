// What workers have printed.

import { el } from "./dom.js";

const MOST_LINES = 2000;

export function logs(data) {
  let filter = "";
  let drawn = "";
  const box = el("pre", { class: "logs", tabindex: 0, "aria-label": "output of workers" });
  const input = el("input", { type: "search", placeholder: "filter: words, or a process", "aria-label": "filter", oninput: () => { filter = input.value.toLowerCase(); drawn = ""; update(); } });
  const follow = el("input", { type: "checkbox", checked: true });
  const node = el("section", { class: "card" },
    el("div", { class: "row" }, el("h2", {}, "Output of workers"), el("span", { class: "grow" }), el("label", {}, follow, "follow"), input), box);

  function lines() {
    const found = [];
    for (const piece of data.logs) {
      const who = piece.pid ? `${piece.label} ${piece.pid}` : "";
      for (const text of piece.text.replace(/\n$/, "").split("\n")) {
        if (`${who} ${text}`.toLowerCase().includes(filter)) found.push([who, text, piece.stream]);
      }
    }
    return found.slice(-MOST_LINES);
  }

  function update() {
    const key = `${data.seen.logs}`;
    if (key === drawn) return;
    drawn = key;
    const found = lines();
    box.replaceChildren(...(found.length ? found.flatMap(([who, text, stream]) => [
      el("span", { class: "who" }, who ? `${who}  ` : ""),
      el("span", { class: stream === 2 ? "err" : null }, `${text}\n`)]) : ["nothing was printed"]));
    if (follow.checked) box.scrollTop = box.scrollHeight;
  }

  return { node, update };
}
