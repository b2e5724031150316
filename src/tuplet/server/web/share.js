// A query, its store and its settings as a link; every query that is asked is a step that Back goes back from.

import { ask, halt, showBudget } from "./asking.js";
import { showProblem } from "./editor.js";
import { given as valuesFor, take } from "./parameters.js";
import { setText } from "./query.js";
import { $, announce, on, state, store, tell } from "./state.js";

const SETTINGS = ["engine", "versus", "k", "only"];
let current = location.hash; // what the page shows
let opening = false;

/** A query with the settings of the page, as the part of an address behind its #. */
export function linkOf(query = $("query").value) {
  const budget = $("budget-field").hidden ? "" : $("budget").value.trim();
  const kept = { q: query, store: store(), ...Object.fromEntries(SETTINGS.map((name) => [name, $(name).value])), budget };
  const { parameters } = valuesFor(query);
  if (parameters) kept.parameters = JSON.stringify(parameters);
  return `#${new URLSearchParams(Object.entries(kept).filter(([, value]) => value))}`;
}

export const titleOf = (query) => query.replace(/\s+/g, " ").trim().slice(0, 80);

on("answers", ({ request }) => {
  const link = linkOf(request.query);
  if (link !== current) history[opening ? "replaceState" : "pushState"](null, "", link);
  current = link;
  document.title = `${titleOf(request.query)} · tuplet`;
});

/** Brings back what a link says; false where it says nothing. */
export async function openLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  current = location.hash;
  if (!given.get("q")) return false;
  opening = true;
  try {
    const wanted = given.get("store");
    if (!state.schema || (wanted && state.schema.stores.includes(wanted) && wanted !== state.schema.store)) await state.load(wanted);
    for (const name of SETTINGS) {
      const value = given.get(name) ?? (name === "k" || name === "engine" ? $(name).value : ""); // what is empty is not in a link
      if ([...$(name).options].some((option) => option.value === value)) $(name).value = value;
    }
    if (given.get("budget")) $("budget").value = given.get("budget");
    showBudget();
    try { take(JSON.parse(given.get("parameters") ?? "{}")); } catch { /* no values then */ }
    await setText(given.get("q"));
    await ask();
  } finally { opening = false; }
  return true;
}

/** The page as it is before anything was asked. */
async function clear() {
  halt();
  $("panels").replaceChildren();
  for (const id of ["tools", "plan"]) $(id).hidden = true;
  $("empty").hidden = false;
  state.last = null;
  document.title = "tuplet";
  announce("cleared");
  await setText("");
}

async function follow() {
  if (location.hash === current) return;
  try {
    if (!location.hash) { current = ""; await clear(); } else await openLink();
  } catch (error) { showProblem({ error: error.message }); }
}
addEventListener("popstate", follow);
addEventListener("hashchange", follow);

document.querySelector(".skip").addEventListener("click", (event) => { // its # is no query
  event.preventDefault();
  $("results").focus();
});

$("link").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(new URL(linkOf(), location.href).href);
    tell("Link copied");
  } catch { tell("The link is in the address bar"); }
});
