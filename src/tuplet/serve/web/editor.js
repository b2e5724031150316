// The text of the query: what is wrong is underlined in its place.

const area = document.getElementById("query");
const mirror = document.getElementById("mirror");
const message = document.getElementById("message");

/** Offsets of the server count characters, those of the page UTF-16 units. */
const units = (text, characters) => [...text].slice(0, characters).join("").length;

export function showProblem(problem) {
  const text = area.value;
  mirror.replaceChildren();
  message.className = "";
  if (!problem) {
    message.textContent = "";
    area.removeAttribute("aria-invalid");
    return;
  }
  area.setAttribute("aria-invalid", "true");
  if (problem.position === undefined || problem.position === null) {
    message.textContent = problem.error;
    return;
  }
  const start = units(text, problem.position);
  const stop = Math.max(start + 1, units(text, problem.position + problem.length));
  const mark = document.createElement("mark");
  mark.textContent = text.slice(start, stop) || " ";
  mirror.append(text.slice(0, start), mark, text.slice(stop) + "\n");
  mirror.scrollTop = area.scrollTop;
  message.textContent = `line ${problem.line}, column ${problem.column}: ${problem.error}`;
}

/** A word about the text that is no mistake in it. */
export function showNote(text) {
  showProblem(null);
  message.className = "fine";
  message.textContent = text;
}

area.addEventListener("scroll", () => { mirror.scrollTop = area.scrollTop; });
