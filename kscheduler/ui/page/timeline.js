// The run over time: a chart to point into, and what was placed and preempted in the chosen interval.

import { chart } from "./chart.js";
import { card, el, wide } from "./dom.js";
import { moment, percent, whole } from "./format.js";
import { keptDecisions } from "./report.js";
import { rates } from "./overview.js";
import { address, remember } from "./route.js";
import { scrubber } from "./scrubber.js";
import { virtualTable } from "./table.js";

export function timelineView(report, settings) {
  const { flow, series } = report, total = report.simulated_s;
  if (!flow) return [wide(card("Timeline", "", el("p", {}, "This report has no timeline: an earlier version wrote it.")))];
  const times = flow.created.map((_, at) => at * flow.interval_s);
  const summary = el("dl", { className: "facts row" }), events = el("div");
  const plots = [];
  const marked = { drawn: mark, ready: (plot) => plots.push(plot) };
  let interval = Math.min(times.length - 1, Math.max(0, Math.floor(Number(settings.get("t") ?? report.busiest_s) / flow.interval_s) || 0));

  function mark(plot) {
    const from = plot.valToPos(times[interval], "x", true), to = plot.valToPos(times[interval] + flow.interval_s, "x", true);
    const { top, height } = plot.bbox;
    plot.ctx.save();
    plot.ctx.fillStyle = getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "rgba(160,170,184,.35)" : "rgba(84,93,107,.3)";
    plot.ctx.fillRect(from, top, Math.max(2, to - from), height);
    plot.ctx.restore();
  }

  function show(at) {
    interval = at;
    const start = times[at], end = start + flow.interval_s;
    remember("t", Number(start.toFixed(3)));
    for (const plot of plots) plot.redraw(false, false);
    let sample = 0;
    while (sample + 1 < series.time_s.length && series.time_s[sample + 1] <= end) sample++;
    const figures = [
      ["From", moment(start, total)], ["Created", whole(flow.created[at])], ["Bound", whole(flow.bound[at])],
      ["Finished or deleted", whole(flow.left[at])], ["Preempted", whole(flow.preempted[at])],
      ["Pending", whole(series.pending[sample])], ["On nodes", whole(series.running[sample])],
      ...Object.entries(series.used).map(([name, shares]) => [name, percent(shares[sample])]),
    ];
    summary.replaceChildren(...figures.map(([term, text]) => el("div", {}, el("dt", {}, term), el("dd", {}, text))));
    events.replaceChildren(virtualTable({
      label: "What happened in the interval", rows: happened(report, start, at === times.length - 1 ? Infinity : end), height: 380,
      empty: "Nothing in this interval.", open: (each) => { location.hash = each.link; },
      columns: [
        { title: "At", width: "8.5rem", className: "number", text: (each) => moment(each.at, total) },
        { title: "What", width: "7rem", text: (each) => each.what },
        { title: "Pod", width: "minmax(9rem, 2fr)", main: true, text: (each) => each.pod },
        { title: "Node", width: "minmax(8rem, 1fr)", text: (each) => each.node },
      ],
    }));
  }

  const slider = scrubber(times, interval, total, show);
  slider.dataset.scrubber = "";
  const onpick = (time) => slider.set(Math.floor(time / flow.interval_s));
  return [wide(card("Timeline", "Click into a chart, or move the slider; [ and ] go one step, Space plays.",
    slider,
    rates(report, { onpick, ...marked, height: 200 }),
    chart(series.time_s, [{ label: "pending", values: series.pending, fill: true }, { label: "on nodes", values: series.running }],
      { total, onpick, ...marked, whole: true, height: 200, label: "Line chart of pods that wait and of pods on nodes, over virtual time." }))),
  wide(card("In this interval", "Enter or a click opens the decision, or why the pod waits.", summary, events))];
}

function happened(report, start, end) {
  const found = [], within = (time) => time !== null && time >= start && time < end;
  const add = (at, what, pod, node, link) => { if (within(at)) found.push({ at, what, pod, node, link }); };
  const decision = (pod, attempt = "") => address("decision", { pod, attempt });
  const placed = report.placements;
  if (placed) placed.bound_s.forEach((time, at) => add(time, "bound", placed.pods[at], placed.nodes[placed.node[at]], decision(placed.pods[at])));
  for (const each of keptDecisions(report))
    if (each.outcome === "rejected") add(each.time, "rejected", each.pod, "", decision(each.pod, each.attempt));
  for (const pod of report.preempted || []) add(pod.left_s, "preempted", pod.pod, pod.node, address("preempted", { q: pod.pod }));
  for (const pod of report.unplaced) {
    add(pod.arrived_s, "created, waits", pod.pod, "", address("why", { pod: pod.pod }));
    add(pod.left_s, "left, no node", pod.pod, "", address("why", { pod: pod.pod }));
  }
  return found.sort((a, b) => a.at - b.at);
}
