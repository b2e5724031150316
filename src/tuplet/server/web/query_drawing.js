// The drawing of a query: it can be changed by hand, and tells the page what it is.

import { canvas, fit, look, place, settle, short, edgeTitle, width } from "./canvas.js";
import { titlesOf } from "./elements.js";

export class QueryDrawing {
  constructor(container, changed, selected) {
    this.container = container;
    this.changed = changed;
    this.selectedTold = selected;
    this.cy = null; // until the library is here
    this.loose = []; // nodes without an edge yet
    this.take(null);
    this.places = new Map(); // where the user put things
    this.picked = [];
  }

  /** Begins to paint. */
  async open() {
    this.cy = await canvas(this.container, "query");
    this.cy.on("tap", (event) => {
      if (event.target === this.cy) this.addVariable("free", event.position);
    });
    this.cy.on("tap", "node", (event) => { if (!event.target.hasClass("clause")) this.pick(event.target.id()); });
    this.cy.on("tap", "edge", (event) => this.select(event.target.id()));
    this.cy.on("dragfree", "node", (event) => this.places.set(event.target.id(), { ...event.target.position() }));
    this.render();
    new ResizeObserver(() => fit(this.cy)).observe(this.container);
  }

  restyle() { this.cy?.style(look()); }

  /** Shows what the server read; nodes the user added but did not join yet stay. */
  show(graph) {
    const before = this.key();
    this.take(graph);
    const used = new Set(this.joined(0).map((t) => this.id(0, t)));
    this.loose = graph ? this.loose.filter((t) => !used.has(this.id(0, t))) : [];
    if (this.key() !== before) this.render();
    else this.render(true);
  }

  /** A graph of the server: what is drawn, and what is only written beside it. */
  take(graph) {
    this.clauses = graph?.clauses.length ? graph.clauses : [{ edges: [], different: [], conditions: [] }];
    this.free = graph?.free ?? [];
    this.rest = graph ? { shown: graph.shown, order: graph.order, limit: graph.limit, offset: graph.offset, form: graph.form, counted: graph.counted }
      : { shown: [], order: [], limit: null, offset: 0, form: "select", counted: "" };
  }

  key() { return JSON.stringify([this.clauses.map((c) => [c.edges.map((e) => [this.id(0, e.head), e.relation, this.id(0, e.tail), e.negated]), c.different]), this.free]); }
  id(clause, term) { return `${clause}/${term.kind === "constant" ? "c" : "v"}/${term.name}`; }
  joined(clause) {
    const { edges, different, conditions } = this.clauses[clause];
    return [...edges.flatMap((e) => [e.head, e.tail]), ...different.flat(), ...conditions.flatMap((c) => c.terms)];
  }
  terms(clause) {
    const all = [...(clause === 0 ? this.loose : []), ...this.joined(clause)];
    return [...new Map(all.map((t) => [this.id(clause, t), t])).values()];
  }

  render(keep = false) {
    if (this.cy) this.paint(keep);
    this.describe();
    const there = (id) => this.clauses.some((_, c) => this.terms(c).some((t) => this.id(c, t) === id)) || this.cy?.getElementById(id).nonempty();
    this.picked = this.picked.filter(there);
    this.select(this.selection && there(this.selection) ? this.selection : null);
  }

  paint(keep) {
    const elements = [];
    const groups = [];
    const several = this.clauses.length > 1;
    const titles = titlesOf(this.clauses.flatMap((clause) => clause.edges.map((e) => [e.relation, e.label])));
    this.clauses.forEach((clause, c) => {
      if (several) elements.push({ group: "nodes", data: { id: `clause/${c}`, title: c ? "or" : "either", width: 10 }, classes: "clause", selectable: false, grabbable: false });
      const nodes = this.terms(c).map((term) => {
        const named = term.kind === "constant" ? term.label || term.name : `?${term.name}`;
        const title = short(named);
        const full = term.kind !== "constant" ? `${named}: ${term.kind === "free" ? "asked for" : "has to exist"}` : term.label ? `${term.label} (${term.name})` : term.name;
        const id = this.id(c, term);
        elements.push({ group: "nodes", data: { id, title, full, width: width(title, term.kind !== "constant"), parent: several ? `clause/${c}` : undefined }, classes: term.kind });
        return { id, kind: term.kind, width: width(title, term.kind !== "constant") };
      });
      const links = [];
      clause.edges.forEach((edge, e) => {
        const [source, target] = [this.id(c, edge.head), this.id(c, edge.tail)];
        const title = (edge.negated ? "not " : "") + edgeTitle(titles.get(edge.relation));
        links.push({ from: source, to: target, title });
        elements.push({ group: "edges", data: { id: `edge/${c}/${e}`, source, target, title, full: `${edge.negated ? "not " : ""}${edge.relation}` }, classes: edge.negated ? "negated" : "" });
      });
      clause.different.forEach(([left, right], d) => {
        const [source, target] = [this.id(c, left), this.id(c, right)];
        links.push({ from: source, to: target, title: "≠" });
        elements.push({ group: "edges", data: { id: `different/${c}/${d}`, source, target, title: "≠" }, classes: "different" });
      });
      groups.push({ nodes, links });
    });
    const places = place(groups, this.container);
    const shown = new Map(this.cy.nodes().map((n) => [n.id(), { ...n.position() }]));
    for (const element of elements) {
      if (element.group !== "nodes" || element.classes === "clause") continue;
      const id = element.data.id;
      element.position = this.places.get(id) || (keep && shown.get(id)) || places.get(id);
    }
    this.cy.elements().remove();
    this.cy.add(elements);
    settle(this.cy);
  }

