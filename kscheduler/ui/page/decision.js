// The decisions that were kept: the scores by plugin, the second choice, and what rejected the other nodes.

import { bars } from "./bars.js";
import { claimsOfPod } from "./claims.js";
import { card, controls, el, facts, link, paragraph, plainTable, searchField, select, shortName, wide } from "./dom.js";
import { counted, moment, whole } from "./format.js";
import { keptDecisions, placementOf } from "./report.js";
import { address, remember } from "./route.js";
import { scoreCards } from "./scores.js";
import { virtualTable } from "./table.js";

export const OUTCOMES = { bound: "bound", binding: "being bound", rejected: "rejected", fault: "failed" };

export function decisionView(report, settings) {
  const kept = keptDecisions(report), total = report.simulated_s, pod = settings.get("pod");
  if (!kept.length) return [noDecisions(report, pod), ...claimsOfPod(report, pod)];
  const wanted = { q: settings.get("q") || "", outcome: settings.get("outcome") || "" };
  const detail = el("div", { className: "parts" });
  const table = virtualTable({
    label: "Decisions", rows: [], height: 300, empty: "No decision matches the filter.", open: (each) => show(each),
    columns: [
      { title: "At", width: "8.5rem", className: "number", text: (each) => moment(each.time, total) },
      { title: "Pod", width: "minmax(9rem, 2fr)", main: true, text: (each) => each.pod },
      { title: "Attempt", width: "5rem", className: "number", text: (each) => whole(each.attempt) },
      { title: "Outcome", width: "6rem", text: (each) => OUTCOMES[each.outcome] || each.outcome },
      { title: "Node", width: "minmax(8rem, 1fr)", text: (each) => each.node || "–" },
      { title: "Nodes that fit", width: "7rem", className: "number", wide: true, text: (each) => whole(each.feasible) },
    ],
  });
  function show(each) {
    table.choose(each);
    remember("pod", each.pod);
    remember("attempt", each.attempt);
    detail.replaceChildren(...decisionCards(each, { pod: each.pod, when: (time) => moment(time, total), time: each.time }),
      ...claimsOfPod(report, each.pod));
  }
  function filter() {
    const text = wanted.q.toLowerCase();
    table.show(kept.filter((each) => (!wanted.outcome || each.outcome === wanted.outcome) &&
      (!text || `${each.pod} ${each.node} ${each.message}`.toLowerCase().includes(text))));
  }
  const set = (name, value) => { wanted[name] = value; remember(name, value); filter(); };
  filter();
  const ofPod = kept.filter((each) => each.pod === pod);
  const chosen = ofPod.find((each) => String(each.attempt) === settings.get("attempt")) || ofPod[ofPod.length - 1];
  if (pod && !chosen) detail.append(wide(notKept(report, pod)), ...claimsOfPod(report, pod));
  else show(chosen || kept.find(isClear) || kept[0]);
  const outcomes = [...new Set(kept.map((each) => each.outcome))].map((each) => [each, OUTCOMES[each] || each]);
  return [wide(card("Decisions", ofHowMany(report.decisions),
    controls(searchField("pod, node or message", wanted.q, (value) => set("q", value)),
      select("Outcome", [["", "all"], ...outcomes], wanted.outcome, (value) => set("outcome", value))),
    table)), wide(detail)];
}

function ofHowMany({ pods, left_out: leftOut }) {
  const dropped = leftOut ? ` ${whole(leftOut)} older decisions were dropped to bound memory.` : "";
  return `The latest attempts at ${whole(pods.length)} of the pods.${dropped}`;
}

function noDecisions(report, pod) {
  return wide(card("Decisions", "", pod ? el("p", { role: "status" }, whereIs(report, pod)) : null,
    paragraph("This report has no decisions. A simulation keeps them if it is asked to: for 500 of its pods with ",
      el("code", {}, "kscheduler simulate --decisions 500"), ", for all with ", el("code", {}, "--decisions all"), ".")));
}

