// The page: text ↔ drawing ↔ answers. The server parses and prints; here is only what is shown.

import { get, post, postJson, Problem } from "/web/api.js";
import { languageOf, setUp, shorter, showNote, showProblem, written } from "/web/editor.js";
import { QueryDrawing, WitnessDrawing } from "/web/drawing.js";
import { evidence } from "/web/evidence.js";
import { addPart, parts } from "/web/parts.js";
import { keysOf, panel, percent } from "/web/table.js";

const $ = (id) => document.getElementById(id);
const area = $("query");
let schema = null;
let parsed = null; // what the server made of the text last
let last = null; // the request of the answers shown
let running = null;

// --- dark and light ------------------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
const restyle = () => { drawing.restyle(); witness.restyle(); };
if (localStorage.getItem("tuplet-theme")) document.documentElement.dataset.theme = localStorage.getItem("tuplet-theme");
$("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  localStorage.setItem("tuplet-theme", theme());
  restyle();
});
dark.addEventListener("change", () => restyle());

// --- text and drawing ----------------------------------------------------------------------------------------------

const store = () => $("store").value || null;
const drawing = new QueryDrawing($("graph"), writeDrawing, showSelection);
const witness = new WitnessDrawing($("why-graph"));

const LANGUAGES = {
  logic: "?x, ?y : relation(?x, ?y) & relation(?y, entity)",
  sparql: "SELECT ?x ?y WHERE { ?x :relation ?y . ?y :relation :entity }",
  cypher: 'MATCH (x)-[:RELATION]->(y) WHERE y.name = "entity" RETURN x, y',
};
const press = (language) => Object.keys(LANGUAGES).forEach((name) => $(`as-${name}`).setAttribute("aria-pressed", String(name === language)));
const pressed = () => Object.keys(LANGUAGES).find((name) => $(`as-${name}`).getAttribute("aria-pressed") === "true") || "logic";

function showDrawing(graph) {
  drawing.show(graph);
  showParts();
}

function showParts() {
  $("parts").replaceChildren(...parts(drawing, () => { showParts(); writeDrawing(); }));
  $("parts").hidden = !$("parts").children.length;
}

let reading = 0;
async function read() {
  const text = area.value;
  const number = ++reading;
  if (!text.trim()) {
    parsed = null;
    showProblem(null);
    showDrawing(null);
    return;
  }
  press(languageOf(text));
  try {
    const found = await postJson("/parse", { query: text, store: store() });
    if (number !== reading) return;
    parsed = found;
    press(found.language);
    showProblem(found.problem);
    if (found.graph) showDrawing(found.graph);
  } catch (error) {
    if (number === reading) showProblem({ error: error.message });
  }
}

let pause;
area.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(read, 250);
});

function setText(text) {
  area.value = text;
  return read();
}

let writing = 0;
async function writeDrawing() {
  const drawn = drawing.drawn();
  const number = ++writing;
  if (!drawn) return;
  try {
    const language = area.value.trim() ? languageOf(area.value) : pressed();
    const { query } = await postJson("/write", { ...drawn, language, store: store() });
    if (number === writing) await setText(pretty(query));
  } catch (error) {
    if (number === writing) showProblem({ error: error.message });
  }
}

async function translate(language) {
  if (!area.value.trim()) {
    press(language);
    area.placeholder = LANGUAGES[language];
    return;
  }
  clearTimeout(pause);
  await read();
  if (!parsed || parsed.language === language) return;
  if (parsed[language]) await setText(pretty(parsed[language]));
  else if (parsed.refused[language]) showNote(parsed.refused[language]);
}

