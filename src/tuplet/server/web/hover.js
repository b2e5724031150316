// What a name in the text is called: told where the mouse points at it.

import { written } from "./languages.js";
import { $, on, state } from "./state.js";

const area = $("query");
const mirror = $("mirror");
let names = new Map(); // by how the text writes them

on("parsed", ({ graph, language }) => {
  names = new Map();
  for (const edge of graph?.clauses.flatMap((clause) => clause.edges) ?? []) {
    const count = state.schema?.relations.find((r) => r.name === edge.relation)?.count;
    if (edge.form !== "variable") name(edge.relation, edge.label, language, count === undefined ? "relation" : `relation, ${count.toLocaleString("en")} facts`);
    for (const term of [edge.head, edge.tail]) if (term.kind === "constant") name(term.name, term.label, language, "entity");
  }
});

function name(own, label, language, kind) {
  const told = `${label && label !== own ? `${label} (${own})` : own}: ${kind}`;
  for (const way of [own, `:${own}`, `<${own}>`, written(own, language), JSON.stringify(own), `'${own}'`, JSON.stringify(label)]) names.set(way, told);
}

/** The word of the mirror below a point: the text area lies above it. */
function wordAt(x, y) {
  mirror.style.pointerEvents = "auto";
  const word = document.elementsFromPoint(x, y).find((element) => element.parentElement?.closest("#mirror"));
  mirror.style.pointerEvents = "";
  return word?.textContent ?? "";
}

let waiting = false;
area.addEventListener("mousemove", ({ clientX, clientY }) => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    area.title = (state.parsed?.text === area.value && names.get(wordAt(clientX, clientY))) || "";
  });
});
area.addEventListener("mouseleave", () => { area.title = ""; });
