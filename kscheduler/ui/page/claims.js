// The claims of a pod with their devices, and why the requests of a pending pod fail.

import { card, el, paragraph, plainTable, shortName, wide } from "./dom.js";
import { counted, whole } from "./format.js";

// Of a document as `kscheduler explain --output json` has it. when: the time of what it says about nodes, in words.
export function claimsCard({ claims: all, waitsFor, nodes, satisfied, findings, findingsLeftOut }, when, note = "") {
  const rows = all.map((each) => [shortName(each.name), shortName(each.claim || `from template ${each.template}`), each.state,
    each.devices.length ? each.devices.map(deviceOf) : "–"]);
  const why = findings.map((each) => [whole(each.nodes), shortName(each.claim || "all claims"), each.request || "–", each.message, examplesOf(each)]);
  return card("Claims for devices", note,
    rows.length ? plainTable("Claims", [["In the pod"], ["Claim"], ["State"], ["Devices", "message"]], rows) : null,
    waitsFor ? paragraph(`They wait: ${waitsFor}.`) : null,
    nodes ? paragraph(`${whole(satisfied)} of ${counted(nodes, "node")} looked at can satisfy them ${when}.`) : null,
    why.length ? plainTable("Why requests fail", [["Nodes", "number"], ["Claim"], ["Request"], ["Reason", "message"], ["Such as"]], why) : null,
    findingsLeftOut ? paragraph(`${whole(findingsLeftOut)} rarer reasons are not shown.`) : null);
}

function deviceOf({ request, driver, pool, device, shareID }) {
  const name = [driver, pool, device].filter(Boolean).join("/");
  return el("div", {}, el("bdi", {}, name), ` for request ${request}`, shareID ? `, share ${shareID}` : "");
}

const examplesOf = ({ examples, nodes }) => [examples.map((name, at) => [at ? ", " : "", shortName(name)]), examples.length && nodes > examples.length ? ", …" : ""];

// The card of a pod of a report; [] if it has no claims.
export function claimsOfPod(report, pod) {
  const found = report.claims?.pods.find((each) => each.pod === pod);
  return found ? [wide(claimsCard(found.claims, "at the end of the run", "As they were when the pod left, or at the end of the run."))] : [];
}
