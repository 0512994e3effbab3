// Starts the page of reports: reads them, and shows the view of the address.

import { removeCharts } from "./chart.js";
import { compareView } from "./compare.js";
import { composeView } from "./compose.js";
import { decisionView } from "./decision.js";
import { el } from "./dom.js";
import { counted, seconds, whole } from "./format.js";
import { nodesView } from "./nodes.js";
import { notesView } from "./notes.js";
import { overview } from "./overview.js";
import { pendingPods, preemptedPods, whyPending } from "./pending.js";
import { remember, route } from "./route.js";
import { beginShell, currentView } from "./shell.js";
import { timelineView } from "./timeline.js";
import { whatIfView } from "./whatif.js";

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
const main = document.querySelector("main");
let reports = [];
let comparison = null;
let whatIf = null;

// A document is a report, a comparison by `kscheduler compare`, which holds two, or an answer by `kscheduler whatif`, which holds one.
function reportsIn(name, found) {
  if (found.comparison) {
    whatIf = found;
    return reportsIn(name, found.comparison);
  }
  if (!found.differences) return [{ name, report: found }];
  comparison = found;
  return [found.a, found.b];
}

async function load() {
  const inline = document.getElementById("data");
  if (inline) return reportsIn("", JSON.parse(inline.textContent));
  const get = async (path) => {
    const response = await fetch(path);
    if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
    return response.json();
  };
  const names = await get("reports.json");
  const found = await Promise.all(names.map(async (name, at) => reportsIn(name, await get(`reports/${at}.json`))));
  return found.flat();
}

function shown() {
  const at = Number(route().settings.get("report")) || 0;
  return reports[at] || reports[0];
}

function views() {
  const ask = ["whatif", "What if", composeView];
  if (reports.length < 2) return [...VIEWS, ask];
  const both = ["compare", "Compare", (_, settings) => compareView(reports, settings, comparison)];
  if (whatIf) return [["whatif", "What if", (_, settings) => whatIfView(whatIf, settings)], both, ...VIEWS];
  return comparison ? [both, ...VIEWS, ask] : [...VIEWS, both, ask];
}

function show() {
  const [key, , make] = currentView(), { settings } = route();
  const { report } = shown();
  removeCharts();
  const asked = report.pods.total - report.pods.existing;
  const existing = report.pods.existing ? ` ${whole(report.pods.existing)} more pods were there from the start.` : "";
  document.getElementById("headline").textContent = `${counted(asked, "pod")} on ${counted(report.nodes.total, "node")}`;
  document.getElementById("lead").textContent = `${seconds(report.simulated_s)} of virtual time; it ended because ${report.ending}.${existing}`;
  try {
    main.replaceChildren(...make(report, settings));
  } catch (error) {
    main.replaceChildren(el("section", { className: "card wide" }, el("h2", {}, "This view cannot be shown"), el("p", { role: "alert" }, String(error))));
    console.error(error);
  }
  main.dataset.view = key;
}

function begin() {
  document.getElementById("version").textContent = `kscheduler ${reports[0].report.version}`;
  if (reports.length > 1) {
    const chooser = document.getElementById("report");
    chooser.append(...reports.map((each, at) => el("option", { value: at }, `${"AB"[at]}: ${each.name}`)));
    chooser.value = String(reports.indexOf(shown()));
    chooser.hidden = false;
    chooser.addEventListener("change", () => { remember("report", chooser.value === "0" ? "" : chooser.value); show(); });
  }
  beginShell(views, show);
}

load().then((loaded) => {
  reports = loaded;
  begin();
}, (error) => {
  main.replaceChildren(el("section", { className: "card wide" }, el("h2", {}, "The report cannot be read"), el("p", { role: "alert" }, String(error))));
});
