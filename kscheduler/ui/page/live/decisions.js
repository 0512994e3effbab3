// The latest decision about each of the pods decided last.

import { OUTCOMES } from "../decision.js";
import { card, el, select, wide } from "../dom.js";
import { whole } from "../format.js";
import { sinceOf } from "./queue.js";
import { address, remember } from "../route.js";
import { virtualTable } from "../table.js";

export function liveDecisions(settings) {
  let rows = [];
  const wanted = { q: settings.get("q") || "", outcome: settings.get("outcome") || "" };
  const table = virtualTable({
    label: "Latest decisions", rows: [], empty: "No decision yet, or none that you may see.",
    open: (row) => { location.hash = address("pod", { pod: row.pod }); },
    columns: [
      { title: "Ago", width: "5rem", className: "number", text: (row) => sinceOf(row.at) },
      { title: "Pod", width: "minmax(10rem, 2fr)", main: true, text: (row) => row.pod },
      { title: "Outcome", width: "6.5rem", text: (row) => OUTCOMES[row.outcome] || row.outcome },
      { title: "Node", width: "minmax(8rem, 1fr)", text: (row) => row.node || "–" },
      { title: "Nodes that fit", width: "8rem", className: "number", wide: true, text: (row) => `${whole(row.feasible)} of ${whole(row.nodes)}` },
      { title: "Attempt", width: "4.5rem", className: "number", text: (row) => whole(row.attempt) },
      { title: "Message", width: "minmax(12rem, 4fr)", long: true, text: (row) => row.message },
    ],
  });
  const filter = () => {
    const text = wanted.q.toLowerCase();
    table.refresh(rows.filter((row) => (!wanted.outcome || row.outcome === wanted.outcome) && (!text || `${row.pod} ${row.node} ${row.message}`.toLowerCase().includes(text))), (row) => row.pod);
  };
  const set = (name, value) => { wanted[name] = value; remember(name, value); filter(); };
  const take = (document) => { rows = document.rows; filter(); };
  return { view: "decisions", on: { decisions: take }, elements: [wide(card("Latest decisions", "The newest first. Enter or a click shows the scores by plugin, or what rejected the nodes.",
    el("div", { className: "controls" },
      el("label", { className: "field" }, el("span", {}, "Filter"), el("input", { type: "search", value: wanted.q, placeholder: "pod, node or message", "data-filter": true, oninput: (event) => set("q", event.target.value) })),
      select("Outcome", [["", "all"], ...Object.entries(OUTCOMES)], wanted.outcome, (value) => set("outcome", value))),
    table))] };
}
