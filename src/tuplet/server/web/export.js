// What is taken away: answers as files, drawings as pictures.

import { post } from "./api.js";
import { state, tell } from "./state.js";

function save(blob, name) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
  tell(name);
}

for (const button of document.querySelectorAll("[data-download]")) {
  button.addEventListener("click", async () => {
    try {
      const format = button.dataset.download;
      const asked = format === "csv" ? "csv_safe" : format; // it will be opened in a spreadsheet
      save(await (await post("ask", { ...state.last, format: asked })).blob(), `answers.${format}`);
    } catch (error) { tell(error.message); }
  });
}

/** A drawing as a file: the picture that is on the canvas, or one that stays sharp at any size. */
export function drawingFile(cy, kind, name, ground) {
  if (cy.elements().empty()) return tell("Nothing is drawn yet");
  if (kind === "png") return save(cy.png({ output: "blob", full: true, scale: 2, bg: ground }), `${name}.png`);
  return save(new Blob([new XMLSerializer().serializeToString(svgOf(cy, ground))], { type: "image/svg+xml" }), `${name}.svg`);
}

const round = (number) => Math.round(number * 10) / 10;

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, typeof value === "number" ? round(value) : value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const dashes = { dashed: "6 4", dotted: "2 4" };

/** Words in lines of about so many letters. */
function lines(text, most) {
  return text.split(" ").reduce((found, word) => {
    if (found.length && `${found.at(-1)} ${word}`.length <= most) found.push(`${found.pop()} ${word}`);
    else found.push(word);
    return found;
  }, []);
}

function label(element, at, text, angle = 0, lift = 0) {
  const size = parseFloat(element.style("font-size"));
  const rows = lines(text, element.isEdge() ? 26 : 40);
  const made = svg("text", { x: at.x, y: at.y, fill: element.style("color"), "font-size": size, "font-family": "system-ui, sans-serif", "font-weight": element.style("font-weight"),
    "text-anchor": "middle", transform: angle ? `rotate(${round(angle)} ${round(at.x)} ${round(at.y)})` : "rotate(0)" });
  rows.forEach((row, i) => made.append(svg("tspan", { x: at.x, y: at.y + lift + size * (0.35 + 1.15 * (i - (rows.length - 1) / 2)) }, row)));
  return made;
}

function edgeParts(edge) {
  const from = edge.sourceEndpoint(), to = edge.targetEndpoint();
  const points = edge.controlPoints() ?? [];
  let path = `M ${round(from.x)} ${round(from.y)}`;
  points.forEach((point, i) => {
    const next = points[i + 1];
    const end = next ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : to;
    path += ` Q ${round(point.x)} ${round(point.y)} ${round(end.x)} ${round(end.y)}`;
  });
  if (!points.length) path += ` L ${round(to.x)} ${round(to.y)}`;
  const colour = edge.style("line-color");
  const line = { d: path, fill: "none", stroke: colour, "stroke-width": parseFloat(edge.style("width")) };
  const dash = dashes[edge.style("line-style")];
  const parts = [svg("path", dash ? { ...line, "stroke-dasharray": dash } : line)];
  const before = points.at(-1) ?? from;
  if (edge.style("target-arrow-shape") !== "none") {
    const turn = (Math.atan2(to.y - before.y, to.x - before.x) * 180) / Math.PI;
    parts.push(svg("path", { d: "M 0 0 L -10 -4.5 L -10 4.5 Z", fill: colour, transform: `translate(${round(to.x)} ${round(to.y)}) rotate(${round(turn)})` }));
  }
  const steep = edge.hasClass("steep");
  let angle = steep ? 0 : (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI;
  if (Math.abs(angle) > 90) angle += 180;
  if (Number(edge.style("text-opacity"))) parts.push(label(edge, edge.midpoint(), edge.data("title"), angle, steep ? 0 : -10));
  return parts;
}

function nodeParts(node) {
  const { x, y } = node.position();
  const [w, h] = [node.outerWidth(), node.outerHeight()];
  const border = node.style("border-style");
  const look = { fill: node.style("background-color"), "fill-opacity": parseFloat(node.style("background-opacity")), stroke: node.style("border-color"), "stroke-width": parseFloat(node.style("border-width")), ...(dashes[border] ? { "stroke-dasharray": dashes[border] } : {}) };
  const shape = node.style("shape") === "ellipse" ? svg("ellipse", { cx: x, cy: y, rx: w / 2, ry: h / 2, ...look }) : svg("rect", { x: x - w / 2, y: y - h / 2, width: w, height: h, rx: 8, ...look });
  if (!look["fill-opacity"]) return [shape, label(node, { x, y: y - h / 2 - 8 }, node.data("title"))];
  return [shape, label(node, { x, y }, node.data("title"))];
}

function svgOf(cy, ground) {
  const box = cy.elements().boundingBox();
  const [x, y, w, h] = [box.x1 - 20, box.y1 - 20, box.w + 40, box.h + 40];
  const root = svg("svg", { viewBox: [x, y, w, h].map(round).join(" "), width: w, height: h });
  root.append(svg("rect", { x, y, width: w, height: h, fill: ground }));
  const behind = cy.nodes(".clause"), front = cy.nodes().not(behind);
  for (const part of [...behind.map(nodeParts), ...cy.edges().map(edgeParts), ...front.map(nodeParts)].flat()) root.append(part);
  return root;
}
