// What $name stands for in a Cypher text: a field for each, kept while the text changes.

import { languageOf } from "./languages.js";
import { $, announce } from "./state.js";

const typed = new Map(); // by name
const TEXTS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\/\/[^\n]*/g;

const named = (text) => (languageOf(text) === "cypher" ? [...new Set(Array.from(text.replace(TEXTS, "").matchAll(/\$([\p{L}_][\p{L}\p{N}_]*)/gu), (found) => found[1]))] : []);

/** Numbers, true, false and lists as such; all else is text. */
function valueOf(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && (typeof value !== "object" || Array.isArray(value)) ? value : text;
  } catch { return text; }
}

/** The values for a text, as a field of a request; nothing where none are wanted or given. */
export function given(text) {
  const found = named(text).filter((name) => typed.get(name)?.trim()).map((name) => [name, valueOf(typed.get(name).trim())]);
  return found.length ? { parameters: Object.fromEntries(found) } : {};
}

/** Values from a link. */
export const take = (values) => { for (const [name, value] of Object.entries(values)) typed.set(name, typeof value === "string" ? value : JSON.stringify(value)); };

let shown = "";
/** Fields for what a text names; one that is being typed into stays. */
export function showFields(text) {
  const names = named(text);
  if (names.join() === shown) return;
  shown = names.join();
  $("parameters").hidden = !names.length;
  $("parameters").replaceChildren(...names.map((name) => {
    const [item, label, field] = ["li", "label", "input"].map((tag) => document.createElement(tag));
    label.textContent = `$${name}`;
    label.htmlFor = field.id = `parameter-${name}`;
    Object.assign(field, { value: typed.get(name) ?? "", spellcheck: false, autocomplete: "off", placeholder: "a name, a number or [a list]" });
    field.addEventListener("change", () => { typed.set(name, field.value); announce("parameters"); });
    item.append(label, field);
    return item;
  }));
}