  describe() {
    const sentences = this.clauses.flatMap((c) => c.edges.map((e) => {
      const name = (t) => (t.kind === "constant" ? t.label || t.name : `?${t.name}`);
      return `${e.negated ? "not " : ""}${e.label || e.relation} from ${name(e.head)} to ${name(e.tail)}`;
    }).concat(c.conditions.map((condition) => condition.text)));
    this.container.setAttribute("aria-label", sentences.length ? `Query graph: ${sentences.join("; ")}` : "The query is empty");
  }

  // --- changes ---

  nodes() { return this.terms(0); }
  term(id) { return this.nodes().find((t) => this.id(0, t) === id); }

  addVariable(kind, position) {
    const taken = new Set(this.clauses.flatMap((_, c) => this.terms(c)).map((t) => t.name));
    const names = kind === "free" ? ["x", "y", "w", "u", "v"] : ["z", "e"];
    let name = names.find((n) => !taken.has(n));
    for (let i = 1; !name; i += 1) if (!taken.has(`${names[0]}${i}`)) name = `${names[0]}${i}`;
    return this.addNode({ kind, name, form: "name", label: "" }, position);
  }

  addNode(term, position) {
    const id = this.id(0, term);
    if (!this.nodes().some((t) => this.id(0, t) === id)) {
      this.loose.push(term);
      if (position) this.places.set(id, { ...position });
      this.render(true);
    }
    this.pick(id);
    return term;
  }

  /** The first node picked is where an edge begins, the second where it ends. */
  pick(id) {
    if (this.picked.length >= 2) this.picked = [];
    this.picked.push(id);
    this.select(id);
  }

  select(id) {
    this.selection = id;
    this.cy?.elements().removeClass("chosen");
    if (id) this.cy?.getElementById(id).addClass("chosen");
    this.selectedTold(id, this.picked);
  }

  addEdge(head, relation, tail, negated) {
    this.clauses[0].edges.push({ head, relation: relation.name, label: relation.label, form: "name", tail, negated });
    this.picked = [];
    this.loose = this.loose.filter((t) => ![this.id(0, head), this.id(0, tail)].includes(this.id(0, t)));
    this.render(true);
    this.changed();
  }

  negate() {
    const [kind, c, e] = (this.selection || "").split("/");
    if (kind !== "edge") return;
    const edge = this.clauses[c].edges[e];
    edge.negated = !edge.negated;
    this.render(true);
    this.changed();
  }

  setKind(kind) {
    const name = (this.selection || "").split("/").slice(2).join("/");
    const change = (t) => { if (t.kind !== "constant" && t.name === name) t.kind = kind; };
    this.clauses.forEach((_, c) => {
      this.clauses[c].edges.forEach((e) => { change(e.head); change(e.tail); });
      this.clauses[c].different.flat().forEach(change);
      this.clauses[c].conditions.forEach((x) => x.terms.forEach(change));
    });
    this.loose.forEach(change);
    if (kind === "exists") this.rest.shown = this.rest.shown.filter((column) => !new RegExp(`^\\?${name}(?:\\s|$)`, "u").test(column));
    this.render(true);
    this.changed();
  }

  remove() {
    const id = this.selection || "";
    const [kind, c, e] = id.split("/");
    if (kind === "edge") this.clauses[c].edges.splice(Number(e), 1);
    else if (kind === "different") this.clauses[c].different.splice(Number(e), 1);
    else {
      const clause = this.clauses[Number(kind)];
      const left = this.terms(Number(kind)).filter((t) => this.id(Number(kind), t) !== id);
      clause.edges = clause.edges.filter((x) => ![x.head, x.tail].some((t) => this.id(Number(kind), t) === id));
      clause.different = clause.different.filter((x) => !x.some((t) => this.id(Number(kind), t) === id));
      clause.conditions = clause.conditions.filter((x) => !x.terms.some((t) => this.id(Number(kind), t) === id));
      const gone = new RegExp(`\\?${id.split("/").slice(2).join("/")}(?![\\p{L}\\p{N}_])`, "u");
      if (c === "v") for (const part of ["shown", "order"]) this.rest[part] = this.rest[part].filter((text) => !gone.test(text));
      if (Number(kind) === 0) {
        this.loose = left.filter((t) => !clause.edges.some((x) => [x.head, x.tail].some((o) => this.id(0, o) === this.id(0, t))));
      }
    }
    if (this.clauses.length > 1) this.clauses = this.clauses.filter((x) => x.edges.length || x.different.length || x.conditions.length);
    this.selection = null;
    this.picked = [];
    this.render(true);
    this.changed();
  }

  /** The names asked for: those of the text first, then those that were drawn. */
  asked() {
    const variables = this.clauses.flatMap((c) => c.edges).filter((e) => e.form === "variable").map((e) => e.relation);
    const joined = this.clauses.flatMap((_, c) => this.joined(c)).filter((t) => t.kind === "free").map((t) => t.name);
    const all = [...new Set([...joined, ...variables.filter((name) => this.free.includes(name))])];
    return [...this.free.filter((name) => all.includes(name)), ...all.filter((name) => !this.free.includes(name))];
  }

  /** What the server needs to write the query; null while nothing is joined. */
  drawn() {
    if (!this.clauses.some((c) => c.edges.length || c.conditions.length)) return null;
    const free = this.asked();
    const fresh = free.filter((name) => !this.free.includes(name)).map((name) => `?${name}`);
    return { ...this.rest, free, clauses: this.clauses, shown: this.rest.shown.length ? [...this.rest.shown, ...fresh] : [] };
  }
}
