// The colours of the text: painted on the mirror behind the text area, which shows only its caret and selection.

import { tokensOf, pairAt } from "./tokens.js";

const LONG = 20_000; // characters: longer texts are not worth the time of painting them at every key
const PLAIN = new Set(["space", "sign"]);

/** Paints a text; `marked` is a range with a mistake, `caret` where brackets are matched (null: nowhere). */
export function paint(mirror, text, language, marked, caret) {
  const end = "\u200b"; // the last line has a height even if it is empty
  if (text.length > LONG) {
    mirror.replaceChildren(...cut(text, marked), end);
    return;
  }
  const { tokens } = tokensOf(text, language);
  const pair = caret === null ? null : pairAt(tokens, caret);
  const mark = document.createElement("mark");
  const pieces = [];
  for (const { kind, start, stop } of tokens) {
    const edges = marked ? marked.filter((edge) => edge > start && edge < stop) : [];
    const bounds = [start, ...edges, stop];
    for (let i = 0; i + 1 < bounds.length; i += 1) {
      const [from, to] = [bounds[i], bounds[i + 1]];
      let piece = text.slice(from, to);
      if (!PLAIN.has(kind)) {
        const span = document.createElement("span");
        span.className = `t-${kind}${pair?.includes(from) ? " pair" : ""}`;
        span.textContent = piece;
        piece = span;
      }
      if (marked && from >= marked[0] && to <= marked[1]) {
        if (!mark.childNodes.length) pieces.push(mark);
        mark.append(piece);
      } else pieces.push(piece);
    }
  }
  if (marked && !mark.childNodes.length) { // what is missing at the end
    mark.append(" ");
    pieces.push(mark);
  }
  mirror.replaceChildren(...pieces, end);
}

function cut(text, marked) {
  if (!marked) return [text];
  const mark = document.createElement("mark");
  mark.textContent = text.slice(...marked) || " ";
  return [text.slice(0, marked[0]), mark, text.slice(marked[1])];
}

/** A query as an element, coloured. */
export function coloured(text, language) {
  const code = document.createElement("code");
  code.className = "query";
  paint(code, text, language, null, null);
  code.lastChild.remove();
  return code;
}
