// The queue in its order: the first pods of each part of it.

import { card, el, select, wide } from "../dom.js";
import { seconds, whole } from "../format.js";
import { kindOf } from "../report.js";
import { address, remember } from "../route.js";
import { virtualTable } from "../table.js";

const MAX_REASONS = 50;
const POOLS = { active: "next in line", backoff: "backing off", "error-backoff": "backing off after a fault", unschedulable: "unschedulable", gated: "gated" };

export const untilOf = (at) => (at === null ? "–" : at <= Date.now() / 1000 ? "now" : `in ${seconds(Math.round(at - Date.now() / 1000))}`);
export const sinceOf = (at) => seconds(Math.max(0, Math.round(Date.now() / 1000 - at)));

export function liveQueue(settings) {
  let rows = [];
  const wanted = { q: settings.get("q") || "", namespace: settings.get("namespace") || "", pool: settings.get("pool") || "", reason: settings.get("reason") || "" };
  const summary = el("p", { className: "fine", role: "status" }, "Waiting for the first figures …");
  const counts = el("dl", { className: "facts row" });
  const table = virtualTable({
    label: "Pods in the queue", rows: [], empty: "",
    open: (row) => { location.hash = address("pod", { pod: row.pod }); },
    columns: [
      { title: "#", width: "3.5rem", className: "number", text: (row) => (row.position === null ? "–" : String(row.position)) },
      { title: "Pod", width: "minmax(10rem, 2fr)", main: true, text: (row) => row.pod },
      { title: "State", width: "8rem", text: (row) => POOLS[row.pool] || row.pool },
      { title: "Priority", width: "5.5rem", className: "number", wide: true, text: (row) => whole(row.priority) },
      { title: "Attempts", width: "4.5rem", className: "number", wide: true, text: (row) => whole(row.attempts) },
      { title: "Waits", width: "5.5rem", className: "number", text: (row) => sinceOf(row.since) },
      { title: "Retry", width: "6rem", className: "number", text: (row) => untilOf(row.retryAt) },
      { title: "Reason", width: "minmax(14rem, 5fr)", long: true, text: (row) => row.kind },
    ],
  });
  const choosers = el("div", { className: "controls" });

  function take(document) {
    rows = document.rows.map((row) => ({ ...row, kind: row.reason ? kindOf(row.reason) : row.plugins.length ? `held back by ${row.plugins.join(", ")}` : "" }));
    const { counts: all } = document, total = Object.values(all).reduce((sum, count) => sum + count, 0);
    const shown = rows.length === total ? "All of them are shown." : `The first ${whole(rows.length)} are shown${document.all ? "" : ", of namespaces whose pods you may list"}; look up others by name at “Why is this pod pending?”`;
    summary.textContent = total ? `${whole(total)} pods wait. ${shown}` : "No pod waits.";
    const figures = [["Active", all.active], ["Backing off", all.backoff], ["Unschedulable", all.unschedulable], ["Gated", all.gated],
      ...Object.entries(document.rejectedBy || {}).sort((a, b) => b[1] - a[1]).slice(0, 8).map(([plugin, count]) => [`by ${plugin}`, count])];
    counts.replaceChildren(...figures.map(([term, count]) => el("div", {}, el("dt", {}, term), el("dd", {}, whole(count)))));
    showChoosers();
    filter();
  }

  let offered = "";
  function showChoosers() {
    const tally = (of) => {
      const found = new Map();
      for (const row of rows) if (of(row)) found.set(of(row), (found.get(of(row)) || 0) + 1);
      return [...found].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, MAX_REASONS);
    };
    const options = (all, tallied, chosen) => {
      const known = tallied.map(([value, count]) => [value, `${whole(count)} × ${value.slice(0, 90)}`]);
      return [["", all], ...known, ...(chosen && !tallied.some(([value]) => value === chosen) ? [[chosen, `0 × ${chosen.slice(0, 90)}`]] : [])];
    };
    const namespaces = options("all namespaces", tally((row) => row.pod.split("/")[0]), wanted.namespace), reasons = options("all reasons", tally((row) => row.kind), wanted.reason);
    const now = JSON.stringify([namespaces, reasons]);
    if (now === offered || choosers.contains(document.activeElement)) return;
    offered = now;
    choosers.replaceChildren(
      el("label", { className: "field" }, el("span", {}, "Filter"), el("input", { type: "search", value: wanted.q, placeholder: "pod or reason", "data-filter": true, oninput: (event) => set("q", event.target.value) })),
      select("Namespace", namespaces, wanted.namespace, (value) => set("namespace", value)),
      select("State", [["", "all"], ...Object.entries(POOLS)], wanted.pool, (value) => set("pool", value)),
      select("Reason", reasons, wanted.reason, (value) => set("reason", value)));
  }

  function filter() {
    const text = wanted.q.toLowerCase();
    table.refresh(rows.filter((row) => (!wanted.namespace || row.pod.startsWith(`${wanted.namespace}/`)) && (!wanted.pool || row.pool === wanted.pool) &&
      (!wanted.reason || row.kind === wanted.reason) && (!text || `${row.pod} ${row.reason}`.toLowerCase().includes(text))), (row) => row.pod);
  }

  function set(name, value) {
    wanted[name] = value;
    remember(name, value);
    filter();
  }

  return { view: "queue", on: { queue: take }, elements: [wide(card("The queue", "Active pods in the order in which the scheduler takes them, then those that back off, and those that wait for a change in the cluster. Enter or a click shows why a pod waits.",
    summary, counts, choosers, table))] };
}
