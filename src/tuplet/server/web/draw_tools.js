// The forms below the drawing: nodes, edges and conditions are added, what is selected is changed.

import { get } from "./api.js";
import { shown } from "./languages.js";
import { addPart } from "./parts.js";
import { drawing, showParts, writeDrawing } from "./query.js";
import { $, on, state, store, tell } from "./state.js";

if (innerWidth <= 900) $("draw-tools").open = false;
const titleOf = (term) => (term.kind === "constant" ? term.label || shown(term.name) : `?${term.name}`);

on("selected", ({ id, picked }) => {
  const terms = drawing.nodes();
  for (const [select, at] of [[$("edge-head"), 0], [$("edge-tail"), 1]]) {
    const kept = picked[at] || select.value;
    select.replaceChildren(...terms.map((term) => new Option(titleOf(term), drawing.id(0, term))));
    select.value = terms.some((t) => drawing.id(0, t) === kept) ? kept : select.options[Math.min(at, terms.length - 1)]?.value ?? "";
  }
  if (picked.length === 2) $("edge-relation").focus();
  $("selected").hidden = !id;
  if (!id) return;
  const [kind, clause, number] = id.split("/");
  const variable = clause === "v";
  const edge = kind === "edge" ? drawing.clauses[clause].edges[number] : null;
  $("selected-name").textContent = edge ? `${edge.negated ? "not " : ""}${edge.label || edge.relation}` : kind === "different" ? "≠" : `${variable ? "?" : ""}${id.split("/").slice(2).join("/")}`;
  $("negate").hidden = !edge;
  const term = variable && drawing.clauses.flatMap((_, c) => drawing.terms(c)).find((t) => t.kind !== "constant" && t.name === id.split("/").slice(2).join("/"));
  $("make-free").hidden = !term || term.kind === "free";
  $("make-exists").hidden = !term || term.kind === "exists";
});

$("add-free").addEventListener("click", () => drawing.addVariable("free"));
$("add-exists").addEventListener("click", () => drawing.addVariable("exists"));
$("negate").addEventListener("click", () => drawing.negate());
$("remove").addEventListener("click", () => drawing.remove());
$("make-free").addEventListener("click", () => drawing.setKind("free"));
$("make-exists").addEventListener("click", () => drawing.setKind("exists"));

$("edge-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const [head, tail] = [drawing.term($("edge-head").value), drawing.term($("edge-tail").value)];
  const typed = $("edge-relation").value.trim();
  const relation = state.schema?.relations.find((r) => r.name === typed || r.label === typed);
  if (!head || !tail) return tell("Add two nodes first");
  if (!relation) { $("edge-relation").focus(); return tell(typed ? `No relation is called ${typed}` : "Choose a relation"); }
  drawing.addEdge({ ...head }, relation, { ...tail }, $("edge-negated").checked);
  $("edge-relation").value = "";
  $("edge-negated").checked = false;
});

$("part-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("part-text").value.trim();
  if (!text) { $("part-text").focus(); return; }
  addPart(drawing, $("part-kind").value, text);
  $("part-text").value = "";
  showParts();
  writeDrawing();
});
$("part-kind").addEventListener("change", () => {
  $("part-text").placeholder = { where: "?x.age > 30", shown: "?x.age", order: "?x.age desc" }[$("part-kind").value];
});

$("node-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const typed = $("node-entity").value.trim();
  if (!typed) return;
  try {
    const { entities } = await get("schema/entities", { search: typed, store: store(), limit: 20 });
    const found = entities.find((e) => e.name === typed || e.label === typed) || entities[0];
    if (!found) return tell(`No entity is called ${typed}`);
    drawing.addNode({ kind: "constant", name: found.name, form: "name", label: found.label });
    $("node-entity").value = "";
  } catch (error) { tell(error.message); }
});

let searching;
$("node-entity").addEventListener("input", () => {
  clearTimeout(searching);
  searching = setTimeout(async () => {
    const typed = $("node-entity").value.trim();
    if (!typed) return;
    try {
      const { entities } = await get("schema/entities", { search: typed, store: store(), limit: 12 });
      $("entity-list").replaceChildren(...entities.map((e) => new Option(e.label || e.name, e.name)));
    } catch { /* a courtesy */ }
  }, 120);
});
