// Asking: one request for each engine, stopped when another is made.

import { postJson, Problem } from "./api.js";
import { showProblem } from "./editor.js";
import { read } from "./query.js";
import { $, announce, state, store } from "./state.js";

const area = $("query");
let running = null;

function request(engine, query) {
  const budget = $("budget").value.trim();
  return {
    query,
    store: store(),
    k: Number($("k").value),
    engine,
    ...($("only").value ? { only: $("only").value } : {}),
    ...(engine.startsWith("ns3") && budget ? { budget: budget === "all" ? "all" : Number(budget) || budget } : {}),
  };
}

export async function ask() {
  const text = area.value;
  if (!text.trim()) { area.focus(); return; }
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  $("ask").textContent = "Asking…";
  $("results").setAttribute("aria-busy", "true");
  await read();
  if (signal.aborted) return;
  const engines = [$("engine").value, $("versus").value].filter((name, i, all) => name && all.indexOf(name) === i);
  try {
    const found = await Promise.all(engines.map((engine) => postJson("ask", request(engine, text), signal)));
    state.last = request(engines[0], text);
    announce("answers", { found, request: state.last });
    if (innerWidth <= 900) $("results").scrollIntoView({ block: "start" });
  } catch (error) {
    if (error.name === "AbortError") return;
    showProblem(error instanceof Problem ? error.body : { error: String(error.message || error) });
    if (!document.activeElement || document.activeElement === document.body) area.focus();
  } finally {
    if (running.signal === signal) {
      $("ask").textContent = "Ask";
      $("results").removeAttribute("aria-busy");
    }
  }
}

export const showBudget = () => { $("budget-field").hidden = !`${$("engine").value} ${$("versus").value}`.includes("ns3"); };
for (const id of ["engine", "versus"]) $(id).addEventListener("change", showBudget);
for (const id of ["k", "only", "engine", "versus"]) $(id).addEventListener("change", () => { if (running) ask(); });
$("ask").addEventListener("click", ask);
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
});