/** SPARQL and Cypher with a line for each pattern and clause; texts in quotes stay as they are. */
function pretty(text) {
  const language = languageOf(text);
  if (language === "logic") return text;
  const quoted = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`|<[^<>\s]*>/;
  const broken = language === "sparql" ? / \. (?=[?:<"\w{])| (?=FILTER\b|OPTIONAL\b)/ : / (?=(?:MATCH|WHERE|RETURN|ORDER BY|SKIP|LIMIT)\b)/;
  const indent = language === "sparql" ? "  " : "";
  const lines = text.replace(new RegExp(`${quoted.source}|${broken.source}`, "g"), (found) => (/^ (\. )?$/.test(found) ? `${found.trimEnd()}\n${indent}` : found));
  return language === "sparql" ? lines.replace("{ ", "{\n  ").replace(/ \}((?: ORDER BY [^{}]*)?(?: LIMIT \d+)?(?: OFFSET \d+)?)$/, "\n}$1") : lines;
}
for (const language of Object.keys(LANGUAGES)) $(`as-${language}`).addEventListener("click", () => translate(language));
$("clear").addEventListener("click", () => { drawing.loose = []; setText(""); area.focus(); });

// --- drawing by hand -----------------------------------------------------------------------------------------------

const titleOf = (term) => (term.kind === "constant" ? term.label || shown(term.name) : `?${term.name}`);

function showSelection(id, picked) {
  const terms = drawing.nodes();
  for (const [select, at] of [[$("edge-head"), 0], [$("edge-tail"), 1]]) {
    const kept = picked[at] || select.value;
    select.replaceChildren(...terms.map((term) => new Option(titleOf(term), drawing.id(0, term))));
    select.value = terms.some((t) => drawing.id(0, t) === kept) ? kept : select.options[Math.min(at, terms.length - 1)]?.value ?? "";
  }
  if (picked.length === 2) $("edge-relation").focus();
  $("selected").hidden = !id;
  if (!id) return;
  const [kind, clause, number] = id.split("/");
  const variable = clause === "v";
  const edge = kind === "edge" ? drawing.clauses[clause].edges[number] : null;
  $("selected-name").textContent = edge ? `${edge.negated ? "not " : ""}${edge.label || edge.relation}` : kind === "different" ? "≠" : `${variable ? "?" : ""}${id.split("/").slice(2).join("/")}`;
  $("negate").hidden = !edge;
  const term = variable && drawing.clauses.flatMap((_, c) => drawing.terms(c)).find((t) => t.kind !== "constant" && t.name === id.split("/").slice(2).join("/"));
  $("make-free").hidden = !term || term.kind === "free";
  $("make-exists").hidden = !term || term.kind === "exists";
}

$("add-free").addEventListener("click", () => drawing.addVariable("free"));
$("add-exists").addEventListener("click", () => drawing.addVariable("exists"));
$("negate").addEventListener("click", () => drawing.negate());
$("remove").addEventListener("click", () => drawing.remove());
$("make-free").addEventListener("click", () => drawing.setKind("free"));
$("make-exists").addEventListener("click", () => drawing.setKind("exists"));

$("edge-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const [head, tail] = [drawing.term($("edge-head").value), drawing.term($("edge-tail").value)];
  const typed = $("edge-relation").value.trim();
  const relation = schema?.relations.find((r) => r.name === typed || r.label === typed);
  if (!head || !tail) return tell("Add two nodes first");
  if (!relation) { $("edge-relation").focus(); return tell(typed ? `No relation is called ${typed}` : "Choose a relation"); }
  drawing.addEdge({ ...head }, relation, { ...tail }, $("edge-negated").checked);
  $("edge-relation").value = "";
  $("edge-negated").checked = false;
});

$("part-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("part-text").value.trim();
  if (!text) { $("part-text").focus(); return; }
  addPart(drawing, $("part-kind").value, text);
  $("part-text").value = "";
  showParts();
  writeDrawing();
});
$("part-kind").addEventListener("change", () => {
  $("part-text").placeholder = { where: "?x.age > 30", shown: "?x.age", order: "?x.age desc" }[$("part-kind").value];
});

$("node-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const typed = $("node-entity").value.trim();
  if (!typed) return;
  try {
    const { entities } = await get("/schema/entities", { search: typed, store: store(), limit: 20 });
    const found = entities.find((e) => e.name === typed || e.label === typed) || entities[0];
    if (!found) return tell(`No entity is called ${typed}`);
    drawing.addNode({ kind: "constant", name: found.name, form: "name", label: found.label });
    $("node-entity").value = "";
  } catch (error) { tell(error.message); }
});

let searching;
$("node-entity").addEventListener("input", () => {
  clearTimeout(searching);
  searching = setTimeout(async () => {
    const typed = $("node-entity").value.trim();
    if (!typed) return;
    try {
      const { entities } = await get("/schema/entities", { search: typed, store: store(), limit: 12 });
      $("entity-list").replaceChildren(...entities.map((e) => new Option(e.label || e.name, e.name)));
    } catch { /* a courtesy */ }
  }, 120);
});

// --- asking --------------------------------------------------------------------------------------------------------

function request(engine, query) {
  const budget = $("budget").value.trim();
  return {
    query,
    store: store(),
    k: Number($("k").value),
    engine,
    ...($("only").value ? { only: $("only").value } : {}),
    ...(engine.startsWith("ns3") && budget ? { budget: budget === "all" ? "all" : Number(budget) || budget } : {}),
  };
}

async function ask() {
  const text = area.value;
  if (!text.trim()) { area.focus(); return; }
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  clearTimeout(pause);
  $("ask").textContent = "Asking…";
  $("results").setAttribute("aria-busy", "true");
  await read();
  if (signal.aborted) return;
  const engines = [$("engine").value, $("versus").value].filter((name, i, all) => name && all.indexOf(name) === i);
  try {
    const found = await Promise.all(engines.map((engine) => postJson("/ask", request(engine, text), signal)));
    last = request(engines[0], text);
    show(found);
    share();
    explainPlan();
    if (innerWidth <= 900) $("results").scrollIntoView({ block: "start" });
  } catch (error) {
    if (error.name === "AbortError") return;
    showProblem(error instanceof Problem ? error.body : { error: String(error.message || error) });
    if (!document.activeElement || document.activeElement === document.body) area.focus();
  } finally {
    if (running.signal === signal) {
      $("ask").textContent = "Ask";
      $("results").removeAttribute("aria-busy");
    }
  }
}

function show(found) {
  $("empty").hidden = true;
  $("tools").hidden = false;
  $("panels").classList.toggle("two", found.length > 1);
  $("panels").replaceChildren(...found.map((data, i) => panel(data, explain, $("only").value, found.length > 1 ? keysOf(found[1 - i]) : null, shorter)));
  const [first, second] = found;
  if (second) {
    const shared = [...keysOf(first)].filter((key) => keysOf(second).has(key)).length;
    tell(`${shared} answers in common`);
  } else tell("");
}

const shown = (value) => (typeof value === "string" && shorter(value)) || String(value);
const why = Object.fromEntries(["why", "why-title", "why-facts", "why-close"].map((id) => [id, $(id)]));

function explain(answer, place) {
  const relations = (schema?.relations || []).map((r) => [r.name, r.label]);
  const entities = answer.witness.flatMap((f) => [[f.head, f.head_label], [f.tail, f.tail_label]]);
  const all = Object.fromEntries([...relations, ...entities]);
  place.append(why.why);
  why.why.hidden = false;
  why["why-title"].textContent = `Why ${Object.keys(answer.values).filter((v) => answer.values[v] !== null).map((v) => answer.labels[v] || shown(answer.values[v])).join(", ") || "yes"}? Truth ${percent(answer.truth)}`;
  witness.show(answer, all, parsed?.graph, percent);
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
  if (!open.length || !last) return;
  let found;
  try {
    const { witness } = await postJson("/explain", { ...asQuery(open.map(([fact]) => fact)), store: last.store, evidence: true });
    found = (fact) => witness.find((f) => f.head === fact.head && f.relation === fact.relation && f.tail === fact.tail)?.evidence;
  } catch (error) { return tell(error.message); }
  for (const [fact, item] of open) item.append(evidence(found(fact), fact.lift, all, percent));
}
why["why-close"].addEventListener("click", () => {
  document.querySelector("tr.why")?.remove();
  document.querySelector("tbody tr[aria-current]")?.focus();
});

async function explainPlan() {
  $("plan").hidden = false;
  try {
    $("plan-text").textContent = (await postJson("/plan", { query: last.query, engine: last.engine, store: last.store })).plan;
  } catch (error) { $("plan-text").textContent = error.message; }
}

// --- sharing and taking away ---------------------------------------------------------------------------------------

function share() {
  const kept = { q: area.value, store: store(), engine: $("engine").value, versus: $("versus").value, k: $("k").value, only: $("only").value };
  const pairs = Object.entries(kept).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(pairs)}`);
}

