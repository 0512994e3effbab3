// Starts the page: reads the reports, shows the view of the address, and handles keys and colours.

import { removeCharts } from "./chart.js";
import { compareView } from "./compare.js";
import { decisionView } from "./decision.js";
import { el } from "./dom.js";
import { counted, seconds, whole } from "./format.js";
import { nodesView } from "./nodes.js";
import { notesView } from "./notes.js";
import { overview } from "./overview.js";
import { pendingPods, preemptedPods, whyPending } from "./pending.js";
import { address, remember, route } from "./route.js";
import { timelineView } from "./timeline.js";

const VIEWS = [
  ["overview", "Overview", overview],
  ["pending", "Pending pods", pendingPods],
  ["why", "Why pending", whyPending],
  ["decision", "Decisions", decisionView],
  ["preempted", "Preempted", preemptedPods],
  ["nodes", "Nodes", nodesView],
  ["timeline", "Timeline", timelineView],
  ["notes", "Notes", notesView],
];
const THEMES = ["light dark", "light", "dark"];
const THEME_NAMES = { "light dark": "Colours: system", light: "Colours: light", dark: "Colours: dark" };
const main = document.querySelector("main");
const help = document.getElementById("help");
let reports = [], comparison = null;

// A document is a report, or a comparison by `kscheduler compare`, which holds two.
function reportsIn(name, found) {
  if (!found.differences) return [{ name, report: found }];
  comparison = found;
  return [found.a, found.b];
}

async function load() {
  const inline = document.getElementById("data");
  if (inline) return reportsIn("", JSON.parse(inline.textContent));
  const answer = async (path) => {
    const response = await fetch(path);
    if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
    return response.json();
  };
  const names = await answer("reports.json");
  const found = await Promise.all(names.map(async (name, at) => reportsIn(name, await answer(`reports/${at}.json`))));
  return found.flat();
}

function shown() {
  const at = Number(route().settings.get("report")) || 0;
  return reports[at] || reports[0];
}

function views() {
  if (reports.length < 2) return VIEWS;
  const both = ["compare", "Compare", (_, settings) => compareView(reports, settings, comparison)];
  return comparison ? [both, ...VIEWS] : [...VIEWS, both];
}

function show() {
  const { view, settings } = route();
  const known = views(), [key, title, make] = known.find(([name]) => name === view) || known[0];
  const { report } = shown();
  removeCharts();
  const asked = report.pods.total - report.pods.existing;
  const existing = report.pods.existing ? ` ${whole(report.pods.existing)} more pods were there from the start.` : "";
  document.getElementById("headline").textContent = `${counted(asked, "pod")} on ${counted(report.nodes.total, "node")}`;
  document.getElementById("lead").textContent = `${seconds(report.simulated_s)} of virtual time; it ended because ${report.ending}.${existing}`;
  document.title = `${title} – kscheduler`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.href = address(link.dataset.view);
  }
  document.querySelector("nav a[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  try {
    main.replaceChildren(...make(report, settings));
  } catch (error) {
    main.replaceChildren(el("section", { className: "card wide" }, el("h2", {}, "This view cannot be shown"), el("p", { role: "alert" }, String(error))));
    console.error(error);
  }
  main.dataset.view = key;
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
  show();
}

function key(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const slider = document.querySelector("[data-scrubber]"), known = views();
  if (event.key === "?") help.open ? help.close() : help.showModal();
  else if (event.key === "t") nextTheme();
  else if (event.key === "/") document.querySelector("[data-filter]")?.focus();
  else if (event.key === "[") slider?.step(-1);
  else if (event.key === "]") slider?.step(1);
  else if (event.key === " " && slider && event.target.tagName !== "BUTTON") slider.toggle();
  else if (/^[1-9]$/.test(event.key) && known[event.key - 1]) location.hash = address(known[event.key - 1][0]);
  else return;
  event.preventDefault();
}

function begin() {
  document.getElementById("views").append(...views().map(([name, title]) => el("a", { href: address(name), "data-view": name }, title)));
  document.getElementById("version").textContent = `kscheduler ${reports[0].report.version}`;
  if (reports.length > 1) {
    const chooser = document.getElementById("report");
    chooser.append(...reports.map((each, at) => el("option", { value: at }, `${"AB"[at]}: ${each.name}`)));
    chooser.value = String(reports.indexOf(shown()));
    chooser.hidden = false;
    chooser.addEventListener("change", () => { remember("report", chooser.value === "0" ? "" : chooser.value); show(); });
  }
  addEventListener("hashchange", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("keys").addEventListener("click", () => help.showModal());
document.addEventListener("keydown", key);
theme(chosenTheme());
load().then((loaded) => {
  reports = loaded;
  begin();
}, (error) => {
  main.replaceChildren(el("section", { className: "card wide" }, el("h2", {}, "The report cannot be read"), el("p", { role: "alert" }, String(error))));
});
