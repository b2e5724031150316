// Dark and light: as the system says, until the reader says otherwise.

import { $, announce } from "./state.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
const kept = localStorage.getItem("tuplet-theme");
if (kept) document.documentElement.dataset.theme = kept;
$("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  localStorage.setItem("tuplet-theme", theme());
  announce("theme");
});
dark.addEventListener("change", () => announce("theme"));
