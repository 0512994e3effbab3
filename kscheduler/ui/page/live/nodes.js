// The nodes as they are now: the map, and the chosen node with its pods.

import { card, controls, el, facts, paragraph, plainTable, segments, select, wide } from "../dom.js";
import { counted, percent, whole } from "../format.js";
import { ask, Refusal } from "./connection.js";
import { amountOf } from "./pod.js";
import { NodeMap } from "../nodemap.js";
import { legend } from "../nodes.js";
import { FULL, NO_CAPACITY } from "../report.js";
import { address, remember } from "../route.js";
import { virtualTable } from "../table.js";

const NOT_CHOSEN = "Choose a node in the map to see what it has and which pods are on it.";
const UNGROUPED = " "; // in the address, where nothing means the default

export class LiveNodes {
  constructor(settings, { refused }) {
    this.refused = refused;
    this.nodes = null; // names, labels and resources, by row
    this.used = {}; // resource -> the bytes of all rows
    this.shown = 0; // the version of the nodes that the map shows
    this.resource = settings.get("resource") || "cpu";
    this.group = settings.get("group");
    this.sorted = settings.get("sorted") === "1";
    this.chosen = settings.get("node") || "";
    this.controls = controls();
    this.summary = el("p", { className: "fine", role: "status" }, "Waiting for the first figures …");
    this.detail = el("div", { className: "detail" }, el("p", { className: "fine" }, NOT_CHOSEN));
    this.map = new NodeMap({
      groups: [], valueOf: (row) => this.valueOf(row, this.resource), describe: (row) => this.describe(row), pick: (row) => this.choose(row),
      label: "Map of all nodes coloured by use. Arrow keys move from node to node, Escape leaves the node.",
    });
    this.elements = [wide(card("Nodes", "One cell a node; the darker, the more of the resource is requested (in dark colours: the brighter).",
      this.summary, this.controls, this.map.element, legend())), wide(card("The chosen node", "", this.detail))];
    this.on = { nodes: (document) => this.takeNodes(document), use: (document) => this.takeUse(document) };
    this.watches = "nodes";
  }

  valueOf(row, resource) {
    return this.used[resource]?.[row] ?? NO_CAPACITY;
  }

  describe(row) {
    const share = (name) => (this.valueOf(row, name) === NO_CAPACITY ? null : this.valueOf(row, name) / FULL);
    return `${this.nodes.names[row]}\n` + this.nodes.resources.map((name) => `${name} ${percent(share(name), 0)}`).join("\n");
  }

  takeNodes(document) {
    this.nodes = document;
    const { labels, resources } = document;
    if (!resources.includes(this.resource)) this.resource = resources[0];
    if (this.group !== UNGROUPED && !labels.some((each) => each.key === this.group)) this.group = labels[0]?.key || UNGROUPED;
    const sort = el("input", { type: "checkbox", checked: this.sorted, onchange: () => this.set("sorted", sort.checked, sort.checked ? "1" : "") });
    this.controls.replaceChildren(
      segments("Resource", resources.map((name) => [name, name]), this.resource, (name) => this.set("resource", name, name)),
      select("Group by", [[UNGROUPED, "nothing"], ...labels.map((each) => [each.key, each.key])], this.group, (key) => this.set("group", key, key)),
      el("label", { className: "check" }, sort, "fullest first"));
    this.map.chosen = document.names.indexOf(this.chosen);
  }

  set(name, value, remembered) {
    this[name] = value;
    remember(name, remembered);
    this.regroup();
  }

  takeUse({ version, used }) {
    if (version !== this.nodes?.version) return; // names for these rows come next
    this.used = Object.fromEntries(Object.entries(used).map(([name, bytes]) => [name, Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0))]));
    const isNew = this.shown !== version, count = this.nodes.names.filter(Boolean).length;
    this.shown = version;
    this.summary.textContent = count ? `${counted(count, "node")}.` : "There are no nodes.";
    if (isNew || this.sorted) this.regroup();
    else this.map.draw();
    if (isNew) this.showNode();
  }

  regroup() {
    const label = this.nodes.labels.find((each) => each.key === this.group), lists = new Map();
    this.nodes.names.forEach((name, row) => {
      if (!name) return;
      const value = !label ? "all" : label.of_node[row] < 0 ? "without the label" : label.values[label.of_node[row]];
      if (!lists.has(value)) lists.set(value, []);
      lists.get(value).push(row);
    });
    const rank = (row) => (this.map.valueOf(row) === NO_CAPACITY ? -1 : this.map.valueOf(row));
    if (this.sorted) for (const rows of lists.values()) rows.sort((a, b) => rank(b) - rank(a));
    this.map.regroup([...lists].map(([name, nodes]) => ({ name, nodes })).sort((a, b) => (a.name < b.name ? -1 : 1)));
  }

  choose(row) {
    this.chosen = row < 0 ? "" : this.nodes.names[row];
    remember("node", this.chosen);
    this.showNode();
  }

  async showNode() {
    const name = this.chosen;
    let shown = [el("p", { className: "fine" }, NOT_CHOSEN)];
    try {
      if (name) shown = nodeDetail(await ask("api/node", { node: name }));
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) return this.refused(error);
      shown = [el("p", { role: "status" }, error instanceof Refusal ? error.message : "The scheduler does not answer.")];
    }
    if (this.chosen === name) this.detail.replaceChildren(...shown);
  }
}

function nodeDetail(found) {
  const labels = Object.entries(found.labels).sort(), left = found.podsHidden + found.podsLeftOut;
  const pods = virtualTable({ label: "Pods on the node", rows: found.pods, height: 300, empty: "None.",
    open: (row) => { location.hash = address("pod", { pod: row.pod }); }, columns: [
      { title: "Pod", width: "minmax(10rem, 3fr)", main: true, text: (row) => row.pod },
      { title: "Priority", width: "8rem", className: "number", text: (row) => whole(row.priority) },
    ] });
  return [el("h3", {}, el("bdi", {}, found.name)), facts(factsOf(found)), el("h3", {}, "Pods"), pods,
    ...(left ? [paragraph(`${whole(left)} more pods are not shown.`)] : []),
    el("h3", {}, "Labels"), labels.length ? plainTable("Labels", [["Label"], ["Value", "message"]], labels) : paragraph("None.")];
}

function factsOf({ amounts, unschedulable, taints }) {
  const known = Object.entries(amounts).map(([name, { requested, allocatable }]) => [name,
    `${amountOf(name, requested)} requested of ${amountOf(name, allocatable)}${allocatable ? ` (${percent(requested / allocatable, 0)})` : ""}`]);
  if (unschedulable) known.push(["cordoned", "yes: new pods need a toleration"]);
  const taint = ({ key, value, effect }) => `${key}${value ? `=${value}` : ""}:${effect}`;
  if (taints.length) known.push(["taints", taints.map(taint).join(", ")]);
  return known;
}
