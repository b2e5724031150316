// The store that is asked: what it holds, its engines, its examples.

import { get } from "./api.js";
import { ask, showBudget } from "./asking.js";
import { drawing, setText } from "./query.js";
import { $, announce, state, store } from "./state.js";

export async function load(name) {
  const schema = await get("schema", { store: name });
  state.schema = schema;
  $("store").replaceChildren(...schema.stores.map((s) => new Option(s, s)));
  $("store").value = schema.store;
  $("store-field").hidden = schema.stores.length < 2;
  $("facts").textContent = `${schema.entities.toLocaleString("en")} entities, ${schema.relations.length} relations, ${schema.facts.toLocaleString("en")} facts${schema.predicted ? ", and predictions" : ""}`;
  $("engine").replaceChildren(...schema.engines.map((e) => new Option(e, e)));
  $("versus").replaceChildren(new Option("with nothing", ""), ...schema.engines.map((e) => new Option(e, e)));
  $("examples").replaceChildren(new Option("Choose a query to start from…", ""), ...schema.examples.map((e, i) => new Option(e.title, String(i))));
  $("relation-list").replaceChildren(...schema.relations.map((r) => new Option(r.label || r.name, r.name)));
  $("k").replaceChildren(...[10, 50, 200, 1000].filter((k) => k <= schema.limits.k).map((k) => new Option(k, k, k === 50, k === 50)));
  showBudget();
  announce("schema", schema);
}

$("store").addEventListener("change", async () => { await load(store()); await setText(""); });
$("examples").addEventListener("change", async (event) => {
  const example = state.schema.examples[Number(event.target.value)];
  if (event.target.value === "" || !example) return;
  drawing.loose = [];
  drawing.places.clear();
  $("only").value = example.only || "";
  await setText(example.query);
  event.target.value = "";
  await ask();
});
