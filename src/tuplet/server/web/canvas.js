// What all drawings share: their look, where nodes are put, and the library that paints them.

import { button, make } from "./elements.js";
import { drawingFile } from "./export.js";

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function look() {
  const quiet = css("--quiet"), accent = css("--accent"), bad = css("--bad"), text = css("--text");
  const surface = css("--surface");
  return [
    { selector: "node", style: {
      label: "data(title)", color: text, "font-size": 13, "font-family": "system-ui, sans-serif", "text-valign": "center",
      "text-halign": "center", "background-color": surface, "border-width": 2, "border-color": quiet, width: "data(width)",
      height: 34, shape: "round-rectangle", "text-wrap": "ellipsis", "text-max-width": "180px" } },
    { selector: ".free", style: { "background-color": accent, "border-color": accent, color: css("--accent-text"), shape: "ellipse", height: 42, "font-weight": 600 } },
    { selector: ".exists", style: { "border-color": accent, "border-style": "dashed", shape: "ellipse", height: 42 } },
    { selector: ".constant", style: { "background-color": css("--sunken") } },
    { selector: ".clause", style: { "background-opacity": 0, "border-width": 1, "border-style": "dashed", "border-color": css("--line"), "text-valign": "top", color: quiet, "font-size": 11, padding: 12 } },
    { selector: "edge", style: {
      label: "data(title)", color: text, "font-size": 11.5, "font-family": "system-ui, sans-serif", width: 2, "line-color": quiet,
      "target-arrow-color": quiet, "target-arrow-shape": "triangle", "curve-style": "bezier", "control-point-step-size": 46,
      "text-rotation": "autorotate", "text-margin-y": -10, "text-wrap": "wrap", "text-max-width": "170px",
      "loop-direction": "-45deg", "loop-sweep": "60deg" } },
    { selector: "edge.steep", style: { "text-rotation": "none", "text-margin-y": 0, "text-background-color": surface, "text-background-opacity": 0.9, "text-background-padding": 2 } },
    { selector: "edge.silent", style: { "text-opacity": 0, "text-background-opacity": 0 } },
    { selector: "edge.told", style: { "text-opacity": 1, "text-background-color": surface, "text-background-opacity": 0.9, "z-index": 9 } },
    { selector: "edge.predicted", style: { "line-style": "dashed", "line-color": css("--predicted"), "target-arrow-color": css("--predicted") } },
    { selector: "edge.observed", style: { "line-color": css("--observed"), "target-arrow-color": css("--observed") } },
    { selector: "edge.negated", style: { "line-color": bad, "target-arrow-color": bad, color: bad } },
    { selector: "edge.different", style: { "line-style": "dotted", "target-arrow-shape": "none" } },
    { selector: ":selected, .chosen", style: { "overlay-color": accent, "overlay-opacity": 0.18, "overlay-padding": 5 } },
  ];
}

export const width = (title, round) => Math.min(210, Math.max(round ? 42 : 48, 8 * title.length + (round ? 22 : 20)));
const cut = (title, most) => (title.length <= most ? title : title.slice(0, most - 1) + "…");
/** Names of entities in one line, titles of edges in two; the whole name is told by pointing at it. */
export const short = (title) => cut(title, 24);
export const edgeTitle = (title) => cut(title, 48);

