// Why pods landed elsewhere, of a comparison by `kscheduler compare`: the first plugin that says why, and its scores.

import { card, controls, el, facts, plainTable, scrolling, searchField, select, shortName, wide } from "./dom.js";
import { counted, moment, percent, seconds, signed, whole } from "./format.js";
import { remember } from "./route.js";
import { virtualTable } from "./table.js";

// Where a pod landed, in words.
export const KINDS = { "": "all", moved: "on another node", lost: "only placed in A", won: "only placed in B" };

export function reasonCards(comparison, settings) {
  const { figures, notes, parameters } = comparison, cards = [wide(differences(comparison, settings))];
  if (figures.length) {
    const columns = [["Figure"], ["A", "number"], ["B", "number"], ["B − A", "number"], [""]];
    cards.push(wide(card("Figures side by side", paired(comparison.paired), plainTable("Figures of both runs", columns, figures.map(figureRow)))));
  }
  if (parameters.length) {
    const columns = [["Parameter"], ["In A", "message"], ["In B", "message"]];
    cards.push(wide(card("What differs between the runs", "", plainTable("Parameters that differ", columns, parameters))));
  }
  if (notes.length) cards.push(wide(card("About this comparison", "", el("ul", { className: "notes" }, notes.map((note) => el("li", {}, note))))));
  return cards;
}

// --- pods ---

// The pods that landed elsewhere. `titles`: of the nodes of both runs; `kinds`: the words for where a pod landed.
export function differences(comparison, settings, titles = ["In A", "In B"], kinds = KINDS) {
  const { differences: rows, not_listed: notListed } = comparison;
  const total = Math.max(comparison.a.report.simulated_s, comparison.b.report.simulated_s);
  const wanted = { q: settings.get("q") || "", cause: settings.get("cause") || "", kind: settings.get("kind") || "" };
  const detail = el("div");
  const table = virtualTable({
    label: "Pods that landed elsewhere, with reasons", rows: [], height: 380, open: (each) => show(each),
    empty: rows.length ? "No pod matches the filter." : "None: every pod landed equally.",
    columns: [
      { title: "At", width: "8.5rem", className: "number", text: (each) => (each.at_s === null ? "–" : moment(each.at_s, total)) },
      { title: "Pod", width: "minmax(9rem, 2fr)", main: true, text: (each) => each.pod },
      { title: titles[0], width: "minmax(6rem, 1fr)", text: (each) => nodeWords(each.node_a) },
      { title: titles[1], width: "minmax(6rem, 1fr)", text: (each) => nodeWords(each.node_b) },
      { title: "Why", width: "minmax(14rem, 4fr)", long: true, text: (each) => each.because },
    ],
  });
  function show(each) {
    table.choose(each);
    remember("pod", each.pod);
    detail.replaceChildren(...difference(each));
  }
  function filter() {
    const text = wanted.q.toLowerCase();
    table.show(rows.filter((each) => (!wanted.cause || causeOf(each.why) === wanted.cause) && (!wanted.kind || landingOf(each) === wanted.kind) &&
      (!text || `${each.pod} ${each.node_a} ${each.node_b} ${each.because}`.toLowerCase().includes(text))));
  }
  const set = (name, value) => { wanted[name] = value; remember(name, value); filter(); };
  filter();
  if (rows.length) show(rows.find((each) => each.pod === settings.get("pod")) || rows[0]);
  return card("Why pods landed elsewhere",
    `${howMany(comparison.pods)} The first ones are listed, in the order of decisions: the first may be the root of those that follow.`,
    controls(searchField("pod, node or reason", wanted.q, (value) => set("q", value)),
      select("Which", Object.entries(kinds), wanted.kind, (value) => set("kind", value)),
      select("Cause", [["", "all causes"], ...causes(rows)], wanted.cause, (value) => set("cause", value))),
    table, notListed ? el("p", { className: "fine" }, `and ${whole(notListed)} more`) : null, detail);
}

const landingOf = (each) => (!each.node_b ? "lost" : !each.node_a ? "won" : "moved");

