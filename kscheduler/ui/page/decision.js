// The decisions that were kept: the scores by plugin, the second choice, and what rejected the other nodes.

import { bars } from "./bars.js";
import { card, el, facts, plainTable, select, shortName, wide } from "./dom.js";
import { moment, whole } from "./format.js";
import { keptDecisions, placementOf } from "./report.js";
import { address, remember } from "./route.js";
import { virtualTable } from "./table.js";

const OUTCOMES = { bound: "bound", binding: "being bound", rejected: "rejected", fault: "failed" };

export function decisionView(report, settings) {
  const kept = keptDecisions(report), total = report.simulated_s;
  const pod = settings.get("pod");
  if (!kept.length)
    return [wide(card("Decisions", "", pod ? el("p", { role: "status" }, whereIs(report, pod)) : null, el("p", {}, "This report has no decisions. A simulation keeps them if it is asked to: for 500 of its pods with ",
      el("code", {}, "kscheduler simulate --decisions 500"), ", for all with ", el("code", {}, "--decisions all"), ".")))];
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
    detail.replaceChildren(...decisionCards(each, { pod: each.pod, when: (time) => moment(time, total), time: each.time }));
  }
  const filter = () => table.show(kept.filter((each) => (!wanted.outcome || each.outcome === wanted.outcome) &&
    (!wanted.q || `${each.pod} ${each.node} ${each.message}`.toLowerCase().includes(wanted.q.toLowerCase()))));
  const set = (name, value) => { wanted[name] = value; remember(name, value); filter(); };
  filter();

  const ofPod = kept.filter((each) => each.pod === pod);
  const chosen = ofPod.find((each) => String(each.attempt) === settings.get("attempt")) || ofPod[ofPod.length - 1];
  if (pod && !chosen) detail.append(wide(card("The decision", "", el("p", { role: "status" }, "No decision about ", el("bdi", {}, pod), " was kept: only a sample of the pods is, and of each its latest attempts. ", whereIs(report, pod)))));
  else show(chosen || kept.find(isClear) || kept[0]);
  const { left_out: leftOut, pods } = report.decisions, outcomes = [...new Set(kept.map((each) => each.outcome))];
  return [wide(card("Decisions", `The latest attempts at ${whole(pods.length)} of the pods.${leftOut ? ` ${whole(leftOut)} older decisions were dropped to bound memory.` : ""}`,
    el("div", { className: "controls" }, el("label", { className: "field" }, el("span", {}, "Filter"), el("input", { type: "search", value: wanted.q, placeholder: "pod, node or message", "data-filter": true, oninput: (event) => set("q", event.target.value) })),
      select("Outcome", [["", "all"], ...outcomes.map((each) => [each, OUTCOMES[each] || each])], wanted.outcome, (value) => set("outcome", value))),
    table)), wide(detail)];
}

function whereIs(report, pod) {
  const placed = placementOf(report, pod);
  if (!placed) return report.unplaced.some((each) => each.pod === pod) ? el("a", { href: address("why", { pod }) }, "Why it has no node") : "";
  return [el("bdi", {}, pod), ` was bound at ${moment(placed.bound_s, report.simulated_s)} to `, el("a", { href: address("nodes", { node: placed.node, t: placed.bound_s }) }, el("bdi", {}, placed.node)), "."];
}

// A decision in which the scores chose, not the tie-break.
function isClear({ bestNodes, node }) {
  const chosen = bestNodes.find((each) => each.node === node), second = bestNodes.find((each) => each.node !== node);
  return Boolean(chosen && second && chosen.score > second.score);
}

// Cards about one decision, as `kscheduler explain --output json` has it. when(time): the time as text.
export function decisionCards(decision, { pod, when, time }) {
  const cards = [card("The decision", "", facts([
    ["Pod", pod], ["Attempt", whole(decision.attempt)], ["At", when(decision.time)],
    ["Outcome", outcome(decision)], ["Nodes", `${whole(decision.nodes)}; ${whole(decision.evaluated)} looked at, ${whole(decision.feasible)} fit`],
    ["Profile", decision.profile],
    ...(decision.nominatedNode ? [["Makes room on", decision.nominatedNode]] : []),
    ...(decision.message ? [["Message", decision.message]] : []),
  ]), decision.node && time !== undefined ? el("p", {}, el("a", { href: address("nodes", { node: decision.node, t: time }) }, "The node at that time")) : null)];
  const counts = decision.reasons.map((each) => ({ count: each.nodes, reason: each.reasons.join(", "), plugin: each.plugin, examples: each.examples }));
  if (decision.preFilter) cards.push(card("What rejected the nodes", "", el("p", {}, `No node was looked at: ${decision.preFilter}`), el("p", {}, el("code", {}, decision.plugins.join(", ")))));
  else if (counts.length) cards.push(card("What rejected the nodes", `Of ${whole(decision.nodes)} nodes. The first filter that rejects a node is the one that counts.`, bars(counts, decision.nodes),
    decision.reasonsLeftOut ? el("p", { className: "fine" }, `and ${whole(decision.reasonsLeftOut)} rarer reasons`) : null));
  else cards.push(card("What rejected the nodes", "", el("p", {}, decision.detailed || !decision.evaluated ? "No node was rejected." : "What each node was rejected for was not kept for this attempt.")));
  if (decision.node) cards.push(...scores(decision));
  if (decision.values.length) cards.push(wide(card("Live metrics", "What plugins read of the nodes at that time.", plainTable("Live metrics",
    [["Node"], ["Plugin"], ["Metric"], ["Used", "number"], ["Read", "number"], ["Age", "number"]],
    decision.values.map((each) => [shortName(each.node), each.plugin, each.metric, each.used ?? "none fresh", each.read ?? "–", each.ageSeconds === null ? "–" : `${each.ageSeconds} s`])))));
  return cards;
}

