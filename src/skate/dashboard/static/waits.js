// The graph of waits: who does not go on, and because of whom.

import { el, svg } from "./dom.js";

const WIDTH = 218;
const HEIGHT = 66;
const GAP_X = 70;
const GAP_Y = 18;
const MOST_LETTERS = 30;

const MOST_BOLD_LETTERS = 27;

const cut = (text, most = MOST_LETTERS) => (text.length > most ? `…${text.slice(1 - most)}` : text);

// The columns: whoever is waited for is right of whoever waits, as far as there is no cycle.
function layers(count, edges) {
  const depth = Array(count).fill(0);
  const following = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) following[from].push(to);
  const state = Array(count).fill(0);
  const order = [];
  const visit = (node) => {
    if (state[node]) return;
    state[node] = 1;
    for (const next of following[node]) if (state[next] !== 1) visit(next);
    state[node] = 2;
    order.unshift(node);
  };
  for (let node = 0; node < count; node += 1) visit(node);
  const rank = new Map(order.map((node, place) => [node, place]));
  for (const node of order) {
    for (const next of following[node]) {
      if (rank.get(next) > rank.get(node)) depth[next] = Math.max(depth[next], depth[node] + 1);
    }
  }
  return depth;
}

function place(nodes, edges) {
  const used = [];
  return layers(nodes.length, edges).map((column) => {
    used[column] = (used[column] ?? 0) + 1;
    return { x: 8 + column * (WIDTH + GAP_X), y: 8 + (used[column] - 1) * (HEIGHT + GAP_Y) };
  });
}

function drawing(nodes, edges) {
  const places = place(nodes, edges);
  const right = Math.max(...places.map((one) => one.x)) + WIDTH + 12;
  const bottom = Math.max(...places.map((one) => one.y)) + HEIGHT + 30;
  const lines = edges.map(([from, to]) => {
    const stuck = nodes[from].deadlock && nodes[to].deadlock;
    return svg("path", { class: stuck ? "edge stuck" : "edge", d: path(places[from], places[to]), "marker-end": "url(#arrow)" });
  });
  const marker = svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "arrow", d: "M0 0 8 4 0 8z" })));
  return svg("svg", { width: right, height: bottom, role: "img", "aria-label": `${nodes.length} pieces of work, ${edges.length} waits` }, marker, lines, nodes.map((node, index) => box(node, places[index])));
}

function path(from, to) {
  const begin = { x: from.x + WIDTH, y: from.y + HEIGHT / 2 };
  if (to.x > from.x) {
    const half = (to.x - begin.x) / 2;
    return `M${begin.x} ${begin.y}c${half} 0 ${half} ${to.y + HEIGHT / 2 - begin.y} ${to.x - begin.x} ${to.y + HEIGHT / 2 - begin.y}`;
  }
  const below = Math.max(from.y, to.y) + HEIGHT + 16; // back, around what is between
  return `M${from.x + WIDTH / 2} ${from.y + HEIGHT}C${from.x + WIDTH / 2} ${below} ${to.x + WIDTH / 2 + 30} ${below} ${to.x + WIDTH / 2 + 30} ${to.y + HEIGHT}`;
}

function box(node, { x, y }) {
  const kind = node.deadlock ? "stuck" : node.cause === "running" || node.live ? "runs" : "waits";
  const second = [node.pid ? `pid ${node.pid}` : "", node.cause].filter(Boolean).join(" · ");
  return svg("g", { class: `node ${kind}`, transform: `translate(${x} ${y})` },
    svg("title", {}, node.text),
    svg("rect", { width: WIDTH, height: HEIGHT, rx: 8 }),
    svg("text", { x: 10, y: 21, "font-weight": 600 }, cut(node.name, MOST_BOLD_LETTERS)),
    svg("text", { class: "quiet", x: 10, y: 38 }, cut(second)),
    svg("text", { class: "quiet", x: 10, y: 54 }, cut(node.where)));
}

export function waits(data, ask) {
  let found = null;
  let drawn = "";
  const picture = el("div", { class: "scroll drawing" });
  const words = el("div", {});
  const node = el("div", {},
    el("section", { class: "card" }, el("h2", {}, "Who waits for whom"), picture),
    el("section", { class: "card" }, el("h2", {}, "Why"), words));

  return {
    node,
    async refresh(round) {
      if (round % 2 === 0 || !found) found = await ask("waits");
    },
    update() {
      const text = JSON.stringify(found);
      if (!found || text === drawn) return;
      drawn = text;
      const wanted = found.driver_waits_for ?? [];
      const where = found.driver_is_stopped ? `stopped; kill -CONT ${found.driver}` : "";
      const driver = { name: "driver", cause: wanted.length ? "waiting" : "running", pid: found.driver, where, text: "the program itself", live: !wanted.length };
      const nodes = [driver, ...(found.nodes ?? [])];
      const edges = [...wanted.map((one) => [0, one + 1]), ...(found.edges ?? []).map(([from, to]) => [from + 1, to + 1])];
      picture.replaceChildren(drawing(nodes, edges));
      const stuck = nodes.some((one) => one.deadlock);
      words.replaceChildren(
        ...(stuck ? [el("p", { class: "bad" }, "A deadlock: what is red waits for itself, in a circle.")] : []),
        ...(nodes.length > 1 ? nodes.slice(1).map((one) => el("p", { class: one.deadlock ? "bad" : null }, one.text)) : [el("p", { class: "empty" }, "nothing is under way")]),
      );
    },
  };
}
