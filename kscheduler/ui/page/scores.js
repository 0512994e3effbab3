// The scores of a decision: the chosen node beside the second choice, and the best nodes.

import { card, el, paragraph, plainTable, scrolling, shortName, wide } from "./dom.js";
import { counted, signed, whole } from "./format.js";

const NONE = { raw: 0, normalized: 0, weighted: 0 };

export function scoreCards({ node, bestNodes, feasible }) {
  const chosen = bestNodes.find((each) => each.node === node), second = bestNodes.find((each) => each !== chosen);
  if (!chosen) {
    const words = feasible === 1 ? "Only this node fitted, so no plugin scored it." : "The scores were not kept for this attempt.";
    return [wide(card("Scores", "", paragraph(words)))];
  }
  return second ? [wide(besides(chosen, second)), wide(best(bestNodes, chosen))] : [wide(best(bestNodes, chosen))];
}

function best(nodes, chosen) {
  const columns = [["Node"], ["Total", "number"], ...chosen.plugins.map((each) => [`${each.plugin} ×${each.weight}`, "number"])];
  return card("Best nodes", "Weighted scores: what each plugin adds to the total.", plainTable("Best nodes", columns,
    nodes.map((each) => [[shortName(each.node), each === chosen ? " (chosen)" : ""], whole(each.score),
      ...each.plugins.map((one) => whole(one.weighted))])));
}

function besides(chosen, second) {
  const ahead = chosen.score - second.score;
  const why = ahead ? `The chosen node is ${counted(ahead, "point")} ahead.` : "Both nodes have the same total, so the tie-break chose between them.";
  return card("The chosen node and the second choice", `${why} A plugin's normalised score, 0 to 100, counts with its weight.`,
    scrolling("Scores of the chosen node and the second choice", el("table", { className: "compared" }, head(chosen, second), body(chosen, second))));
}

function head(chosen, second) {
  const title = (text) => el("th", { scope: "col", className: "number" }, text);
  const group = (text, { node }) => el("th", { scope: "colgroup", colspan: 3 }, text, shortName(node));
  const three = () => ["raw", "normalised", "weighted"].map(title);
  return el("thead", {},
    el("tr", {}, el("td"), el("td"), group("chosen: ", chosen), group("second: ", second), el("td")),
    el("tr", {}, el("th", { scope: "col" }, "Plugin"), title("Weight"), three(), three(), title("Difference")));
}

function body(chosen, second) {
  const rows = chosen.plugins.map((each) => {
    const other = second.plugins.find((one) => one.plugin === each.plugin) || NONE;
    return line(each.plugin, each.weight, each, other);
  });
  const added = [chosen, second].map((node) => ({ weighted: node.score - node.plugins.reduce((sum, each) => sum + each.weighted, 0) }));
  if (added[0].weighted || added[1].weighted) rows.push(line("extenders", null, ...added));
  const total = line("Total", null, { weighted: chosen.score }, { weighted: second.score });
  total.className = "total";
  return el("tbody", {}, rows, total);
}

function line(name, weight, one, other) {
  const cell = (value, kind = "number") => el("td", { className: kind }, value === null || value === undefined ? "" : whole(value));
  const three = (each) => [cell(each.raw), cell(each.normalized), cell(each.weighted, "number sum")];
  const difference = one.weighted - other.weighted;
  return el("tr", { className: difference ? "" : "same" }, el("th", { scope: "row" }, name), cell(weight), three(one), three(other),
    el("td", { className: "number sum" }, signed(difference)));
}
