// What the parts of the page share, and what they tell each other.

export const $ = (id) => document.getElementById(id);

export const state = {
  schema: null, // of the chosen store
  parsed: null, // what the server made of the text last
  last: null, // the request whose answers are shown
};

export const store = () => $("store").value || null;

const events = new EventTarget();

/**
 * schema: a store was chosen · parsed: the server read the text · selected: a part of the drawing
 * answers: `{ found, request }` came · theme: dark or light
 */
export const on = (name, action) => events.addEventListener(name, (event) => action(event.detail));
export const announce = (name, detail) => events.dispatchEvent(new CustomEvent(name, { detail }));

/** A word below the answers. */
export function tell(text) {
  $("told").textContent = text;
  $("tools").hidden = $("tools").hidden && !text;
}
