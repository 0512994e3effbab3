// The pods without a node, in the order of the queue, and why one of them waits.

import { bars } from "./bars.js";
import { claimsOfPod } from "./claims.js";
import { card, controls, el, facts, link, paragraph, plainTable, searchField, select, shortName, wide } from "./dom.js";
import { amount, counted, moment, seconds, whole } from "./format.js";
import { hasQueues, inQueueOrder, keptDecisions, kindOf, nearestNodes, nodeCounts, placementOf, unitOf } from "./report.js";
import { address, remember } from "./route.js";
import { virtualTable } from "./table.js";

const MAX_REASONS = 50, MAX_NAMES = 500;
const BY_PRIORITY = "In the order in which the queue gives them to the scheduler: by priority, then by arrival.";
const BY_QUEUE = "By Queue, and in each by priority, then by arrival. Queues take turns: first those within what they deserve, then those of higher priority, then " +
  "those that use the smallest part of their share.";
const OF_GANGS = " A gang is decided as one, in the place of its first pod.";

export function pendingPods(report, settings) {
  const ordered = inQueueOrder(report).map((pod) => ({ ...pod, kind: kindOf(pod.message) }));
  const byQueue = hasQueues(report), positions = new Map();
  for (const pod of ordered) {
    const queue = pod.queue || "", position = (positions.get(queue) || 0) + 1;
    if (pod.left_s === null) positions.set(queue, position);
    pod.position = pod.left_s === null ? String(position) : "left";
  }
  const wanted = { q: settings.get("q") || "", reason: settings.get("reason") || "", state: settings.get("state") || "" };
  const table = virtualTable({
    label: "Pods without a node", rows: [], empty: ordered.length ? "No pod matches the filter." : "None: every pod got a node.",
    open: (pod) => { location.hash = address("why", { pod: pod.pod }); },
    columns: [
      { title: "#", width: "3.5rem", className: "number", text: (pod) => pod.position },
      { title: "Pod", width: "minmax(9rem, 2fr)", main: true, text: (pod) => pod.pod },
      ...(byQueue ? [{ title: "Queue", width: "minmax(6rem, 1fr)", text: (pod) => pod.queue || "–" }] : []),
      { title: "Priority", width: "5rem", className: "number", text: (pod) => whole(pod.priority) },
      { title: "Waited", width: "5.5rem", className: "number", text: (pod) => seconds((pod.left_s ?? report.simulated_s) - pod.arrived_s) },
      { title: "Reason", width: "minmax(14rem, 5fr)", long: true, text: (pod) => pod.kind },
    ],
  });
  const filter = () => {
    const text = wanted.q.toLowerCase();
    table.show(ordered.filter((pod) => (!text || pod.pod.toLowerCase().includes(text) || pod.message.toLowerCase().includes(text)) &&
      (!wanted.reason || pod.kind === wanted.reason) && (!wanted.state || (wanted.state === "left") === (pod.left_s !== null))));
  };
  const set = (name, value) => { wanted[name] = value; remember(name, value); filter(); };
  const counts = new Map();
  for (const pod of ordered) counts.set(pod.kind, (counts.get(pod.kind) || 0) + 1);
  const frequent = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_REASONS);
  const reasons = frequent.map(([kind, count]) => [kind, `${whole(count)} × ${kind.slice(0, 90)}`]);
  filter();
  return [wide(card("Pods without a node",
    `${byQueue ? BY_QUEUE : BY_PRIORITY}${report.gangs ? OF_GANGS : ""} Enter or a click shows why a pod waits.`,
    controls(searchField("pod, namespace or reason", wanted.q, (value) => set("q", value)),
      select("Reason", [["", "all reasons"], ...reasons], wanted.reason, (value) => set("reason", value)),
      select("State", [["", "all"], ["waiting", "still waiting"], ["left", "left without a node"]], wanted.state, (value) => set("state", value))),
    table))];
}

export function whyPending(report, settings) {
  const first = inQueueOrder(report)[0], name = settings.get("pod") || first?.pod || "";
  const pod = report.unplaced.find((each) => each.pod === name);
  const search = el("input", { type: "search", value: name, placeholder: "namespace/name", list: "pods-without-node", "data-filter": true,
    onchange: () => { location.hash = address("why", { pod: search.value.trim() }); } });
  const names = el("datalist", { id: "pods-without-node" }, report.unplaced.slice(0, MAX_NAMES).map((each) => el("option", { value: each.pod })));
  const chooser = wide(card("Why is this pod pending?", "", controls(el("label", { className: "field grow" }, el("span", {}, "Pod"), search), names)));
  if (pod) return [chooser, ...answer(report, pod)];
  chooser.append(el("p", { role: "status" }, isPlaced(report, name) || (first ? NOT_HERE : "Every pod got a node.")));
  if (first) chooser.append(paragraph(link(address("pending"), "All pods without a node")));
  return [chooser, ...claimsOfPod(report, name)];
}

