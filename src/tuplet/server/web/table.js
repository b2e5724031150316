// Ranked tuples: truth as a bar, status by colour and word; sorted, filtered, page by page, and more from the server.

import { button, count, make, percent, truthBar } from "./elements.js";

const PAGE = 20;
const LONG = 40, LONGEST = 200; // characters of a name that may be broken anywhere, and of one that is shown
const DATE = /^\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?$/;

export const keyOf = (answer) => JSON.stringify(answer.values);
export const keysOf = (data) => new Set(data.answers.map(keyOf));

// --- what is proven ------------------------------------------------------------------------------------------------

/** What an empty list means; only a search that was finished may say that there is no answer. */
export function nothing(data, only) {
  const kind = only ? `${only} ` : "";
  if (data.k === 0) return "No answer was asked for.";
  if (data.exact && data.bound === 0) {
    if (data.about.offset) return `There is no further ${kind}answer after the ${data.about.offset.toLocaleString("en")} that were skipped.`;
    const none = data.engine === "crisp" ? `No ${kind}tuple follows from the stated facts.` : `No ${kind}tuple makes this query true.`;
    return only ? `${none} “Show” is set to only ${only}.` : none;
  }
  const ended = data.pruned ? `The search was stopped by ${data.pruned === "timeout" ? "the time limit" : data.pruned} before it was done. ` : "";
  return `${ended}No ${kind}answer was found, but none is ruled out: there may be some. A constant or a further condition in the query makes it easier; another engine may find what this one did not.`;
}

/** What is known of the tuples that are not shown. */
function rest(data, only) {
  const other = `${data.answers.length ? "no other" : "no"} ${only ? `${only} ` : ""}tuple`; // of those that the filter keeps
  if (data.bound === 0) return `${other} has any truth`;
  return data.bound >= 1 && !data.exact ? "nothing is ruled out" : `${other} above ${percent(data.bound)}`;
}

/** What a query that counts or asks whether there is an answer wants to know first. */
function verdict(data) {
  if (data.boolean !== undefined) return data.boolean === null ? ["not known", ": the time was up"] : [data.boolean ? "yes" : "no", ""];
  if (!data.count) return null;
  const { name, answers, expected, complete } = data.count;
  const least = complete ? "" : "at least ";
  const sum = expected.toLocaleString("en", { maximumSignificantDigits: 6 });
  return [`${least}${answers.toLocaleString("en")}`, ` ${name || "answers"}; ${least}${sum} of them expected to be true`];
}

/** The head of a list of answers: what is proven, by whom, how long it took, what else is to be known. */
export function summary(data, only = "") {
  const root = make("section", { class: "panel", "aria-label": `Answers of ${data.engine}` });
  const proven = (data.exact ? "exact" : "not proven exact") + (data.pruned ? `: ${data.pruned}` : "");
  const badge = make("span", { class: data.exact ? "badge" : "badge unproven" }, proven);
  const number = data.answers.length;
  const told = make("span", { class: "quiet" }, `${data.count ? "" : `${count(number, "answer")} · `}engine ${data.engine} · ${rest(data, only)} · ${data.elapsed_ms.toFixed(1)} ms`);
  const why = data.about.not_calibrated;
  if (data.calibrated === false) told.append(` · truth values are not calibrated${why ? ` (${why})` : ""}: they rank, but 0.7 does not mean 7 in 10`);
  else if (why) told.append(` · nothing is predicted: ${why}`);
  if (data.stale) told.append(` · ${Math.round(100 * data.stale)} % of the facts changed since the truth values were made`);
  if (data.about.waiting) told.append(` · nothing is predicted yet about ${count(data.about.waiting, "new entity", "new entities")}`);
  root.append(make("div", { class: "bar" }, badge, told));
  const said = verdict(data);
  if (said) root.append(make("p", { class: "verdict" }, make("strong", {}, said[0]), said[1]));
  if (data.about.hints?.length) root.append(make("ul", { class: "hints quiet" }, ...data.about.hints.map((hint) => make("li", {}, hint))));
  if (!said && (!number || !data.variables.length)) root.append(make("p", { class: "quiet nothing" }, nothing(data, only)));
  return root;
}

