// A query as the page reads it: its words with what each is, and what may stand where. For colours and completion only:
// the server decides what a query means, and this here never refuses anything.

const W = "\\p{L}\\p{N}_";
const STARRED = (...parts) => new RegExp(parts.join("|"), "gu");
const TEXT = `(?<text>"(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'?)`;
const VARIABLE = `(?<variable>[?$][${W}]*)`;
const REST = "(?<bracket>[()\\[\\]{}])|(?<space>\\s+)|(?<sign>[^\\s])";
const LOGIC = STARRED(
  "(?<comment>#[^\\n]*)", VARIABLE, "(?<exact><(?![\\s=])[^>\\n]*>?)", TEXT,
  `(?<prefixed>(?:\\p{L}(?:[${W}-]|\\.+(?=[${W}:-]))*)?:(?:[${W}:]|\\\\.)(?:[${W}:-]|\\\\.|\\.+(?=[${W}:-]))*)`,
  `(?<word>/?[${W}](?:[${W}./-]*[${W}])?|@\\d+)`, REST,
);
const CYPHER = STARRED(
  "(?<comment>//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$))", TEXT, "(?<exact>`(?:[^`]|``)*`?)",
  "(?<number>\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)", `(?<parameter>\\$[${W}]+)`, `(?<word>[\\p{L}_][${W}]*)`, REST,
);
const KEYWORDS = {
  logic: /^(?:prefix|ask|count|as|exists|show|order|by|asc|desc|limit|offset|optional|contains|starts|ends|matches|in|not|has|str|with)$/i,
  sparql: /^(?:prefix|base|select|ask|distinct|reduced|where|filter|optional|union|values|bind|graph|not|exists|in|as|order|by|asc|desc|limit|offset|count|regex|contains|strstarts|strends|lang|str|undef|true|false|a)$/i,
  cypher: /^(?:match|optional|where|return|distinct|order|by|asc|desc|ascending|descending|skip|limit|as|and|or|not|xor|in|contains|starts|ends|with|is|null|true|false|exists|count|id|unwind)$/i,
};
const NUMBER = /^[+@-]?\d[\d.]*(?:[eE][+-]?\d+)?$/;
const CLOSES = { ")": "(", "]": "[", "}": "{" };

/** Splits a text; every character is in one token `{ kind, start, stop, text, place }`, and `next` is the place at the end. */
export function tokensOf(text, language) {
  const reader = { logic: new Logic(), sparql: new Sparql(), cypher: new Cypher() }[language];
  const raw = [...text.matchAll(language === "cypher" ? CYPHER : LOGIC)].map((match) => ({
    kind: Object.keys(match.groups).find((kind) => match.groups[kind] !== undefined), start: match.index, stop: match.index + match[0].length, text: match[0],
  }));
  raw.forEach((token, i) => {
    token.place = reader.place();
    if (token.kind === "space" || token.kind === "comment") return;
    const after = raw.slice(i + 1, i + 3).find((other) => other.kind !== "space");
    token.kind = reader.kind(token, after?.text ?? "", KEYWORDS[language]);
    reader.take(token);
  });
  return { tokens: raw, next: reader.place() };
}

/** What the readers share: the brackets that are open. */
class Brackets {
  stack = [];
  get top() { return this.stack[this.stack.length - 1]; }
  push(open, more = {}) { this.stack.push({ open, ...more }); }
  pop(close) { if (this.top?.open === CLOSES[close]) this.stack.pop(); }
}

class Logic extends Brackets {
  body = false; // whether what is asked for has ended
  before = ""; // the kind of the token before
  stop = 0; // and where it ends

  place() {
    if (this.top?.atom || this.top?.open === "{") return "entity";
    if (this.before === "dot") return "attribute";
    return this.body && !this.tail ? "relation" : "variable";
  }

  kind(token, after, keywords) {
    const { kind, text, place } = token;
    if (kind === "variable" || kind === "text" || kind === "bracket" || kind === "sign") return kind;
    if (place === "attribute") return "attribute";
    if (place === "entity") return NUMBER.test(text) ? "number" : "entity";
    if (kind === "word" && keywords.test(text) && (after !== "(" || /^(?:has|str|exists)$/i.test(text))) return "keyword";
    if (kind === "word" && NUMBER.test(text)) return "number";
    return after === "(" || kind !== "word" ? "relation" : "entity";
  }

