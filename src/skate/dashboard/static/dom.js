// Elements, and values as people read them. Data becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value);
    }
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function styled(node, color, property = "background") {
  node.style[property] = color;
  return node;
}

export function button(label, pressed, onclick) {
  return el("button", { type: "button", "aria-pressed": String(pressed), onclick }, label);
}

export function bytes(count) {
  if (count === null || count === undefined) return "";
  let value = count;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (Math.abs(value) < 1000) return `${Number(value.toPrecision(3))} ${unit}`;
    value /= 1000;
  }
  return `${Number(value.toPrecision(3))} TB`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 1e-3) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${Number((value * 1e3).toPrecision(3))} ms`;
  if (value < 120) return `${Number(value.toPrecision(3))} s`;
  const whole = Math.round(value);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

export function number(value) {
  if (typeof value !== "number") return String(value ?? "");
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

export function clock(moment) {
  return moment ? new Date(moment * 1000).toLocaleTimeString("en-GB") : "";
}

// The same name has the same color everywhere, on light and on dark ground.
export function colorOf(name) {
  let hash = 2166136261;
  for (let place = 0; place < name.length; place += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(place), 16777619) >>> 0;
  }
  return `hsl(${(hash * 137.508) % 360} 58% 52%)`;
}

// From blue to orange: from the worst to the best.
export function shade(part) {
  const hue = 225 - 195 * part;
  return `hsl(${hue} 70% ${52 - 4 * part}%)`;
}

export function stateClass(state) {
  if (["ERROR", "DEAD", "FAILED", "UNHEALTHY", "DEPLOY_FAILED"].includes(state)) return "bad";
  if (["RUNNING", "ALIVE", "BUSY", "HEALTHY"].includes(state)) return "good";
  return /PENDING|WAITING|STARTING|UPDATING|RESTARTING/.test(state) ? "warn" : "quiet";
}

const tip = document.getElementById("tip");

export function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

export function hideTip() {
  tip.hidden = true;
}
