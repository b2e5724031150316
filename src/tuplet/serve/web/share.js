// A query, its store and its settings as a link, and back.

import { ask, showBudget } from "./asking.js";
import { setText } from "./query.js";
import { $, on, state, store, tell } from "./state.js";
import { load } from "./stores.js";

on("answers", () => {
  const kept = { q: $("query").value, store: store(), engine: $("engine").value, versus: $("versus").value, k: $("k").value, only: $("only").value };
  const pairs = Object.entries(kept).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(pairs)}`);
});

/** Brings back what a link says; false where it says nothing. */
export async function openLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  const { schema } = state;
  if (!given.get("q")) return false;
  if (given.get("store") && schema.stores.includes(given.get("store")) && given.get("store") !== schema.store) await load(given.get("store"));
  for (const name of ["engine", "versus", "k", "only"]) {
    const value = given.get(name);
    if (value !== null && [...$(name).options].some((option) => option.value === value)) $(name).value = value;
  }
  showBudget();
  await setText(given.get("q"));
  await ask();
  return true;
}
addEventListener("hashchange", () => openLink());

$("link").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    tell("Link copied");
  } catch { tell("The link is in the address bar"); }
});
