// The card of an entity: what it is, its values, its neighbours by relation, stated and predicted, and why these.

import { get, postJson } from "./api.js";
import { openCard } from "./cards.js";
import { button, count, make, truthBar } from "./elements.js";
import { evidence } from "./evidence.js";
import { asQuery, relationTitle } from "./facts.js";
import { addEntity, askText } from "./insert.js";
import { shown, written } from "./languages.js";
import { announce, on, state, store } from "./state.js";

const FIRST = 5, NEXT = 20;
const PATIENCE = 5; // seconds, where predictions are computed when they are asked for

on("entity", open);

async function open(name) {
  const card = openCard(name, `entity ${name}`);
  const of = store();
  try {
    const found = await get("entity", { name, store: of, k: FIRST, timeout: Math.min(PATIENCE, state.schema.limits.time) });
    card.fill(found.label || shown(found.name), ...content(found, of));
  } catch (error) { card.fail(error); }
}

export const entityButton = ({ name, label }) => button(label || shown(name), () => announce("entity", name), { class: "entity", title: name });

function content(found, of) {
  const about = make("p", { class: "quiet about" }, make("code", {}, shown(found.name)));
  for (const type of found.types) about.append(" ", button(type.label || shown(type.name), () => announce("entity", type.name), { class: "chip", title: `${type.name}: what it is` }));
  const stated = found.relations.reduce((sum, group) => sum + group.observed.count, 0);
  const predicted = found.relations.reduce((sum, group) => sum + group.predicted.count, 0);
  const text = `?relation, ?other : ?relation(${written(found.name, "logic")}, ?other)`;
  const bar = make("div", { class: "bar" },
    button("Ask about it", () => askText(text)),
    button("Add to the query", () => addEntity(found), { title: "As a node of the query graph, to be joined with others" }),
    button("Draw it", () => announce("draw", found), { title: "Its neighbourhood as a graph; there it can be expanded" }));
  const faint = `at least ${found.least} true`;
  const told = make("p", { class: "quiet" }, `${count(stated, "stated fact")}${state.schema.predicted ? `, ${count(predicted, "prediction")} ${faint}` : ""}.`);
  if (found.pruned) told.append(" There was no time to predict more.");
  const values = make("dl", { class: "values" });
  for (const { attribute, value, language } of found.attributes) values.append(make("dt", {}, shown(attribute)), make("dd", {}, String(value), language ? make("span", { class: "quiet" }, ` @${language}`) : ""));
  const groups = found.relations.map((group) => neighbours(found, group, relationTitle(group.relation), of));
  return [about, bar, told, ...(found.attributes.length ? [make("h3", {}, "Values"), values] : []), ...groups];
}

/** One relation in one direction: some of its neighbours, and more of them when asked. */
function neighbours(found, group, title, of) {
  const own = written(found.name, "logic"), relation = written(group.relation, "logic");
  const head = make("h3", { title: group.relation });
  head.append(make("span", { class: "arrow", "aria-hidden": "true" }, group.inverse ? "← " : "→ "), button(title, () => announce("relation", group.relation), { class: "entity" }));
  if (group.inverse) head.append(make("span", { class: "quiet" }, ` ${found.label || shown(found.name)}`));
  const words = [group.observed.count ? `${group.observed.count.toLocaleString("en")} stated` : "", group.predicted.count ? `${group.predicted.count.toLocaleString("en")} predicted` : ""];
  head.append(make("span", { class: "quiet" }, ` ${words.filter(Boolean).join(", ")}`));
  const list = make("ul", { class: "neighbours" });
  const add = (part) => {
    const before = list.querySelector(".predicted-one");
    for (const one of part.observed.shown) list.insertBefore(make("li", {}, entityButton(one)), before);
    for (const one of part.predicted.shown) list.append(predictedOne(found, group, one, of));
  };
  add(group);
  let offset = FIRST;
  const left = () => Math.max(group.observed.count, group.predicted.count) > offset;
  const more = button("More", async () => {
    more.disabled = true;
    try {
      const next = await get("entity", { name: found.name, store: of, relation: group.relation, inverse: group.inverse, k: NEXT, offset });
      offset += NEXT;
      add(next.relations[0]);
      more.hidden = !left();
    } catch (error) { more.after(make("span", { class: "quiet" }, error.message)); }
    more.disabled = false;
  }, { class: "plain", hidden: !left(), "aria-label": `More of ${title}` });
  const text = group.inverse ? `?x : ${relation}(?x, ${own})` : `?x : ${relation}(${own}, ?x)`;
  const ask = button("Ask", () => askText(text), { class: "plain", title: text, "aria-label": `Ask: ${title}` });
  return make("section", { class: "group" }, head, list, make("div", { class: "bar" }, more, ask));
}

/** A predicted neighbour: how true it is, and what speaks for it when one wants to know. */
function predictedOne(found, group, one, of) {
  const item = make("li", { class: "predicted-one" }, entityButton(one), make("span", { class: "status predicted" }, "predicted"), make("span", { class: "truth" }, ...truthBar(one.truth)));
  const why = button("why?", async () => {
    const [head, tail] = group.inverse ? [one, found] : [found, one];
    why.disabled = true;
    try {
      const { witness } = await postJson("explain", { ...asQuery([{ head: head.name, relation: group.relation, tail: tail.name }]), store: of, evidence: true });
      item.append(evidence(witness[0]?.evidence, witness[0]?.lift));
      why.hidden = true;
    } catch (error) { item.append(make("span", { class: "quiet" }, error.message)); }
    why.disabled = false;
  }, { class: "plain", "aria-label": `Why ${one.label || one.name}?` });
  item.append(why);
  return item;
}
