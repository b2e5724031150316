// Facts in words, and as they are asked for again.

import { titlesOf } from "./elements.js";
import { written } from "./languages.js";
import { on, state } from "./state.js";

let titles = new Map();
on("schema", () => { titles = titlesOf(state.schema.relations.map((relation) => [relation.name, relation.label])); });

/** What a relation is called in lists: short, and not like any other. */
export const relationTitle = (name) => titles.get(name) ?? name;
/** The same where a fact is written as in a query. */
export const relationWord = (name) => (relationTitle(name) === name.replaceAll("_", " ") ? name : relationTitle(name));

/** Facts as a query that asks for their entities, so that they can be explained whatever query they came from. */
export function asQuery(facts) {
  const names = [...new Set(facts.flatMap((fact) => [fact.head, fact.tail]))];
  const variable = (name) => `?e${names.indexOf(name)}`;
  const body = facts.map((fact) => `${written(fact.relation, "logic")}(${variable(fact.head)}, ${variable(fact.tail)})`);
  return { query: `${names.map(variable).join(", ")} : ${body.join(" & ")}`, values: Object.fromEntries(names.map((name, i) => [`e${i}`, name])) };
}
