// The store that is asked: what it holds, its engines, its examples.

import { get } from "./api.js";
import { ask, showBudget } from "./asking.js";
import { coloured } from "./colours.js";
import { showNote, showProblem } from "./editor.js";
import { askForKey, wanted } from "./key.js";
import { languageOf } from "./languages.js";
import { drawing, read, setText } from "./query.js";
import { $, announce, state, store } from "./state.js";

export async function load(name) {
  const schema = await get("schema", { store: name });
  state.schema = schema;
  $("store").replaceChildren(...schema.stores.map((s) => new Option(s, s)));
  $("store").value = schema.store;
  $("store-field").hidden = schema.stores.length < 2;
  $("facts").textContent = `${schema.entities.toLocaleString("en")} entities, ${schema.relations.length} relations, ${schema.facts.toLocaleString("en")} facts${schema.predicted ? ", and predictions" : ""}`;
  fill("engine", schema.engines.map((e) => new Option(e, e)));
  fill("versus", [new Option("nothing", ""), ...schema.engines.map((e) => new Option(e, e))]);
  fill("k", [10, 50, 200, 1000].filter((k) => k <= schema.limits.k).map((k) => new Option(k, k, k === 50, k === 50)));
  $("examples").replaceChildren(new Option("Choose a query to start from…", ""), ...schema.examples.map((e, i) => new Option(e.title, String(i))));
  $("example-cards").replaceChildren(...schema.examples.slice(0, 6).map(card));
  $("relation-list").replaceChildren(...schema.relations.map((r) => new Option(r.label || r.name, r.name)));
  showBudget();
  announce("schema", schema);
}
state.load = load;

/** New choices; the one that was made stays where it can. */
function fill(id, options) {
  const kept = $(id).value;
  $(id).replaceChildren(...options);
  if (kept && options.some((option) => option.value === kept)) $(id).value = kept;
}

$("store").addEventListener("change", async () => {
  try {
    await load(store());
    if (!$("query").value.trim()) return;
    await read();
    if (!state.parsed?.problem) return;
    await setText("");
    showNote("The query names what this store does not have; Undo brings it back.");
  } catch (error) { showProblem({ error: error.message }); }
});

// --- examples ------------------------------------------------------------------------------------------------------

async function start(example) {
  drawing.loose = [];
  drawing.places.clear();
  $("only").value = example.only || "";
  await setText(example.query);
  await ask();
}

function card(example) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  const title = document.createElement("strong");
  title.textContent = example.title;
  button.append(title, coloured(example.query, languageOf(example.query)));
  button.addEventListener("click", () => start(example));
  item.append(button);
  return item;
}

$("examples").addEventListener("change", (event) => {
  const example = state.schema.examples[Number(event.target.value)];
  if (event.target.value === "" || !example) return;
  event.target.value = "";
  start(example);
});

$("key-open").addEventListener("click", async () => {
  wanted();
  if (!(await askForKey(null))) return;
  try {
    await load(store()); // also finds out whether the key is right
    await read();
  } catch (error) { showProblem({ error: error.message }); }
});
