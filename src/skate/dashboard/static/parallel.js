// Parallel coordinates: an axis for each parameter and the metric, a line for each trial. Dragging
// along an axis keeps the trials that cross it there; a click lets go of them.

import { styled, el, hideTip, number, shade, showTip, svg } from "./dom.js";

const TOP = 30;
const BOTTOM = 16;
const HEIGHT = 300;
const LEAST_GAP = 110;
const CLICK = 4;

function axisOf(name, values) {
  const present = values.filter((value) => value !== undefined && value !== null);
  const numeric = present.length && present.every((value) => typeof value === "number");
  if (!numeric) {
    const names = [...new Set(present.map(String))].sort();
    const step = 1 / Math.max(1, names.length);
    return { name, ticks: names.map((one, place) => [one, (place + 0.5) * step]), part: (value) => (value === undefined || value === null ? null : (names.indexOf(String(value)) + 0.5) * step) };
  }
  const low = Math.min(...present);
  const high = Math.max(...present);
  const log = low > 0 && high / low >= 50;
  const scale = log ? Math.log : (value) => value;
  const span = scale(high) - scale(low) || 1;
  const marks = log ? [low, Math.sqrt(low * high), high] : [low, (low + high) / 2, high];
  const part = (value) => (typeof value === "number" ? (scale(value) - scale(low)) / span : null);
  return { name, ticks: [...new Set(marks)].map((one) => [number(one), part(one)]), part };
}

export class Parallel {
  constructor(onselect) {
    this.node = el("div", { class: "scroll drawing" });
    this.brushes = new Map();
    this.onselect = onselect;
    this.rows = [];
    this.names = [];
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  // rows: [{key, values: {name: value}, shown}]; the last name is the metric.
  update(rows, names, mode, chosen) {
    Object.assign(this, { rows, names, mode, chosen });
    this.draw();
  }

  keeps(row) {
    return [...this.brushes].every(([name, [low, high]]) => {
      const axis = this.axes?.find((one) => one.name === name);
      const part = axis ? axis.part(row.values[name]) : null;
      return !axis || (part !== null && part >= low && part <= high);
    });
  }

  draw() {
    if (this.dragging) return;
    const width = Math.max(this.node.clientWidth, LEAST_GAP * this.names.length);
    if (!this.node.clientWidth) return;
    if (this.names.length < 2 || !this.rows.length) {
      this.node.replaceChildren(el("p", { class: "empty" }, "no parameters to compare"));
      return;
    }
    this.axes = this.names.map((name) => axisOf(name, this.rows.map((row) => row.values[name])));
    const gap = (width - 120) / (this.axes.length - 1);
    this.toX = (place) => 60 + place * gap;
    this.toY = (part) => TOP + (1 - part) * (HEIGHT - TOP - BOTTOM);
    this.node.replaceChildren(svg("svg", { width, height: HEIGHT, role: "img", "aria-label": `${this.rows.length} trials` },
      svg("g", {}, this.rows.map((row) => this.line(row))),
      this.axes.map((axis, place) => this.axis(axis, place))));
  }

  line(row) {
    const places = this.axes.map((axis, place) => [this.toX(place), axis.part(row.values[axis.name])]).filter(([, part]) => part !== null);
    const part = this.axes.at(-1).part(row.values[this.axes.at(-1).name]);
    const kept = row.shown && this.keeps(row);
    const kind = `curve${kept ? "" : " faint"}${row.key === this.chosen ? " strong" : ""}`;
    const shape = svg("polyline", { class: kind, points: places.map(([x, one]) => `${x.toFixed(1)},${this.toY(one).toFixed(1)}`).join(" ") });
    shape.addEventListener("pointermove", (event) => showTip(event, [row.key, ...this.names.map((name) => `${name}: ${number(row.values[name])}`)].join("\n")));
    shape.addEventListener("pointerleave", hideTip);
    return styled(shape, part === null ? "var(--quiet)" : shade(this.mode === "max" ? part : 1 - part), "stroke");
  }

  axis(axis, place) {
    const x = this.toX(place);
    const brush = this.brushes.get(axis.name);
    const marks = axis.ticks.map(([label, part]) => svg("text", { class: "quiet", x: x + 6, y: this.toY(part) + 4 }, label.slice(0, 14)));
    const group = svg("g", { "data-axis": axis.name },
      svg("text", { x, y: 14, "text-anchor": "middle", "font-weight": 600 }, axis.name.slice(0, 18)),
      svg("line", { class: "axis", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
      marks,
      brush ? svg("rect", { class: "brush", x: x - 8, width: 16, y: this.toY(brush[1]), height: this.toY(brush[0]) - this.toY(brush[1]) }) : null);
    const hit = svg("rect", { class: "hit", x: x - 14, width: 28, y: TOP, height: HEIGHT - TOP - BOTTOM });
    hit.addEventListener("pointerdown", (event) => this.drag(event, axis, hit));
    group.append(hit);
    return group;
  }

  drag(event, axis, hit) {
    const part = (one) => {
      const box = hit.getBoundingClientRect();
      return Math.min(1, Math.max(0, 1 - (one.clientY - box.top) / box.height));
    };
    const begin = part(event);
    const from = event.clientY;
    let moved = false;
    this.dragging = true;
    hit.setPointerCapture(event.pointerId);
    const move = (one) => {
      moved ||= Math.abs(one.clientY - from) > CLICK;
      if (moved) this.brushes.set(axis.name, [Math.min(begin, part(one)), Math.max(begin, part(one))]);
    };
    const end = () => {
      hit.removeEventListener("pointermove", move);
      if (!moved) this.brushes.delete(axis.name);
      this.dragging = false;
      this.onselect();
    };
    hit.addEventListener("pointermove", move);
    hit.addEventListener("pointerup", end, { once: true });
    hit.addEventListener("pointercancel", end, { once: true });
  }
}