function notKept(report, pod) {
  return card("The decision", "", el("p", { role: "status" }, "No decision about ", el("bdi", {}, pod),
    " was kept: only a sample of the pods is, and of each its latest attempts. ", whereIs(report, pod)));
}

function whereIs(report, pod) {
  const placed = placementOf(report, pod);
  if (!placed) return report.unplaced.some((each) => each.pod === pod) ? link(address("why", { pod }), "Why it has no node") : "";
  return [el("bdi", {}, pod), ` was bound at ${moment(placed.bound_s, report.simulated_s)} to `,
    link(address("nodes", { node: placed.node, t: placed.bound_s }), el("bdi", {}, placed.node)), "."];
}

// A decision in which the scores chose, not the tie-break.
function isClear({ bestNodes, node }) {
  const chosen = bestNodes.find((each) => each.node === node), second = bestNodes.find((each) => each.node !== node);
  return Boolean(chosen && second && chosen.score > second.score);
}

// Cards about one decision, as `kscheduler explain --output json` has it. when(time): the time as text.
export function decisionCards(decision, { pod, when, time }) {
  const { node, values } = decision;
  const known = [
    ["Pod", pod], ["Attempt", whole(decision.attempt)], ["At", when(decision.time)], ["Outcome", outcome(decision)],
    ["Nodes", nodesOf(decision)],
    ["Profile", decision.profile],
  ];
  if (decision.nominatedNode) known.push(["Makes room on", decision.nominatedNode]);
  if (decision.message) known.push(["Message", decision.message]);
  const then = node && time !== undefined ? paragraph(link(address("nodes", { node, t: time }), "The node at that time")) : null;
  const cards = [card("The decision", "", facts(known), then), rejections(decision)];
  if (node) cards.push(...scoreCards(decision));
  if (values.length) cards.push(liveMetrics(values));
  return cards;
}

// A pod that its gang keeps from a node would have fitted by itself, or was not tried.
function nodesOf({ nodes, evaluated, feasible, fitted, plugins }) {
  if (fitted) return `${whole(nodes)}; ${whole(evaluated)} looked at, ${whole(feasible)} fit; it would have gone to ${fitted}, and was rejected with its gang`;
  if (plugins.length === 1 && plugins[0] === "Gangs") return `${whole(nodes)}; it was rejected with its gang, and not tried itself`;
  return `${whole(nodes)}; ${whole(evaluated)} looked at, ${whole(feasible)} fit`;
}

function outcome({ outcome: name, node }) {
  const words = OUTCOMES[name] || name;
  return node ? `${words}: ${node}` : words;
}

function rejections(decision) {
  return rejectionsCard("What rejected the nodes", decision);
}

export function rejectionsCard(title, { reasons, reasonsLeftOut, preFilter, plugins, nodes, detailed, evaluated }) {
  if (preFilter) return card(title, "", paragraph(`No node was looked at: ${preFilter}`), paragraph(el("code", {}, plugins.join(", "))));
  if (!reasons.length)
    return card(title, "", paragraph(!evaluated ? "No node was looked at." : detailed ? "No node was rejected." : "What each node was rejected for was not kept for this attempt."));
  const counts = reasons.map((each) => ({ count: each.nodes, reason: each.reasons.join(", "), plugin: each.plugin, examples: each.examples }));
  const rarer = reasonsLeftOut ? el("p", { className: "fine" }, `and ${counted(reasonsLeftOut, "rarer reason")}`) : null;
  return card(title, `Of ${counted(nodes, "node")}. The first filter that rejects a node is the one that counts.`, bars(counts, nodes), rarer);
}

function liveMetrics(values) {
  const columns = [["Node"], ["Plugin"], ["Metric"], ["Used", "number"], ["Read", "number"], ["Age", "number"]];
  return wide(card("Live metrics", "What plugins read of the nodes at that time.", plainTable("Live metrics", columns,
    values.map((each) => [shortName(each.node), each.plugin, each.metric, each.used ?? "none fresh", each.read ?? "–",
      each.ageSeconds === null ? "–" : `${each.ageSeconds} s`]))));
}
