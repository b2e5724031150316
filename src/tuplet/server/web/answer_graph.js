// Facts as a graph that grows: what answers rest on, or an entity and its neighbours; any node can be expanded.

import { get, postJson } from "./api.js";
import { canvas, edgeTitle, fit, look, settle, short, width } from "./canvas.js";
import { openCard } from "./cards.js";
import { button, make, percent, titlesOf } from "./elements.js";
import { evidence } from "./evidence.js";
import { asQuery, relationWord } from "./facts.js";
import { shown } from "./languages.js";
import { announce, on, state, store } from "./state.js";

const ANSWERS = 40, NODES = 150; // more of them cannot be told apart
const LEAST = 0.2; // truth of predictions that expanding adds
const SILENT = 30; // with more edges than these, titles are told of those that are pointed at
const key = (fact) => JSON.stringify([fact.head, fact.relation, fact.tail, fact.negated]);

export class AnswerGraph {
  constructor() {
    this.container = make("div", { class: "canvas tall", role: "img", "aria-label": "Nothing is drawn yet" });
    this.note = make("div", { class: "quiet", role: "status" });
    this.chosen = make("select", { "aria-label": "Node of the drawing" });
    this.chosen.addEventListener("change", () => this.mark());
    const tools = make("div", { class: "bar" }, this.chosen, button("Card", () => announce("entity", this.chosen.value)),
      button("Expand", () => this.expand(this.chosen.value), { title: "Add its neighbours; a double click on a node does the same" }));
    this.element = make("div", { class: "answer-graph" }, this.container, tools, this.note);
    on("theme", () => this.cy?.style(look()));
  }

  /** The answers of a list by what they rest on: their entities, and the facts between them. */
  async show(answers, query) {
    const some = answers.slice(0, ANSWERS);
    const free = new Set(query?.free ?? []);
    const asked = new Set(some.flatMap((answer) => Object.entries(answer.values).filter(([variable]) => free.has(variable)).map(([, name]) => name)));
    const constants = new Set((query?.clauses ?? []).flatMap((clause) => clause.edges.flatMap((edge) => [edge.head, edge.tail])).filter((term) => term.kind === "constant").map((term) => term.name));
    this.kind = (name) => (asked.has(name) ? "free" : constants.has(name) ? "constant" : "exists");
    this.facts = new Map();
    for (const answer of some) for (const fact of answer.witness) this.facts.set(key(fact), fact);
    this.note.textContent = answers.length > ANSWERS ? `What the first ${ANSWERS} of ${answers.length} answers rest on.` : "";
    await this.draw();
  }

  /** An entity and its neighbours. */
  async around(card) {
    this.kind = (name) => (name === card.name ? "free" : "constant");
    this.facts = new Map();
    this.add(card);
    this.centre = card.name;
    await this.draw();
  }

  /** Takes in the facts of a card; those it had already stay as they are. */
  add(card) {
    for (const group of card.relations) {
      for (const [status, least] of [["observed", 0], ["predicted", LEAST]]) {
        for (const one of group[status].shown.filter((other) => other.truth >= least)) {
          const [head, tail] = group.inverse ? [one, card] : [card, one];
          const fact = { head: head.name, relation: group.relation, tail: tail.name, head_label: head.label, tail_label: tail.label, truth: one.truth, observed: status === "observed", negated: false };
          if (!this.facts.has(key(fact))) this.facts.set(key(fact), fact);
        }
      }
    }
  }

  async expand(name) {
    if (!name) return;
    try {
      const before = this.facts.size;
      this.add(await get("entity", { name, store: store(), k: 5, least: LEAST }));
      this.note.textContent = this.facts.size > before ? `${this.facts.size - before} more facts` : "Nothing more is known about it.";
      await this.draw(name);
    } catch (error) { this.note.textContent = error.message; }
  }

  /** One canvas, however many ask for it. */
  open() {
    this.opening ??= canvas(this.container, "answers").then((cy) => {
      this.cy = cy;
      cy.on("tap", "node", ({ target }) => { this.chosen.value = target.id(); this.mark(); });
      cy.on("mouseover", "node, edge", ({ target }) => (target.isNode() ? target.connectedEdges() : target).addClass("told"));
      cy.on("mouseout", "node, edge", () => cy.edges(".told").not(cy.nodes(".chosen").connectedEdges()).removeClass("told"));
      cy.on("tap", "edge", ({ target }) => this.tellFact(this.facts.get(target.id())));
      cy.on("dbltap", "node", ({ target }) => this.expand(target.id()));
      new ResizeObserver(() => fit(cy)).observe(this.container);
    });
    return this.opening;
  }

