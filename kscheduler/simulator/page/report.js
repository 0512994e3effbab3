"use strict";
// Draws the plots of a report into the page from the JSON beside it. No libraries, nothing fetched.

const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");

// --- words and numbers ---------------------------------------------------------------------------------------------

const whole = (n) => Math.round(n).toLocaleString("en-US");
const percent = (share, digits = 1) => (share * 100).toFixed(digits) + " %";

function seconds(s) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];
  if (s === 0) return "0 s";
  const [size, unit] = units.find(([size]) => s >= size * 0.9995) || units[units.length - 1];
  return Number((s / size).toPrecision(3)) + " " + unit;
}

function compact(n) {
  if (n >= 1e6) return Number((n / 1e6).toPrecision(3)) + " M";
  if (n >= 1e4) return Number((n / 1e3).toPrecision(3)) + " k";
  return n.toLocaleString("en-US");
}

function niceStep(range, count) {
  const rough = range / count, power = Math.pow(10, Math.floor(Math.log10(rough)));
  return power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
}

function linearTicks(high, count) {
  const step = niceStep(high, count), ticks = [];
  for (let i = 0; i * step <= high * 1.0001; i++) ticks.push(i * step);
  return ticks;
}

// Time is read in minutes, hours and days, so steps of 10 seconds, 15 minutes or 6 hours rather than powers of ten.
function timeTicks(high, count) {
  const day = 86400, steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, day];
  const rough = high / count;
  const step = rough < 1 || rough > day ? (rough > day ? day * niceStep(high / day, count) : niceStep(high, count))
    : steps.find((s) => s >= rough);
  const [size, unit] = step >= day ? [day, "days"] : step >= 3600 ? [3600, "hours"] : step >= 60 ? [60, "minutes"]
    : step >= 1e-3 * 50 ? [1, "seconds"] : [1e-3, "milliseconds"];
  const ticks = [];
  for (let i = 0; i * step <= high * 1.0001; i++) ticks.push([i * step, String(Number((i * step / size).toPrecision(6)))]);
  return { ticks, unit };
}

function logTicks(low, high) {
  const decades = Math.log10(high / low), wanted = decades <= 1.2 ? [1, 2, 3, 5, 7] : decades <= 3 ? [1, 2, 5] : [1], ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const m of wanted) {
      const value = m * Math.pow(10, power);
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  return ticks.length > 10 ? ticks.filter((_, i) => i % Math.ceil(ticks.length / 10) === 0) : ticks;
}

function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 14;
  const y = event.clientY + 14 + box.height > innerHeight ? event.clientY - box.height - 14 : event.clientY + 14;
  tip.style.left = Math.max(4, x) + "px";
  tip.style.top = Math.max(4, y) + "px";
}
const hideTip = () => { tip.hidden = true; };

// --- plots ----------------------------------------------------------------------------------------------------------

function frame(holder, height, xTicks, yTicks, x, y, xTitle) {
  const width = Math.max(280, holder.clientWidth);
  const box = { left: 52, right: width - 16, top: 10, bottom: height - 40, width, height };
  const px = (v) => box.left + x(v) * (box.right - box.left), py = (v) => box.bottom - y(v) * (box.bottom - box.top);
  let svg = "";
  for (const [value, text] of yTicks)
    svg += `<line class="grid" x1="${box.left}" x2="${box.right}" y1="${py(value)}" y2="${py(value)}"/>` +
      `<text x="${box.left - 8}" y="${py(value) + 4}" text-anchor="end">${text}</text>`;
  for (const [value, text] of xTicks)
    svg += `<line class="axis" x1="${px(value)}" x2="${px(value)}" y1="${box.bottom}" y2="${box.bottom + 5}"/>` +
      `<text x="${px(value)}" y="${box.bottom + 19}" text-anchor="middle">${text}</text>`;
  svg += `<line class="axis" x1="${box.left}" x2="${box.right}" y1="${box.bottom}" y2="${box.bottom}"/>` +
    `<text x="${(box.left + box.right) / 2}" y="${height - 4}" text-anchor="middle">${xTitle}</text>`;
  return { box, px, py, svg };
}

function put(holder, box, svg) {
  holder.innerHTML = `<svg viewBox="0 0 ${box.width} ${box.height}" height="${box.height}" aria-hidden="true">${svg}` +
    `<line class="cursor" y1="${box.top}" y2="${box.bottom}" visibility="hidden"/></svg>`;
  return holder.firstChild;
}

