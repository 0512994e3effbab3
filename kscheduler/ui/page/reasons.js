// Why pods landed elsewhere, of a comparison by `kscheduler compare`: the first plugin that says why, and its scores.

import { card, el, facts, plainTable, select, shortName, wide } from "./dom.js";
import { moment, percent, seconds, whole } from "./format.js";
import { remember } from "./route.js";
import { virtualTable } from "./table.js";

const nodeWords = (node) => (node === "?" ? "a node" : node || "no node");

export function reasonCards(comparison, settings) {
  const { pods, differences, not_listed: notListed, parameters } = comparison;
  const total = Math.max(comparison.a.report.simulated_s, comparison.b.report.simulated_s);
  const rows = differences.map((each) => ({ ...each, cause: causeOf(each.why) }));
  const counts = new Map();
  for (const each of rows) counts.set(each.cause, (counts.get(each.cause) || 0) + 1);
  const causes = [...counts].sort((a, b) => b[1] - a[1]).map(([cause, count]) => [cause, `${whole(count)} × ${cause}`]);
  const wanted = { q: settings.get("q") || "", cause: settings.get("cause") || "" };
  const detail = el("div");
  const table = virtualTable({
    label: "Pods that landed elsewhere, with reasons", rows: [], height: 380, empty: rows.length ? "No pod matches the filter." : "None: every pod landed equally.",
    open: (each) => show(each),
    columns: [
      { title: "At", width: "8.5rem", className: "number", text: (each) => (each.at_s === null ? "–" : moment(each.at_s, total)) },
      { title: "Pod", width: "minmax(9rem, 2fr)", main: true, text: (each) => each.pod },
      { title: "In A", width: "minmax(6rem, 1fr)", text: (each) => nodeWords(each.node_a) },
      { title: "In B", width: "minmax(6rem, 1fr)", text: (each) => nodeWords(each.node_b) },
      { title: "Why", width: "minmax(14rem, 4fr)", long: true, text: (each) => each.because },
    ],
  });
  function show(each) {
    table.choose(each);
    remember("pod", each.pod);
    detail.replaceChildren(el("h3", {}, el("bdi", {}, each.pod)), facts([["In A", nodeWords(each.node_a)], ["In B", nodeWords(each.node_b)], ["Why", each.because],
      ["The cluster", each.given], ...(each.changed.length ? [["Pods on these nodes in one run only", each.changed.join(", ")]] : [])]),
    each.why.scores.length ? scoreTable(each) : "");
  }
  const filter = () => table.show(rows.filter((each) => (!wanted.cause || each.cause === wanted.cause) &&
    (!wanted.q || `${each.pod} ${each.node_a} ${each.node_b} ${each.because}`.toLowerCase().includes(wanted.q.toLowerCase()))));
  const set = (name, value) => { wanted[name] = value; remember(name, value); filter(); };
  filter();
  if (rows.length) show(rows.find((each) => each.pod === settings.get("pod")) || rows[0]);
  const counted = pods.are_nodes_known === false
    ? `${whole(pods.only_placed_in_a)} pods are placed only in A, ${whole(pods.only_placed_in_b)} only in B.`
    : `Of ${whole(pods.common)} pods in both, ${whole(pods.same_node)} are on the same node, ${whole(pods.moved)} on another one, ${whole(pods.only_placed_in_a)} are placed only in A, ${whole(pods.only_placed_in_b)} only in B.`;
  const cards = [wide(card("Why pods landed elsewhere", `${counted} The first ones are listed, in the order of decisions: the first may be the root of those that follow.`,
    el("div", { className: "controls" }, el("label", { className: "field" }, el("span", {}, "Filter"), el("input", { type: "search", value: wanted.q, placeholder: "pod, node or reason", "data-filter": true, oninput: (event) => set("q", event.target.value) })),
      select("Cause", [["", "all causes"], ...causes], wanted.cause, (value) => set("cause", value))),
    table, notListed ? el("p", { className: "fine" }, `and ${whole(notListed)} more`) : null, detail))];
  if (comparison.figures.length) cards.push(wide(card("Figures side by side", paired(comparison.paired), plainTable("Figures of both runs",
    [["Figure"], ["A", "number"], ["B", "number"], ["B − A", "number"], [""]], comparison.figures.map(figureRow)))));
  if (parameters.length) cards.push(wide(card("What differs between the runs", "", plainTable("Parameters that differ", [["Parameter"], ["In A", "message"], ["In B", "message"]], parameters))));
  if (comparison.notes.length) cards.push(wide(card("About this comparison", "", el("ul", { className: "notes" }, comparison.notes.map((note) => el("li", {}, note))))));
  return cards;
}

function paired(found) {
  if (!found) return "";
  const change = found.mean_s ? `${found.mean_s < 0 ? "−" : "+"}${seconds(Math.abs(found.mean_s))}` : "0 s";
  return `Of ${whole(found.pods)} pods placed in both, ${whole(found.sooner)} were bound sooner in B, ${whole(found.later)} later, ${whole(found.equal)} equally soon; B − A is ${change} on average.`;
}

function figureRow({ name, text, a, b, is_more_better: more, is_measured: measured }) {
  const [kind, resource] = name.split(":");
  const format = (value) => {
    if (value === null) return "–";
    if (/^(placed|allocated|fragmentation)/.test(kind)) return percent(value, 2);
    if (/^(pending|simulated|cpu)/.test(kind)) return seconds(value);
    return kind.startsWith("imbalance") ? value.toFixed(3) : whole(value);
  };
  const known = a !== null && b !== null, change = known ? b - a : 0;
  const verdict = !change || measured ? "" : change > 0 === more ? "better" : "worse";
  return [resource ? `${resource}: ${text}` : text, format(a), format(b), !known ? "–" : change ? (change > 0 ? "+" : "−") + format(Math.abs(change)) : "=",
    el("span", { className: verdict }, verdict)];
}

function causeOf(why) {
  return why.kind === "filter" || why.kind === "score" ? `${why.plugin || "a plugin"} (${why.kind})` : { tie: "tie-break" }[why.kind] || why.kind;
}

function scoreTable({ why, node_a: inA, node_b: inB }) {
  const cell = (text) => el("td", { className: "number" }, text), signed = (value) => (value > 0 ? `+${whole(value)}` : whole(value).replace("-", "−"));
  const head = (...children) => el("th", { scope: "col", className: "number" }, children);
  const rows = why.scores.map((each) => el("tr", { className: each.plugin === why.plugin ? "first-cause" : "" }, el("th", { scope: "row" }, each.plugin),
    [each.in_a, each.in_b].map((pair) => [cell(whole(pair[0])), cell(whole(pair[1])), el("td", { className: "number sum" }, signed(pair[0] - pair[1]))])));
  const three = () => [head(shortName(inA)), head(shortName(inB)), head("margin")];
  return el("div", {}, el("p", { className: "hint" }, "Weighted scores of both nodes in both runs. The marked plugin is the first whose margin differs."),
    el("div", { className: "scroll", tabindex: 0, role: "region", "aria-label": "Scores of both nodes in both runs" }, el("table", { className: "compared" }, el("thead", {},
      el("tr", {}, el("td"), el("th", { scope: "colgroup", colspan: 3, className: "number" }, "in A"), el("th", { scope: "colgroup", colspan: 3, className: "number" }, "in B")),
      el("tr", {}, el("th", { scope: "col" }, "Plugin"), three(), three())), el("tbody", {}, rows))));
}
