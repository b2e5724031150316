// Answers that belong to another query than the one that is there: greyed, and said so.

import { setText } from "./query.js";
import { $, announce, on, state, store } from "./state.js";

let shown = null; // the query whose answers are shown

const meaning = (parsed) => parsed?.logic ?? null; // whatever language says it

/** The same text, or one that the server read as the same query. */
function same() {
  if (store() !== shown.store) return false;
  const text = $("query").value;
  return text === shown.text || (state.parsed?.text === text && shown.meaning !== null && meaning(state.parsed) === shown.meaning);
}

function check() {
  const stale = Boolean(shown) && !same();
  if ($("stale").hidden !== stale) return;
  $("stale").hidden = !stale;
  $("results").classList.toggle("stale", stale);
  announce("stale", stale);
}

on("answers", ({ request }) => {
  shown = { text: request.query, store: store(), meaning: state.parsed?.text === request.query ? meaning(state.parsed) : null };
  check();
});
for (const event of ["text", "parsed", "schema"]) on(event, check);
on("cleared", () => { shown = null; check(); });

$("stale-back").addEventListener("click", async () => {
  if (store() !== shown.store) await state.load(shown.store);
  await setText(shown.text);
  $("query").focus();
});