const NOT_HERE = "No pod of this name is without a node at the end of this report: it was placed, or the report does not have it.";

function isPlaced(report, name) {
  const placed = placementOf(report, name);
  if (!placed) return null;
  return [`It was placed on ${placed.node} at ${moment(placed.bound_s, report.simulated_s)}. `, link(address("decision", { pod: name }), "The decision")];
}

function answer(report, pod) {
  const cards = [thePod(report, pod)], counts = nodeCounts(pod.message);
  if (counts) cards.push(rejected(counts));
  cards.push(...claimsOfPod(report, pod.pod));
  const found = pod.left_s === null ? nearestNodes(report, pod, 8) : null;
  if (found) cards.push(wide(nearest(report, found, counts)));
  const kind = kindOf(pod.message), alike = report.unplaced.filter((each) => each.pod !== pod.pod && kindOf(each.message) === kind).length;
  if (alike) cards.push(wide(card("Others", "", paragraph(`${whole(alike)} more ${alike === 1 ? "pod waits" : "pods wait"} for the same reasons: `,
    link(address("pending", { reason: kind }), "show them")))));
  return cards;
}

function thePod(report, pod) {
  const requests = Object.entries(pod.requests || {}).map(([name, value]) => `${name} ${amount(value, unitOf(report, name))}`);
  const waited = seconds((pod.left_s ?? report.simulated_s) - pod.arrived_s);
  const tried = keptDecisions(report).some((each) => each.pod === pod.pod);
  return card("The pod", "", facts([
    ["Pod", pod.pod], ...(pod.queue ? [["Queue", pod.queue]] : []), ["Priority", whole(pod.priority)], ["Created at", moment(pod.arrived_s, report.simulated_s)],
    [pod.left_s === null ? "Waits for" : "Left after", waited], ["Requests", requests.join(", ") || "nothing"],
    ["Reason", pod.reason], ["Message", pod.message],
  ]), tried ? paragraph(link(address("decision", { pod: pod.pod }), "Its latest attempts, with every node's reason")) : null);
}

function rejected({ nodes, filters, preemption }) {
  return card("What rejected the nodes", `Of ${counted(nodes, "node")}, in the last attempt. A node may be counted for several reasons.`, bars(filters, nodes),
    ...(preemption.length ? [el("h3", {}, "Would preemption help?"), bars(preemption, nodes)] : []));
}

// `counts`: what the message says of the nodes; without it something else keeps the pod from them, as its gang or its queue does.
function nearest(report, found, counts) {
  const [have, them] = found.roomy === 1 ? ["has", "it"] : ["have", "them"];
  const why = counts ? `other filters reject ${them}` : `the message says what keeps it from ${them}`;
  const roomy = `${counted(found.roomy, "node")} ${have} room for what it requests: ${why}.`;
  const rows = found.nearest.map((each) => [link(address("nodes", { node: each.node }), shortName(each.node)), lacks(report, each.lacks)]);
  return card("Nearest nodes", "By free resources at the end of the run, whatever else a filter asks for.", found.roomy ? paragraph(roomy) : null,
    rows.length ? plainTable("Nearest nodes", [["Node"], ["Would have room with"]], rows) : null);
}

function lacks(report, amounts) {
  return Object.entries(amounts).map(([name, value]) => `${amount(value, unitOf(report, name))} more ${name} free`).join(", ");
}

export function preemptedPods(report, settings) {
  const table = virtualTable({
    label: "Preempted pods", rows: [], empty: report.preempted?.length ? "No pod matches the filter." : "No pod was preempted.",
    columns: [
      { title: "At", width: "8.5rem", className: "number", text: (pod) => moment(pod.left_s ?? 0, report.simulated_s) },
      { title: "Pod", width: "minmax(9rem, 2fr)", main: true, text: (pod) => pod.pod },
      { title: "Priority", width: "5rem", className: "number", wide: true, text: (pod) => whole(pod.priority) },
      { title: "Node", width: "minmax(8rem, 1fr)", text: (pod) => pod.node },
      { title: "Had run", width: "5.5rem", className: "number", text: (pod) => seconds((pod.left_s ?? pod.bound_s) - pod.bound_s) },
      { title: "Message", width: "minmax(14rem, 3fr)", long: true, text: (pod) => pod.message },
    ],
  });
  function filter(text) {
    table.show((report.preempted || []).filter((pod) => !text || `${pod.pod} ${pod.node}`.toLowerCase().includes(text.toLowerCase())));
  }
  const chosen = settings.get("q") || "";
  filter(chosen);
  return [wide(card("Preempted pods", "They were removed to make room for other pods, in the order in which they left; the message says for whom.",
    controls(searchField("pod or node", chosen, (value) => { remember("q", value); filter(value); })), table))];
}