function onPoint(svg, box, say) {
  const cursor = svg.querySelector(".cursor");
  svg.onpointermove = (event) => {
    const rect = svg.getBoundingClientRect(), at = (event.clientX - rect.left) * box.width / rect.width;
    const share = (at - box.left) / (box.right - box.left);
    if (share < 0 || share > 1) { svg.onpointerleave(); return; }
    cursor.setAttribute("x1", at); cursor.setAttribute("x2", at); cursor.setAttribute("visibility", "visible");
    showTip(event, say(share));
  };
  svg.onpointerleave = () => { cursor.setAttribute("visibility", "hidden"); hideTip(); };
}

function nothing(holder, text) {
  const width = Math.max(280, holder.clientWidth);
  holder.innerHTML = `<svg viewBox="0 0 ${width} 120" height="120" aria-hidden="true">` +
    `<text class="empty" x="${width / 2}" y="64" text-anchor="middle">${text}</text></svg>`;
}

// A value holds from its time until the next one's.
function steps(times, values, end, px, py) {
  let path = `M${px(times[0]).toFixed(1)} ${py(values[0]).toFixed(1)}`;
  for (let i = 1; i < times.length; i++)
    path += `H${px(times[i]).toFixed(1)}V${py(values[i]).toFixed(1)}`;
  return path + `H${px(end).toFixed(1)}`;
}

// The area between two step functions: along one, back along the other.
function between(times, low, high, end, px, py) {
  let path = steps(times, high, end, px, py);
  for (let i = times.length - 1; i >= 0; i--)
    path += `V${py(low[i]).toFixed(1)}H${px(times[i]).toFixed(1)}`;
  return path + "Z";
}

function indexAt(times, time) {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= time) low = middle; else high = middle - 1;
  }
  return low;
}

function overTime(id, height, lines, high, yTicks, say, fill, times = data.series.time_s, band = null) {
  const holder = document.getElementById(id), end = data.simulated_s;
  if (!times.length || end <= 0) { nothing(holder, "No virtual time passed."); return; }
  const { ticks, unit } = timeTicks(end, holder.clientWidth < 600 ? 5 : 9);
  const plot = frame(holder, height, ticks, yTicks, (t) => t / end, (v) => v / high, `virtual time, ${unit}`);
  let svg = plot.svg;
  if (band) svg += `<path class="area" fill="${band.color}" d="${between(times, band.low, band.high, end, plot.px, plot.py)}"/>`;
  for (const line of lines) {
    const path = steps(times, line.values, end, plot.px, plot.py);
    if (fill) svg += `<path class="area" fill="${line.color}" d="${path}V${plot.box.bottom}H${plot.box.left}Z"/>`;
    svg += `<path class="line" stroke="${line.color}" d="${path}"/>`;
  }
  onPoint(put(holder, plot.box, svg), plot.box, (share) => {
    const index = indexAt(times, share * end);
    return `at ${seconds(share * end)}\n` + lines.map((line) => `${line.name}: ${say(line.values[index])}`).join("\n");
  });
}

const colorOf = (index) => `var(--s${Math.min(index, 5)})`;

function legend(id, lines) {
  const holder = document.getElementById(id);
  holder.innerHTML = "";
  for (const line of lines) {
    const entry = document.createElement("span"), swatch = document.createElement("i");
    swatch.style.background = line.color;
    entry.append(swatch, line.name);
    holder.append(entry);
  }
}

function drawUtilisation() {
  const names = Object.keys(data.series.used);
  const lines = names.map((name, index) => ({ name, values: data.series.used[name], color: colorOf(index) }));
  legend("utilisation-legend", lines);
  const most = Math.max(0.001, ...lines.map((line) => Math.max(0, ...line.values)));
  // The whole scale, unless hardly anything is used: then a flat line would tell nothing.
  const step = most > 0.4 ? 0.2 : niceStep(most, 4), high = most > 0.4 ? Math.max(1, most) : Math.ceil(most / step - 1e-9) * step;
  const digits = step < 0.001 ? 2 : step < 0.01 ? 1 : 0, ticks = [];
  for (let i = 0; i * step <= high * 1.0001; i++) ticks.push([i * step, percent(i * step, digits)]);
  overTime("utilisation", 300, lines, high, ticks, (v) => percent(v, most < 0.1 ? 2 : 1), lines.length === 1);
}

// Where pods declare what they use: how it lies on the nodes.
const loadView = { resource: data.load ? Object.keys(data.load.series)[0] : "" };

