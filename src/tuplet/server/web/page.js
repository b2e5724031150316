// The page: text ↔ drawing ↔ answers. The server parses and prints; here is only what is shown.

import "./theme.js";
import "./completion.js";
import "./hover.js";
import "./draw_tools.js";
import "./answers.js";
import "./export.js";
import "./stale.js";
import "./history.js";
import "./snippets.js";
import "./entity.js";
import "./schema.js";
import { showProblem } from "./editor.js";
import { drawing, showDrawing } from "./query.js";
import { openLink } from "./share.js";
import { load } from "./stores.js";

try {
  await load(null);
  if (!(await openLink())) showDrawing(null);
} catch (error) {
  showProblem({ error: error.message });
}
document.documentElement.dataset.ready = "yes";
drawing.open().catch((error) => showProblem({ error: error.message }));
