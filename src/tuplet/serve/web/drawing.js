// Query graphs and witness graphs on a canvas; the drawing of a query can be changed, and tells the page what it is.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function look() {
  const quiet = css("--quiet"), accent = css("--accent"), bad = css("--bad"), text = css("--text");
  const surface = css("--surface");
  return [
    { selector: "node", style: {
      label: "data(title)", color: text, "font-size": 13, "font-family": "system-ui, sans-serif", "text-valign": "center",
      "text-halign": "center", "background-color": surface, "border-width": 2, "border-color": quiet, width: "data(width)",
      height: 34, shape: "round-rectangle", "text-wrap": "ellipsis", "text-max-width": "180px" } },
    { selector: ".free", style: { "background-color": accent, "border-color": accent, color: css("--accent-text"), shape: "ellipse", height: 42, "font-weight": 600 } },
    { selector: ".exists", style: { "border-color": accent, "border-style": "dashed", shape: "ellipse", height: 42 } },
    { selector: ".constant", style: { "background-color": css("--sunken") } },
    { selector: ".clause", style: { "background-opacity": 0, "border-width": 1, "border-style": "dashed", "border-color": css("--line"), "text-valign": "top", color: quiet, "font-size": 11, padding: 12 } },
    { selector: "edge", style: {
      label: "data(title)", color: text, "font-size": 11.5, "font-family": "system-ui, sans-serif", width: 2, "line-color": quiet,
      "target-arrow-color": quiet, "target-arrow-shape": "triangle", "curve-style": "bezier", "control-point-step-size": 46,
      "text-rotation": "autorotate", "text-margin-y": -10, "text-wrap": "ellipsis", "text-max-width": "200px",
      "loop-direction": "-45deg", "loop-sweep": "60deg" } },
    { selector: "edge.steep", style: { "text-rotation": "none", "text-margin-y": 0, "text-background-color": surface, "text-background-opacity": 0.9, "text-background-padding": 2 } },
    { selector: "edge.predicted", style: { "line-style": "dashed", "line-color": css("--predicted"), "target-arrow-color": css("--predicted") } },
    { selector: "edge.observed", style: { "line-color": css("--observed"), "target-arrow-color": css("--observed") } },
    { selector: "edge.negated", style: { "line-color": bad, "target-arrow-color": bad, color: bad } },
    { selector: "edge.different", style: { "line-style": "dotted", "target-arrow-shape": "none" } },
    { selector: ":selected, .chosen", style: { "overlay-color": accent, "overlay-opacity": 0.18, "overlay-padding": 5 } },
  ];
}

const width = (title, round) => Math.min(210, Math.max(round ? 42 : 48, 8 * title.length + (round ? 22 : 20)));
/** Long names of relations and of paths tell most at their end, other names at their beginning. */
const tail = (title) => (title.length > 24 ? "…" + title.slice(-23) : title);
const short = (title) => (title.length <= 24 ? title : title.includes("/") ? tail(title) : title.slice(0, 23) + "…");

/** Places by distance from the constants, clause below clause: the same query is always drawn alike. */
function place(clauses, container) {
  const tall = container.clientWidth < 420; // on a phone, levels go down instead of right
  const across = tall ? 175 : 92;
  const places = new Map();
  let base = 0;
  for (const { nodes, links } of clauses) {
    const near = new Map(nodes.map((n) => [n.id, new Set()]));
    for (const { from, to } of links) { near.get(from)?.add(to); near.get(to)?.add(from); }
    const level = new Map();
    const starts = nodes.filter((n) => n.kind === "constant").slice(0, 1);
    for (const start of [...starts, ...nodes]) {
      if (level.has(start.id)) continue;
      level.set(start.id, 0);
      const queue = [start.id];
      while (queue.length) {
        const id = queue.shift();
        for (const other of near.get(id)) if (!level.has(other)) { level.set(other, level.get(id) + 1); queue.push(other); }
      }
    }
    const rows = [];
    for (const n of nodes) (rows[level.get(n.id)] ??= []).push(n);
    const tallest = Math.max(1, ...rows.map((row) => row.length));
    let x = 0, before = 0;
    rows.forEach((row, l) => {
      // room for the widest node on both sides and for the longest title between
      const half = Math.max(...row.map((n) => n.width)) / 2;
      const titles = links.filter((link) => [level.get(link.from), level.get(link.to)].sort().join() === `${l - 1},${l}`).map((link) => link.title.length);
      if (l) x += before + half + Math.min(170, 30 + 6.2 * Math.max(0, ...titles));
      before = half;
      row.forEach((n, i) => {
        // a little out of line, so that an edge does not run through the node between its ends
        const shift = (i - (row.length - 1) / 2) * across + (row.length === 1 && l % 2 ? 24 : 0);
        places.set(n.id, tall ? { x: shift, y: base + 100 * l + 52 * (i % 2) } : { x, y: base + (tallest * across) / 2 + shift });
      });
    });
    base += (tall ? rows.length * 100 : tallest * across) + 40;
  }
  return places;
}

function canvas(container) {
  return cytoscape({ container, style: look(), minZoom: 0.2, maxZoom: 1.3, boxSelectionEnabled: false,
    userZoomingEnabled: false, selectionType: "single" });
}