/** Places by distance from the constants, clause below clause: the same query is always drawn alike. */
export function place(clauses, container) {
  const tall = container.clientWidth < 420; // on a phone, levels go down instead of right
  const across = tall ? 175 : 92;
  const places = new Map();
  let base = 0;
  for (const { nodes, links } of clauses) {
    const near = new Map(nodes.map((n) => [n.id, new Set()]));
    for (const { from, to } of links) { near.get(from)?.add(to); near.get(to)?.add(from); }
    const level = new Map();
    const starts = nodes.filter((n) => n.kind === "constant").slice(0, 1);
    for (const start of [...starts, ...nodes]) {
      if (level.has(start.id)) continue;
      level.set(start.id, 0);
      const queue = [start.id];
      while (queue.length) {
        const id = queue.shift();
        for (const other of near.get(id)) if (!level.has(other)) { level.set(other, level.get(id) + 1); queue.push(other); }
      }
    }
    const rows = [];
    for (const n of nodes) (rows[level.get(n.id)] ??= []).push(n);
    const tallest = Math.max(1, ...rows.map((row) => row.length));
    let x = 0, before = 0;
    rows.forEach((row, l) => {
      // room for the widest node on both sides and for the longest title between
      const half = Math.max(...row.map((n) => n.width)) / 2;
      const titles = links.filter((link) => [level.get(link.from), level.get(link.to)].sort().join() === `${l - 1},${l}`).map((link) => Math.min(26, link.title.length));
      if (l) x += before + half + Math.min(170, 30 + 6.2 * Math.max(0, ...titles));
      before = half;
      row.forEach((n, i) => {
        // a little out of line, so that an edge does not run through the node between its ends
        const shift = (i - (row.length - 1) / 2) * across + (row.length === 1 && l % 2 ? 24 : 0);
        places.set(n.id, tall ? { x: shift, y: base + 100 * l + 52 * (i % 2) } : { x, y: base + (tallest * across) / 2 + shift });
      });
    });
    base += (tall ? rows.length * 100 : tallest * across) + 40;
  }
  return places;
}

let library = null;
/** The library that paints, fetched when it is first needed: all else works before it is here. */
function fetched() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL("vendor/cytoscape.min.js", import.meta.url);
    script.onload = resolve;
    script.onerror = () => { library = null; reject(new Error("the drawings cannot be loaded")); };
    document.head.append(script);
  });
  return library;
}

/** A canvas with its tools; `name` is what files of it are called. */
export async function canvas(container, name) {
  await fetched();
  const box = make("div", { class: "drawing" });
  container.before(box);
  box.append(container); // before it is painted on: a canvas that is moved is given up
  const cy = cytoscape({ container, style: look(), minZoom: 0.1, maxZoom: 4, boxSelectionEnabled: false,
    userZoomingEnabled: false, selectionType: "single" });
  zooming(cy, container);
  const tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  const tools = make("div", { class: "canvas-tools", role: "group", "aria-label": "Drawing" },
    button("+", () => zoom(cy, 1.3), { "aria-label": "Larger" }), button("−", () => zoom(cy, 1 / 1.3), { "aria-label": "Smaller" }),
    button("⤢", () => fit(cy), { "aria-label": "Fit the drawing in" }),
    ...["svg", "png"].map((kind) => button(kind.toUpperCase(), () => drawingFile(cy, kind, name, css("--surface")), { "aria-label": `Save as ${kind.toUpperCase()}` })));
  box.append(tools, tip);
  tooltips(cy, container, tip);
  return cy;
}

const zoom = (cy, factor) => cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });

/** The wheel scrolls the page; with Ctrl, or two fingers, it is the drawing that grows. */
function zooming(cy, container) {
  container.addEventListener("wheel", (event) => cy.userZoomingEnabled(event.ctrlKey || event.metaKey), { capture: true, passive: true });
  container.addEventListener("touchstart", (event) => cy.userZoomingEnabled(event.touches.length > 1), { capture: true, passive: true });
}

/** Whole names where a pointer rests, or a finger. */
function tooltips(cy, container, tip) {
  cy.on("mouseover tapstart", "node, edge", ({ target, renderedPosition }) => {
    const text = target.data("full");
    if (!text) return;
    tip.textContent = text;
    tip.hidden = false;
    const at = target.isNode() ? target.renderedPosition() : renderedPosition ?? target.renderedMidpoint();
    tip.style.left = `${Math.max(4, Math.min(at.x + 8, container.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(at.y + 22, container.clientHeight - tip.offsetHeight - 4))}px`;
  });
  cy.on("mouseout pan zoom drag", () => { tip.hidden = true; });
}

/** Titles lie along their edges; where an edge goes up or down, the title lies across it. */
export function settle(cy) {
  cy.edges().forEach((edge) => {
    const [a, b] = [edge.source().position(), edge.target().position()];
    edge.toggleClass("steep", Math.abs(a.x - b.x) < Math.abs(a.y - b.y));
  });
  fit(cy);
}

export function fit(cy) {
  if (cy.elements().empty()) return;
  cy.resize();
  cy.fit(undefined, cy.height() > 400 ? 40 : 22); // the tools have room below
  if (cy.zoom() > 1.3) { cy.zoom(1.3); cy.center(); } // a small drawing is not blown up
}
