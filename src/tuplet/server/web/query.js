// Text ↔ drawing: the server reads and writes, here they are kept together.

import { postJson } from "./api.js";
import { replaceText, showNote, showProblem } from "./editor.js";
import { LANGUAGES, laidOut, languageOf, pretty } from "./languages.js";
import { given, showFields } from "./parameters.js";
import { parts } from "./parts.js";
import { QueryDrawing } from "./query_drawing.js";
import { $, announce, on, state, store } from "./state.js";

const area = $("query");
export const drawing = new QueryDrawing($("graph"), writeDrawing, (id, picked) => announce("selected", { id, picked }));
on("theme", () => drawing.restyle());

const press = (language) => Object.keys(LANGUAGES).forEach((name) => $(`as-${name}`).setAttribute("aria-pressed", String(name === language)));
const pressed = () => Object.keys(LANGUAGES).find((name) => $(`as-${name}`).getAttribute("aria-pressed") === "true") || "logic";

export function showDrawing(graph) {
  drawing.show(graph);
  showParts();
}

export function showParts() {
  $("parts").replaceChildren(...parts(drawing, () => { showParts(); writeDrawing(); }));
  $("parts").hidden = !$("parts").children.length;
}

let pause;
on("text", ({ by }) => {
  clearTimeout(pause);
  if (by !== "page") pause = setTimeout(read, by === "undo" ? 0 : 250); // else it is read by who changed it
});

on("parameters", () => read());

let reading = 0;
/** The server reads the text; what it means is drawn, what is wrong with it is shown. */
export async function read() {
  clearTimeout(pause);
  const text = area.value;
  const number = ++reading;
  showFields(text);
  if (!text.trim()) {
    state.parsed = null;
    showProblem(null);
    showDrawing(null);
    return;
  }
  press(languageOf(text));
  try {
    const found = await postJson("parse", { query: text, store: store(), ...given(text) });
    if (number !== reading) return;
    state.parsed = { ...found, text };
    press(found.language);
    showProblem(found.problem);
    if (found.graph) showDrawing(found.graph);
    announce("parsed", state.parsed);
  } catch (error) {
    if (number === reading) showProblem({ error: error.message });
  }
}

/** Another text in place of the one that is there, read at once. */
export function setText(text) {
  replaceText(text);
  return read();
}

let writing = 0;
export async function writeDrawing() {
  const drawn = drawing.drawn();
  const number = ++writing;
  if (!drawn) return;
  try {
    const before = area.value;
    const language = before.trim() ? languageOf(before) : pressed();
    const { query } = await postJson("write", { ...drawn, language, store: store() });
    if (number === writing && area.value === before) await setText(pretty(query)); // else what was typed since stands
  } catch (error) {
    if (number === writing) showProblem({ error: error.message });
  }
}

// --- languages -----------------------------------------------------------------------------------------------------

const twins = new Map(); // by text: the same query by language, as it was written in each
on("schema", () => twins.clear());

const COMMENT = { logic: /(?:^|\s)#/m, sparql: /(?:^|\s)#/m, cypher: /\/\/|\/\*/ };

/** The same query in another language; what was written in it, comments and all, comes back if nothing was changed. */
async function translate(language) {
  if (!area.value.trim()) {
    press(language);
    area.placeholder = LANGUAGES[language];
    return;
  }
  await read();
  const { parsed } = state;
  if (!parsed || parsed.text !== area.value || parsed.language === language) return;
  const same = twins.get(parsed.text) ?? { [parsed.language]: parsed.text };
  const fresh = !same[language];
  if (fresh && parsed[language]) same[language] = pretty(parsed[language]);
  if (!same[language]) {
    if (parsed.refused?.[language]) showNote(parsed.refused[language]);
    return;
  }
  twins.set(parsed.text, same).set(same[language], same);
  await setText(same[language]);
  if (fresh && COMMENT[parsed.language].test(parsed.text)) showNote("Comments are not translated; they come back with their language.");
}

for (const language of Object.keys(LANGUAGES)) $(`as-${language}`).addEventListener("click", () => translate(language));
$("format").addEventListener("click", async () => {
  await read();
  const { parsed } = state;
  if (!parsed?.[parsed.language] || parsed.text !== area.value) return;
  if (COMMENT[parsed.language].test(parsed.text)) showNote("A text with comments is left as it is.");
  else await setText(laidOut(parsed[parsed.language]));
});
$("clear").addEventListener("click", () => { drawing.loose = []; setText(""); area.focus(); });
