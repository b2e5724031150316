// The text of the query: errors underlined in place, completion of variables, relations and entities.

import { get } from "/web/api.js";

const area = document.getElementById("query");
const mirror = document.getElementById("mirror");
const list = document.getElementById("completion");
const message = document.getElementById("message");

const BARE = /^\/?[\p{L}\p{N}_](?:[\p{L}\p{N}_./-]*[\p{L}\p{N}_])?$/u;
const LOCAL = /^[\p{L}\p{N}_](?:[\p{L}\p{N}_-]|\.+(?=[\p{L}\p{N}_-]))*$/u;
const WORD = /(?:[?$][\p{L}\p{N}_]*|<[^<>\n]*|:?[\p{L}\p{N}_/](?:[\p{L}\p{N}_./-])*|:|"[^"\n]*)$/u;

export const isSparql = (text) => /^\s*(?:#[^\n]*\n\s*)*(?:prefix|select|\{)/i.test(text);

/** A name as the language of the text writes it. */
export function written(name, text) {
  if (!isSparql(text) && BARE.test(name) && !/^\d+$/.test(name) && !/^(exists|limit)$/i.test(name)) return name;
  if (LOCAL.test(name)) return `:${name}`;
  return name.includes(">") ? ":" + name.replace(/[^\p{L}\p{N}_]/gu, "\\$&") : `<${name}>`;
}

/** Offsets of the server count characters, those of the page UTF-16 units. */
const units = (text, characters) => [...text].slice(0, characters).join("").length;

export function showProblem(problem) {
  const text = area.value;
  mirror.replaceChildren();
  message.className = "";
  if (!problem) {
    message.textContent = "";
    area.removeAttribute("aria-invalid");
    return;
  }
  area.setAttribute("aria-invalid", "true");
  if (problem.position === undefined || problem.position === null) {
    message.textContent = problem.error;
    return;
  }
  const start = units(text, problem.position);
  const stop = Math.max(start + 1, units(text, problem.position + problem.length));
  const mark = document.createElement("mark");
  mark.textContent = text.slice(start, stop) || " ";
  mirror.append(text.slice(0, start), mark, text.slice(stop) + "\n");
  mirror.scrollTop = area.scrollTop;
  message.textContent = `line ${problem.line}, column ${problem.column}: ${problem.error}`;
}

area.addEventListener("scroll", () => { mirror.scrollTop = area.scrollTop; });

// --- completion ----------------------------------------------------------------------------------------------------

let choices = [];
let chosen = -1;
let asked = 0;
let relations = [];
let store = () => null;

export function setUp(context) {
  relations = context.relations;
  store = context.store;
}

function close() {
  list.hidden = true;
  chosen = -1;
  choices = [];
  area.setAttribute("aria-expanded", "false");
  area.removeAttribute("aria-activedescendant");
}

function wordAtCaret() {
  if (area.selectionStart !== area.selectionEnd) return "";
  const found = area.value.slice(0, area.selectionStart).match(WORD);
  return found ? found[0] : "";
}

async function complete() {
  const word = wordAtCaret();
  const number = ++asked;
  if (!word || word === ":") return close();
  const text = area.value;
  if (word[0] === "?" || word[0] === "$") {
    const before = text.slice(0, area.selectionStart - word.length) + text.slice(area.selectionStart);
    const names = [...new Set(before.match(/[?$][\p{L}\p{N}_]+/gu) || [])];
    return show(names.filter((name) => name.startsWith(word) && name !== word)
      .map((name) => ({ text: name, title: name, kind: "variable" })), word);
  }
  const key = word.replace(/^[:<"]/, "");
  if (key.length < 1) return close();
  const folded = key.toLowerCase();
  const near = relations.filter((r) => `${r.name} ${r.label}`.toLowerCase().includes(folded)).slice(0, 6)
    .map((r) => ({ text: written(r.name, text), title: r.label || r.name, kind: `relation · ${r.count.toLocaleString("en")}` }));
  let entities = [];
  try {
    entities = (await get("/schema/entities", { search: key, store: store(), limit: 8 })).entities;
  } catch { /* completion is a courtesy: without it the text is typed */ }
  if (number !== asked || wordAtCaret() !== word) return;
  const named = entities.map((e) => ({ text: written(e.name, text), title: e.label || e.name, kind: e.label && e.label !== e.name ? e.name : "entity" }));
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
