// The stated facts that speak for a predicted one, as a list below it.

import { button, make, percent } from "./elements.js";
import { relationWord } from "./facts.js";
import { shown } from "./languages.js";
import { announce } from "./state.js";

const KINDS = { path: "joined by", similar: "as with others that share much" };

const entity = (name, label) => button(label || shown(name), () => announce("entity", name), { class: "entity", title: name });
const one = (fact) => [relationWord(fact.relation), "(", entity(fact.head, fact.head_label), ", ", entity(fact.tail, fact.tail_label), ")"];

/** `found` is the evidence of a fact in the JSON schema; null where there was no time to look for it. `lift` may be null. */
export function evidence(found, lift) {
  const none = found ? "No stated fact speaks for it." : "There was no time to look for what speaks for it.";
  const lines = (found ?? []).map(({ kind, facts, weight }) => make("li", {}, `${percent(weight)} ${KINDS[kind]} `,
    make("code", {}, ...facts.flatMap((fact, i) => [i ? ", " : "", ...one(fact)]))));
  if (!lines.length) lines.push(make("li", {}, none));
  if (lift) lines.push(make("li", {}, `${lift.toLocaleString("en", { maximumFractionDigits: lift < 10 ? 1 : 0 })} times as likely as chance`));
  return make("ul", { class: "evidence" }, ...lines);
}
