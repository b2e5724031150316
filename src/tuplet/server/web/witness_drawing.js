// What an answer rests on, drawn.

import { canvas, fit, look, place, settle, short, edgeTitle, width } from "./canvas.js";
import { titlesOf } from "./elements.js";

export class WitnessDrawing {
  constructor(container) {
    this.container = container;
    this.cy = null; // until the first one is shown
  }

  /** One canvas, however many ask for it. */
  open() {
    this.opening ??= canvas(this.container, "witness").then((cy) => {
      this.cy = cy;
      new ResizeObserver(() => fit(cy)).observe(this.container);
    });
    return this.opening;
  }

  restyle() { this.cy?.style(look()); }

  async show(answer, labels, query, percent) {
    const free = query?.free ?? Object.keys(answer.values);
    const asked = new Set(Object.entries(answer.values).filter(([variable]) => free.includes(variable)).map(([, name]) => name));
    const constants = new Set((query?.clauses || []).flatMap((c) => c.edges.flatMap((e) => [e.head, e.tail])).filter((t) => t.kind === "constant").map((t) => t.name));
    const names = [...new Set(answer.witness.flatMap((f) => [f.head, f.tail]))];
    const kind = (name) => (asked.has(name) ? "free" : constants.has(name) ? "constant" : "exists");
    const nodes = names.map((name) => ({ id: name, kind: kind(name), title: short(labels[name] || name) }));
    for (const n of nodes) n.width = width(n.title, n.kind !== "constant");
    const titles = titlesOf(answer.witness.map((f) => [f.relation, labels[f.relation]]));
    const titled = answer.witness.map((f) => `${f.negated ? "not " : ""}${edgeTitle(titles.get(f.relation))}${f.truth < 1 ? ` ${percent(f.truth)}` : ""}`);
    const links = answer.witness.map((f, i) => ({ from: f.head, to: f.tail, title: titled[i] }));
    const facts = answer.witness.map((f) => `${f.negated ? "not " : ""}${f.relation} from ${labels[f.head] || f.head} to ${labels[f.tail] || f.tail}, ${f.observed ? "observed" : "predicted"}`);
    this.container.setAttribute("aria-label", `Witness: ${facts.join("; ")}`);
    this.latest = answer;
    await this.open();
    if (this.latest !== answer) return; // another one was shown meanwhile
    const places = place([{ nodes, links }], this.container);
    this.cy.elements().remove();
    this.cy.add([
      ...nodes.map((n) => ({ group: "nodes", data: { id: n.id, title: n.title, full: labels[n.id] ? `${labels[n.id]} (${n.id})` : n.id, width: n.width }, classes: n.kind, position: places.get(n.id) })),
      ...answer.witness.map((f, i) => ({ group: "edges",
        data: { id: `fact/${i}`, source: f.head, target: f.tail, title: titled[i], full: `${f.negated ? "not " : ""}${f.relation}, ${f.observed ? "observed" : "predicted"}, truth ${percent(f.truth)}` },
        classes: f.negated ? "negated" : f.observed ? "observed" : "predicted" })),
    ]);
    settle(this.cy);
  }
}
