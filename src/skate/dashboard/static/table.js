// A table that is sorted by a click on a column, and filtered by words and comparisons.

import { el } from "./dom.js";

const MOST_ROWS = 500;
const COMPARISON = /^(.+?)(<=|>=|!=|=|<|>)(.+)$/;

const same = {
  "<": (a, b) => a < b,
  ">": (a, b) => a > b,
  "<=": (a, b) => a <= b,
  ">=": (a, b) => a >= b,
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
};

function compare(value, operator, wanted) {
  const right = Number(wanted);
  if (typeof value === "number" && !Number.isNaN(right)) return same[operator](value, right);
  return same[operator](String(value ?? "").toLowerCase(), wanted.toLowerCase());
}

// Whether a row has all that a filter says: "relu lr<0.01 state=ERROR".
export function matches(filter, columns, row) {
  return filter.split(/\s+/).every((word) => {
    const [, name, operator, wanted] = COMPARISON.exec(word) ?? [];
    const column = name && columns.find((one) => one.label.toLowerCase() === name.toLowerCase());
    if (column) return compare(column.value(row), operator, wanted);
    const text = word.toLowerCase();
    return columns.some((one) => String(one.value(row) ?? "").toLowerCase().includes(text));
  });
}

function order(a, b) {
  const missing = (value) => value === null || value === undefined || value === "";
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

export class Table {
  // columns: [{label, value(row), shown?(row), numeric?}]
  constructor({ columns, filter = false, nothing = "nothing yet", sort = null, choose = null }) {
    this.columns = columns;
    this.rows = [];
    this.filter = "";
    this.sort = sort; // [label, descending]
    this.choose = choose;
    this.chosen = null;
    this.nothing = nothing;
    this.head = el("thead");
    this.body = el("tbody");
    this.more = el("p", { class: "quiet" });
    this.input = el("input", {
      type: "search",
      placeholder: "filter: words, name<1, state=ERROR",
      "aria-label": "filter",
      oninput: () => this.setFilter(this.input.value),
    });
    const table = el("div", { class: "scroll" }, el("table", {}, this.head, this.body));
    this.node = el("div", {}, filter ? el("div", { class: "row" }, this.input) : null, table, this.more);
    this.onfilter = () => {};
  }

  setFilter(text) {
    this.filter = text.trim();
    this.draw();
    this.onfilter();
  }

  update(rows, columns = this.columns) {
    this.columns = columns;
    this.rows = rows;
    this.draw();
  }

  shown() {
    const rows = this.filter
      ? this.rows.filter((row) => matches(this.filter, this.columns, row))
      : [...this.rows];
    const column = this.sort && this.columns.find((one) => one.label === this.sort[0]);
    if (!column) return rows;
    const sign = this.sort[1] ? -1 : 1;
    const missing = (row) => [null, undefined, ""].includes(column.value(row));
    return rows.sort((a, b) =>
      missing(a) || missing(b)
        ? Number(missing(a)) - Number(missing(b))
        : sign * order(column.value(a), column.value(b)),
    );
  }

  sortBy(label) {
    const descending = this.sort?.[0] === label ? !this.sort[1] : false;
    this.sort = [label, descending];
    this.draw();
  }

  draw() {
    const key = JSON.stringify([this.columns.map((one) => one.label), this.sort]);
    if (key !== this.headKey) {
      this.headKey = key;
      this.head.replaceChildren(el("tr", {}, this.columns.map((one) => this.header(one))));
    }
    const rows = this.shown();
    this.body.replaceChildren(...rows.slice(0, MOST_ROWS).map((row) => this.line(row)));
    const none = this.rows.length ? "no row is like that" : this.nothing;
    const over = rows.length - MOST_ROWS;
    this.more.textContent = rows.length ? (over > 0 ? `… and ${over} more` : "") : none;
    this.more.hidden = !this.more.textContent;
  }

  header(column) {
    const direction = this.sort?.[1] ? "descending" : "ascending";
    return el(
      "th",
      {
        scope: "col",
        class: column.numeric ? "number" : null,
        "aria-sort": this.sort?.[0] === column.label ? direction : null,
      },
      el("button", { type: "button", onclick: () => this.sortBy(column.label) }, column.label),
    );
  }

  line(row) {
    const attributes = { class: "" };
    if (this.choose) {
      attributes.class = this.chosen === this.choose.key(row) ? "choosable chosen" : "choosable";
      attributes.onclick = () => {
        const key = this.choose.key(row);
        this.chosen = this.chosen === key ? null : key;
        this.choose.onchoose(this.chosen);
        this.draw();
      };
    }
    return el(
      "tr",
      attributes,
      this.columns.map((column) => {
        const kind = [column.numeric ? "number" : "", column.mono ? "mono" : ""].join(" ").trim();
        return el("td", { class: kind || null }, column.shown ? column.shown(row) : String(column.value(row) ?? ""));
      }),
    );
  }
}
