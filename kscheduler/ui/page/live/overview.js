// The scheduler's figures of the last minutes.

import { chart, shares } from "../chart.js";
import { card, el, wide } from "../dom.js";
import { compactNumber, percent, seconds, whole } from "../format.js";

const SPAN_S = 600, SHORTEST_S = 60;

export function liveOverview() {
  let points = [];
  const tiles = el("div", { className: "tiles wide", role: "list", "aria-label": "Figures" });
  const notice = wide(el("div", { role: "status" }));
  const charts = el("div", { className: "wide live-charts" });
  const plots = [];
  let drawn = "";

  function take(document) {
    points = [...points, ...document.points];
    const from = points[points.length - 1].at - SPAN_S;
    points = points.filter((point) => point.at >= from);
    const { leads, leader, identity } = document.replica;
    notice.replaceChildren(leads ? "" : el("p", { className: "verdict warn" }, leader
      ? `This replica (${identity}) stands by and decides nothing: ${leader} leads. Ask that one.` : `This replica (${identity}) stands by; nobody leads at the moment.`));
    showTiles(points[points.length - 1]);
    showCharts();
  }

  function showTiles(point) {
    const tile = (name, value, more, bad = false) => el("div", { className: bad ? "tile bad" : "tile", role: "listitem" },
      el("div", { className: "name" }, name), el("div", { className: "value" }, value), el("div", { className: "more" }, more));
    const each = (value) => (value === null ? "–" : `${compactNumber(Number(value.toPrecision(3)))} /s`);
    const pending = point.active + point.backoff + point.unschedulable + point.gated;
    const used = Object.entries(point.used).filter(([, share]) => share !== null);
    tiles.replaceChildren(
      tile("Pods pending", whole(pending), `${whole(point.active)} active, ${whole(point.backoff)} backing off, ${whole(point.unschedulable)} unschedulable, ${whole(point.gated)} gated`),
      tile("Bound", each(point.scheduled), `${whole(point.binding)} bindings under way`),
      tile("Created to bound", seconds(point.p50), `median of the last minute; p99 ${seconds(point.p99)}`),
      tile("Errors", each(point.errors), `${each(point.rejected)} attempts found no node; ${each(point.conflicts)} conflicts`, point.errors > 0),
      tile("Preemptions", each(point.preemptions), "attempts to make room"),
      ...used.slice(0, 2).map(([name, share]) => tile(`${name} requested`, percent(share), "of all nodes' allocatable amount")),
      tile("Nodes", whole(point.nodes), `${whole(point.pods)} pods on them`),
      tile("Event loop", seconds(point.lagP99), "late in the last minute, in 99 % of cases at most"));
  }

  function showCharts() {
    const names = Object.keys(points[points.length - 1].used).filter((name) => points.some((point) => point.used[name] !== null && point.used[name] !== undefined));
    if (drawn !== names.join()) {
      drawn = names.join();
      plots.length = 0;
      charts.replaceChildren(...CHARTS(names).map(drawChart));
      return;
    }
    for (const { plot, series } of plots) plot.setData([ages(), ...series.map((one) => points.map(one.of))]);
  }

  // Rounded up, so that the axis moves seldom.
  const span = () => [-Math.max(SHORTEST_S, SHORTEST_S * Math.ceil((points[points.length - 1].at - points[0].at) / SHORTEST_S)), 0];
  const ages = () => points.map((point) => point.at - points[points.length - 1].at);

  function drawChart({ title, hint, series, ...options }) {
    const values = series.map((one) => ({ ...one, values: points.map(one.of) }));
    return card(title, hint, chart(ages(), values, { ...options, span, height: 190, label: `Line chart: ${title}, over the last minutes while somebody watched.`,
      ready: (plot) => plots.push({ plot, series }) }));
  }

  return { view: "overview", elements: [notice, tiles, charts], on: { overview: take } };
}

const CHARTS = (resources) => [
  { title: "Pods that wait", hint: "By the part of the queue that they are in.", whole: true, series: [
    { label: "active", of: (point) => point.active }, { label: "backing off", of: (point) => point.backoff },
    { label: "unschedulable", of: (point) => point.unschedulable }, { label: "gated", of: (point) => point.gated }] },
  { title: "Pods per second", hint: "Bound, and attempts that found no node or met a fault.", series: [
    { label: "bound", of: (point) => point.scheduled }, { label: "no node", of: (point) => point.rejected, colour: "s2" },
    { label: "errors", of: (point) => point.errors, colour: "bad" }] },
  { title: "Utilisation", hint: "Requested by the pods on nodes, as a share of what all nodes offer.", format: shares([1]), highest: undefined, series:
    resources.map((name) => ({ label: name, of: (point) => point.used[name] ?? null })) },
  { title: "From created to bound", hint: "Of the pods bound in the minute before; estimated from a histogram.", format: seconds, series: [
    { label: "median", of: (point) => point.p50 }, { label: "p99", of: (point) => point.p99 }] },
];
