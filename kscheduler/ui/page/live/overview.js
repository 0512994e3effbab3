// The scheduler's figures of the last minutes.

import { chart, shares } from "../chart.js";
import { card, el, tile, tileList, wide } from "../dom.js";
import { compactNumber, counted, percent, seconds, whole } from "../format.js";

const SPAN_S = 600, STEP_S = 60, SHOWN_RESOURCES = 2;

export class LiveOverview {
  constructor() {
    this.points = [];
    this.plots = [];
    this.drawn = null; // the resources that the charts were made for
    this.tiles = tileList("Figures", []);
    this.notice = wide(el("div", { role: "status" }));
    this.charts = el("div", { className: "wide live-charts" });
    this.elements = [this.notice, this.tiles, this.charts];
    this.on = { overview: (document) => this.take(document) };
    this.watches = "overview";
  }

  get last() {
    return this.points[this.points.length - 1];
  }

  take({ points, replica }) {
    this.points = [...this.points, ...points];
    const from = this.last.at - SPAN_S;
    this.points = this.points.filter((point) => point.at >= from);
    this.notice.replaceChildren(...standby(replica));
    this.tiles.replaceChildren(...tilesOf(this.last));
    this.show();
  }

  show() {
    const resources = Object.keys(this.last.used).filter((name) => this.points.some((point) => typeof point.used[name] === "number"));
    if (this.drawn === resources.join()) {
      for (const { plot, series } of this.plots) plot.setData([this.ages(), ...series.map((one) => this.points.map(one.of))]);
      return;
    }
    this.drawn = resources.join();
    this.plots = [];
    this.charts.replaceChildren(...chartsOf(resources).map((each) => this.draw(each)));
  }

  ages() {
    return this.points.map((point) => point.at - this.last.at);
  }

  // In whole minutes, so that the axis moves seldom.
  span() {
    return [-Math.max(STEP_S, STEP_S * Math.ceil((this.last.at - this.points[0].at) / STEP_S)), 0];
  }

  draw({ title, hint, series, ...options }) {
    const values = series.map((one) => ({ ...one, values: this.points.map(one.of) }));
    return card(title, hint, chart(this.ages(), values, { ...options, span: () => this.span(), height: 190,
      label: `Line chart: ${title}, over the last minutes while somebody watched.`,
      ready: (plot) => this.plots.push({ plot, series }) }));
  }
}

export function standby({ leads, leader, identity }) {
  if (leads) return [];
  const words = leader ? `stands by and decides nothing: ${leader} leads. Ask that one.` : "stands by; nobody leads at the moment.";
  return [el("p", { className: "verdict warn" }, `This replica (${identity}) ${words}`)];
}

function tilesOf(point) {
  const each = (value) => (value === null ? "–" : `${compactNumber(Number(value.toPrecision(3)))} /s`);
  const pending = point.active + point.backoff + point.unschedulable + point.gated;
  const pools = `${whole(point.active)} active, ${whole(point.backoff)} backing off, ${whole(point.unschedulable)} unschedulable, ${whole(point.gated)} gated`;
  const used = Object.entries(point.used).filter(([, share]) => share !== null).slice(0, SHOWN_RESOURCES);
  return [tile("Pods pending", whole(pending), pools),
    tile("Bound", each(point.scheduled), `${counted(point.binding, "binding")} under way`),
    tile("Created to bound", seconds(point.p50), `median of the last minute; p99 ${seconds(point.p99)}`),
    tile("Errors", each(point.errors), `${each(point.rejected)} attempts found no node; ${each(point.conflicts)} conflicts`, point.errors > 0),
    tile("Preemptions", each(point.preemptions), "attempts to make room"),
    ...used.map(([name, share]) => tile(`${name} requested`, percent(share), "of all nodes' allocatable amount")),
    tile("Nodes", whole(point.nodes), `${counted(point.pods, "pod")} on them`),
    tile("Event loop", seconds(point.lagP99), "late in the last minute, in 99 % of cases at most")];
}

const chartsOf = (resources) => [
  { title: "Pods that wait", hint: "By the part of the queue that they are in.", whole: true, series: [
    { label: "active", of: (point) => point.active }, { label: "backing off", of: (point) => point.backoff },
    { label: "unschedulable", of: (point) => point.unschedulable }, { label: "gated", of: (point) => point.gated }] },
  { title: "Pods per second", hint: "Bound, and attempts that found no node or met a fault.", series: [
    { label: "bound", of: (point) => point.scheduled }, { label: "no node", of: (point) => point.rejected, colour: "s2" },
    { label: "errors", of: (point) => point.errors, colour: "bad" }] },
  { title: "Utilisation", hint: "Requested by the pods on nodes, as a share of what all nodes offer.", format: shares([1]),
    series: resources.map((name) => ({ label: name, of: (point) => point.used[name] ?? null })) },
  { title: "From created to bound", hint: "Of the pods bound in the minute before; estimated from a histogram.", format: seconds, series: [
    { label: "median", of: (point) => point.p50 }, { label: "p99", of: (point) => point.p99 }] },
];
