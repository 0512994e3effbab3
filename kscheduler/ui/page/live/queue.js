// The queue in its order: the first pods of each part of it.

import { card, controls, el, searchField, select, wide } from "../dom.js";
import { counted, seconds, whole } from "../format.js";
import { kindOf } from "../report.js";
import { address, remember } from "../route.js";
import { virtualTable } from "../table.js";

const MAX_REASONS = 50, MAX_PLUGINS = 8;
const POOLS = { active: "next in line", backoff: "backing off", "error-backoff": "backing off after a fault", unschedulable: "unschedulable", gated: "gated" };

const agoOf = (at) => Math.round(Date.now() / 1000 - at);
export const sinceOf = (at) => seconds(Math.max(0, agoOf(at)));
const untilOf = (at) => (at === null ? "–" : agoOf(at) >= 0 ? "now" : `in ${seconds(-agoOf(at))}`);

const COLUMNS = [
  { title: "#", width: "3.5rem", className: "number", text: (row) => (row.position === null ? "–" : String(row.position)) },
  { title: "Pod", width: "minmax(10rem, 2fr)", main: true, text: (row) => row.pod },
  { title: "State", width: "8rem", text: (row) => POOLS[row.pool] || row.pool },
  { title: "Priority", width: "5.5rem", className: "number", wide: true, text: (row) => whole(row.priority) },
  { title: "Attempts", width: "4.5rem", className: "number", wide: true, text: (row) => whole(row.attempts) },
  { title: "Waits", width: "5.5rem", className: "number", text: (row) => sinceOf(row.since) },
  { title: "Retry", width: "6rem", className: "number", text: (row) => untilOf(row.retryAt) },
  { title: "Reason", width: "minmax(14rem, 5fr)", long: true, text: (row) => row.kind },
];

export class LiveQueue {
  constructor(settings) {
    this.rows = [];
    this.wanted = Object.fromEntries(["q", "namespace", "pool", "reason"].map((name) => [name, settings.get(name) || ""]));
    this.summary = el("p", { className: "fine", role: "status" }, "Waiting for the first figures …");
    this.counts = el("dl", { className: "facts row" });
    this.choosers = controls();
    this.offered = "";
    this.table = virtualTable({ label: "Pods in the queue", rows: [], empty: "", columns: COLUMNS,
      open: (row) => { location.hash = address("pod", { pod: row.pod }); } });
    this.elements = [wide(card("The queue", "Active pods in the order in which the scheduler takes them, then those that back off, and those " +
      "that wait for a change in the cluster. Enter or a click shows why a pod waits.", this.summary, this.counts, this.choosers, this.table))];
    this.on = { queue: (document) => this.take(document) };
    this.watches = "queue";
  }

  take(document) {
    this.rows = document.rows.map((row) => ({ ...row, kind: reasonOf(row) }));
    this.summary.textContent = summaryOf(document);
    this.counts.replaceChildren(...figuresOf(document).map(([term, count]) => el("div", {}, el("dt", {}, term), el("dd", {}, whole(count)))));
    this.offer();
    this.filter();
  }

  // The choices follow the rows, but not while somebody uses them.
  offer() {
    const namespaces = choices(this.rows, namespaceOf, "all namespaces", this.wanted.namespace);
    const reasons = choices(this.rows, (row) => row.kind, "all reasons", this.wanted.reason);
    const offered = JSON.stringify([namespaces, reasons]);
    if (offered === this.offered || this.choosers.contains(document.activeElement)) return;
    this.offered = offered;
    const set = (name) => (value) => this.set(name, value);
    this.choosers.replaceChildren(searchField("pod or reason", this.wanted.q, set("q")),
      select("Namespace", namespaces, this.wanted.namespace, set("namespace")),
      select("State", [["", "all"], ...Object.entries(POOLS)], this.wanted.pool, set("pool")),
      select("Reason", reasons, this.wanted.reason, set("reason")));
  }

  set(name, value) {
    this.wanted[name] = value;
    remember(name, value);
    this.filter();
  }

  filter() {
    const { q, namespace, pool, reason } = this.wanted, text = q.toLowerCase();
    this.table.refresh(this.rows.filter((row) => (!namespace || namespaceOf(row) === namespace) && (!pool || row.pool === pool) &&
      (!reason || row.kind === reason) && (!text || `${row.pod} ${row.reason}`.toLowerCase().includes(text))), (row) => row.pod);
  }
}

const namespaceOf = (row) => row.pod.split("/")[0];

function reasonOf({ reason, plugins }) {
  if (reason) return kindOf(reason);
  return plugins.length ? `held back by ${plugins.join(", ")}` : "";
}

function summaryOf({ counts, rows, all }) {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  if (!total) return "No pod waits.";
  if (total === 1 && rows.length) return "1 pod waits, and is shown.";
  if (rows.length === total) return `${whole(total)} pods wait. All of them are shown.`;
  const waiting = `${counted(total, "pod")} wait${total === 1 ? "s" : ""}.`, others = "look up others by name at “Why pending”.";
  if (!rows.length) return all ? waiting : `${waiting} None of those listed here is in a namespace whose pods you may list; ${others}`;
  const whose = all ? "" : ", of namespaces whose pods you may list";
  return `${waiting} The first ${whole(rows.length)} are shown${whose}; ${others}`;
}

function figuresOf({ counts, rejectedBy }) {
  const plugins = Object.entries(rejectedBy || {}).sort((a, b) => b[1] - a[1]).slice(0, MAX_PLUGINS);
  return [["Active", counts.active], ["Backing off", counts.backoff], ["Unschedulable", counts.unschedulable], ["Gated", counts.gated],
    ...plugins.map(([plugin, count]) => [`by ${plugin}`, count])];
}

// The most frequent values of the rows, and the chosen one even if no row has it any more.
function choices(rows, of, all, chosen) {
  const counts = new Map();
  for (const row of rows) if (of(row)) counts.set(of(row), (counts.get(of(row)) || 0) + 1);
  const frequent = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, MAX_REASONS);
  if (chosen && !frequent.some(([value]) => value === chosen)) frequent.push([chosen, counts.get(chosen) || 0]);
  return [["", all], ...frequent.map(([value, count]) => [value, `${whole(count)} × ${value.slice(0, 90)}`])];
}
