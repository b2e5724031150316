// What cards put into the query.

import { ask } from "./asking.js";
import { closeCards } from "./cards.js";
import { written } from "./languages.js";
import { addPart } from "./parts.js";
import { drawing, setText, showParts, writeDrawing } from "./query.js";
import { $, tell } from "./state.js";

/** Where the cards cover the page, they make room for what was done with them. */
const makeRoom = () => { if (innerWidth <= 900) closeCards(); };

/** Asks a query in place of the one that is there. */
export async function askText(text) {
  makeRoom();
  $("only").value = "";
  await setText(text);
  await ask();
}

/** Draws one more edge into the query, from its first unknown to a new one; the server writes it down. */
export function addRelation(relation) {
  const terms = drawing.nodes();
  const head = drawing.term(drawing.selection) ?? terms.find((term) => term.kind === "free") ?? drawing.addVariable("free");
  const tail = drawing.addVariable("free");
  makeRoom();
  drawing.addEdge({ ...head }, relation, { ...tail }, false);
}

/** An entity as a node that can be joined. */
export function addEntity({ name, label }) {
  drawing.addNode({ kind: "constant", name, form: "name", label });
  makeRoom();
  $("graph").scrollIntoView({ block: "nearest" });
}

/** An attribute of the first thing asked for, as a column. */
export function addColumn(word) {
  const [first] = drawing.asked();
  if (!first) return tell("Ask for something first: then this can be shown beside it");
  addPart(drawing, "shown", `?${first}.${written(word, "logic")}`);
  showParts();
  return writeDrawing();
}
