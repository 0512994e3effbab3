// Charts over time and distributions, drawn by uPlot in the colours of the theme.

import { colour, el } from "./dom.js";
import { compactNumber, countTicks, moment, percent, seconds, timeTicks, timeUnit, whole } from "./format.js";

const SERIES = ["s0", "s1", "s2", "s3", "s4", "s5"];
const plots = new Set();

// Charts that are no longer shown would still listen to the window.
export function removeCharts() {
  for (const plot of plots) plot.destroy();
  plots.clear();
}

// series: [{label, values, fill, dash, colour, points, format}]; options: {label, height, format, axisFormat, highest, within, log, counted, logY, whole, total, span, onpick, drawn, ready}
// span: () => [low, high] of a time axis that moves; then its ticks are times as they are, and not in one unit.
// points: "filled" or "hollow" ones and no line. counted: what x counts, where it is no time; within: [low, high] of the y axis, which logY makes logarithmic.
export function chart(x, series, options) {
  const holder = el("div", { className: "chart", role: "img", "aria-label": options.label });
  if (!x.length || options.total === 0) {
    holder.append(el("p", { className: "fine" }, "There is nothing to show."));
    return holder;
  }
  let plot = null;
  new ResizeObserver(() => {
    const width = holder.clientWidth;
    if (!width || !holder.isConnected) return;
    if (plot) {
      if (plot.width !== width) plot.setSize({ width, height: plot.height });
      return;
    }
    plot = new uPlot(settings(width, x, series, options), [x, ...series.map((each) => each.values)], holder);
    plots.add(plot);
    if (options.onpick) plot.over.addEventListener("click", () => options.onpick(plot.posToVal(plot.cursor.left, "x")));
    if (options.ready) options.ready(plot);
  }).observe(holder);
  return holder;
}

function settings(width, x, series, options) {
  const format = options.format || compactNumber;
  const axis = { stroke: colour("soft"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
  const across = acrossOf(x, options);
  return {
    width,
    height: options.height || 230,
    hooks: options.drawn ? { draw: [options.drawn] } : {},
    scales: { x: across.scale, y: { distr: options.logY ? 3 : 1, range: (_, low, high) => options.within || [Math.min(0, low), options.highest || high * 1.05 || 1] } },
    axes: [{ ...axis, size: 34, ...across.axis }, { ...axis, size: options.logY ? 70 : 58, ...(options.logY ? logAxis((plot) => plot.height / 40) : {}),
      incrs: options.whole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7] : undefined, values: (_, values) => values.map(options.axisFormat || format) }],
    cursor: { y: false, points: { size: 6 }, drag: { x: !options.onpick, y: false, setScale: !options.onpick } },
    legend: { live: true },
    series: [
      { label: across.label, value: (_, value) => (value === null ? "" : across.value(value)) },
      ...series.map((each, at) => plotted(each, SERIES[at % SERIES.length], format)),
    ],
  };
}

function plotted(each, usual, format) {
  const ink = colour(each.colour || usual), shown = each.format || format;
  const inside = each.points === "filled" ? ink : colour("surface");
  return {
    label: each.label,
    stroke: ink,
    width: each.dash ? 1.25 : 1.75,
    dash: each.dash ? [5, 4] : undefined,
    fill: each.points ? inside : each.fill ? ink.replace("rgb(", "rgba(").replace(")", ", 0.14)") : undefined,
    paths: each.points ? () => null : uPlot.paths.stepped({ align: 1 }),
    points: each.points ? { show: true, size: 9, width: 2, stroke: ink, fill: inside } : { show: false },
    value: (_, value, __, at) => (at === null || at === undefined ? "" : value === null || value === undefined ? "–" : shown(value)),
  };
}

const logAxis = (count) => ({ splits: (plot, _, low, high) => logTicks(low, high, count(plot)), filter: (_, ticks) => ticks });

// The x axis: a logarithmic one of times, one of counts, or virtual time.
function acrossOf(x, { log, counted, span, total = x[x.length - 1] }) {
  if (log)
    return { label: "within", value: seconds, scale: { time: false, distr: 3, range: () => [x[0], x[x.length - 1]] },
      axis: { ...logAxis((plot) => plot.width / 80), values: (_, values) => values.map(seconds) } };
  if (counted) {
    const [low, high] = [x[0], x[x.length - 1]], margin = Math.max(1, (high - low) * 0.06);
    return { label: counted, value: whole, scale: { time: false, range: () => [low - margin, high + margin] },
      axis: { splits: (plot) => countTicks(low, high, Math.max(2, plot.width / 60)), values: (_, values) => values.map(whole) } };
  }
  const [size, unit] = timeUnit(total);
  return { label: "time", value: (value) => (span ? seconds(value) : moment(value, total)), scale: { time: false, range: span },
    axis: { splits: (plot, _, low, high) => timeTicks(low, high, Math.max(2, Math.min(10, plot.width / 90))),
      values: (_, values) => values.map((each) => (span ? seconds(each) : `${Number((each / size).toPrecision(6))} ${unit}`)) } };
}

function logTicks(low, high, count) {
  const decades = Math.log10(high / low), steps = decades <= 1.2 ? [1, 2, 3, 5, 7] : decades <= 3 ? [1, 2, 5] : [1], ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of steps) {
      const value = step * Math.pow(10, power);
      if (value >= low && value <= high) ticks.push(value);
    }
  const every = Math.ceil(ticks.length / Math.max(2, count));
  return ticks.filter((_, at) => at % every === 0);
}

// Formats shares as percentages, with the more decimals the smaller all of them are, so that no two marks of an axis read equal.
export function shares(...lists) {
  const highest = Math.max(0, ...lists.map((values) => values.reduce((a, b) => Math.max(a, b ?? 0), 0)));
  return (share) => percent(share, [0.2, 0.02, 0.002].filter((bound) => highest < bound).length);
}
