// Answers as files: asked for again in the form that is wanted.

import { post } from "./api.js";
import { state, tell } from "./state.js";

for (const button of document.querySelectorAll("[data-download]")) {
  button.addEventListener("click", async () => {
    try {
      const format = button.dataset.download;
      const asked = format === "csv" ? "csv_safe" : format; // it will be opened in a spreadsheet
      const blob = await (await post("ask", { ...state.last, format: asked })).blob();
      const anchor = document.createElement("a");
      anchor.href = URL.createObjectURL(blob);
      anchor.download = `answers.${format}`;
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
      tell(`answers.${format}`);
    } catch (error) { tell(error.message); }
  });
}