// --- rows ----------------------------------------------------------------------------------------------------------

/** The answers of one engine, or of two in one list: a line for each tuple, with its rank and truth by each of them. */
export function linesOf(found) {
  const lines = new Map();
  found.forEach((data, engine) => data.answers.forEach((answer, rank) => {
    const line = lines.get(keyOf(answer)) ?? { answer, ranks: [], truths: [] };
    line.ranks[engine] = rank + 1;
    line.truths[engine] = answer.truth;
    lines.set(keyOf(answer), line);
  }));
  const first = (line) => Math.min(...line.ranks.filter(Boolean));
  const sorted = [...lines.values()].sort((a, b) => first(a) - first(b) || (a.ranks[0] ?? 1e9) - (b.ranks[0] ?? 1e9));
  sorted.forEach((line, place) => { line.place = place; });
  return sorted;
}

/** The next row in a direction, over an open explanation. */
function beside(row, direction) {
  const other = row[direction];
  return other && other.tabIndex < 0 ? other[direction] : other;
}

const textOf = (answer, variable) => answer.labels[variable] || String(answer.values[variable] ?? "");
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true, sensitivity: "base" }));

/**
 * The table of one or two lists. `does` says what happens: `onRow(answer, cell)`, `onEntity(name)`, `onRelation(name)`,
 * `shorter(name)`, and where the server may have more, `more()` gives the whole list anew.
 */
