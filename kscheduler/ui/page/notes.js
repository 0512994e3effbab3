// How the run was made, and what it does not model.

import { card, el, plainTable, wide } from "./dom.js";
import { compactNumber, whole } from "./format.js";

const MODEL = [
  "Time is virtual. Requests to the apiserver take the latency given; the scheduler's own decisions take none.",
  "Utilisation counts requests of pods that are bound and not finished, as the scheduler does.",
];
const USE_UNKNOWN = "What processes really use is not known: pods are taken to use what they request.";
const USE_KNOWN = "What pods really use is what their annotations declare; pods that declare nothing use what they request. A load above " +
  "100 % is what a node's pods want and do not get; how they suffer is not modelled. Metrics of nodes come from these loads, sampled " +
  "and averaged as metrics-server does.";

export function notesView(report) {
  const figures = Object.entries(report.parameters);
  figures.push(["placed per virtual second", compactNumber(report.placed_per_virtual_s)]);
  const listed = (counts) => Object.entries(counts).map(([name, count]) => `${whole(count)} ${name}`).join(", ");
  if (Object.keys(report.attempts).length) figures.push(["scheduling attempts", listed(report.attempts)]);
  if (Object.keys(report.events || {}).length) figures.push(["Events", listed(report.events)]);
  const machine = report.machine;
  if (machine) {
    const time = `${machine.wall_s.toFixed(2)} s wall, ${machine.cpu_s.toFixed(2)} s CPU, ${whole(machine.cpu_us_per_placed_pod)} µs of CPU a placed pod`;
    figures.push(["on this machine", `${time}, ${whole(machine.peak_memory_mib)} MiB at most, Python ${machine.python}`]);
  }
  figures.push(["kscheduler", report.version]);
  const reasons = report.reasons.map((each) => [whole(each.pods), whole(each.still_waiting), each.kind, each.examples.join(", ")]);
  const modelled = [...report.notes, ...MODEL, report.real_load ? USE_KNOWN : USE_UNKNOWN];
  const columns = [["Pods", "number"], ["Still waiting", "number"], ["Reason", "message"], ["For example", "message"]];
  return [
    wide(card("This run", "", plainTable("Parameters", [["Parameter"], ["Value", "message"]], figures))),
    wide(card("What is and is not modelled", "", el("ul", { className: "notes" }, modelled.map((note) => el("li", {}, note))))),
    wide(card("Reasons", reasons.length ? "Of all pods that got no node." : "Every pod got a node.",
      reasons.length ? plainTable("Reasons", columns, reasons) : null)),
  ];
}
