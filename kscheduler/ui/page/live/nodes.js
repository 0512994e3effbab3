// The nodes as they are now: the map, and the chosen node with its pods.

import { card, el, facts, plainTable, segments, select, wide } from "../dom.js";
import { percent, whole } from "../format.js";
import { ask, Refusal } from "./connection.js";
import { amountOf } from "./pod.js";
import { NodeMap } from "../nodemap.js";
import { legend } from "../nodes.js";
import { FULL, NO_CAPACITY } from "../report.js";
import { address, remember } from "../route.js";
import { virtualTable } from "../table.js";

export function liveNodes(settings, { refused }) {
  let nodes = null, used = {};
  const state = { resource: settings.get("resource") || "cpu", group: settings.get("group"), sorted: settings.get("sorted") === "1", node: settings.get("node") || "" };
  const controls = el("div", { className: "controls" }), summary = el("p", { className: "fine", role: "status" }, "Waiting for the first figures …");
  const detail = el("div", { className: "detail" }, el("p", { className: "fine" }, "Choose a node in the map to see what it has and which pods are on it."));
  const rowOf = (name) => (nodes ? nodes.names.indexOf(name) : -1);
  const valueOf = (row, resource = state.resource) => used[resource]?.[row] ?? NO_CAPACITY;
  const shareOf = (row, resource) => (valueOf(row, resource) === NO_CAPACITY ? null : valueOf(row, resource) / FULL);
  const map = new NodeMap({
    groups: [], valueOf, label: "Map of all nodes coloured by use. Arrow keys move from node to node, Escape leaves the node.",
    describe: (row) => `${nodes.names[row]}\n` + nodes.resources.map((name) => `${name} ${percent(shareOf(row, name), 0)}`).join("\n"),
    pick: (row) => { state.node = row < 0 ? "" : nodes.names[row]; remember("node", state.node); showNode(); },
  });

  function takeNodes(document) {
    nodes = document;
    if (!nodes.resources.includes(state.resource)) state.resource = nodes.resources[0];
    if (state.group === null || (state.group && state.group !== " " && !nodes.labels.some((each) => each.key === state.group))) state.group = nodes.labels[0]?.key || "";
    const sort = el("input", { type: "checkbox", checked: state.sorted, onchange: () => { state.sorted = sort.checked; remember("sorted", sort.checked ? "1" : ""); regroup(); } });
    controls.replaceChildren(
      segments("Resource", nodes.resources.map((name) => [name, name]), state.resource, (name) => { state.resource = name; remember("resource", name); regroup(); }),
      select("Group by", [["", "nothing"], ...nodes.labels.map((each) => [each.key, each.key])], state.group.trim(), (key) => { state.group = key; remember("group", key || " "); regroup(); }),
      el("label", { className: "check" }, sort, "fullest first"));
    map.chosen = rowOf(state.node);
  }

  function takeUse(document) {
    if (!nodes || document.version !== nodes.version) return;
    const first = !Object.keys(used).length || map.version !== document.version;
    used = Object.fromEntries(Object.entries(document.used).map(([name, bytes]) => [name, Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0))]));
    map.version = document.version;
    const count = nodes.names.filter(Boolean).length;
    summary.textContent = count ? `${whole(count)} nodes.` : "There are no nodes.";
    if (first || state.sorted) regroup();
    else map.draw();
    if (first) showNode();
  }

  function regroup() {
    const label = nodes.labels.find((each) => each.key === state.group), lists = new Map();
    nodes.names.forEach((name, row) => {
      if (!name) return;
      const value = !label ? "all" : label.of_node[row] < 0 ? "without the label" : label.values[label.of_node[row]];
      if (!lists.has(value)) lists.set(value, []);
      lists.get(value).push(row);
    });
    const rank = (row) => (valueOf(row) === NO_CAPACITY ? -1 : valueOf(row));
    const groups = [...lists].map(([name, rows]) => ({ name, nodes: state.sorted ? [...rows].sort((a, b) => rank(b) - rank(a)) : rows }));
    map.regroup(groups.sort((a, b) => (a.name < b.name ? -1 : 1)));
  }

  async function showNode() {
    const name = state.node;
    if (!name) return detail.replaceChildren(el("p", { className: "fine" }, "Choose a node in the map to see what it has and which pods are on it."));
    try {
      const found = await ask("api/node", { node: name });
      if (state.node === name) detail.replaceChildren(...nodeDetail(found));
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) return refused(error);
      if (state.node === name) detail.replaceChildren(el("p", { role: "status" }, error instanceof Refusal ? error.message : "The scheduler does not answer."));
    }
  }

  return { view: "nodes", on: { nodes: takeNodes, use: takeUse }, elements: [
    wide(card("Nodes", "One cell a node; the darker, the more of the resource is requested (in dark colours: the brighter).", summary, controls, map.element, legend())),
    wide(card("The chosen node", "", detail))] };
}

function nodeDetail(found) {
  const known = Object.entries(found.amounts).map(([name, { requested, allocatable }]) => [name, `${amountOf(name, requested)} requested of ${amountOf(name, allocatable)}${allocatable ? ` (${percent(requested / allocatable, 0)})` : ""}`]);
  if (found.unschedulable) known.push(["cordoned", "yes: new pods need a toleration"]);
  if (found.taints.length) known.push(["taints", found.taints.map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`).join(", ")]);
  const labels = Object.entries(found.labels).sort();
  const hidden = found.podsHidden || found.podsLeftOut ? el("p", { className: "fine" }, `${whole(found.podsHidden + found.podsLeftOut)} more pods are not shown.`) : null;
  return [el("h3", {}, el("bdi", {}, found.name)), facts(known),
    el("h3", {}, "Pods"), virtualTable({ label: "Pods on the node", rows: found.pods, height: 300, empty: "None.", open: (row) => { location.hash = address("pod", { pod: row.pod }); }, columns: [
      { title: "Pod", width: "minmax(10rem, 3fr)", main: true, text: (row) => row.pod },
      { title: "Priority", width: "8rem", className: "number", text: (row) => whole(row.priority) },
    ] }), hidden, el("h3", {}, "Labels"), labels.length ? plainTable("Labels", [["Label"], ["Value", "message"]], labels) : el("p", { className: "fine" }, "None.")].filter(Boolean);
}