  /** A fact that was clicked, and what speaks for it if it is predicted. */
  async tellFact(fact) {
    const entity = (name, label) => button(label || shown(name), () => announce("entity", name), { class: "entity", title: name });
    const word = fact.observed ? "observed" : "predicted";
    const line = make("div", { class: "fact" }, make("span", { class: `status ${fact.negated ? "mixed" : word}` }, fact.negated ? "negated" : word), " ",
      fact.negated ? "not " : "", relationWord(fact.relation), " (", entity(fact.head, fact.head_label), ", ", entity(fact.tail, fact.tail_label), ") ", percent(fact.truth));
    this.note.replaceChildren(line);
    if (fact.observed || fact.negated) return;
    try {
      const { witness } = await postJson("explain", { ...asQuery([fact]), store: store(), evidence: true });
      line.append(evidence(witness[0]?.evidence, witness[0]?.lift));
    } catch (error) { line.append(error.message); }
  }

  mark() {
    if (!this.cy) return;
    this.cy.elements().removeClass("chosen told");
    this.cy.getElementById(this.chosen.value).addClass("chosen").connectedEdges().addClass("told");
  }

  async draw(centre) {
    const labels = new Map(), drawn = new Map();
    for (const [id, fact] of this.facts) {
      const fresh = [fact.head, fact.tail].filter((name) => !labels.has(name));
      if (labels.size + fresh.length > NODES) continue;
      labels.set(fact.head, fact.head_label);
      labels.set(fact.tail, fact.tail_label);
      drawn.set(id, fact);
    }
    const names = [...labels.keys()].sort((a, b) => (labels.get(a) || a).localeCompare(labels.get(b) || b, "en"));
    const before = this.chosen.value;
    this.chosen.replaceChildren(...names.map((name) => new Option(labels.get(name) || shown(name), name)));
    if (labels.has(before)) this.chosen.value = before;
    else if (labels.has(this.centre)) this.chosen.value = this.centre;
    this.container.setAttribute("aria-label", `Graph of ${names.length} entities and ${drawn.size} facts`);
    await this.open();
    const title = (name) => short(labels.get(name) || shown(name));
    const relations = new Map((state.schema?.relations ?? []).map((r) => [r.name, r.label]));
    const titles = titlesOf([...new Set([...drawn.values()].map((fact) => fact.relation))].map((name) => [name, relations.get(name) ?? ""]));
    const places = new Map(this.cy.nodes().map((node) => [node.id(), { ...node.position() }]));
    const middle = places.get(centre) ?? { x: 0, y: 0 };
    const fresh = names.filter((name) => !places.has(name));
    // new nodes begin on a ring, so that the same graph is always drawn alike
    const ring = (i) => ({ x: middle.x + 240 * Math.cos((2 * Math.PI * i) / fresh.length), y: middle.y + 240 * Math.sin((2 * Math.PI * i) / fresh.length) });
    this.cy.elements().remove();
    this.cy.add([
      ...names.map((id) => ({ group: "nodes", classes: this.kind(id), position: places.get(id) ?? ring(fresh.indexOf(id)),
        data: { id, title: title(id), full: labels.get(id) ? `${labels.get(id)} (${id})` : id, width: width(title(id), this.kind(id) !== "constant") } })),
      ...[...drawn.entries()].map(([id, fact]) => ({ group: "edges", classes: `${fact.negated ? "negated" : fact.observed ? "observed" : "predicted"} ${drawn.size > SILENT ? "silent" : ""}`,
        data: { id, source: fact.head, target: fact.tail, title: edgeTitle(titles.get(fact.relation)) + (fact.truth < 1 ? ` ${percent(fact.truth)}` : ""),
          full: `${fact.negated ? "not " : ""}${fact.relation}, ${fact.observed ? "stated" : "predicted"}, truth ${percent(fact.truth)}` } })),
    ]);
    this.cy.layout({ name: "cose", animate: false, randomize: false, fit: false, nodeDimensionsIncludeLabels: true, idealEdgeLength: () => 130, nodeRepulsion: () => 12000, nodeOverlap: 24, numIter: 600 }).run();
    this.stretch();
    settle(this.cy);
    this.mark();
  }

  /** As wide as the canvas is: names need room beside each other. */
  stretch() {
    const box = this.cy.nodes().boundingBox({ includeLabels: false });
    const wanted = this.container.clientWidth / Math.max(1, this.container.clientHeight);
    const factor = Math.max(1, Math.min(2.2, (wanted * box.h) / Math.max(1, box.w)));
    this.cy.nodes().positions((node) => ({ x: node.position("x") * factor, y: node.position("y") }));
  }
}

on("draw", (card) => {
  const graph = new AnswerGraph();
  const title = `Around ${card.label || shown(card.name)}`;
  openCard(title, `draw ${card.name}`).fill(title, graph.element);
  graph.around(card);
});
