// Two reports side by side: their figures, their charts, and the pods that landed elsewhere.

import { chart, shares } from "./chart.js";
import { domainCards } from "./domains.js";
import { card, controls, paragraph, plainTable, searchField, select, wide } from "./dom.js";
import { counted, percent, seconds, whole } from "./format.js";
import { distribution } from "./overview.js";
import { KINDS, reasonCards } from "./reasons.js";
import { remember } from "./route.js";
import { virtualTable } from "./table.js";

// comparison: what `kscheduler compare` found out, null if two reports are compared here.
export function compareView(reports, settings, comparison) {
  const [a, b] = reports.map((each) => each.report);
  return [
    ...(comparison ? reasonCards(comparison, settings) : [wide(sideBySide(reports))]),
    ...domainCards(a, b),
    ...bothOverTime(a, b),
    ...(comparison ? [] : [wide(elsewhere(a, b, settings))]),
  ];
}

// Charts of two reports: waiting times, waiting pods and utilisation, with these labels.
export function bothOverTime(a, b, labels = ["A", "B"]) {
  const resources = Object.keys(a.series.used).filter((name) => name in b.series.used && name !== "pods");
  const used = resources.map((name) => card(`Utilisation: ${name}`, "", overlaid(a, b, labels, (report) => report.series.used[name],
    { format: shares(a.series.used[name], b.series.used[name]) })));
  return [
    wide(card("From created to bound", "The share of placed pods that were bound within a time.",
      distribution([{ label: labels[0], latency: a.latency }, { label: labels[1], latency: b.latency }]))),
    wide(card("Pods that wait for a node", "", overlaid(a, b, labels, (report) => report.series.pending, { whole: true }))),
    ...(resources.length === 1 ? used.map(wide) : used),
  ];
}

function sideBySide([a, b]) {
  const columns = [["Figure"], ["A", "number"], ["B", "number"], ["B − A", "number"]];
  return card("Figures side by side", `A: ${a.name}. B: ${b.name}.`, plainTable("Figures of both reports", columns, figures(a.report, b.report)));
}

function overlaid(a, b, labels, valuesOf, options) {
  const x = [...new Set([...a.series.time_s, ...b.series.time_s])].sort((p, q) => p - q);
  const onto = (report) => {
    const times = report.series.time_s, values = valuesOf(report);
    let at = -1;
    return x.map((time) => {
      while (at + 1 < times.length && times[at + 1] <= time) at++;
      return at < 0 || time > times[times.length - 1] ? null : values[at];
    });
  };
  const both = [{ label: labels[0], values: onto(a) }, { label: labels[1], values: onto(b) }];
  return chart(x, both, { label: "Line chart of both runs over virtual time.", ...options });
}

function figures(a, b) {
  const rows = [];
  const add = (name, of, format) => {
    const left = of(a) ?? null, right = of(b) ?? null, known = left !== null && right !== null;
    const change = known ? right - left : 0;
    const text = !known ? "–" : change === 0 ? "=" : (change > 0 ? "+" : "−") + format(Math.abs(change));
    rows.push([name, left === null ? "–" : format(left), right === null ? "–" : format(right), text]);
  };
  add("Pods placed", (r) => r.pods.placed, whole);
  add("Without a node", (r) => r.pods.unplaced + r.pods.left_unplaced, whole);
  add("Preempted", (r) => r.preempted?.length, whole);
  if (a.gangs || b.gangs) {
    add("Gangs that ran", (r) => r.gangs?.ran, whole);
    add("Gangs with nodes for fewer pods than they need", (r) => r.gangs?.holding, whole);
    add("Pods idle on nodes before their gang ran, summed", (r) => r.gangs?.idle_pod_s, seconds);
  }
  add("Pending at most", (r) => r.peak_pending, whole);
  for (const name of ["p50", "p90", "p99", "max"]) add(`Created to bound, ${name}`, (r) => r.latency[`${name}_s`], seconds);
  const names = [...new Set([...a.resources, ...b.resources].map((each) => each.name))];
  const resource = (report, name) => report.resources.find((each) => each.name === name);
  for (const name of names) {
    add(`${name}: average use`, (r) => resource(r, name)?.average, percent);
    add(`${name}: peak use`, (r) => resource(r, name)?.peak, percent);
    add(`${name}: balance, average`, (r) => resource(r, name)?.balance_average.variation, (value) => value.toFixed(3));
    if (name !== "pods") add(`${name}: fragmentation, busiest`, (r) => resource(r, name)?.fragmentation_busiest, percent);
  }
  add("Nodes never used", (r) => r.nodes.never_used, whole);
  add("Virtual time", (r) => r.simulated_s, seconds);
  return rows;
}

function elsewhere(a, b, settings) {
  const title = "Pods that landed elsewhere";
  if (!a.placements || !b.placements) return card(title, "", paragraph("One of the reports does not hold where each pod was placed."));
  const { rows, same } = moves(a, b);
  const wanted = { q: settings.get("q") || "", kind: settings.get("kind") || "" };
  const table = virtualTable({
    label: title, rows: [], empty: rows.length ? "No pod matches the filter." : "None: every pod is on the same node.",
    columns: [
      { title: "Pod", width: "minmax(9rem, 2fr)", main: true, text: (row) => row.pod },
      { title: "In A", width: "minmax(8rem, 1fr)", text: (row) => row.before || "no node" },
      { title: "In B", width: "minmax(8rem, 1fr)", text: (row) => row.after || "no node" },
    ],
  });
  function filter() {
    const text = wanted.q.toLowerCase();
    table.show(rows.filter((row) => (!wanted.kind || row.kind === wanted.kind) &&
      (!text || `${row.pod} ${row.before} ${row.after}`.toLowerCase().includes(text))));
  }
  const set = (name, value) => { wanted[name] = value; remember(name, value); filter(); };
  filter();
  const hint = `${counted(same, "pod")} on the same node in both, ${whole(rows.length)} not. Equal scores are decided by chance unless both runs have the same seed.`;
  return card(title, hint,
    controls(searchField("pod or node", wanted.q, (value) => set("q", value)),
      select("Which", Object.entries(KINDS), wanted.kind, (value) => set("kind", value))), table);
}

// The pods that are on another node, or on a node in one report only, and how many are on the same one.
function moves(a, b) {
  const nodesOf = ({ placements }) => new Map(placements.pods.map((pod, at) => [pod, placements.nodes[placements.node[at]]]));
  const before = nodesOf(a), after = nodesOf(b), rows = [];
  let same = 0;
  for (const [pod, node] of before) {
    const now = after.get(pod);
    if (now === node) same++;
    else rows.push({ pod, before: node, after: now || "", kind: now ? "moved" : "lost" });
  }
  for (const [pod, node] of after) if (!before.has(pod)) rows.push({ pod, before: "", after: node, kind: "won" });
  return { rows, same };
}