function drawLoad() {
  if (!data.load) return;
  const series = data.load.series[loadView.resource], times = data.load.time_s;
  const lines = [
    { name: "highest node", values: series.max, color: "var(--s2)" },
    { name: "mean", values: series.mean, color: "var(--s0)" },
    { name: "requested, mean", values: series.requested, color: "var(--s5)" },
  ];
  const around = (sign) => series.mean.map((v, i) => Math.max(0, v + sign * series.deviation[i]));
  const band = { low: around(-1), high: around(1), color: "var(--s0)" };
  legend("load-legend", lines);
  const most = Math.max(0.001, ...series.max, ...series.requested, ...band.high);
  const step = niceStep(most, 6), high = Math.ceil(most / step - 1e-9) * step;
  const ticks = linearTicks(high, Math.round(high / step)).map((v) => [v, percent(v, step < 0.01 ? 1 : 0)]);
  overTime("load", 300, lines, high, ticks, percent, false, times, band);
  const over = [
    { name: "above 80 %", values: series.over_80, color: "var(--s2)" },
    { name: "above 100 %", values: series.over_100, color: "var(--s4)" },
  ];
  legend("loaded-legend", over);
  const many = Math.max(0.05, ...series.over_80), part = niceStep(many, 4), top = Math.ceil(many / part - 1e-9) * part;
  const parts = linearTicks(top, Math.round(top / part)).map((v) => [v, percent(v, part < 0.01 ? 1 : 0)]);
  overTime("loaded", 180, over, top, parts, percent, true, times);
}

function drawPending() {
  const values = data.series.pending, most = Math.max(1, ...values), step = Math.max(1, niceStep(most, 4));
  const high = Math.ceil(most / step) * step;
  const ticks = linearTicks(high, high / step).map((v) => [v, compact(v)]);
  overTime("pending", 260, [{ name: "waiting", values, color: "var(--s0)" }], high, ticks, whole, true);
}

function drawLatency() {
  const holder = document.getElementById("latency"), points = data.latency.distribution;
  if (!points.length) { nothing(holder, "No pod was placed."); return; }
  if (data.latency.max_s < 1e-6) { nothing(holder, "Every pod was bound in the instant it was created."); return; }
  let low = Math.max(1e-6, Math.min(...points.map((p) => p[0]).filter((v) => v > 1e-6))) * 0.8, high = data.latency.max_s * 1.15;
  if (high / low < 5) { low /= 2; high *= 2; }
  const x = (v) => Math.log(Math.max(v, low) / low) / Math.log(high / low);
  const ticks = logTicks(low, high).map((v) => [v, seconds(v)]);
  const plot = frame(holder, 260, ticks, [0, 0.25, 0.5, 0.75, 1].map((v) => [v, percent(v, 0)]), x, (v) => v, "virtual time, logarithmic");
  let line = `M${plot.px(low).toFixed(1)} ${plot.py(0)}H${plot.px(points[0][0]).toFixed(1)}L`;
  line += points.map(([v, share]) => `${plot.px(v).toFixed(1)} ${plot.py(share).toFixed(1)}`).join("L") + `H${plot.box.right}`;
  let svg = plot.svg + `<path class="area" fill="var(--s0)" d="${line}V${plot.box.bottom}Z"/><path class="line" stroke="var(--s0)" d="${line}"/>`;
  for (const [name, value, share] of [["p50", data.latency.p50_s, 0.5], ["p99", data.latency.p99_s, 0.99]]) {
    const at = plot.px(value), y = plot.py(share), left = at > (plot.box.left + plot.box.right) / 2;
    svg += `<line class="mark" x1="${at}" x2="${at}" y1="${y}" y2="${plot.box.bottom}"/>` +
      `<circle cx="${at}" cy="${y}" r="4" fill="var(--s0)" stroke="var(--card)" stroke-width="2"/>` +
      `<text class="label" x="${at + (left ? -9 : 9)}" y="${y + 16}" text-anchor="${left ? "end" : "start"}">${name} ${seconds(value)}</text>`;
  }
  onPoint(put(holder, plot.box, svg), plot.box, (share) => {
    const value = low * Math.pow(high / low, share), within = points.filter(([v]) => v <= value * 1.000001).pop();
    return `${percent(within ? within[1] : 0)} bound within ${seconds(value)}`;
  });
}

// --- nodes ----------------------------------------------------------------------------------------------------------

const nodes = data.nodes, heat = document.getElementById("heat");
const moments = [["busiest", `busiest, at ${seconds(data.busiest_s)}`], ["final", "at the end"], ["average", "average over time"]];
const view = { resource: 0, moment: "busiest", sorted: false, order: [], columns: 1, cell: 1 };
const BINS = 10;