  take({ kind, text, start, stop }) {
    const atom = this.before === "relation" || this.before === "variable";
    if (kind === "bracket") {
      if (CLOSES[text]) this.pop(text);
      else this.push(text, { atom: text === "(" && atom });
    }
    if (text[0] === ":" && !this.stack.length) this.body = true;
    if (kind === "keyword" && /^(?:show|order|limit|offset)$/i.test(text)) this.tail = true;
    const owned = start === this.stop && (this.before === "variable" || this.before === ")"); // `?x.age`, not `exists ?x . `
    this.before = text === "." && owned ? "dot" : text === ")" ? ")" : kind;
    this.stop = stop;
  }
}

class Sparql extends Brackets {
  values = false;

  place() {
    const frame = this.top;
    if (!frame) return "variable";
    if (frame.open === "(") return frame.path ? "relation" : "entity";
    return ["entity", "relation", "entity", frame.values ? "entity" : "end"][frame.count];
  }

  kind({ kind, text, place }, after, keywords) {
    if (kind === "word") return keywords.test(text) ? "keyword" : NUMBER.test(text) ? "number" : place === "relation" ? "relation" : "entity";
    if (kind === "exact" || kind === "prefixed") return place === "relation" ? "relation" : "entity";
    return kind;
  }

  take({ kind, text }) {
    const frame = this.top;
    if (kind === "bracket") {
      if (!CLOSES[text]) {
        this.push(text, { count: text === "[" ? 1 : this.values ? 2 : 0, values: this.values, path: text === "(" && frame?.open === "{" && frame.count === 1 });
        this.values = false;
        return;
      }
      const counted = text === "]" || frame?.path;
      this.pop(text);
      if (this.top) this.top.count = counted ? Math.min(3, this.top.count + 1) : 0;
    } else if (kind === "keyword" && text !== "a") {
      this.values = /^values$/i.test(text);
      if (frame) frame.count = 0;
    } else if (!frame || frame.open === "(" || frame.values) return;
    else if (kind !== "sign") frame.count = Math.min(3, frame.count + (this.values ? 0 : 1));
    else if (text === "/" || text === "|") frame.count = 1;
    else if (text === "." || text === ";" || text === ",") frame.count = { ".": 0, ";": 1, ",": 2 }[text];
  }
}

class Cypher extends Brackets {
  before = "";

  place() {
    if (this.before === ".") return "attribute";
    if (this.top?.open === "[" && this.top.named) return "relation";
    if (this.top?.open === "(" && this.before === ":") return "label";
    return this.top?.open === "[" && !this.top.edge ? "entity" : "variable";
  }

  kind({ kind, text, place }, after, keywords) {
    if (kind !== "word" && kind !== "exact") return kind === "parameter" ? "variable" : kind;
    if (place === "attribute" || (this.top?.open === "{" && after === ":")) return "attribute";
    if (place === "relation") return "relation";
    if (place === "label") return "entity";
    return kind === "word" && keywords.test(text) ? "keyword" : "variable";
  }

  take({ kind, text }) {
    if (kind === "bracket") {
      if (CLOSES[text]) this.pop(text);
      else this.push(text, { edge: this.before === "-" });
    }
    if (this.top?.open === "[" && this.top.edge && text === ":") this.top.named = true;
    this.before = text;
  }
}

/** The bracket beside an offset and the one it belongs to, as offsets; null where there is none. */
export function pairAt(tokens, offset) {
  const brackets = tokens.filter((token) => token.kind === "bracket");
  const at = brackets.findIndex((token) => token.stop === offset) >= 0 ? brackets.findIndex((token) => token.stop === offset) : brackets.findIndex((token) => token.start === offset);
  if (at < 0) return null;
  const step = CLOSES[brackets[at].text] ? -1 : 1;
  let depth = 0;
  for (let i = at; i >= 0 && i < brackets.length; i += step) {
    depth += (CLOSES[brackets[i].text] ? -1 : 1) * step;
    if (depth === 0) {
      const [open, close] = step > 0 ? [brackets[at], brackets[i]] : [brackets[i], brackets[at]];
      return CLOSES[close.text] === open.text ? [open.start, close.start] : null;
    }
  }
  return null;
}
