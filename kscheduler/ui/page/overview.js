// The overview: headline figures, and pods, use, fragmentation and latency over virtual time.

import { chart, shares } from "./chart.js";
import { card, el, plainTable, segments, tile, tileList, wide } from "./dom.js";
import { amount, compactNumber, counted, percent, seconds, whole } from "./format.js";
import { gangsCard } from "./gangs.js";
import { remember } from "./route.js";

const TOP_VIOLATIONS = 10;

export function overview(report, settings) {
  const { series, latency, resources } = report;
  const total = report.simulated_s;
  const cards = [wide(el("div", {}, verdict(report))), tileList("Summary", summary(report))];
  const uses = resources.map((each) => `${each.name} ${percent(each.average)} on average, ${percent(each.peak)} at most`).join("; ");
  cards.push(wide(card("Utilisation", "Requested by the pods on nodes, as a share of what all nodes offer.",
    chart(series.time_s, Object.entries(series.used).map(([label, values]) => ({ label, values })),
      { format: shares(...Object.values(series.used)), total, label: `Line chart of utilisation over virtual time: ${uses}.` }))));
  cards.push(card("Pods that wait for a node", "Created and not yet bound, those that fit nowhere included.",
    chart(series.time_s, [{ label: "pending", values: series.pending, fill: true }],
      { whole: true, total, label: `Line chart of pending pods: ${whole(report.peak_pending)} at most, ${whole(report.pods.unplaced)} last.` })));
  if (report.flow) cards.push(card("Pods per second", `Created and bound, averaged over intervals of ${seconds(report.flow.interval_s)}.`, rates(report)));
  cards.push(card("From created to bound", "The share of placed pods that were bound within a time; virtual seconds, logarithmic.",
    distribution([{ label: "bound", latency }])));
  const fragments = Object.entries(report.node_history?.fragmentation || {});
  if (fragments.length)
    cards.push(card("Fragmentation", fragmentationHint(report),
      chart(report.node_history.time_s, fragments.map(([label, values]) => ({ label, values })),
        { format: shares(...fragments.map(([, values]) => values)), total, label: "Line chart of fragmentation over virtual time: " +
          fragments.map(([name, values]) => `${name} ${percent(values[values.length - 1])} last`).join("; ") + "." })));
  if (report.gangs) cards.push(wide(gangsCard(report)));
  if (report.real_load) cards.push(realLoad(report, settings));
  cards.push(wide(card("Resources", "Balance is the standard deviation of utilisation over nodes, divided by its mean: 0 is perfectly even.",
    resourceTable(resources))));
  cards.push(wide(card("By priority", "", priorityTable(report.priorities))));
  return cards;
}

function fragmentationHint(report) {
  const { sampled_nodes: sampled, names } = report.node_history;
  const from = sampled < names.length ? ` Computed from ${whole(sampled)} of ${counted(names.length, "node")}.` : "";
  return "The share of free capacity on nodes where a typical pod does not fit." + from;
}

function verdict(report) {
  const { pods, violations } = report;
  if (violations.length) {
    const shown = violations.slice(0, TOP_VIOLATIONS).map((each) => el("li", {}, each));
    if (violations.length > shown.length) shown.push(el("li", {}, `and ${whole(violations.length - shown.length)} more`));
    return el("div", { className: "verdict bad" }, "Invariants were violated", el("ul", {}, shown));
  }
  const missing = pods.unplaced + pods.left_unplaced, sound = "no node was overcommitted";
  if (!report.complete) {
    const placed = missing ? `${counted(missing, "pod")} had no node yet` : "every pod had a node";
    return el("div", { className: "verdict warn" }, `Stopped at the limit of virtual time: ${placed}; ${sound}`);
  }
  if (missing) return el("div", { className: "verdict warn" }, `${counted(missing, "pod")} got no node; ${sound}`);
  return el("div", { className: "verdict good" }, "Every pod was placed; no node was overcommitted");
}

function summary(report) {
  const { pods, latency, machine } = report, asked = pods.total - pods.existing;
  const missing = pods.unplaced + pods.left_unplaced;
  const found = [
    tile("Pods placed", whole(pods.placed), `${percent(asked ? pods.placed / asked : 1, 2)} of ${whole(asked)}`),
    tile("Without a node", whole(missing), `${whole(pods.unplaced)} waiting, ${whole(pods.left_unplaced)} left early`, missing > 0),
    latency.count ? tile("Created to bound", seconds(latency.p50_s), `median; p99 ${seconds(latency.p99_s)}, max ${seconds(latency.max_s)}`)
      : tile("Created to bound", "–", "no pod was bound"),
    ...report.resources.filter((one) => one.name !== "pods").slice(0, 3).map((each) =>
      tile(`${each.name} requested`, percent(each.peak), `at most; ${percent(each.average)} on average`)),
  ];
  if (report.preempted?.length) found.push(tile("Preempted", whole(report.preempted.length), "pods that made room for others"));
  found.push(tile("Nodes empty", whole(report.nodes.empty_when_busiest), `when busiest; ${whole(report.nodes.never_used)} never used`));
  if (machine) found.push(tile("Decisions", `${whole(machine.decisions_per_s)} /s`, `on this machine; ${machine.wall_s.toFixed(1)} s in all`));
  return found;
}

