// Reads a report: the bytes of its node history, its pods by name and by node, and what a pod's message says.

const decoded = new WeakMap();

// Per resource, one byte for each node of each frame; see NodeHistory in kscheduler/simulator/report_history.py.
export const FULL = 250, NO_CAPACITY = 255;

export function frames(report, resource) {
  const { used } = report.node_history;
  if (!decoded.has(used)) decoded.set(used, {});
  const known = decoded.get(used);
  if (!known[resource]) known[resource] = Uint8Array.from(atob(used[resource]), (letter) => letter.charCodeAt(0));
  return known[resource];
}

export function frameAt(report, time) {
  const times = report.node_history.time_s;
  let at = times.length - 1;
  while (at > 0 && times[at] > time + 1e-6) at--;
  return at;
}

const onNodes = new WeakMap();

// The pods that a node has at a time.
export function podsOn(report, node, time) {
  const placed = report.placements;
  if (!placed) return null;
  if (!onNodes.has(placed)) {
    const index = new Map();
    placed.node.forEach((row, at) => {
      const name = placed.nodes[row];
      if (!index.has(name)) index.set(name, []);
      index.get(name).push(at);
    });
    onNodes.set(placed, index);
  }
  const there = onNodes.get(placed).get(node) || [];
  return there.filter((at) => placed.bound_s[at] <= time + 1e-3 && (placed.left_s[at] === null || placed.left_s[at] > time))
    .map((at) => ({ pod: placed.pods[at], bound_s: placed.bound_s[at], left_s: placed.left_s[at] }));
}

// Where and when a pod was bound: {node, bound_s}. null if it was not, or the report does not say.
export function placementOf({ placements }, pod) {
  const at = placements ? placements.pods.indexOf(pod) : -1;
  return at < 0 ? null : { node: placements.nodes[placements.node[at]], bound_s: placements.bound_s[at] };
}

const decisionLists = new WeakMap();

// The decisions of the report with their pods, in the order in which they were made.
export function keptDecisions(report) {
  if (!report.decisions) return [];
  if (!decisionLists.has(report.decisions)) {
    const all = report.decisions.pods.flatMap(({ pod, decisions }) => decisions.map((each) => ({ ...each, pod })));
    decisionLists.set(report.decisions, all.sort((a, b) => a.time - b.time || a.attempt - b.attempt));
  }
  return decisionLists.get(report.decisions);
}

// Pods without a node in the order of the queue: by priority, then by arrival. Those that left come last. Queues with shares take
// turns, which the report does not have: the pods of each are together, and in that order among themselves.
export function inQueueOrder(report) {
  const hasLeft = (pod) => (pod.left_s === null ? 0 : 1);
  const byName = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return [...report.unplaced].sort((a, b) => hasLeft(a) - hasLeft(b) || byName(a.queue || "", b.queue || "") || b.priority - a.priority || a.arrived_s - b.arrived_s);
}

export const hasQueues = (report) => report.unplaced.some(({ queue }) => typeof queue === "string");

const PLUGINS = [
  [/^Insufficient |^Too many pods/, "NodeResourcesFit"],
  [/taint/, "TaintToleration"],
  [/node affinity\/selector|didn't match Pod's node affinity/, "NodeAffinity"],
  [/were unschedulable/, "NodeUnschedulable"],
  [/free ports/, "NodePorts"],
  [/requested node name/, "NodeName"],
  [/topology spread/, "PodTopologySpread"],
  [/affinity rules|anti-affinity/, "InterPodAffinity"],
  [/volume zone/, "VolumeZone"],
  [/allocate all claims|resource ?claim|ResourceClaim|device class|resource pools/, "DynamicResources"],
  [/max volume count/, "NodeVolumeLimits"],
  [/olume|ersistent/, "VolumeBinding"],
  [/[Pp]reemption/, "DefaultPreemption"],
];

export const pluginOf = (reason) => (PLUGINS.find(([pattern]) => pattern.test(reason)) || [null, ""])[1];

// The counts of a message "0/12 nodes are available: 3 Insufficient cpu, 9 ...". null for any other message.
export function nodeCounts(message) {
  const found = /^0\/(\d+) nodes are available: ([^]+?)\.(?: (?:[A-Za-z ]+, )?preemption: 0\/\d+ nodes are available: ([^]+?)\.?)?$/.exec(message);
  if (!found) return null;
  return { nodes: Number(found[1]), filters: countsOf(found[2]), preemption: found[3] ? countsOf(found[3]) : [] };
}

function countsOf(text) {
  return text.split(/, (?=\d)/).map((part) => {
    const [, count, reason] = /^(\d+) ([^]+)$/.exec(part) || [null, "0", part];
    return { count: Number(count), reason, plugin: pluginOf(reason) };
  }).sort((a, b) => b.count - a.count);
}

// The message without its counts, by which pods that wait for the same reasons are grouped.
export function kindOf(message) {
  const counts = nodeCounts(message);
  return counts ? counts.filters.map((each) => each.reason).sort().join("; ") : message;
}

// By the use of the nodes at the end: how many have room for what a pod requests, and which others lack least of it:
// {roomy, nearest: [{node, lacks: {resource: amount}, share}]}. null if the report does not say.
export function nearestNodes(report, pod, count) {
  const { names, resources, final } = report.node_utilisation, capacity = report.node_history?.capacity;
  const asked = Object.entries(pod.requests || {});
  if (!capacity || !asked.length || report.node_history.names.length !== names.length) return null;
  const found = names.map((node, at) => {
    const lacks = {};
    let share = 0;
    for (const [resource, amount] of asked) {
      const column = resources.indexOf(resource);
      const all = column < 0 ? 0 : capacity[resource][at], has = all * (1 - (final[column]?.[at] ?? 1));
      if (amount > has + all * 1e-4) { // uses are rounded to so much
        lacks[resource] = amount - has;
        share += (amount - has) / amount;
      }
    }
    return { node, lacks, share };
  });
  const lacking = found.filter((each) => each.share > 0).sort((a, b) => a.share - b.share);
  return { roomy: found.length - lacking.length, nearest: lacking.slice(0, count) };
}

export function unitOf(report, resource) {
  return report.resources.find((each) => each.name === resource)?.unit ?? (resource === "cpu" ? "cores" : "units");
}
