// The drawer at the side: cards of entities and relations, one after another, with a way back.

import { make } from "./elements.js";
import { $ } from "./state.js";

const drawer = $("drawer");
const stack = [];
let from = null; // where the focus was before it opened

function show() {
  const { title, content } = stack.at(-1);
  $("drawer-title").textContent = title;
  $("drawer-back").hidden = stack.length < 2;
  $("drawer-body").replaceChildren(content);
  drawer.scrollTop = 0;
}

/** Opens a card and gives back where its content goes; the one before is a step back. */
export function openCard(title, key) {
  if (!drawer.contains(document.activeElement)) from = document.activeElement;
  if (drawer.hidden) stack.length = 0;
  const content = make("div", { class: "card", "aria-busy": "true" }, make("p", { class: "quiet" }, "Looking it up…"));
  if (stack.at(-1)?.key === key) stack.pop(); // the same anew
  stack.push({ title, key, content });
  if (stack.length > 50) stack.shift();
  drawer.hidden = false;
  document.body.classList.add("with-drawer");
  show();
  $("drawer-title").focus({ preventScroll: true });
  const fill = (name, ...children) => {
    content.removeAttribute("aria-busy");
    content.replaceChildren(...children);
    const card = stack.find((one) => one.content === content);
    if (card) card.title = name;
    if (stack.at(-1)?.content === content) $("drawer-title").textContent = name;
  };
  return { fill, fail: (error) => fill(title, make("p", { class: "quiet" }, error.message)) };
}

export function closeCards() {
  if (drawer.hidden) return;
  drawer.hidden = true;
  document.body.classList.remove("with-drawer");
  (from?.isConnected ? from : $("results")).focus({ preventScroll: true });
}

$("drawer-close").addEventListener("click", closeCards);
$("drawer-back").addEventListener("click", () => { stack.pop(); show(); $("drawer-title").focus(); });
// a button that has done its work and is gone leaves the focus to the page
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && (drawer.contains(event.target) || event.target === document.body)) closeCards();
});
