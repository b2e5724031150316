// The stated facts that speak for a predicted one, as a list below it.

const KINDS = { path: "joined by", similar: "as with others that share much" };

const one = (fact, labels) => `${labels[fact.relation] || fact.relation}(${fact.head_label || fact.head}, ${fact.tail_label || fact.tail})`;

/** `found` is the evidence of a fact in the JSON schema; null where there was no time to look for it. `lift` may be null. */
export function evidence(found, lift, labels, percent) {
  const list = document.createElement("ul");
  list.className = "evidence";
  const lines = found?.map(({ kind, facts, weight }) => [`${percent(weight)} ${KINDS[kind]}`, facts.map((fact) => one(fact, labels)).join(", ")]);
  const none = found ? "No stated fact speaks for it." : "There was no time to look for what speaks for it.";
  for (const [weight, facts] of lines?.length ? lines : [[none, ""]]) {
    const item = document.createElement("li");
    const code = document.createElement("code");
    code.textContent = facts;
    item.append(weight, " ", code);
    list.append(item);
  }
  if (lift) {
    const item = document.createElement("li");
    item.textContent = `${lift.toLocaleString("en", { maximumFractionDigits: lift < 10 ? 1 : 0 })} times as likely as chance`;
    list.append(item);
  }
  return list;
}
