// Errors of tasks, the last one first.

import { clock, el } from "./dom.js";

const last = (text) => (text ?? "").trim().split("\n").at(-1);

export function errors(data) {
  let filter = "";
  let drawn = "";
  const list = el("div");
  const input = el("input", { type: "search", placeholder: "filter", "aria-label": "filter", oninput: () => { filter = input.value.toLowerCase(); drawn = ""; update(); } });
  const node = el("section", { class: "card" },
    el("div", { class: "row" }, el("h2", {}, "Errors of tasks and calls"), el("span", { class: "grow" }), input), list);

  function update() {
    const key = `${data.seen.failures}`;
    if (key === drawn) return; // what is open stays open
    drawn = key;
    const found = data.failures.filter((one) => `${one.name} ${one.error_message}`.toLowerCase().includes(filter)).slice(-200).reverse();
    list.replaceChildren(...(found.length ? found.map((one) => el("details", {},
      el("summary", {}, el("b", {}, one.name ?? "a task"), " ", el("span", { class: "bad" }, last(one.error_message) || one.error_type), " ",
        el("span", { class: "quiet" }, [clock(one.time), one.pid ? `process ${one.pid}` : "", one.error_type].filter(Boolean).join(" · "))),
      el("pre", {}, one.error_message || "it is not known any more"))) : [el("p", { class: "empty" }, "none")]));
  }

  return { node, update };
}
