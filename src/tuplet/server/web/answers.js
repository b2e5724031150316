// Answers that came: what is proven, the table or the drawing of them, what two engines share, how it was done.

import { AnswerGraph } from "./answer_graph.js";
import { postJson } from "./api.js";
import { button, make } from "./elements.js";
import { shorter } from "./languages.js";
import { $, announce, on, state, tell } from "./state.js";
import { keysOf, summary, table } from "./table.js";
import { explain } from "./why.js";

let view = "table"; // kept from query to query
const graph = new AnswerGraph();

on("answers", ({ found, request }) => {
  const two = found.length > 1;
  const only = request.only ?? "";
  const heads = found.map((data) => summary(data, only));
  $("empty").hidden = true;
  $("tools").hidden = false;
  $("panels").classList.toggle("two", two);
  $("panels").replaceChildren(...heads);
  if (found.some((data) => data.variables.length && data.answers.length)) {
    const [data] = found;
    const does = {
      onRow: explain,
      onEntity: (name) => announce("entity", name),
      onRelation: (name) => announce("relation", name),
      shorter,
      more: !two && mayHaveMore(data) ? () => fetchMore(data, request, only) : null,
    };
    const list = table(found, does); // an engine without answers has its column too
    const tabs = make("div", { class: "views", role: "group", "aria-label": "View" });
    const shown = make("div", { class: "view" });
    const show = (name) => {
      view = name;
      for (const tab of tabs.children) tab.setAttribute("aria-pressed", String(tab.dataset.view === name));
      list.filter.classList.toggle("away", name !== "table");
      shown.replaceChildren(name === "table" ? list.element : graph.element);
      if (name === "graph") graph.show(list.answers(), state.parsed?.graph);
    };
    for (const [name, title] of [["table", "Table"], ["graph", "Graph"]]) tabs.append(button(title, () => show(name), { "data-view": name }));
    $("panels").append(make("section", { class: "both", "aria-label": "List of answers" }, make("div", { class: "bar viewing" }, tabs, list.filter), shown));
    show(view);
  }
  tell(two ? `${[...keysOf(found[0])].filter((key) => keysOf(found[1]).has(key)).length} answers in common` : "");
  explainPlan();
});

/** Whether there may be answers after those that came. */
const mayHaveMore = (data) => data.k !== null && data.answers.length >= data.k && data.bound > 0 && !state.parsed?.graph?.limit
  && (data.about.offset ?? 0) + 2 * data.k <= (state.schema?.limits.k ?? Infinity);

/** The next answers, put behind those at hand; the order is total, so nothing comes twice and nothing is left out. */
async function fetchMore(data, request, only) {
  const offset = (data.about.offset ?? 0) + data.answers.length;
  try {
    const next = await postJson("ask", { ...request, offset });
    if (next.about.graph !== data.about.graph || next.about.store !== data.about.store) {
      tell("The store has changed meanwhile: ask again.");
      return null;
    }
    data.answers.push(...next.answers);
    Object.assign(data, { exact: data.exact && next.exact, bound: next.bound, pruned: next.pruned, elapsed_ms: data.elapsed_ms + next.elapsed_ms });
    $("panels").firstElementChild.replaceWith(summary(data, only));
    return { data, more: next.answers.length >= data.k && next.bound > 0 && offset + 2 * data.k <= (state.schema?.limits.k ?? Infinity) };
  } catch (error) {
    tell(error.message);
    return null;
  }
}

async function explainPlan() {
  const { query, engine, store, parameters } = state.last;
  $("plan").hidden = false;
  try {
    $("plan-text").textContent = (await postJson("plan", { query, engine, store, parameters })).plan;
  } catch (error) { $("plan-text").textContent = error.message; }
}
