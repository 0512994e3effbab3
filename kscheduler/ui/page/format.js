// Formats figures for people: 12,345 · 93.2 % · 4.5 ms · 3 h · 1.5 TiB.

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

export const whole = (n) => Math.round(n).toLocaleString("en-US");
export const counted = (n, noun) => `${whole(n)} ${noun}${n === 1 ? "" : "s"}`; // 1 pod, 2 pods
export const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : (share * 100).toFixed(digits) + " %");
export const signed = (n) => (n > 0 ? "+" : n < 0 ? "−" : "") + whole(Math.abs(n)); // +5, −5, 0
const threeDigits = (n) => Number(n.toPrecision(3)).toLocaleString("en-US");

export function seconds(s) {
  if (s === null || s === undefined) return "–";
  if (s === 0) return "0 s";
  const [size, unit] = UNITS.find(([each]) => Math.abs(s) >= each * 0.9995) || UNITS[UNITS.length - 1];
  return threeDigits(s / size) + " " + unit;
}

// A moment of virtual time, exact to the second: 1 d 04:05:06, or 12.34 s in short runs.
export function moment(s, total) {
  if (total < 600) return Number(s.toFixed(total < 10 ? 3 : 1)) + " s";
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  const clock = `${two((s % 86400) / 3600)}:${two((s % 3600) / 60)}:${two(s % 60)}`;
  return total < 86400 ? clock : `${Math.floor(s / 86400)} d ${clock}`;
}

export function amount(value, unit) {
  if (unit !== "bytes") return `${Number(value.toPrecision(6)).toLocaleString("en-US")} ${value === 1 ? unit.replace(/s$/, "") : unit}`;
  const sizes = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let power = 0;
  while (value >= 1024 && power < sizes.length - 1) [value, power] = [value / 1024, power + 1];
  return `${threeDigits(value)} ${sizes[power]}`;
}

export function compactNumber(n) {
  if (Math.abs(n) >= 1e6) return Number((n / 1e6).toPrecision(3)) + " M";
  if (Math.abs(n) >= 1e4) return Number((n / 1e3).toPrecision(3)) + " k";
  return Number(n.toPrecision(4)).toLocaleString("en-US");
}

// People read time in minutes, hours and days: the distance of ticks is 10 seconds, 15 minutes or 6 hours.
export function timeTicks(low, high, count) {
  const day = 86400, steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, day];
  const rough = (high - low) / count || 1;
  const decimal = (range) => {
    const power = Math.pow(10, Math.floor(Math.log10(range)));
    return power * [1, 2, 5, 10].find((m) => m * power >= range * 0.999);
  };
  const step = rough < 1 ? decimal(rough) : rough > day ? day * decimal(rough / day) : steps.find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high * 1.0001; i++) ticks.push(i * step);
  return ticks;
}

// Whole numbers at distances of 1, 2, 5, 10 and so on.
export function countTicks(low, high, count) {
  const rough = Math.max(1, (high - low) / count), power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999), ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) ticks.push(i * step);
  return ticks;
}

export function timeUnit(high) {
  return high >= 3 * 86400 ? [86400, "d"] : high >= 3 * 3600 ? [3600, "h"] : high >= 180 ? [60, "min"] : high >= 0.5 ? [1, "s"] : [1e-3, "ms"];
}
