// The three languages: which one a text is in, how each writes a name, where each breaks its lines.

import { state } from "./state.js";
import { tokensOf } from "./tokens.js";

export const LANGUAGES = {
  logic: "?x, ?y : relation(?x, ?y) & relation(?y, entity)",
  sparql: "SELECT ?x ?y WHERE { ?x :relation ?y . ?y :relation :entity }",
  cypher: 'MATCH (x)-[:RELATION]->(y) WHERE y.name = "entity" RETURN x, y',
};

const BARE = /^\/?[\p{L}\p{N}_](?:[\p{L}\p{N}_./-]*[\p{L}\p{N}_])?$/u;
const LOCAL = /^[\p{L}\p{N}_](?:[\p{L}\p{N}_-]|\.+(?=[\p{L}\p{N}_-]))*$/u;
const RESERVED = /^(exists|limit|offset|order|show)$/i;

/** The language of a text, as the page can tell before the server does. */
export function languageOf(text) {
  const bare = text.replace(/^(?:\s|#[^\n]*\n|\/\/[^\n]*\n)+/, "");
  if (/^(?:prefix|base|select|\{|ask\s*(?:where\b)?\s*\{)/i.test(bare)) return "sparql";
  return /^(?:(?:optional\s+)?match|unwind|return|with|create|merge)\b(?!\s*:)/i.test(bare) ? "cypher" : "logic";
}

/** A name as the language of the text writes it. */
export function written(name, language) {
  if (language === "cypher") return /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) ? name : `\`${name.replaceAll("`", "``")}\``;
  if (language === "logic" && BARE.test(name) && !RESERVED.test(name)) return name;
  if (LOCAL.test(name)) return `:${name}`;
  return shorter(name) ?? (name.includes(">") ? ":" + name.replace(/[^\p{L}\p{N}_]/gu, "\\$&") : `<${name}>`);
}

/** A name with a prefix of the graph, where it has one; the longer prefix fits better. */
export function shorter(name) {
  const prefixes = Object.entries(state.schema?.prefixes ?? {}).sort((a, b) => b[1].length - a[1].length);
  const [prefix, space] = prefixes.find(([, space]) => space && name.startsWith(space) && LOCAL.test(name.slice(space.length))) || [];
  return prefix === undefined ? null : `${prefix}:${name.slice(space.length)}`;
}

/** A value as it is shown. */
export const shown = (value) => (typeof value === "string" && shorter(value)) || String(value);

/** SPARQL and Cypher with a line for each pattern and clause; texts in quotes stay as they are. */
export function pretty(text) {
  const language = languageOf(text);
  if (language === "logic") return text;
  const quoted = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`|<[^<>\s]*>/;
  const broken = language === "sparql" ? / \. (?=[?:<"\w{])| (?=FILTER\b|OPTIONAL\b)/ : / (?=(?:MATCH|WHERE|RETURN|ORDER BY|SKIP|LIMIT)\b)/;
  const indent = language === "sparql" ? "  " : "";
  const lines = text.replace(new RegExp(`${quoted.source}|${broken.source}`, "g"), (found) => (/^ (\. )?$/.test(found) ? `${found.trimEnd()}\n${indent}` : found));
  return language === "sparql" ? lines.replace("{ ", "{\n  ").replace(/ \}((?: ORDER BY [^{}]*)?(?: LIMIT \d+)?(?: OFFSET \d+)?)$/, "\n}$1") : lines;
}

/** A text in lines: as `pretty` has it, and logic text that is long with a line for each condition. */
export function laidOut(text) {
  if (languageOf(text) !== "logic" || text.length <= 60) return pretty(text);
  let depth = 0, headed = false, out = "";
  for (const { kind, text: word } of tokensOf(text, "logic").tokens) {
    if (kind === "bracket") depth += /[([{]/.test(word) ? 1 : -1;
    const ends = !headed && depth === 0 && word === ":";
    if (depth === 0 && headed && word === "&") out = `${out.trimEnd()}\n  `;
    if (depth === 0 && headed && kind === "keyword" && /^(?:show|order|limit|offset)$/i.test(word)) out = `${out.trimEnd()}\n`;
    if (!(kind === "space" && out.endsWith("\n  "))) out += word;
    if (ends) { headed = true; out += "\n  "; }
  }
  return out;
}