async function open() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.get("q")) return false;
  if (given.get("store") && schema.stores.includes(given.get("store")) && given.get("store") !== schema.store) await load(given.get("store"));
  for (const name of ["engine", "versus", "k", "only"]) {
    const value = given.get(name);
    if (value !== null && [...$(name).options].some((option) => option.value === value)) $(name).value = value;
  }
  showBudget();
  await setText(given.get("q"));
  await ask();
  return true;
}
addEventListener("hashchange", () => open());

function tell(text) { $("told").textContent = text; $("tools").hidden = $("tools").hidden && !text; }

$("link").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    tell("Link copied");
  } catch { tell("The link is in the address bar"); }
});

for (const button of document.querySelectorAll("[data-download]")) {
  button.addEventListener("click", async () => {
    try {
      const format = button.dataset.download;
      const blob = await (await post("/ask", { ...last, format })).blob();
      const anchor = document.createElement("a");
      anchor.href = URL.createObjectURL(blob);
      anchor.download = `answers.${format}`;
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
      tell(`answers.${format}`);
    } catch (error) { tell(error.message); }
  });
}

// --- start ---------------------------------------------------------------------------------------------------------

const showBudget = () => { $("budget-field").hidden = !`${$("engine").value} ${$("versus").value}`.includes("ns3"); };
for (const id of ["engine", "versus"]) $(id).addEventListener("change", showBudget);
for (const id of ["k", "only", "engine", "versus"]) $(id).addEventListener("change", () => { if (running) ask(); });
$("ask").addEventListener("click", ask);
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
});
$("store").addEventListener("change", async () => { await load(store()); await setText(""); });
$("examples").addEventListener("change", async (event) => {
  const example = schema.examples[Number(event.target.value)];
  if (event.target.value === "" || !example) return;
  drawing.loose = [];
  drawing.places.clear();
  $("only").value = example.only || "";
  await setText(example.query);
  event.target.value = "";
  await ask();
});

