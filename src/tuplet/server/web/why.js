// Why an answer: its witness drawn and listed, and below each predicted fact what speaks for it.

import { postJson } from "./api.js";
import { WitnessDrawing } from "./witness_drawing.js";
import { button, make, percent } from "./elements.js";
import { evidence } from "./evidence.js";
import { asQuery, relationWord } from "./facts.js";
import { shown } from "./languages.js";
import { $, announce, on, state, tell } from "./state.js";

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
  const entity = (name) => button(all[name] || shown(name), () => announce("entity", name), { class: "entity", title: name });
  why["why-facts"].replaceChildren(...answer.witness.map((fact) => {
    const word = fact.negated ? (fact.observed ? "but stated" : "not stated") : fact.observed ? "observed" : "predicted";
    const relation = button(relationWord(fact.relation), () => announce("relation", fact.relation), { class: "entity", title: fact.relation });
    return make("li", {}, make("span", { class: `status ${fact.negated ? "mixed" : word}` }, word),
      make("code", {}, fact.negated ? "!" : "", relation, "(", entity(fact.head), ", ", entity(fact.tail), ")"), make("span", {}, percent(fact.truth)));
  }));
  tellEvidence(answer);
  why.why.scrollIntoView({ block: "nearest", behavior: "instant" });
}

/** Below each predicted fact what speaks for it: looked up when it is opened, for this answer alone. */
async function tellEvidence(answer) {
  const open = answer.witness.map((fact, i) => [fact, why["why-facts"].children[i]]).filter(([fact]) => !fact.observed && !fact.negated);
  if (!open.length || !state.last) return;
  let found;
  try {
    const { witness } = await postJson("explain", { ...asQuery(open.map(([fact]) => fact)), store: state.last.store, evidence: true });
    found = (fact) => witness.find((f) => f.head === fact.head && f.relation === fact.relation && f.tail === fact.tail)?.evidence;
  } catch (error) { return tell(error.message); }
  for (const [fact, item] of open) item.append(evidence(found(fact), fact.lift));
}

why["why-close"].addEventListener("click", () => {
  document.querySelector("tr.why")?.remove();
  document.querySelector("tbody tr[aria-current]")?.focus();
});