export function table(found, does) {
  const [data] = found;
  const { variables } = data;
  let lines = linesOf(found), shown = lines;
  let page = 0, sorted = { by: null, down: false }, wanted = "";
  const numbers = new Set(variables.filter((v) => {
    const values = lines.map(({ answer }) => answer.values[v]).filter((value) => value !== null);
    return values.length && values.every((value) => typeof value === "number");
  }));
  const called = (v) => (/^[\p{L}\p{N}_]+$/u.test(v) ? `?${v}` : v);
  const columns = [
    { title: "#", of: (line) => line.place },
    ...variables.map((v) => ({ title: called(v), number: numbers.has(v), of: ({ answer }) => (numbers.has(v) ? answer.values[v] ?? -Infinity : textOf(answer, v)) })),
    ...found.map(({ engine }, i) => ({ title: found.length > 1 ? `truth: ${engine}` : "truth", down: true, of: (line) => line.truths[i] ?? -1 })),
    { title: "status", of: ({ answer }) => answer.status ?? "" },
  ];
  const heads = columns.map((column) => {
    const head = make("th", { scope: "col", class: column.number ? "number" : "" });
    head.append(button(column.title, () => sort(column), { class: "sort", title: "Sort" }));
    return head;
  });
  const body = make("tbody");
  const filter = make("input", { type: "search", class: "filter", placeholder: "Filter", "aria-label": "Filter these answers", title: "Looks at the answers that are here; “More answers” fetches more", autocomplete: "off" });
  const earlier = button("Previous", () => { page -= 1; draw(); });
  const later = button("Next", () => { page += 1; draw(); });
  const more = button("More answers", fetchMore, { hidden: !does.more });
  const where = make("span", { class: "quiet", role: "status" });
  const pages = make("div", { class: "bar pages" }, where, earlier, later, more);
  const scroll = make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
  filter.addEventListener("input", () => { wanted = filter.value.trim().toLowerCase(); page = 0; arrange(); });

  function sort(column) {
    const first = Boolean(column.down);
    sorted = sorted.by !== column ? { by: column, down: first } : sorted.down === first ? { by: column, down: !first } : { by: null };
    heads.forEach((head, i) => {
      if (columns[i] === sorted.by) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    page = 0;
    arrange();
  }

  function arrange() {
    const has = ({ answer }) => [...variables.flatMap((v) => [answer.labels[v], answer.values[v]]), answer.status].some((text) => String(text ?? "").toLowerCase().includes(wanted));
    shown = wanted ? lines.filter(has) : [...lines];
    const { by, down } = sorted;
    if (by) shown.sort((a, b) => (down ? -1 : 1) * compare(by.of(a), by.of(b)));
    draw();
  }

  async function fetchMore() {
    more.disabled = true;
    const at = lines.length;
    const grown = await does.more();
    more.disabled = false;
    if (!grown) return;
    more.hidden = !grown.more;
    lines = linesOf([grown.data]);
    page = Math.floor(at / PAGE);
    arrange();
  }

  /** Names of entities and relations can be looked at; what two entities are both called is told apart. */
  function cell(answer, variable) {
    const value = answer.values[variable], label = answer.labels[variable];
    if (typeof value !== "string") return make("td", { class: typeof value === "number" ? "number" : "" }, value === null ? "" : String(value));
    if (!label && DATE.test(value)) return make("td", { class: "date" }, value.replace("T", " "));
    const name = does.shorter?.(value) ?? value;
    const entity = label || answer.witness.some((fact) => fact.head === value || fact.tail === value);
    const relation = !entity && answer.witness.some((fact) => fact.relation === value);
    const text = label || (entity || relation ? name : value);
    const long = text.length > LONG ? { class: "long" } : {};
    const brief = text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
    if (!entity && !relation) return make("td", brief === text ? long : { ...long, title: text }, brief);
    const look = (event) => { event.stopPropagation(); (entity ? does.onEntity : does.onRelation)?.(value); };
    const found = make("td", long, button(brief, look, { class: "entity", title: value }));
    if (label && (twins.get(label)?.size ?? 0) > 1) found.append(make("small", {}, name));
    return found;
  }

  function truthCell(line, i) {
    if (line.truths[i] === undefined) return make("td", { class: "truth" }, make("span", { class: "only-here" }, `not among its ${count(found[i].answers.length, "answer")}`));
    const rank = found.length > 1 ? [" ", make("span", { class: "quiet" }, `#${line.ranks[i]}`)] : [];
    return make("td", { class: "truth" }, ...truthBar(line.truths[i]), ...rank);
  }

  function row(line) {
    const { answer } = line;
    const known = answer.status ? { class: `status ${answer.status}` } : { class: "status", title: "the time was up before it was known" };
    const element = make("tr", { tabIndex: 0, title: "Why this answer?" },
      make("td", { class: "rank" }, String(line.place + 1)), ...variables.map((variable) => cell(answer, variable)),
      ...found.map((_, i) => truthCell(line, i)), make("td", {}, make("span", known, answer.status ?? "?")));
    const open = () => {
      document.querySelectorAll("tbody tr[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
      element.setAttribute("aria-current", "true");
      document.querySelector("tr.why")?.remove();
      const place = make("td", { colSpan: columns.length });
      element.after(make("tr", { class: "why" }, place));
      does.onRow(answer, place);
    };
    element.addEventListener("click", open);
    element.addEventListener("keydown", (event) => {
      if (event.target === element && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); open(); }
      if (event.key === "ArrowDown") { event.preventDefault(); beside(element, "nextElementSibling")?.focus(); }
      if (event.key === "ArrowUp") { event.preventDefault(); beside(element, "previousElementSibling")?.focus(); }
    });
    return element;
  }

  let twins = new Map(); // labels that several entities have
  function draw() {
    twins = new Map();
    for (const { answer } of lines) for (const v of variables) if (answer.labels[v]) twins.set(answer.labels[v], (twins.get(answer.labels[v]) ?? new Set()).add(answer.values[v]));
    const from = page * PAGE, to = Math.min(shown.length, from + PAGE);
    body.replaceChildren(...shown.slice(from, to).map(row));
    if (!shown.length) body.append(make("tr", {}, make("td", { colSpan: columns.length, class: "quiet" }, "None of the answers that are here contains this.")));
    const partly = !more.hidden && (sorted.by || wanted); // what the server still has is not among them
    where.textContent = (shown.length ? `${from + 1}–${to} of ${shown.length}${wanted ? ` of ${lines.length}` : ""}` : "") + (partly ? " fetched so far" : "");
    earlier.disabled = page === 0;
    later.disabled = to >= shown.length;
    earlier.hidden = later.hidden = where.hidden = shown.length <= PAGE && !wanted;
    where.hidden &&= !partly;
    filter.hidden = lines.length < 4;
  }
  draw();
  return { filter, element: make("div", { class: found.length > 1 ? "compared" : "listed" }, scroll, pages), answers: () => shown.map(({ answer }) => answer) };
}