async function load(name) {
  schema = await get("/schema", { store: name });
  $("store").replaceChildren(...schema.stores.map((s) => new Option(s, s)));
  $("store").value = schema.store;
  $("store-field").hidden = schema.stores.length < 2;
  $("facts").textContent = `${schema.entities.toLocaleString("en")} entities, ${schema.relations.length} relations, ${schema.facts.toLocaleString("en")} facts${schema.predicted ? ", and predictions" : ""}`;
  $("engine").replaceChildren(...schema.engines.map((e) => new Option(e, e)));
  $("versus").replaceChildren(new Option("with nothing", ""), ...schema.engines.map((e) => new Option(e, e)));
  $("examples").replaceChildren(new Option("Choose a query to start from…", ""), ...schema.examples.map((e, i) => new Option(e.title, String(i))));
  $("relation-list").replaceChildren(...schema.relations.map((r) => new Option(r.label || r.name, r.name)));
  $("k").replaceChildren(...[10, 50, 200, 1000].filter((k) => k <= schema.limits.k).map((k) => new Option(k, k, k === 50, k === 50)));
  setUp({ relations: schema.relations, attributes: schema.attributes, prefixes: schema.prefixes, store });
  showBudget();
}

if (innerWidth <= 900) $("draw-tools").open = false;
try {
  await load(null);
  if (!(await open())) showDrawing(null);
} catch (error) {
  showProblem({ error: error.message });
}
document.documentElement.dataset.ready = "yes";
