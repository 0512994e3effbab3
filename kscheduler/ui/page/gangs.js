// The gangs of a report: their pods on nodes over virtual time, and how each of them went.

import { chart } from "./chart.js";
import { card, el, paragraph, plainTable, shortName } from "./dom.js";
import { counted, seconds, whole } from "./format.js";

const LISTED_GANGS = 200; // rows of the table
const GANG_OUTCOMES = {
  ran: (run) => `ran ${seconds(run.ran_s - run.arrived_s)} after its first pod`,
  holding: (run) => `holds nodes for ${whole(run.placed)} of the ${counted(run.minimum, "pod")} that it needs`,
  waiting: () => "waits, and holds nothing",
  incomplete: (run) => `has ${counted(run.pods, "pod")} of the ${whole(run.minimum)} that it needs`,
};

export function gangsCard({ gangs, simulated_s: total }) {
  const drawn = gangs.gangs.filter((run) => run.time_s.length), rows = gangs.gangs.slice(0, LISTED_GANGS);
  const number = "number", left = gangs.total - rows.length;
  const table = plainTable("How each gang went", [["Gang"], ["Minimum", number], ["Pods", number], ["On nodes at the end", number], ["Outcome", "message"], ["Idle on nodes", number]],
    rows.map((run) => [shortName(run.gang), whole(run.minimum), whole(run.pods), whole(run.placed), GANG_OUTCOMES[run.state](run), seconds(run.idle_pod_s)]));
  return card("Gangs", "A gang runs once its minimum of pods has nodes; until then its pods stand idle on theirs. Idle: summed over its pods.",
    el("div", { className: gangs.ran < gangs.total ? "verdict warn" : "verdict good" }, outcomes(gangs)),
    drawn.length ? el("h3", {}, drawn.length < gangs.total ? `Pods on nodes, of the first ${whole(drawn.length)} gangs` : "Pods on nodes") : null,
    drawn.length ? linesOf(drawn, total) : null,
    table, left ? paragraph(`${whole(left)} more gangs are not listed.`) : null);
}

function outcomes({ total, ran, holding, waiting, incomplete, idle_pod_s: idle }) {
  const parts = [`${whole(ran)} of ${counted(total, "gang")} ran`];
  if (holding) parts.push(`${counted(holding, "gang")} hold${holding === 1 ? "s" : ""} nodes for fewer pods than needed, and cannot run`);
  if (waiting) parts.push(`${counted(waiting, "gang")} wait${waiting === 1 ? "s" : ""} and hold${waiting === 1 ? "s" : ""} nothing`);
  if (incomplete) parts.push(`${counted(incomplete, "gang")} lack${incomplete === 1 ? "s" : ""} pods`);
  return `${parts.join("; ")}. ${idle ? `Pods stood idle on nodes for ${seconds(idle)} in all.` : "No pod stood idle on a node."}`;
}

// One line a gang. Each count holds until the gang's next one, and before its first it is 0.
function linesOf(drawn, total) {
  const times = [...new Set([0, ...drawn.flatMap((run) => run.time_s), total])].sort((a, b) => a - b);
  const series = drawn.map((run) => {
    let at = -1;
    return { label: run.gang, values: times.map((time) => {
      while (at + 1 < run.time_s.length && run.time_s[at + 1] <= time) at++;
      return at < 0 ? 0 : run.on_nodes[at];
    }) };
  });
  const words = drawn.map((run) => `${run.gang} ${whole(Math.max(...run.on_nodes))} at most, needs ${whole(run.minimum)}`).join("; ");
  return chart(times, series, { whole: true, total, label: `Line chart of each gang's pods on nodes over virtual time: ${words}.` });
}
