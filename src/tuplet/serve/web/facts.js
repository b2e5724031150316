// Facts as they are asked for again.

import { written } from "./languages.js";

/** Facts as a query that asks for their entities, so that they can be explained whatever query they came from. */
export function asQuery(facts) {
  const names = [...new Set(facts.flatMap((fact) => [fact.head, fact.tail]))];
  const variable = (name) => `?e${names.indexOf(name)}`;
  const body = facts.map((fact) => `${written(fact.relation, "logic")}(${variable(fact.head)}, ${variable(fact.tail)})`);
  return { query: `${names.map(variable).join(", ")} : ${body.join(" & ")}`, values: Object.fromEntries(names.map((name, i) => [`e${i}`, name])) };
}
