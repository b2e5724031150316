// Queries that were asked and queries that were saved, kept in this browser only.

import { coloured } from "./colours.js";
import { languageOf } from "./languages.js";
import { linkOf, titleOf } from "./share.js";
import { $, on } from "./state.js";

const MOST = 60;
const place = `${location.pathname.replace(/[^/]*$/, "")}`; // one server of several on one host

/** A list in the browser's storage; where there is none, a list until the page is closed. */
class Kept {
  constructor(name) {
    this.name = `tuplet-${name}:${place}`;
    this.items = [];
    try {
      const found = JSON.parse(localStorage.getItem(this.name) ?? "[]");
      if (Array.isArray(found)) this.items = found.filter((item) => typeof item?.link === "string" && typeof item?.query === "string");
    } catch { /* no storage, or not ours */ }
  }

  /** Puts an item first; one with the same link goes. */
  put(item, most = Infinity) {
    this.items = [item, ...this.items.filter((other) => other.link !== item.link)].slice(0, most);
    this.keep();
  }

  drop(item) { this.items = this.items.filter((other) => other !== item); this.keep(); }

  keep() {
    try { localStorage.setItem(this.name, JSON.stringify(this.items)); } catch { /* full, or not allowed */ }
  }
}

const asked = new Kept("asked");
const saved = new Kept("saved");

on("answers", ({ request, found }) => asked.put({ link: linkOf(request.query), query: request.query, when: Date.now(), answers: found[0].answers.length }, MOST));

/** A line of a list: a link that brings the query back, and what takes the line away. */
function line(list, item, title, about) {
  const row = document.createElement("li");
  const link = document.createElement("a");
  link.href = item.link;
  link.addEventListener("click", () => $("queries").hidePopover());
  if (title) {
    const name = document.createElement("strong");
    name.textContent = title;
    link.append(name);
  }
  link.title = item.query;
  link.append(coloured(item.query.replace(/\s+/g, " ").slice(0, 300), languageOf(item.query)));
  const more = document.createElement("small");
  more.className = "quiet";
  more.textContent = about;
  const gone = document.createElement("button");
  gone.type = "button";
  gone.className = "plain";
  gone.textContent = "✕";
  gone.setAttribute("aria-label", `Forget ${title || titleOf(item.query)}`);
  gone.addEventListener("click", () => { list.drop(item); show(); $("queries").focus(); });
  row.append(link, more, gone);
  return row;
}

function show() {
  const text = $("query").value.trim();
  $("save-form").hidden = !text;
  $("saved-list").replaceChildren(...saved.items.map((item) => line(saved, item, item.name, "")));
  $("asked-list").replaceChildren(...asked.items.map((item) => line(asked, item, "", `${ago(item.when)}, ${item.answers} ${item.answers === 1 ? "answer" : "answers"}`)));
  $("saved-none").hidden = saved.items.length > 0;
  $("asked-none").hidden = asked.items.length > 0;
  $("forget-asked").hidden = !asked.items.length;
}

function ago(when) {
  const minutes = Math.round((Date.now() - when) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  return minutes < 60 * 24 ? `${Math.round(minutes / 60)} h ago` : new Date(when).toLocaleDateString();
}

$("queries").addEventListener("beforetoggle", (event) => { if (event.newState === "open") show(); });
$("save-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = $("query").value;
  saved.put({ link: linkOf(), query, name: $("save-name").value.trim() || titleOf(query) });
  $("save-name").value = "";
  show();
});
$("forget-asked").addEventListener("click", () => { asked.items = []; asked.keep(); show(); });
