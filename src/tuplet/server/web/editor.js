// The text of the query: coloured, with brackets matched, what is wrong underlined in its place, and every change undone.

import { paint } from "./colours.js";
import { languageOf } from "./languages.js";
import { $, announce } from "./state.js";

const area = $("query");
const mirror = $("mirror");
const message = $("message");
const KEPT = 300; // changes
const PAUSE = 1000; // ms: what is typed without one is one change

let marked = null; // the range of a mistake

let due = false;
/** Paints before the next frame is shown, once however much has changed. */
function repaint() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    const caret = document.activeElement === area && area.selectionStart === area.selectionEnd ? area.selectionStart : null;
    paint(mirror, area.value, languageOf(area.value), marked, caret);
    mirror.scrollTop = area.scrollTop;
  });
}

area.addEventListener("scroll", () => { mirror.scrollTop = area.scrollTop; });
area.addEventListener("blur", repaint);
document.addEventListener("selectionchange", () => { if (document.activeElement === area) repaint(); });

// --- mistakes ------------------------------------------------------------------------------------------------------

/** Offsets of the server count characters, those of the page UTF-16 units. */
const units = (text, characters) => [...text].slice(0, characters).join("").length;

export function showProblem(problem) {
  marked = null;
  message.className = "";
  message.textContent = "";
  area.removeAttribute("aria-invalid");
  if (problem) {
    area.setAttribute("aria-invalid", "true");
    message.textContent = problem.error;
    if (problem.position !== undefined && problem.position !== null) {
      const start = units(area.value, problem.position);
      marked = [start, Math.max(start + 1, units(area.value, problem.position + problem.length))];
      message.textContent = `line ${problem.line}, column ${problem.column}: ${problem.error}`;
    }
  }
  repaint();
}

/** A word about the text that is no mistake in it. */
export function showNote(text) {
  showProblem(null);
  message.className = "fine";
  message.textContent = text;
}

// --- changes -------------------------------------------------------------------------------------------------------

const past = [];
const future = [];
let now = { text: area.value, start: 0, stop: 0 };
let typed = { at: 0, kind: "" }; // the change before, if it was typed

const taken = () => ({ text: area.value, start: area.selectionStart, stop: area.selectionEnd });

/** Notes that the text is another one; `joined`: it belongs to the change before. */
function changed(by, joined = false) {
  const next = taken();
  if (next.text !== now.text && !joined) {
    past.push(now);
    if (past.length > KEPT) past.shift();
  }
  if (next.text !== now.text) future.length = 0;
  now = next;
  marked = null;
  repaint();
  buttons();
  announce("text", { by });
}

area.addEventListener("beforeinput", (event) => {
  if (event.inputType === "historyUndo" || event.inputType === "historyRedo") {
    event.preventDefault();
    if (event.inputType === "historyUndo") undo(); else redo();
  } else if (area.value === now.text) now = taken();
});
area.addEventListener("input", (event) => {
  const kind = (event.inputType || "").startsWith("insertText") ? "insert" : (event.inputType || "").startsWith("deleteContent") ? "delete" : "other";
  const same = kind !== "other" && kind === typed.kind && Date.now() - typed.at < PAUSE && !/\s/.test(event.data ?? "");
  typed = { at: Date.now(), kind };
  changed("typing", same);
});

/** Another text in place of the one that is there; it can be undone. */
export function replaceText(text) {
  if (text === area.value) return;
  area.value = text;
  typed.kind = "";
  changed("page");
}

/** Text at the caret, as if it had been typed there. */
export function insert(text, start = area.selectionStart, stop = area.selectionEnd) {
  if (area.value === now.text) now = taken();
  area.setRangeText(text, start, stop, "end");
  typed.kind = "";
  changed("insert");
}

function turn(from, to) {
  if (!from.length) return;
  to.push(taken());
  now = from.pop();
  area.value = now.text;
  area.setSelectionRange(now.start, now.stop);
  typed.kind = "";
  marked = null;
  repaint();
  buttons();
  announce("text", { by: "undo" });
}
export const undo = () => turn(past, future);
export const redo = () => turn(future, past);

function buttons() {
  $("undo").disabled = !past.length;
  $("redo").disabled = !future.length;
}
$("undo").addEventListener("click", undo);
$("redo").addEventListener("click", redo);

addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
  const elsewhere = event.target !== area && event.target.closest?.("input, textarea, select, dialog");
  const key = event.key.toLowerCase();
  if (elsewhere || (key !== "z" && key !== "y")) return;
  event.preventDefault();
  if (key === "y" || event.shiftKey) redo(); else undo();
});

// A new line begins where the one before did. Heard after the text area itself, where Enter may take a completion.
area.parentElement.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.isComposing) return;
  const indent = area.value.slice(0, area.selectionStart).match(/(?:^|\n)([ \t]*)[^\n]*$/)[1];
  if (!indent) return;
  event.preventDefault();
  insert(`\n${indent}`);
});

/** Where an offset of the text is painted, within the editor. */
export function placeOf(offset) {
  const walker = document.createTreeWalker(mirror, NodeFilter.SHOW_TEXT);
  let left = offset;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (left < node.length) {
      const range = document.createRange();
      range.setStart(node, left);
      range.setEnd(node, left + 1);
      const [at, base] = [range.getBoundingClientRect(), mirror.getBoundingClientRect()];
      return { left: at.left - base.left, top: at.bottom - base.top };
    }
    left -= node.length;
  }
  return { left: 0, top: 0 };
}
