// Ranked tuples: truth as a bar, status by colour and word, pages of rows, a badge that says what is proven.

const PAGE = 20;

export function percent(truth) {
  if (truth === 0 || truth === 1) return String(truth);
  if (truth < 0.001) return truth.toExponential(1);
  return (truth > 0.9999 ? Math.floor(truth * 1e4) / 1e4 : truth).toFixed(4);
}

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** The next row in a direction, over an open explanation. */
function beside(row, direction) {
  const other = row[direction];
  return other && other.tabIndex < 0 ? other[direction] : other;
}

/** What an empty list means; only a search that was finished may say that there is no answer. */
function nothing(data, only) {
  if (!data.exact) return "No answer was found, but none is ruled out. A constant in the query makes it easier.";
  return only ? `No ${only} tuple makes this query true; “Show” is set to only ${only}.` : "No tuple makes this query true.";
}

const DATE = /^\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?$/;

/** What a query that counts or asks whether there is an answer wants to know first. */
function verdict(data) {
  if (data.boolean !== undefined) return data.boolean === null ? ["not known", ": the time was up"] : [data.boolean ? "yes" : "no", ""];
  if (!data.count) return null;
  const { name, answers, expected, complete } = data.count;
  const least = complete ? "" : "at least ";
  const sum = expected.toLocaleString("en", { maximumSignificantDigits: 6 });
  return [`${least}${answers.toLocaleString("en")}`, ` ${name || "answers"}; ${least}${sum} of them expected to be true`];
}

const keyOf = (answer) => JSON.stringify(answer.values);

/** One panel of answers; `others` are the keys of the other engine's answers, where two are compared. */
export function panel(data, onRow, only = "", others = null, shorter = () => null) {
  let page = 0;
  const root = make("section", { class: "panel", "aria-label": `Answers of ${data.engine}` });
  const other = `no other ${only ? `${only} ` : ""}tuple`;  // of those that the filter keeps
  const rest = data.bound === 0 ? `${other} has any truth` : `${other} above ${percent(data.bound)}`;
  const proven = (data.exact ? "exact" : "not proven exact") + (data.pruned ? `: ${data.pruned}` : "");
  const badge = make("span", { class: data.exact ? "badge" : "badge unproven" }, proven);
  const count = data.answers.length;
  const told = make("span", { class: "quiet" }, `${data.count ? "" : `${count} ${count === 1 ? "answer" : "answers"} · `}${data.engine} · ${rest} · ${data.elapsed_ms.toFixed(1)} ms`);
  const why = data.about.not_calibrated;
  if (data.calibrated === false) told.append(` · truth values are not calibrated${why ? ` (${why})` : ""}: they rank, but 0.7 does not mean 7 in 10`);
  else if (why) told.append(` · nothing is predicted: ${why}`);
  if (data.stale) told.append(` · ${Math.round(100 * data.stale)} % of the facts changed since the truth values were made`);
  if (data.about.waiting) told.append(` · nothing is predicted yet about ${data.about.waiting} new ${data.about.waiting === 1 ? "entity" : "entities"}`);
  const body = make("tbody");
  const numbers = new Set(data.variables.filter((v) => {
    const values = data.answers.map((answer) => answer.values[v]).filter((value) => value !== null);
    return values.length && values.every((value) => typeof value === "number");
  }));
  const titles = data.variables.map((v) => make("th", { scope: "col", class: numbers.has(v) ? "number" : "" }, /^[\p{L}\p{N}_]+$/u.test(v) ? `?${v}` : v));
  const column = (name) => make("th", { scope: "col" }, name);
  const head = make("tr", {}, column("#"), ...titles, column("truth"), column("status"));
  const table = make("table", {}, make("thead", {}, head), body);
  const earlier = make("button", { type: "button" }, "Previous");
  const later = make("button", { type: "button" }, "Next");
  const where = make("span", { class: "quiet" });
  const pages = make("div", { class: "bar pages" }, where, earlier, later);
  const scroll = make("div", { class: "scroll" }, table);
  root.append(make("div", { class: "bar" }, badge, told));
  const said = verdict(data);
  if (said) root.append(make("p", { class: "verdict" }, make("strong", {}, said[0]), said[1]));
  if (data.about.hints?.length) root.append(make("ul", { class: "hints quiet" }, ...data.about.hints.map((hint) => make("li", {}, hint))));
  if (!count || !data.variables.length) {
    if (said) return root;
    root.append(make("p", { class: "quiet" }, nothing(data, only)));
    return root;
  }
  root.append(scroll, pages);

  function row(answer, i) {
    const cells = data.variables.map((variable) => {
      const value = answer.values[variable], label = answer.labels[variable];
      if (typeof value !== "string") return make("td", { class: typeof value === "number" ? "number" : "" }, value === null ? "" : String(value));
      const name = shorter(value) ?? value;
      if (!label && DATE.test(value)) return make("td", { class: "date" }, value.replace("T", " "));
      const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
      const cell = make("td", {}, label || name);
      if (label && plain(label) !== plain(name)) cell.append(make("small", {}, name));
      return cell;
    });
    const bar = make("i");
    bar.style.width = `${Math.max(2, 100 * answer.truth)}%`;
    const known = answer.status ? { class: `status ${answer.status}` } : { class: "status", title: "the time was up before it was known" };
    const status = make("td", {}, make("span", known, answer.status ?? "?"));
    if (others && !others.has(keyOf(answer))) status.append(" ", make("span", { class: "only-here" }, "only here"));
    const element = make("tr", { tabIndex: 0, title: "Why this answer?" },
      make("td", { class: "rank" }, String(i + 1)), ...cells,
      make("td", { class: "truth" }, make("span", { class: "meter", "aria-hidden": "true" }, bar), percent(answer.truth)), status);
    const open = () => {
      document.querySelectorAll("tbody tr[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
      element.setAttribute("aria-current", "true");
      document.querySelector("tr.why")?.remove();
      const cell = make("td", { colSpan: data.variables.length + 3 });
      element.after(make("tr", { class: "why" }, cell));
      onRow(answer, cell);
    };
    element.addEventListener("click", open);
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); }
      if (event.key === "ArrowDown") { event.preventDefault(); beside(element, "nextElementSibling")?.focus(); }
      if (event.key === "ArrowUp") { event.preventDefault(); beside(element, "previousElementSibling")?.focus(); }
    });
    return element;
  }

  function draw() {
    const from = page * PAGE, to = Math.min(count, from + PAGE);
    body.replaceChildren(...data.answers.slice(from, to).map((answer, i) => row(answer, from + i)));
    where.textContent = `${from + 1}–${to} of ${count}`;
    earlier.disabled = page === 0;
    later.disabled = to >= count;
    pages.hidden = count <= PAGE;
  }
  earlier.addEventListener("click", () => { page -= 1; draw(); });
  later.addEventListener("click", () => { page += 1; draw(); });
  draw();
  return root;
}

export const keysOf = (data) => new Set(data.answers.map(keyOf));