const nodeWords = (node) => (node === "?" ? "a node" : node || "no node");

function howMany(pods) {
  const lost = `${whole(pods.only_placed_in_a)} are placed only in A, ${whole(pods.only_placed_in_b)} only in B.`;
  if (pods.are_nodes_known === false) return `Of the pods, ${lost}`;
  return `Of ${counted(pods.common, "pod")} in both, ${whole(pods.same_node)} are on the same node, ${whole(pods.moved)} on another one, ${lost}`;
}

function causeOf(why) {
  if (why.kind === "filter" || why.kind === "score") return `${why.plugin || "a plugin"} (${why.kind})`;
  return { tie: "tie-break", outside: "outside the gang's domain" }[why.kind] || why.kind;
}

function causes(rows) {
  const counts = new Map();
  for (const { why } of rows) counts.set(causeOf(why), (counts.get(causeOf(why)) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([cause, count]) => [cause, `${whole(count)} × ${cause}`]);
}

// --- one pod ---

function difference(each) {
  const known = [["In A", nodeWords(each.node_a)], ["In B", nodeWords(each.node_b)], ["Why", each.because], ["The cluster", each.given]];
  if (each.changed.length) known.push(["Pods on these nodes in one run only", each.changed.join(", ")]);
  return [el("h3", {}, el("bdi", {}, each.pod)), facts(known), ...(each.why.scores.length ? margins(each) : [])];
}

function margins({ why, node_a: inA, node_b: inB }) {
  const title = (text) => el("th", { scope: "col", className: "number" }, text);
  const group = (text) => el("th", { scope: "colgroup", colspan: 3 }, text);
  const three = () => [title(shortName(inA)), title(shortName(inB)), title("margin")];
  const head = el("thead", {}, el("tr", {}, el("td"), group("in A"), group("in B")), el("tr", {}, el("th", { scope: "col" }, "Plugin"), three(), three()));
  const number = (text, kind = "number") => el("td", { className: kind }, text);
  const pair = ([one, other]) => [number(whole(one)), number(whole(other)), number(signed(one - other), "number sum")];
  const rows = why.scores.map((each) => el("tr", { className: each.plugin === why.plugin ? "first-cause" : "" },
    el("th", { scope: "row" }, each.plugin), pair(each.in_a), pair(each.in_b)));
  return [el("p", { className: "hint" }, "Weighted scores of both nodes in both runs. The marked plugin is the first whose margin differs."),
    scrolling("Scores of both nodes in both runs", el("table", { className: "compared" }, head, el("tbody", {}, rows)))];
}

// --- figures ---

function paired(found) {
  if (!found) return "";
  const change = found.mean_s ? `${found.mean_s < 0 ? "−" : "+"}${seconds(Math.abs(found.mean_s))}` : "0 s";
  const bound = `${whole(found.sooner)} were bound sooner in B, ${whole(found.later)} later, ${whole(found.equal)} equally soon`;
  return `Of ${counted(found.pods, "pod")} placed in both, ${bound}; B − A is ${change} on average.`;
}

function figureRow({ name, text, a, b, is_more_better: more, is_measured: measured }) {
  const [kind, resource] = name.split(":"), change = a === null || b === null ? null : b - a, shown = changeOf(kind, change);
  const verdict = change === null || shown === "=" || measured ? "" : change > 0 === more ? "better" : "worse";
  return [resource ? `${resource}: ${text}` : text, figure(kind, a), figure(kind, b), shown, el("span", { className: verdict }, verdict)];
}

// A change too small to be shown is none.
function changeOf(kind, change) {
  if (change === null) return "–";
  const size = figure(kind, Math.abs(change));
  return size === figure(kind, 0) ? "=" : (change > 0 ? "+" : "−") + size;
}

function figure(kind, value) {
  if (value === null) return "–";
  if (/^(placed|allocated|fragmentation|gangs-ran)/.test(kind)) return percent(value, 2);
  if (/^(pending|simulated|cpu|gangs-idle|gangs-wait)/.test(kind)) return seconds(value);
  return kind.startsWith("imbalance") ? value.toFixed(3) : whole(value);
}
