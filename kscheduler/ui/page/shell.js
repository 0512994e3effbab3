// The frame around the views: the links to them, keys, colours, and the address of the view that is shown.

import { el } from "./dom.js";
import { address, route } from "./route.js";

const THEMES = ["light dark", "light", "dark"];
const THEME_NAMES = { "light dark": "Colours: system", light: "Colours: light", dark: "Colours: dark" };
const help = document.getElementById("help");
let knownViews = () => [];
let showCurrent = () => {};

// views(): [[name, title, ...]]; showView(): shows the view of the address, when it or the colours change.
export function beginShell(views, showView) {
  knownViews = views;
  showCurrent = showView;
  document.getElementById("views").append(...views().map(([name, title]) => el("a", { href: address(name), "data-view": name }, title)));
  addEventListener("hashchange", showCurrent);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showCurrent);
  showCurrent();
}

// The view of the address, or the first one; its link is marked, and the others keep the settings that views share.
export function currentView() {
  const { view } = route(), all = knownViews();
  const current = all.find(([name]) => name === view) || all[0];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === current[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.href = address(link.dataset.view);
  }
  document.querySelector("nav a[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${current[1]} – kscheduler`;
  return current;
}

function theme(to) {
  document.documentElement.style.colorScheme = to;
  document.getElementById("theme").textContent = THEME_NAMES[to];
  try {
    localStorage.setItem("kscheduler-theme", to);
  } catch { /* A page from a file may have no storage. */ }
}

function chosenTheme() {
  try {
    const kept = localStorage.getItem("kscheduler-theme");
    return THEMES.includes(kept) ? kept : THEMES[0];
  } catch {
    return THEMES[0];
  }
}

function nextTheme() {
  theme(THEMES[(THEMES.indexOf(document.documentElement.style.colorScheme) + 1) % THEMES.length]);
  showCurrent();
}

const viewAt = (digit) => (Number(digit) + 9) % 10; // 0 is the tenth

function key(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const slider = document.querySelector("[data-scrubber]"), views = knownViews();
  if (event.key === "?") help.open ? help.close() : help.showModal();
  else if (event.key === "t") nextTheme();
  else if (event.key === "/") document.querySelector("[data-filter]")?.focus();
  else if (event.key === "[") slider?.step(-1);
  else if (event.key === "]") slider?.step(1);
  else if (event.key === " " && slider && event.target.tagName !== "BUTTON") slider.toggle();
  else if (/^[0-9]$/.test(event.key) && views[viewAt(event.key)]) location.hash = address(views[viewAt(event.key)][0]);
  else return;
  event.preventDefault();
}

document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("keys").addEventListener("click", () => help.showModal());
document.addEventListener("keydown", key);
theme(chosenTheme());
