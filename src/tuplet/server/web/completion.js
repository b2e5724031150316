// Completion while a query is typed: variables, attributes, relations and entities, each where it may stand.

import { get } from "./api.js";
import { insert, placeOf } from "./editor.js";
import { languageOf, shorter, written } from "./languages.js";
import { $, on, state, store } from "./state.js";
import { tokensOf } from "./tokens.js";

const area = $("query");
const list = $("completion");
const WORDS = new Set(["word", "space", "entity", "relation", "keyword", "number", "prefixed", "exact", "text"]);

let choices = [];
let chosen = -1;
let asked = 0;
let pause;

function close() {
  list.hidden = true;
  chosen = -1;
  choices = [];
  area.removeAttribute("aria-activedescendant");
}

/** What is being typed: where it begins, and what may stand there. Names may have blanks, so several words are tried. */
function atCaret() {
  if (area.selectionStart !== area.selectionEnd) return null;
  const before = area.value.slice(0, area.selectionStart);
  const language = languageOf(area.value);
  const { tokens, next } = tokensOf(before, language);
  const last = tokens.at(-1);
  if (!last || last.kind === "comment") return null;
  if (next === "attribute" && last.text === ".") return { place: "attribute", starts: [before.length], language };
  if (last.kind === "variable" && language !== "cypher") return { place: "variable", starts: [last.start], language };
  if (last.kind === "attribute") return { place: "attribute", starts: [last.start], language };
  if (language === "cypher") {
    if (last.kind === "text") return { place: "entity", starts: [last.start], language };
    return last.place === "relation" || last.place === "label" ? { place: last.place, starts: [last.start], language } : null;
  }
  const starts = [];
  for (let i = tokens.length - 1; i >= 0 && WORDS.has(tokens[i].kind) && !/\n/.test(tokens[i].text); i -= 1) {
    if (tokens[i].kind === "space") continue;
    // in SPARQL a blank ends a term: only an object, with nothing behind it, can be meant to go on
    if (language === "sparql" && starts.length && tokens[i + 1].kind === "space" && last.place !== "end") break;
    if (language === "sparql" && tokens[i].kind !== "entity" && starts.length) break;
    starts.unshift(tokens[i].start);
    if (/^[<"':]/.test(tokens[i].text) || tokens[i].kind === "prefixed") break;
  }
  if (!starts.length) return null;
  const first = tokens.find((token) => token.start === starts[0]);
  return { place: first.place === "end" ? "entity" : first.place, starts, language };
}

const folded = (text) => text.toLowerCase();

function relationsLike(key, language, typed) {
  const near = state.schema.relations.filter((r) => folded(`${r.name} ${r.label}`).includes(folded(key)) || folded(r.name).includes(folded(key).replaceAll(" ", "_")));
  return near.slice(0, 8).map((r) => ({
    text: (language === "cypher" && typed[0] === ":" ? ":" : "") + written(r.name, language), title: r.label || shorter(r.name) || r.name, kind: `relation · ${r.count.toLocaleString("en")}`,
  }));
}

async function entitiesLike(key, language) {
  const { entities } = await get("schema/entities", { search: key, store: store(), limit: 8 });
  return entities.map((e) => ({
    text: language === "cypher" ? JSON.stringify(e.name) : written(e.name, language), title: e.label || shorter(e.name) || e.name,
    kind: e.label && e.label !== e.name ? shorter(e.name) || e.name : "entity",
  }));
}

/** What may be meant by a piece of text in a place. */
async function found({ place, language }, typed) {
  if (place === "attribute") {
    return state.schema.attributes.filter((a) => folded(a.word).startsWith(folded(typed)) && a.word !== typed).slice(0, 12)
      .map((a) => ({ text: written(a.word, language), title: a.word, kind: `${a.kind} · ${a.count.toLocaleString("en")}` }));
  }
  if (/^[?$]/.test(typed)) {
    const rest = area.value.slice(0, area.selectionStart - typed.length) + area.value.slice(area.selectionStart);
    const names = [...new Set(rest.match(/[?$][\p{L}\p{N}_]+/gu) || [])];
    return names.filter((name) => name.startsWith(typed) && name !== typed).map((name) => ({ text: name, title: name, kind: "variable" }));
  }
  const key = typed.replace(/^[:<"'`]/, "").trim();
  if (!key) return [];
  if (place === "relation") return relationsLike(key, language, typed);
  return place === "entity" || place === "label" ? entitiesLike(key, language) : [];
}

async function complete() {
  const number = ++asked;
  const at = state.schema ? atCaret() : null;
  const text = area.value.slice(0, area.selectionStart);
  for (const start of at?.starts ?? []) { // the most words first
    let near = [];
    try {
      near = await found(at, text.slice(start));
    } catch { /* completion is a courtesy: without it the text is typed */ }
    if (number !== asked || area.value.slice(0, area.selectionStart) !== text) return;
    near = near.filter((choice) => choice.text !== text.slice(start));
    if (near.length) return show(near, start);
  }
  close();
}

function show(near, start) {
  choices = near.map((choice) => ({ ...choice, start }));
  chosen = -1;
  list.replaceChildren(...choices.map((choice, i) => {
    const item = document.createElement("li");
    item.id = `choice-${i}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    const title = document.createElement("span");
    title.textContent = choice.title;
    const kind = document.createElement("small");
    kind.textContent = choice.kind.length > 28 ? choice.kind.slice(0, 27) + "…" : choice.kind;
    item.append(title, kind);
    item.addEventListener("mousedown", (event) => { event.preventDefault(); take(i); });
    return item;
  }));
  $("choices").textContent = `${near.length} ${near.length === 1 ? "suggestion" : "suggestions"}, the first is ${near[0].title}`;
  list.hidden = false;
  const place = placeOf(area.selectionStart);
  list.style.left = `${Math.max(0, Math.min(place.left, area.clientWidth - list.offsetWidth))}px`;
  list.style.top = `${place.top + 4}px`;
}

function choose(i) {
  asked += 1; // a list that is still on its way does not replace the one that is chosen from
  clearTimeout(pause);
  chosen = (i + choices.length) % choices.length;
  [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
  list.children[chosen].scrollIntoView({ block: "nearest" });
  area.setAttribute("aria-activedescendant", `choice-${chosen}`);
}

function take(i) {
  const { text, start } = choices[i];
  close();
  area.focus();
  asked += 1;
  insert(text, start, area.selectionStart);
}

on("text", ({ by }) => {
  clearTimeout(pause);
  if (by === "typing") pause = setTimeout(complete, 90);
  else { asked += 1; close(); }
});
area.addEventListener("blur", () => { asked += 1; clearTimeout(pause); close(); });
area.addEventListener("keydown", (event) => {
  if (event.key === " " && event.ctrlKey) { event.preventDefault(); complete(); return; }
  if (list.hidden || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowDown") { event.preventDefault(); choose(chosen + 1); }
  else if (event.key === "ArrowUp") { event.preventDefault(); choose(chosen - 1); }
  else if (event.key === "Escape") { event.preventDefault(); close(); }
  else if (event.key === "Enter" && chosen >= 0) { event.preventDefault(); take(chosen); }
  else if (event.key === "Tab" && !event.shiftKey) { event.preventDefault(); take(Math.max(0, chosen)); }
});
