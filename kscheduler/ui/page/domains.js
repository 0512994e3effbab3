// How zones, racks and other domains of nodes differ between two runs: their pods, and how much of them pods requested on average.

import { card, paragraph, plainTable, shortName, wide } from "./dom.js";
import { counted, percent, whole } from "./format.js";
import { FULL, NO_CAPACITY, frames } from "./report.js";

const MAX_DOMAINS = 10;

// A card for each label by which some domains differ, the largest differences first.
export function domainCards(a, b) {
  const sides = [a, b].map(nodesOfSide), resources = [...new Set(sides.flatMap(({ used }) => Object.keys(used)))];
  const labels = [...new Set(sides.flatMap(({ values }) => Object.keys(values)))];
  return labels.flatMap((label) => domainCard(label, sides.map((side) => domainsOf(side, label)), resources));
}

function domainCard(label, [inA, inB], resources) {
  const none = { nodes: 0, pods: 0, used: {} };
  const every = [...new Set([...inA.keys(), ...inB.keys()])].map((name) => ({ name, a: inA.get(name) || none, b: inB.get(name) || none }));
  for (const each of every) Object.assign(each, domainDifference(each, resources));
  const differing = every.filter(({ a, b, pods, share }) => a.nodes !== b.nodes || pods || share)
    .sort((p, q) => q.pods - p.pods || q.share - p.share || (p.name < q.name ? -1 : 1));
  if (!differing.length) return [];
  const columns = [["Domain"], ["Nodes in A", "number"], ["In B", "number"], ["Pods placed in A", "number"], ["In B", "number"], ["B − A", "number"]];
  for (const name of resources) columns.push([`${name} used in A`, "number"], ["In B", "number"]);
  const left = differing.length - MAX_DOMAINS, equal = every.length - differing.length, rest = [];
  if (left > 0) rest.push(`${counted(left, "more differs", "more differ")}, each less.`);
  if (equal) rest.push(`${counted(equal, "is", "are")} equal in both.`);
  return [wide(card(`By ${label}`, "The largest differences first. Requested by pods: on average over the run.",
    plainTable(`By ${label}`, columns, differing.slice(0, MAX_DOMAINS).map((each) => domainRow(each, resources))),
    rest.length ? paragraph(rest.join(" ")) : null))];
}

function domainDifference({ a, b }, resources) {
  const shares = resources.map((name) => Math.abs((b.used[name] || 0) - (a.used[name] || 0)));
  return { pods: a.pods === null || b.pods === null ? 0 : Math.abs(b.pods - a.pods), share: Math.max(0, ...shares) };
}

function domainRow({ name, a, b }, resources) {
  const change = a.pods === null || b.pods === null ? "–" : a.pods === b.pods ? "=" : (b.pods > a.pods ? "+" : "−") + whole(Math.abs(b.pods - a.pods));
  const counts = [a.nodes, b.nodes, a.pods, b.pods].map((count) => (count === null ? "–" : whole(count)));
  return [shortName(name), ...counts, change, ...resources.flatMap((each) => [a, b].map(({ used }) => (each in used ? percent(used[each]) : "–")))];
}

// What a report has of its nodes, by their index.
function nodesOfSide(report) {
  const { node_history: nodes, placements } = report;
  if (!nodes) return { count: 0, values: {}, pods: null, capacity: {}, used: {} };
  const count = nodes.names.length, values = {}, used = {};
  for (const { key, values: named, of_node: of } of nodes.labels) values[key] = of.map((at) => (at < 0 ? "" : named[at]));
  for (const name of Object.keys(nodes.used)) if (name !== "pods") used[name] = averageUse(report, name, count);
  return { count, values, pods: placements && podsByNode(placements, nodes.names), capacity: nodes.capacity, used };
}

function podsByNode({ nodes, node }, names) {
  const counts = new Map();
  for (const at of node) counts.set(nodes[at], (counts.get(nodes[at]) || 0) + 1);
  return names.map((name) => counts.get(name) || 0);
}

function averageUse(report, resource, count) {
  const bytes = frames(report, resource), total = bytes.length / count, sums = new Array(count).fill(0);
  bytes.forEach((byte, at) => { if (byte !== NO_CAPACITY) sums[at % count] += byte; });
  return sums.map((sum, at) => (sum / (FULL * total)) * report.node_history.capacity[resource][at]);
}

function domainsOf({ count, values, pods, capacity, used }, label) {
  const nodes = new Map();
  for (let at = 0; at < count; at++) {
    const name = values[label]?.[at];
    if (!name) continue;
    if (!nodes.has(name)) nodes.set(name, []);
    nodes.get(name).push(at);
  }
  const sum = (of, amounts) => of.reduce((total, at) => total + amounts[at], 0);
  return new Map([...nodes].map(([name, of]) => {
    const shares = {};
    for (const [resource, amounts] of Object.entries(used)) {
      const all = sum(of, capacity[resource]);
      if (all) shares[resource] = Math.round((sum(of, amounts) / all) * 1e6) / 1e6;
    }
    return [name, { nodes: of.length, pods: pods && sum(of, pods), used: shares }];
  }));
}
