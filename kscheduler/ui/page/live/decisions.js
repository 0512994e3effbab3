// The latest decision about each of the pods decided last.

import { OUTCOMES } from "../decision.js";
import { card, controls, searchField, select, wide } from "../dom.js";
import { whole } from "../format.js";
import { sinceOf } from "./queue.js";
import { address, remember } from "../route.js";
import { virtualTable } from "../table.js";

const COLUMNS = [
  { title: "Ago", width: "5rem", className: "number", text: (row) => sinceOf(row.at) },
  { title: "Pod", width: "minmax(10rem, 2fr)", main: true, text: (row) => row.pod },
  { title: "Outcome", width: "6.5rem", text: (row) => OUTCOMES[row.outcome] || row.outcome },
  { title: "Node", width: "minmax(8rem, 1fr)", text: (row) => row.node || "–" },
  { title: "Nodes that fit", width: "8rem", className: "number", wide: true, text: (row) => `${whole(row.feasible)} of ${whole(row.nodes)}` },
  { title: "Attempt", width: "4.5rem", className: "number", text: (row) => whole(row.attempt) },
  { title: "Message", width: "minmax(12rem, 4fr)", long: true, text: (row) => row.message },
];

export class LiveDecisions {
  constructor(settings) {
    this.rows = [];
    this.wanted = { q: settings.get("q") || "", outcome: settings.get("outcome") || "" };
    this.table = virtualTable({ label: "Latest decisions", rows: [], empty: "No decision yet, or none that you may see.", columns: COLUMNS,
      open: (row) => { location.hash = address("pod", { pod: row.pod }); } });
    const set = (name) => (value) => { this.wanted[name] = value; remember(name, value); this.filter(); };
    this.elements = [wide(card("Latest decisions", "The newest first. Enter or a click shows the scores by plugin, or what rejected the nodes.",
      controls(searchField("pod, node or message", this.wanted.q, set("q")),
        select("Outcome", [["", "all"], ...Object.entries(OUTCOMES)], this.wanted.outcome, set("outcome"))), this.table))];
    this.on = { decisions: (document) => { this.rows = document.rows; this.filter(); } };
    this.watches = "decisions";
  }

  filter() {
    const { q, outcome } = this.wanted, text = q.toLowerCase();
    this.table.refresh(this.rows.filter((row) => (!outcome || row.outcome === outcome) &&
      (!text || `${row.pod} ${row.node} ${row.message}`.toLowerCase().includes(text))), (row) => row.pod);
  }
}
