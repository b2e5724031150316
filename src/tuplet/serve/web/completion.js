// Completion of variables, attributes, relations and entities while a query is typed.

import { get } from "./api.js";
import { languageOf, shorter, written } from "./languages.js";
import { state, store } from "./state.js";

const area = document.getElementById("query");
const mirror = document.getElementById("mirror");
const list = document.getElementById("completion");

const WORD = /(?:[?$][\p{L}\p{N}_]*|<[^<>\n]*|:?[\p{L}\p{N}_/](?:[\p{L}\p{N}_./-])*|:|"[^"\n]*)$/u;

let choices = [];
let chosen = -1;
let asked = 0;

function close() {
  list.hidden = true;
  chosen = -1;
  choices = [];
  area.setAttribute("aria-expanded", "false");
  area.removeAttribute("aria-activedescendant");
}

/** The word before the caret, and whether it is the name of an attribute: what stands behind `?x.` or `treats(?x, ?y).` */
function atCaret() {
  if (area.selectionStart !== area.selectionEnd) return { word: "", attribute: false };
  const before = area.value.slice(0, area.selectionStart);
  const owner = languageOf(area.value) === "cypher" ? /(?<![\p{L}\p{N}_"'`.:])[\p{L}_][\p{L}\p{N}_]*\.([\p{L}\p{N}_]*)$/u : /(?:[?$][\p{L}\p{N}_]+|\))\.([\p{L}\p{N}_]*)$/u;
  const named = before.match(owner);
  if (named) return { word: named[1], attribute: true };
  return { word: before.match(WORD)?.[0] ?? "", attribute: false };
}

async function complete() {
  if (!state.schema) return;
  const { word, attribute } = atCaret();
  const number = ++asked;
  const text = area.value;
  const language = languageOf(text);
  if (attribute) {
    const folded = word.toLowerCase();
    return show(state.schema.attributes.filter((a) => a.word.toLowerCase().startsWith(folded) && a.word !== word).slice(0, 12)
      .map((a) => ({ text: written(a.word, language), title: a.word, kind: `${a.kind} · ${a.count.toLocaleString("en")}` })), word);
  }
  if (!word || word === ":") return close();
  if (word[0] === "?" || word[0] === "$") {
    const before = text.slice(0, area.selectionStart - word.length) + text.slice(area.selectionStart);
    const names = [...new Set(before.match(/[?$][\p{L}\p{N}_]+/gu) || [])];
    return show(names.filter((name) => name.startsWith(word) && name !== word)
      .map((name) => ({ text: name, title: name, kind: "variable" })), word);
  }
  const key = word.replace(/^[:<"]/, "");
  if (key.length < 1) return close();
  const folded = key.toLowerCase();
  const near = state.schema.relations.filter((r) => `${r.name} ${r.label}`.toLowerCase().includes(folded)).slice(0, 6)
    .map((r) => ({ text: (language === "cypher" && word[0] === ":" ? ":" : "") + written(r.name, language), title: r.label || shorter(r.name) || r.name, kind: `relation · ${r.count.toLocaleString("en")}` }));
  let entities = [];
  try {
    entities = (await get("schema/entities", { search: key, store: store(), limit: 8 })).entities;
  } catch { /* completion is a courtesy: without it the text is typed */ }
  if (number !== asked || atCaret().word !== word) return;
  const named = entities.map((e) => ({ text: language === "cypher" ? JSON.stringify(e.name) : written(e.name, language), title: e.label || shorter(e.name) || e.name, kind: e.label && e.label !== e.name ? shorter(e.name) || e.name : "entity" }));
  show([...near, ...named].filter((choice) => choice.text !== word), word);
}

function show(found, word) {
  if (!found.length) return close();
  choices = found.map((choice) => ({ ...choice, word }));
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
  list.hidden = false;
  area.setAttribute("aria-expanded", "true");
  const at = caretPlace();
  list.style.left = `${Math.max(0, Math.min(at.left, area.clientWidth - list.offsetWidth))}px`;
  list.style.top = `${at.top - area.scrollTop + 24}px`;
}

/** Where the caret is: measured on the mirror, which wraps as the text does. */
function caretPlace() {
  const kept = [...mirror.childNodes];
  const spot = document.createElement("span");
  spot.textContent = "|";
  mirror.replaceChildren(area.value.slice(0, area.selectionStart), spot);
  const place = { left: spot.offsetLeft, top: spot.offsetTop };
  mirror.replaceChildren(...kept);
  return place;
}

function choose(i) {
  chosen = (i + choices.length) % choices.length;
  [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
  list.children[chosen].scrollIntoView({ block: "nearest" });
  area.setAttribute("aria-activedescendant", `choice-${chosen}`);
}

function take(i) {
  const choice = choices[i];
  const stop = area.selectionStart;
  area.setRangeText(choice.text, stop - choice.word.length, stop, "end");
  close();
  area.focus();
  area.dispatchEvent(new Event("input", { bubbles: true }));
  close();
  asked += 1;
}

let pause;
area.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(complete, 90);
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
