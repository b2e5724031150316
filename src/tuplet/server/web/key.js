// The key of a server that wants one: asked for when it is needed, explained, and given later if not now.

import { $ } from "./state.js";

const KEPT = "tuplet-key";
const dialog = $("key-dialog");
const field = $("key");
let waiting = null; // one dialog for all requests that wait for a key
let declined = false; // no key was given; nothing asks for it again until the reader wants something

export const key = () => sessionStorage.getItem(KEPT);

/** Lets the dialog come again: the reader asks for something that needs a key. */
export const wanted = () => { declined = false; };

/** Asks for a key; false if none is given. `refused` is the one that the server did not take. */
export function askForKey(refused) {
  if (waiting) return waiting;
  if (refused && refused !== key()) return Promise.resolve(true); // another one was given meanwhile
  if (declined && !refused) return Promise.resolve(false);
  if (refused) sessionStorage.removeItem(KEPT);
  $("key-open").hidden = false;
  $("key-wrong").hidden = !refused;
  field.toggleAttribute("aria-invalid", Boolean(refused));
  waiting = opened().finally(() => { waiting = null; });
  return waiting;
}

async function opened() {
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  const given = dialog.returnValue === "use" ? field.value.trim() : "";
  field.value = "";
  declined = !given;
  if (given) sessionStorage.setItem(KEPT, given);
  return Boolean(key());
}

$("key-cancel").addEventListener("click", () => dialog.close());
$("key-form").addEventListener("submit", (event) => {
  if (field.value.trim()) return;
  event.preventDefault();
  field.focus();
});
