// Answers that came: a panel for each engine, what two of them share, how it was done.

import { postJson } from "./api.js";
import { shorter } from "./languages.js";
import { $, on, state, tell } from "./state.js";
import { keysOf, panel } from "./table.js";
import { explain } from "./why.js";

on("answers", ({ found }) => {
  $("empty").hidden = true;
  $("tools").hidden = false;
  $("panels").classList.toggle("two", found.length > 1);
  $("panels").replaceChildren(...found.map((data, i) => panel(data, explain, $("only").value, found.length > 1 ? keysOf(found[1 - i]) : null, shorter)));
  const [first, second] = found;
  if (second) {
    const shared = [...keysOf(first)].filter((key) => keysOf(second).has(key)).length;
    tell(`${shared} answers in common`);
  } else tell("");
  explainPlan();
});

async function explainPlan() {
  const { query, engine, store } = state.last;
  $("plan").hidden = false;
  try {
    $("plan-text").textContent = (await postJson("plan", { query, engine, store })).plan;
  } catch (error) { $("plan-text").textContent = error.message; }
}
