// Curves with axes, drawn as SVG.

import { el, hideTip, number, showTip, svg, styled } from "./dom.js";

const LEFT = 64;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 24;

export function ticks(low, high, count) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) {
    found.push(Math.abs(value) < step / 1e6 ? 0 : value);
  }
  return found;
}

export class Chart {
  constructor({ height = 220, x = number, y = number, zero = false, legend = true, label = "" }) {
    Object.assign(this, { height, x, y, zero, legend, label });
    this.drawing = el("div", { class: "chart" });
    this.names = el("div", { class: "legend" });
    this.node = el("div", {}, this.drawing, this.names);
    this.series = [];
    new ResizeObserver(() => this.draw()).observe(this.drawing);
  }

  // series: [{name, color, points: [[x, y], …], strong?, faint?}]
  update(series) {
    this.series = series;
    this.draw();
  }

  draw() {
    const width = this.drawing.clientWidth;
    if (!width) return;
    const points = this.series.flatMap((one) => one.points);
    if (!points.length) {
      this.drawing.replaceChildren(el("p", { class: "empty" }, "nothing yet"));
      this.names.replaceChildren();
      return;
    }
    this.measure(points, width);
    const picture = svg(
      "svg",
      { width, height: this.height, role: "img", "aria-label": this.label },
      this.grid(width),
      this.series.map((one) => this.curve(one)),
    );
    picture.addEventListener("pointermove", (event) => this.point(event));
    picture.addEventListener("pointerleave", hideTip);
    this.drawing.replaceChildren(picture);
    this.names.replaceChildren(
      ...(this.legend ? this.series.slice(0, 12).map((one) => named(one)) : []),
    );
  }

  measure(points, width) {
    const range = (place) => points.reduce(
      ([low, high], point) => [Math.min(low, point[place]), Math.max(high, point[place])],
      [Infinity, -Infinity],
    );
    let [xLow, xHigh] = range(0);
    let [yLow, yHigh] = range(1);
    if (this.zero) yLow = Math.min(0, yLow);
    if (xLow === xHigh) xHigh = xLow + 1;
    if (yLow === yHigh) [yLow, yHigh] = yLow === 0 ? [0, 1] : [yLow - Math.abs(yLow) / 10, yHigh + Math.abs(yHigh) / 10];
    const across = width - LEFT - RIGHT;
    const down = this.height - TOP - BOTTOM;
    this.toX = (value) => LEFT + ((value - xLow) / (xHigh - xLow)) * across;
    this.toY = (value) => TOP + (1 - (value - yLow) / (yHigh - yLow)) * down;
    this.ranges = { xLow, xHigh, yLow, yHigh };
  }

  grid(width) {
    const { xLow, xHigh, yLow, yHigh } = this.ranges;
    const bottom = this.height - BOTTOM;
    return [
      ...ticks(yLow, yHigh, 4).map((value) => svg("g", {},
        svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: this.toY(value), y2: this.toY(value) }),
        svg("text", { class: "quiet", x: LEFT - 6, y: this.toY(value) + 4, "text-anchor": "end" }, this.y(value)))),
      ...ticks(xLow, xHigh, Math.max(2, width / 160)).map((value) =>
        svg("text", { class: "quiet", x: this.toX(value), y: bottom + 16, "text-anchor": "middle" }, this.x(value))),
      svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom }),
    ];
  }

  curve(one) {
    const places = one.points.map(([x, y]) => `${this.toX(x).toFixed(1)},${this.toY(y).toFixed(1)}`);
    const kind = `curve${one.strong ? " strong" : ""}${one.faint ? " faint" : ""}`;
    const shape = one.points.length > 1
      ? svg("polyline", { class: kind, points: places.join(" ") })
      : svg("circle", { class: kind, r: 3, cx: places[0]?.split(",")[0], cy: places[0]?.split(",")[1] });
    return styled(shape, one.color, "stroke");
  }

  point(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    for (const one of this.series) {
      for (const point of one.points) {
        const far = Math.hypot(this.toX(point[0]) - x, this.toY(point[1]) - y);
        if (!best || far < best.far) best = { far, one, point };
      }
    }
    if (best && best.far < 60) {
      showTip(event, `${best.one.name}\n${this.x(best.point[0])}: ${this.y(best.point[1])}`);
    } else hideTip();
  }
}

function named(one) {
  return el("span", {}, styled(el("i", { class: "swatch" }), one.color), one.name);
}