function rgb(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function ramp() {
  const from = rgb("--h0"), to = rgb("--h1");
  return Array.from({ length: BINS }, (_, i) => `rgb(${from.map((c, k) => Math.round(c + (to[k] - c) * (i / (BINS - 1))))})`);
}

const binOf = (share) => Math.min(BINS - 1, Math.floor(share / 1000 * BINS));
const shares = () => nodes[view.moment][view.resource];

function drawHeat() {
  const values = shares(), count = values.length, width = Math.max(240, heat.parentNode.clientWidth), colors = ramp();
  view.order = values.map((_, i) => i);
  if (view.sorted) view.order.sort((a, b) => (values[b] ?? -1) - (values[a] ?? -1) || a - b);
  view.cell = Math.max(3, Math.min(26, Math.floor(Math.sqrt(width * 400 / Math.max(1, count)))));
  view.columns = Math.max(1, Math.floor(width / view.cell));
  const rows = Math.max(1, Math.ceil(count / view.columns)), ratio = window.devicePixelRatio || 1;
  heat.width = width * ratio;
  heat.height = rows * view.cell * ratio;
  heat.style.height = rows * view.cell + "px";
  const paint = heat.getContext("2d"), gap = view.cell > 5 ? 1.5 : view.cell > 3 ? 1 : 0.5, none = getComputedStyle(document.documentElement).getPropertyValue("--none");
  paint.scale(ratio, ratio);
  view.order.forEach((node, place) => {
    paint.fillStyle = values[node] === null ? none : colors[binOf(values[node])];
    paint.fillRect((place % view.columns) * view.cell, Math.floor(place / view.columns) * view.cell, view.cell - gap, view.cell - gap);
  });
  drawScale(values, colors, none);
}

function drawScale(values, colors, none) {
  const counts = new Array(BINS).fill(0);
  let without = 0;
  for (const value of values) if (value === null) without++; else counts[binOf(value)]++;
  const holder = document.getElementById("heat-scale");
  holder.innerHTML = "";
  const add = (color, label, number) => {
    const cell = document.createElement("div"), swatch = document.createElement("i"), figure = document.createElement("b");
    swatch.style.background = color;
    figure.textContent = compact(number);
    cell.title = `${whole(number)} nodes ${label}`;
    cell.append(swatch, figure, document.createElement("br"), label);
    holder.append(cell);
  };
  counts.forEach((number, i) => add(colors[i], `${i * 10}–${i * 10 + 10} %`, number));
  if (without) add(none, "has none", without);
}

function segments(id, entries, chosen, choose, redraw = drawHeat) {
  const holder = document.getElementById(id);
  entries.forEach(([value, label]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-pressed", String(value === chosen));
    button.onclick = () => {
      for (const other of holder.children) other.setAttribute("aria-pressed", String(other === button));
      choose(value);
      redraw();
    };
    holder.append(button);
  });
}

function nodeAt(event) {
  const rect = heat.getBoundingClientRect();
  const column = Math.floor((event.clientX - rect.left) / view.cell), row = Math.floor((event.clientY - rect.top) / view.cell);
  return column < view.columns ? view.order[row * view.columns + column] : undefined;
}

heat.onpointermove = (event) => {
  const node = nodeAt(event);
  if (node === undefined) { hideTip(); return; }
  const figures = nodes.resources.map((name, i) => {
    const value = nodes[view.moment][i][node];
    return `${name}: ${value === null ? "none" : percent(value / 1000)}`;
  });
  const pods = view.moment === "average" ? [] : [`${whole((view.moment === "final" ? nodes.pods_final : nodes.pods_busiest)[node])} pods running`];
  showTip(event, [nodes.names[node], ...figures, ...pods].join("\n"));
};
heat.onpointerleave = hideTip;

// --- start ----------------------------------------------------------------------------------------------------------

segments("heat-resource", nodes.resources.map((name, index) => [index, name]), 0, (value) => { view.resource = value; });
segments("heat-moment", moments, "busiest", (value) => { view.moment = value; });
if (data.load)
  segments("load-resource", Object.keys(data.load.series).map((name) => [name, name]), loadView.resource, (value) => { loadView.resource = value; }, drawLoad);
document.getElementById("heat-sort").onchange = (event) => { view.sorted = event.target.checked; drawHeat(); };

function draw() {
  drawUtilisation();
  drawLoad();
  drawPending();
  drawLatency();
  drawHeat();
}

draw();
let drawn = innerWidth;
addEventListener("resize", () => { if (innerWidth !== drawn) { drawn = innerWidth; draw(); } });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