export function rates(report, more = {}) {
  const { flow } = report;
  const time = flow.created.map((_, at) => at * flow.interval_s);
  const perSecond = (counts) => counts.map((count) => count / flow.interval_s);
  const series = [{ label: "created", values: perSecond(flow.created) }, { label: "bound", values: perSecond(flow.bound) }];
  if (flow.preempted.some((count) => count)) series.push({ label: "preempted", values: perSecond(flow.preempted), colour: "bad" });
  const highest = Math.max(...series[1].values);
  const label = `Line chart of pods created and bound per second; ${compactNumber(highest)} bound at most.`;
  return chart(time, series, { total: report.simulated_s, label, ...more });
}

// The cumulative distributions of several runs on one time axis.
export function distribution(runs) {
  const tables = runs.filter((run) => run.latency.count).map((run) => {
    const points = run.latency.distribution.map(([s, share]) => [Math.max(s, 1e-6), share]);
    const low = points[0][0], rising = points.filter(([s], at) => !at || s > points[at - 1][0]);
    return { label: run.label, points: [[low * 0.7, 0], ...rising], latency: run.latency };
  });
  if (!tables.length) return chart([], [], { label: "No pod was bound." });
  const far = Math.max(...tables.map((each) => each.points[each.points.length - 1][0])) * 1.4;
  const x = [...new Set([...tables.flatMap((each) => each.points.map(([s]) => s)), far])].sort((a, b) => a - b);
  const series = tables.map(({ label, points }) => {
    let at = -1;
    return { label, fill: runs.length === 1, values: x.map((s) => {
      while (at + 1 < points.length && points[at + 1][0] <= s) at++;
      return at < 0 ? null : points[at][1];
    }) };
  });
  const words = tables.map(({ label, latency: { p50_s: p50, p99_s: p99, max_s: max } }) =>
    `${label}: half within ${seconds(p50)}, 99 % within ${seconds(p99)}, all within ${seconds(max)}`);
  const label = `Cumulative distribution of the time from creation to binding. ${words.join(". ")}.`;
  return chart(x, series, { log: true, highest: 1.02, format: (share) => percent(share, 0), label });
}

function resourceTable(resources) {
  const number = "number";
  const columns = [["Resource"], ["Capacity", number], ["Average", number], ["Peak", number], ["Final", number], ["Balance, busiest", number],
    ["Balance, average", number], ["Fragmentation, busiest", number], ["Fragmentation, final", number]];
  return plainTable("Resources", columns, resources.map((each) => [each.name, amount(each.capacity, each.unit),
    percent(each.average), percent(each.peak), percent(each.final), each.balance_busiest.variation.toFixed(3), each.balance_average.variation.toFixed(3),
    percent(each.fragmentation_busiest), percent(each.fragmentation_final)]));
}

function priorityTable(priorities) {
  const number = "number";
  const columns = [["Priority", number], ["Pods", number], ["Placed", number], ["Without a node", number], ["p50", number], ["p99", number]];
  return plainTable("Pods by priority", columns, priorities.map((each) => [whole(each.priority), whole(each.pods), whole(each.placed),
    whole(each.unplaced + each.left_unplaced), ...[each.p50_s, each.p99_s].map((wait) => (each.placed ? seconds(wait) : "–"))]));
}

function realLoad(report, settings) {
  const { real_load: load } = report;
  const holder = el("div");
  function show(name) {
    const series = load.series[name], share = (each) => percent(each, 0);
    const figures = load.resources.find((each) => each.name === name);
    const upper = series.mean.map((mean, at) => mean + series.deviation[at]);
    holder.replaceChildren(
      chart(load.time_s, [{ label: "mean use", values: series.mean }, { label: "mean + deviation", values: upper, dash: true, colour: "s0" },
        { label: "highest node", values: series.max, colour: "s2" }, { label: "requested", values: series.requested, dash: true, colour: "s5" }],
      { format: share, total: report.simulated_s, label: `Line chart of real load over virtual time: ${name} ${percent(figures.mean)} on average ` +
        `with a deviation of ${percent(figures.deviation)} over nodes, ${percent(figures.max)} at most.` }),
      el("h3", {}, "Nodes that are loaded highly"),
      chart(load.time_s, [{ label: "above 80 %", values: series.over_80 }, { label: "above 100 %", values: series.over_100, colour: "bad" }],
        { format: share, total: report.simulated_s, height: 160, label: "Line chart of the share of nodes above 80 and 100 %." }));
  }
  const names = Object.keys(load.series), chosen = names.includes(settings.get("load")) ? settings.get("load") : names[0];
  show(chosen);
  const number = "number", minutes = (s) => whole(s / 60);
  const table = plainTable("Real load", [
    ["Resource"], ["Requested", number], ["Used", number], ["Deviation over nodes", number], ["Highest node", number],
    ["Over 80 %, node-minutes", number], ["Over 90 %", number], ["Over 100 %", number]],
  load.resources.map((each) => [each.name, percent(each.requested), percent(each.mean), percent(each.deviation), percent(each.max),
    minutes(each.over_80_node_s), minutes(each.over_90_node_s), minutes(each.over_100_node_s)]));
  return wide(card("Real load", "What pods on nodes use, as a share of a node; beside it the mean of what they request.",
    segments("Resource", names.map((name) => [name, name]), chosen, (name) => { remember("load", name); show(name); }), holder, table));
}
