// What is in the store: relations with their counts and samples, attributes, entities by name; all of it leads on.

import { get, postJson } from "./api.js";
import { openCard } from "./cards.js";
import { button, count, make, truthBar } from "./elements.js";
import { entityButton } from "./entity.js";
import { relationTitle } from "./facts.js";
import { addColumn, addRelation, askText } from "./insert.js";
import { shown, written } from "./languages.js";
import { $, announce, on, state, store } from "./state.js";

const SAMPLES = 5, LISTED = 200;

on("relation", openRelation);
$("browse").addEventListener("click", openSchema);

function openSchema() {
  const { schema } = state;
  const card = openCard("What there is", "schema");
  const search = make("input", { type: "search", placeholder: "Find a relation, an attribute or an entity", "aria-label": "Find a relation, an attribute or an entity", autocomplete: "off" });
  const relations = make("ul", { class: "schema" }), attributes = make("ul", { class: "schema" }), entities = make("ul", { class: "schema" });
  const heads = { relations: make("h3"), attributes: make("h3", {}, "Attributes"), entities: make("h3", {}, "Entities") };
  const largest = Math.max(1, ...schema.relations.map((r) => r.count));

  function list() {
    const text = search.value.trim().toLowerCase();
    const near = schema.relations.filter((r) => `${r.name} ${r.label} ${relationTitle(r.name)}`.toLowerCase().includes(text));
    heads.relations.textContent = `Relations${near.length > LISTED ? ` (the first ${LISTED} of ${near.length})` : ""}`;
    relations.replaceChildren(...near.slice(0, LISTED).map((relation) => {
      const bar = make("i");
      bar.style.width = `${Math.max(1, (100 * relation.count) / largest)}%`;
      return make("li", {}, button(relationTitle(relation.name), () => openRelation(relation.name), { class: "entity", title: relation.name }),
        make("span", { class: "meter", "aria-hidden": "true" }, bar), make("span", { class: "quiet" }, relation.count.toLocaleString("en")),
        button("+", () => addRelation(relation), { class: "plain", title: "Add it to the query", "aria-label": `Add ${relationTitle(relation.name)} to the query` }));
    }));
    const named = schema.attributes.filter((a) => a.word.toLowerCase().includes(text));
    heads.attributes.hidden = !named.length;
    attributes.replaceChildren(...named.slice(0, LISTED).map((a) => make("li", {}, make("code", {}, a.word), make("span"), make("span", { class: "quiet" }, `${a.kind} · ${a.count.toLocaleString("en")}`),
      button("+", () => addColumn(a.word), { class: "plain", title: "Show it as a column", "aria-label": `Show ${a.word} as a column` }))));
    heads.relations.hidden = !near.length;
  }

  let searching, number = 0;
  async function find() {
    const text = search.value.trim(), asked = ++number;
    try {
      const found = await get("schema/entities", { search: text, store: store(), limit: 12 });
      if (asked !== number) return;
      heads.entities.hidden = !found.entities.length;
      entities.replaceChildren(...found.entities.map((entity) => make("li", {}, entityButton(entity), entity.label ? make("code", { class: "quiet" }, shown(entity.name)) : "")));
    } catch { /* the rest is there without it */ }
  }
  search.addEventListener("input", () => { list(); clearTimeout(searching); searching = setTimeout(find, 150); });
  list();
  find();
  card.fill("What there is", make("p", { class: "quiet" }, $("facts").textContent), search, heads.relations, relations, heads.attributes, attributes, heads.entities, entities);
  search.focus();
}

/** A relation: how many facts, some of them and of what is predicted, and what can be done with it. */
async function openRelation(name) {
  const relation = state.schema.relations.find((r) => r.name === name) ?? { name, label: "", count: 0 };
  const card = openCard(relationTitle(relation.name), `relation ${name}`);
  const query = `?x, ?y : ${written(name, "logic")}(?x, ?y)`;
  const of = store();
  try {
    const kinds = state.schema.predicted ? ["observed", "predicted"] : ["observed"];
    const found = await Promise.all(kinds.map((only) => postJson("ask", { query, store: of, k: SAMPLES, only })));
    const parts = kinds.flatMap((kind, i) => {
      const rows = found[i].answers.map((answer) => {
        const [head, tail] = ["x", "y"].map((v) => entityButton({ name: answer.values[v], label: answer.labels[v] }));
        return make("li", {}, head, make("span", { class: "arrow", "aria-hidden": "true" }, "→"), tail, kind === "predicted" ? make("span", { class: "truth" }, ...truthBar(answer.truth)) : "");
      });
      const none = found[i].exact && found[i].bound === 0 ? "None." : "None was found in time.";
      return [make("h3", {}, kind === "observed" ? "Stated, for example" : "Most likely among what is not stated"), rows.length ? make("ul", { class: "neighbours" }, ...rows) : make("p", { class: "quiet" }, none)];
    });
    card.fill(relationTitle(relation.name), make("p", { class: "quiet about" }, make("code", {}, shown(name)), ` ${count(relation.count, "fact")}`),
      make("div", { class: "bar" }, button("Add it to the query", () => addRelation(relation)), button("Ask for all", () => askText(query))), ...parts);
  } catch (error) { card.fail(error); }
}