/** Titles lie along their edges; where an edge goes up or down, the title lies across it. */
function settle(cy) {
  cy.edges().forEach((edge) => {
    const [a, b] = [edge.source().position(), edge.target().position()];
    edge.toggleClass("steep", Math.abs(a.x - b.x) < Math.abs(a.y - b.y));
  });
  fit(cy);
}

const fit = (cy) => { if (cy.elements().nonempty()) { cy.resize(); cy.fit(undefined, 22); } };

// --- the query, editable -------------------------------------------------------------------------------------------

export class QueryDrawing {
  constructor(container, changed, selected) {
    this.container = container;
    this.changed = changed;
    this.selectedTold = selected;
    this.cy = canvas(container);
    this.loose = []; // nodes without an edge yet
    this.take(null);
    this.places = new Map(); // where the user put things
    this.picked = [];
    this.cy.on("tap", (event) => {
      if (event.target === this.cy) this.addVariable("free", event.position);
    });
    this.cy.on("tap", "node", (event) => { if (!event.target.hasClass("clause")) this.pick(event.target.id()); });
    this.cy.on("tap", "edge", (event) => this.select(event.target.id()));
    this.cy.on("dragfree", "node", (event) => this.places.set(event.target.id(), { ...event.target.position() }));
    new ResizeObserver(() => fit(this.cy)).observe(container);
  }

  restyle() { this.cy.style(look()); }

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
    const elements = [];
    const groups = [];
    const several = this.clauses.length > 1;
    this.clauses.forEach((clause, c) => {
      if (several) elements.push({ group: "nodes", data: { id: `clause/${c}`, title: c ? "or" : "either", width: 10 }, classes: "clause", selectable: false, grabbable: false });
      const nodes = this.terms(c).map((term) => {
        const title = short(term.kind === "constant" ? term.label || term.name : `?${term.name}`);
        const id = this.id(c, term);
        elements.push({ group: "nodes", data: { id, title, width: width(title, term.kind !== "constant"), parent: several ? `clause/${c}` : undefined }, classes: term.kind });
        return { id, kind: term.kind, width: width(title, term.kind !== "constant") };
      });
      const links = [];
      clause.edges.forEach((edge, e) => {
        const [source, target] = [this.id(c, edge.head), this.id(c, edge.tail)];
        const title = (edge.negated ? "not " : "") + tail(edge.label || edge.relation);
        links.push({ from: source, to: target, title });
        elements.push({ group: "edges", data: { id: `edge/${c}/${e}`, source, target, title }, classes: edge.negated ? "negated" : "" });
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
    this.picked = this.picked.filter((id) => this.cy.getElementById(id).nonempty());
    this.describe();
    this.select(this.selection && this.cy.getElementById(this.selection).nonempty() ? this.selection : null);
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
    this.cy.elements().removeClass("chosen");
    if (id) this.cy.getElementById(id).addClass("chosen");
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

// --- a witness -----------------------------------------------------------------------------------------------------

export class WitnessDrawing {
  constructor(container) {
    this.container = container;
    this.cy = canvas(container);
    new ResizeObserver(() => fit(this.cy)).observe(container);
  }

  restyle() { this.cy.style(look()); }

  show(answer, labels, query, percent) {
    const free = query?.free ?? Object.keys(answer.values);
    const asked = new Set(Object.entries(answer.values).filter(([variable]) => free.includes(variable)).map(([, name]) => name));
    const constants = new Set((query?.clauses || []).flatMap((c) => c.edges.flatMap((e) => [e.head, e.tail])).filter((t) => t.kind === "constant").map((t) => t.name));
    const names = [...new Set(answer.witness.flatMap((f) => [f.head, f.tail]))];
    const kind = (name) => (asked.has(name) ? "free" : constants.has(name) ? "constant" : "exists");
    const nodes = names.map((name) => ({ id: name, kind: kind(name), title: short(labels[name] || name) }));
    for (const n of nodes) n.width = width(n.title, n.kind !== "constant");
    const titled = answer.witness.map((f) => `${f.negated ? "not " : ""}${tail(labels[f.relation] || f.relation)}${f.truth < 1 ? ` ${percent(f.truth)}` : ""}`);
    const links = answer.witness.map((f, i) => ({ from: f.head, to: f.tail, title: titled[i] }));
    const places = place([{ nodes, links }], this.container);
    this.cy.elements().remove();
    this.cy.add([
      ...nodes.map((n) => ({ group: "nodes", data: { id: n.id, title: n.title, width: n.width }, classes: n.kind, position: places.get(n.id) })),
      ...answer.witness.map((f, i) => ({ group: "edges",
        data: { id: `fact/${i}`, source: f.head, target: f.tail, title: titled[i] },
        classes: f.negated ? "negated" : f.observed ? "observed" : "predicted" })),
    ]);
    settle(this.cy);
    const facts = answer.witness.map((f) => `${f.negated ? "not " : ""}${f.relation} from ${labels[f.head] || f.head} to ${labels[f.tail] || f.tail}, ${f.observed ? "observed" : "predicted"}`);
    this.container.setAttribute("aria-label", `Witness: ${facts.join("; ")}`);
  }
}
