// What a query says beside its drawing: conditions, columns, order, limits. Each can be changed and taken away.

const KINDS = { shown: "show", order: "order by", limit: "limit", offset: "skip" };
const FORMS = { ask: "ask whether", count: "count" };

function item(kind, text, change, remove) {
  const element = document.createElement("li");
  const word = document.createElement("span");
  word.className = "quiet";
  word.textContent = kind;
  const gone = document.createElement("button");
  gone.type = "button";
  gone.className = "plain";
  gone.textContent = "✕";
  gone.setAttribute("aria-label", `Remove ${kind} ${text}`);
  gone.addEventListener("click", remove);
  if (change) {
    const field = document.createElement("input");
    field.value = text;
    field.spellcheck = false;
    field.autocomplete = "off";
    field.setAttribute("aria-label", kind);
    field.addEventListener("change", () => { if (field.value.trim()) change(field.value.trim()); else remove(); });
    element.append(word, field, gone);
  } else element.append(word, gone);
  return element;
}

/** The list for a drawing; `changed` is called after every change of it. */
export function parts(drawing, changed) {
  const { clauses, rest } = drawing;
  const edit = (action) => (value) => { action(value); changed(); };
  const found = clauses.flatMap((clause, c) => clause.conditions.map((condition, i) => item(
    clauses.length > 1 ? `${c ? "or" : "either"} where` : "where", condition.text,
    edit((text) => { condition.text = text; }),
    edit(() => {
      clause.conditions.splice(i, 1);
      if (clauses.length > 1) drawing.clauses = clauses.filter((x) => x.edges.length || x.conditions.length);
    }))));
  for (const kind of ["shown", "order"]) {
    rest[kind].forEach((text, i) => found.push(item(KINDS[kind], text,
      edit((value) => { rest[kind][i] = value; }), edit(() => rest[kind].splice(i, 1)))));
  }
  for (const [kind, none] of [["limit", null], ["offset", 0]]) {
    if (rest[kind] !== none) found.push(item(KINDS[kind], String(rest[kind]), edit((value) => { rest[kind] = Number(value) || 0; }), edit(() => { rest[kind] = none; })));
  }
  if (rest.form !== "select") found.push(item(FORMS[rest.form], "", null, edit(() => { rest.form = "select"; rest.counted = ""; })));
  return found;
}

/** Adds a condition, a column or a key of the order to a drawing. */
export function addPart(drawing, kind, text) {
  if (kind === "where") drawing.clauses[0].conditions.push({ text, terms: [] });
  else {
    // the first column is shown beside the names asked for, not in their place
    if (kind === "shown" && !drawing.rest.shown.length) drawing.rest.shown = drawing.asked().map((name) => `?${name}`);
    drawing.rest[kind].push(text);
  }
}
