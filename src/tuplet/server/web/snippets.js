// The query as it is asked from a shell, from Python, and without a server.

import { request } from "./asking.js";
import { key } from "./key.js";
import { $ } from "./state.js";

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`; // for a shell
const indented = (value) => JSON.stringify(value, null, 2);

/** A value as Python writes it. */
const python = (value) => indented(value).replace(/("(?:[^"\\]|\\.)*")|\b(?:true|false|null)\b/g, (found, text) => text ?? { true: "True", false: "False", null: "None" }[found]);

const WAYS = {
  curl(body, address) {
    const header = key() ? ` \\\n  -H "Authorization: Bearer $TUPLET_KEY"` : "";
    return `curl -s ${quoted(address)} \\\n  -H 'Content-Type: application/json'${header} \\\n  -d ${quoted(indented(body))}\n`;
  },
  python(body, address) {
    const [os, header] = key() ? ["import os\n", `\n    "Authorization": "Bearer " + os.environ["TUPLET_KEY"],`] : ["", ""];
    return `import json\n${os}from urllib.request import Request, urlopen\n\nasked = ${python(body)}\nheaders = {\n    "Content-Type": "application/json",${header}\n}\n` +
      `with urlopen(Request(${JSON.stringify(address)}, json.dumps(asked).encode(), headers)) as reply:\n    found = json.load(reply)\nfor answer in found["answers"]:\n    print(answer["truth"], answer["values"])\n`;
  },
  command({ query, store, k, engine, only, budget }) {
    const flags = [...(k ? [`-k ${k}`] : []), `--engine ${engine}`, ...(only ? [`--only ${only}`] : []), ...(budget ? [`--budget ${budget}`] : [])];
    return `tuplet ask ${quoted(`${store ?? "world"}.store`)} ${quoted(query)} ${flags.join(" ")}\n`;
  },
};

let way = "curl";
function show() {
  for (const name of Object.keys(WAYS)) $(`code-${name}`).setAttribute("aria-pressed", String(name === way));
  $("code-text").textContent = WAYS[way](request(), new URL("ask", location.href).href);
  $("code-told").textContent = way === "command" && "the name of the store's folder may be another one" || "";
}

for (const name of Object.keys(WAYS)) $(`code-${name}`).addEventListener("click", () => { way = name; show(); });
$("code-panel").addEventListener("beforetoggle", (event) => { if (event.newState === "open") show(); });
$("code-copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText($("code-text").textContent);
    $("code-told").textContent = "Copied";
  } catch { $("code-told").textContent = "The browser does not let it be copied"; }
});
