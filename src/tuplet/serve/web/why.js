// Why an answer: its witness drawn and listed, and below each predicted fact what speaks for it.

import { postJson } from "./api.js";
import { WitnessDrawing } from "./witness_drawing.js";
import { evidence } from "./evidence.js";
import { shown, written } from "./languages.js";
import { $, on, state, tell } from "./state.js";
import { percent } from "./table.js";

const witness = new WitnessDrawing($("why-graph"));
on("theme", () => witness.restyle());
const why = Object.fromEntries(["why", "why-title", "why-facts", "why-close"].map((id) => [id, $(id)]));

/** Shows below a row what its answer rests on. */
export function explain(answer, place) {
  const relations = (state.schema?.relations || []).map((r) => [r.name, r.label]);
  const entities = answer.witness.flatMap((f) => [[f.head, f.head_label], [f.tail, f.tail_label]]);
  const all = Object.fromEntries([...relations, ...entities]);
  place.append(why.why);
  why.why.hidden = false;
  why["why-title"].textContent = `Why ${Object.keys(answer.values).filter((v) => answer.values[v] !== null).map((v) => answer.labels[v] || shown(answer.values[v])).join(", ") || "yes"}? Truth ${percent(answer.truth)}`;
  witness.show(answer, all, state.parsed?.graph, percent);
  why["why-facts"].replaceChildren(...answer.witness.map((fact) => {
    const item = document.createElement("li");
    const kind = document.createElement("span");
    const word = fact.negated ? (fact.observed ? "but stated" : "not stated") : fact.observed ? "observed" : "predicted";
    kind.className = `status ${fact.negated ? "mixed" : word}`;
    kind.textContent = word;
    const code = document.createElement("code");
    code.textContent = `${fact.negated ? "!" : ""}${all[fact.relation] || fact.relation}(${all[fact.head] || fact.head}, ${all[fact.tail] || fact.tail})`;
    const truth = document.createElement("span");
    truth.textContent = percent(fact.truth);
    item.append(kind, code, truth);
    return item;
  }));
  tellEvidence(answer, all);
  why.why.scrollIntoView({ block: "nearest", behavior: "instant" });
}

/** Facts as a query that asks for their entities, so that they can be explained whatever query they came from. */
function asQuery(facts) {
  const names = [...new Set(facts.flatMap((fact) => [fact.head, fact.tail]))];
  const variable = (name) => `?e${names.indexOf(name)}`;
  const body = facts.map((fact) => `${written(fact.relation, "logic")}(${variable(fact.head)}, ${variable(fact.tail)})`);
  return { query: `${names.map(variable).join(", ")} : ${body.join(" & ")}`, values: Object.fromEntries(names.map((name, i) => [`e${i}`, name])) };
}

/** Below each predicted fact what speaks for it: looked up when it is opened, for this answer alone. */
async function tellEvidence(answer, all) {
  const open = answer.witness.map((fact, i) => [fact, why["why-facts"].children[i]]).filter(([fact]) => !fact.observed && !fact.negated);
  if (!open.length || !state.last) return;
  let found;
  try {
    const { witness } = await postJson("explain", { ...asQuery(open.map(([fact]) => fact)), store: state.last.store, evidence: true });
    found = (fact) => witness.find((f) => f.head === fact.head && f.relation === fact.relation && f.tail === fact.tail)?.evidence;
  } catch (error) { return tell(error.message); }
  for (const [fact, item] of open) item.append(evidence(found(fact), fact.lift, all, percent));
}

why["why-close"].addEventListener("click", () => {
  document.querySelector("tr.why")?.remove();
  document.querySelector("tbody tr[aria-current]")?.focus();
});
