// The trials of a search for the fewest nodes: the figure of each objective by the nodes added, and which met them.

import { chart } from "./chart.js";
import { card, colour, el, plainTable, wide } from "./dom.js";
import { compactNumber, percent, seconds, whole } from "./format.js";

const FORMATS = { seconds, share: (value) => percent(value, 2) };
const WIDE_RANGE = 30; // from which factor on the y axis is logarithmic

export function trialCards({ objectives, shape, nodes, trials: made }) {
  const trials = [...made].sort((one, other) => one.nodes - other.nodes);
  const charts = objectives.map((objective, at) => [el("h3", {}, el("bdi", {}, objective.text)), objectiveChart(trials, objective, at)]);
  const rows = trials.map((trial) => [whole(trial.nodes), el("bdi", {}, trial.figures.join(", ")),
    el("span", { className: trial.met ? "better" : "worse" }, trial.nodes === nodes ? "met: the fewest" : trial.met ? "met" : "not met")]);
  const hint = el("span", {}, "A point is one simulation with so many more nodes of the shape ", el("bdi", {}, shape),
    ", green where all objectives are met; a dashed line is the limit. That more nodes do not make it worse is assumed.");
  return [
    wide(card("How many nodes are needed", hint, charts)),
    wide(card("Trials", "", plainTable("Trials", [["More nodes", "number"], ["Figures", "message"], ["Objectives"]], rows))),
  ];
}

function objectiveChart(trials, { text, value: limit, unit }, at) {
  const format = FORMATS[unit] || compactNumber;
  const figures = trials.map((trial) => trial.values[at] ?? null);
  const [logY, low, high] = extent([...figures.filter((figure) => figure !== null), limit], unit);
  const only = (met) => trials.map((trial, row) => (trial.met === met ? figures[row] : null));
  const series = [
    { label: "met", values: only(true), points: "filled", colour: "good" },
    { label: "not met", values: only(false), points: "filled", colour: "bad" },
  ];
  // At the upper edge: they have no place on the axis.
  if (figures.includes(null))
    series.push({ label: "no figure: for ever, or ended early", values: figures.map((figure) => (figure === null ? high : null)),
      points: "hollow", colour: "bad", format: () => "yes" });
  const words = trials.map((trial, row) => `${whole(trial.nodes)}: ${figures[row] === null ? "no figure" : format(figures[row])}, ${trial.met ? "met" : "not met"}`);
  return chart(trials.map((trial) => trial.nodes), series, {
    counted: "more nodes", logY, within: logY ? [low, high * 1.6] : [low, high + (high - low) * 0.1], format,
    axisFormat: unit === "share" ? (value) => percent(value, high - low < 0.25 ? 1 : 0) : format, drawn: (plot) => drawLimit(plot, limit),
    label: `Chart of ${text} by the number of nodes added. ${words.join("; ")}.`,
  });
}

// Whether the y axis is logarithmic, and what it has to hold.
function extent(known, unit) {
  const low = Math.min(...known), high = Math.max(...known);
  if (low > 0 && high / low > WIDE_RANGE) return [true, low / 2, high * 2];
  const margin = (high - low) * 0.15 || 0.1 * high || 1;
  return [false, unit === "share" ? low - margin : 0, high + margin];
}

function drawLimit({ ctx, bbox, valToPos }, limit) {
  const y = Math.round(valToPos(limit, "y", true));
  ctx.save();
  ctx.strokeStyle = colour("s5");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}
