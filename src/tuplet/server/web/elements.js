// Small things that everything shown is made of.

/** An element with its properties or attributes, and what is in it. */
export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const button = (text, action, options = {}) => {
  const element = make("button", { type: "button", ...options }, text);
  element.addEventListener("click", action);
  return element;
};

export function percent(truth) {
  if (truth === 0 || truth === 1) return String(truth);
  if (truth < 0.001) return truth.toExponential(1);
  return (truth > 0.9999 ? Math.floor(truth * 1e4) / 1e4 : truth).toFixed(4);
}

/** Truth as a bar and a number. */
export function truthBar(truth) {
  const bar = make("i");
  bar.style.width = `${Math.max(2, 100 * truth)}%`;
  return [make("span", { class: "meter", "aria-hidden": "true" }, bar), percent(truth)];
}

export const count = (number, one, several = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : several}`;

const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

/**
 * Short titles of relations, given as pairs of name and label: labels that say more than the name, else the name; of a
 * path such as /film/film/genre as many of its last parts as tell it apart.
 */
export function titlesOf(relations) {
  const titles = new Map();
  const paths = new Map();
  for (const [name, label] of relations) {
    if (label && plain(label) !== plain(name)) titles.set(name, label);
    else if (/[/#]/.test(name)) paths.set(name, name.split(/[/#]+|\.(?=\/)/).filter(Boolean));
    else titles.set(name, name.replaceAll("_", " "));
  }
  for (let length = 1, left = [...paths.keys()]; left.length; length += 1) {
    const title = (name) => paths.get(name).slice(-length).join(" · ").replaceAll("_", " ");
    const often = new Map();
    for (const name of left) {
      titles.set(name, title(name));
      often.set(title(name), (often.get(title(name)) || 0) + 1);
    }
    left = left.filter((name) => often.get(title(name)) > 1 && paths.get(name).length > length);
  }
  return titles;
}
