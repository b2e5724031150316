// What cards put into the query.

import { ask } from "./asking.js";
import { drawing, setText } from "./query.js";
import { $ } from "./state.js";

/** Asks a query in place of the one that is there. */
export async function askText(text) {
  $("only").value = "";
  await setText(text);
  await ask();
}

/** Draws one more edge into the query, from its first unknown to a new one; the server writes it down. */
export function addRelation(relation) {
  const terms = drawing.nodes();
  const head = drawing.term(drawing.selection) ?? terms.find((term) => term.kind === "free") ?? drawing.addVariable("free");
  const tail = drawing.addVariable("free");
  drawing.addEdge({ ...head }, relation, { ...tail }, false);
}
