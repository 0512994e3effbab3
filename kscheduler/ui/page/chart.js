// Charts over time and distributions, drawn by uPlot in the colours of the theme.

import { colour, el } from "./dom.js";
import { compactNumber, moment, percent, seconds, timeTicks, timeUnit } from "./format.js";

const SERIES = ["s0", "s1", "s2", "s3", "s4", "s5"];
const plots = new Set();

// Charts that are no longer shown would still listen to the window.
export function removeCharts() {
  for (const plot of plots) plot.destroy();
  plots.clear();
}

// series: [{label, values, fill, dash, colour}]; options: {label, height, format, highest, log, whole, total, span, onpick, drawn, ready}
// span: () => [low, high] of a time axis that moves; then its ticks are times as they are, and not in one unit.
export function chart(x, series, options) {
  const holder = el("div", { className: "chart", role: "img", "aria-label": options.label });
  if (!x.length) {
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
  const total = options.total ?? x[x.length - 1];
  const axis = { stroke: colour("soft"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
  const [size, unit] = timeUnit(total);
  const xAxis = options.log
    ? { ...axis, size: 34, splits: (plot, _, low, high) => logTicks(low, high, plot.width / 80), filter: (_, ticks) => ticks, values: (_, values) => values.map(seconds) }
    : { ...axis, size: 34, splits: (plot, _, low, high) => timeTicks(low, high, Math.max(2, Math.min(10, plot.width / 90))),
        values: (_, values) => values.map((each) => (options.span ? seconds(each) : `${Number((each / size).toPrecision(6))} ${unit}`)) };
  return {
    width,
    height: options.height || 230,
    hooks: options.drawn ? { draw: [options.drawn] } : {},
    scales: { x: { time: false, distr: options.log ? 3 : 1, range: options.log ? () => [x[0], x[x.length - 1]] : options.span }, y: { range: (_, low, high) => [Math.min(0, low), options.highest || high * 1.05 || 1] } },
    axes: [xAxis, { ...axis, size: 58, incrs: options.whole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7] : undefined, values: (_, values) => values.map(format) }],
    cursor: { y: false, points: { size: 6 }, drag: { x: !options.onpick, y: false, setScale: !options.onpick } },
    legend: { live: true },
    series: [
      { label: options.log ? "within" : "time", value: (_, value) => (value === null ? "" : options.log || options.span ? seconds(value) : moment(value, total)) },
      ...series.map((each, at) => {
        const ink = colour(each.colour || SERIES[at % SERIES.length]);
        return {
          label: each.label,
          stroke: ink,
          width: each.dash ? 1.25 : 1.75,
          dash: each.dash ? [5, 4] : undefined,
          fill: each.fill ? ink.replace("rgb(", "rgba(").replace(")", ", 0.14)") : undefined,
          paths: uPlot.paths.stepped({ align: 1 }),
          points: { show: false },
          value: (_, value, __, at) => (at === null || at === undefined ? "" : value === null || value === undefined ? "–" : format(value)),
        };
      }),
    ],
  };
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

// Formats shares as percentages, with a decimal where all of them are small.
export function shares(...lists) {
  const highest = Math.max(0, ...lists.map((values) => values.reduce((a, b) => Math.max(a, b ?? 0), 0)));
  return (share) => percent(share, highest < 0.2 ? 1 : 0);
}