function outcome(decision) {
  const words = OUTCOMES[decision.outcome] || decision.outcome;
  return decision.node ? `${words}: ${decision.node}` : words;
}

function scores(decision) {
  const best = decision.bestNodes, chosen = best.find((each) => each.node === decision.node);
  if (!chosen) {
    const words = decision.feasible === 1 ? "Only this node fitted, so no plugin scored it." : "The scores were not kept for this attempt.";
    return [wide(card("Scores", "", el("p", {}, words)))];
  }
  const second = best.find((each) => each !== chosen), cards = [];
  if (second) {
    const ahead = chosen.score - second.score;
    const hint = ahead ? `The chosen node is ${whole(ahead)} ${ahead === 1 ? "point" : "points"} ahead. A plugin's normalised score, 0 to 100, counts with its weight.`
      : "Both nodes have the same total, so the tie-break chose between them. A plugin's normalised score, 0 to 100, counts with its weight.";
    cards.push(wide(card("The chosen node and the second choice", hint, sideBySide(chosen, second))));
  }
  const columns = [["Node"], ["Total", "number"], ...chosen.plugins.map((each) => [`${each.plugin} ×${each.weight}`, "number"])];
  cards.push(wide(card("Best nodes", "Weighted scores: what each plugin adds to the total.", plainTable("Best nodes", columns,
    best.map((each) => [[shortName(each.node), each === chosen ? " (chosen)" : ""], whole(each.score), ...each.plugins.map((one) => whole(one.weighted))])))));
  return cards;
}

function sideBySide(chosen, second) {
  const cell = (text, kind = "number") => el("td", { className: kind }, text);
  const head = (text, properties = {}) => el("th", { scope: "col", className: "number", ...properties }, text);
  const three = ["raw", "normalised", "weighted"];
  const signed = (value) => (value > 0 ? `+${whole(value)}` : whole(value).replace("-", "−"));
  const rows = chosen.plugins.map((each, at) => {
    const other = second.plugins.find((one) => one.plugin === each.plugin) || { raw: 0, normalized: 0, weighted: 0 };
    const difference = each.weighted - other.weighted;
    return el("tr", { className: difference ? "" : "same" }, el("th", { scope: "row" }, each.plugin), cell(whole(each.weight)), ...[each, other].flatMap((one) => [cell(whole(one.raw)), cell(whole(one.normalized)), cell(whole(one.weighted), "number sum")]),
      cell(signed(difference), "number sum"));
  });
  const sum = (node) => node.plugins.reduce((total, each) => total + each.weighted, 0);
  const rest = [chosen.score - sum(chosen), second.score - sum(second)];
  if (rest[0] || rest[1]) rows.push(el("tr", {}, el("th", { scope: "row" }, "extenders"), cell(""), cell(""), cell(""), cell(whole(rest[0])), cell(""), cell(""), cell(whole(rest[1])), cell(signed(rest[0] - rest[1]))));
  rows.push(el("tr", { className: "total" }, el("th", { scope: "row" }, "Total"), cell(""), cell(""), cell(""), cell(whole(chosen.score)), cell(""), cell(""), cell(whole(second.score)), cell(signed(chosen.score - second.score))));
  return el("div", { className: "scroll", tabindex: 0, role: "region", "aria-label": "Scores of the chosen node and the second choice" },
    el("table", { className: "compared" }, el("thead", {},
      el("tr", {}, el("td"), el("td"), head(["chosen: ", shortName(chosen.node)], { colspan: 3, scope: "colgroup" }), head(["second: ", shortName(second.node)], { colspan: 3, scope: "colgroup" }), el("td")),
      el("tr", {}, head("Plugin", { className: "" }), head("Weight"), ...three.map((each) => head(each)), ...three.map((each) => head(each)), head("Difference"))),
    el("tbody", {}, rows)));
}
