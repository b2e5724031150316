// Asking: one request for each engine; stopped by hand, by asking again, or by the server's limit.

import { postJson, Problem } from "./api.js";
import { showNote, showProblem } from "./editor.js";
import { wanted } from "./key.js";
import { given } from "./parameters.js";
import { read } from "./query.js";
import { $, announce, on, state, store } from "./state.js";

const area = $("query");
let running = null;
let asked = false; // from then on a setting that changes asks again

const saysHowMany = () => (state.parsed?.graph?.limit ?? null) !== null;
on("parsed", () => {
  $("k").disabled = saysHowMany();
  $("k").title = saysHowMany() ? "the query says how many" : "";
});

/** What is asked of an engine, as the page stands. */
export function request(engine = $("engine").value, text = area.value) {
  const budget = $("budget").value.trim();
  const limited = saysHowMany() && state.parsed.text === text;
  return {
    query: text,
    ...given(text),
    ...(store() ? { store: store() } : {}),
    ...(limited ? {} : { k: Number($("k").value) }),
    engine,
    ...($("only").value ? { only: $("only").value } : {}),
    ...(engine.startsWith("ns3") && budget ? { budget: budget === "all" ? "all" : Number(budget) || budget } : {}),
  };
}

export async function ask() {
  const text = area.value; // who goes on typing while this is read asks for what was there
  if (!text.trim()) { area.focus(); return; }
  running?.abort();
  const mine = new AbortController();
  running = mine;
  asked = true;
  wanted();
  const clock = started();
  try {
    if (!state.schema) await state.load(null); // a key was missing when the page was opened
    await read();
    if (mine.signal.aborted) return;
    const engines = [$("engine").value, $("versus").value].filter((name, i, all) => name && all.indexOf(name) === i);
    const requests = engines.map((engine) => request(engine, text));
    const found = await Promise.all(requests.map((body) => postJson("ask", body, mine.signal)));
    state.last = requests[0];
    announce("answers", { found, request: state.last });
    if (innerWidth <= 900) $("results").scrollIntoView({ block: "start" });
  } catch (error) {
    if (error.name === "AbortError") return;
    mine.abort(); // the other engine need not go on
    showProblem(error instanceof Problem ? error.body : { error: String(error.message || error) });
    if (!document.activeElement || document.activeElement === document.body) area.focus();
  } finally {
    clearInterval(clock);
    if (running === mine) ended();
  }
}

function started() {
  const begun = performance.now();
  const show = () => { $("elapsed").textContent = `${((performance.now() - begun) / 1000).toFixed(1)} s`; };
  show();
  $("ask").textContent = "Asking…";
  $("stop").hidden = false;
  $("results").setAttribute("aria-busy", "true");
  return setInterval(show, 100);
}

function ended() {
  running = null;
  $("ask").textContent = "Ask";
  $("stop").hidden = true;
  $("results").removeAttribute("aria-busy");
}

/** The request is given up, and the server, which sees that nobody waits any more, gives up the search. */
export function halt() {
  running?.abort();
  ended();
}

function stop() {
  if (!running) return;
  halt();
  showNote(`Stopped after ${$("elapsed").textContent}.`);
}

export const showBudget = () => { $("budget-field").hidden = !`${$("engine").value} ${$("versus").value}`.includes("ns3"); };
for (const id of ["engine", "versus"]) $(id).addEventListener("change", showBudget);
for (const id of ["k", "only", "engine", "versus", "budget"]) $(id).addEventListener("change", () => { if (asked) ask(); });
on("parameters", () => { if (asked) ask(); });
$("ask").addEventListener("click", ask);
$("stop").addEventListener("click", () => { stop(); $("ask").focus(); });
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
  else if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open], :popover-open")) stop();
});
