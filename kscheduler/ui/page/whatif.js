// The answer of `kscheduler whatif`: what is changed, what becomes of the pods, and how long they wait then.

import { shellCommand } from "./command.js";
import { bothOverTime } from "./compare.js";
import { card, el, paragraph, plainTable, tile, tileList, wide } from "./dom.js";
import { counted, percent, seconds, whole } from "./format.js";
import { differences } from "./reasons.js";
import { address } from "./route.js";
import { virtualTable } from "./table.js";
import { trialCards } from "./trials.js";

const SIDES = ["As it is", "Changed"];
const WHERE = { "": "all", won: "scheduled now", lost: "no longer scheduled", moved: "on another node" };

export function whatIfView(answer, settings) {
  const { comparison, needed } = answer, { a: { report: before }, b: { report: after } } = comparison;
  return [
    wide(changes(answer)),
    tileList("What becomes of the pods", becomes(answer, before, after)),
    ...(needed ? trialCards(needed) : []),
    card("Waiting times", "Of all pods, from creation to binding: that share of them waited no longer.", waits(answer.waiting)),
    card("Utilisation", "Requested by the pods on nodes, as a share of what all nodes offer.", utilisation(before, after)),
    ...otherwise(answer),
    wide(stillPending(answer.pending)),
    wide(differences(comparison, settings, SIDES, WHERE)),
    ...bothOverTime(before, after, ["as it is", "changed"]),
    wide(card("Ask again", "The command that gave this answer; paths in it are seen from where it was typed.", shellCommand("Command", answer.command))),
  ];
}

function changes({ changes: all, needed }) {
  const found = !needed ? null : el("p", { className: "verdict good" }, `${counted(needed.nodes, "more node")} (`, el("bdi", {}, needed.shape),
    `) ${needed.nodes === 1 ? "is" : "are"} needed for `, el("bdi", {}, needed.objectives.map(({ text }) => text).join(" and ")));
  return card("What if", "The same pods arrive at the same times. A is the scenario as it is, B the changed one.", found,
    el("ul", { className: "notes" }, all.map((each) => el("li", {}, el("bdi", {}, each)))));
}

function becomes({ comparison: { pods }, by_chance: chance, on_added_nodes: added, waiting }, before, after) {
  const p99 = waiting.find(({ share }) => share === "p99");
  const found = [
    tile("Scheduled now", whole(pods.only_placed_in_b), "that had no node"),
    tile("No longer scheduled", whole(pods.only_placed_in_a), "that had a node", pods.only_placed_in_a > 0),
    tile("Stay pending", whole(pods.placed_in_neither), "without a node in both"),
    tile("On another node", whole(pods.moved), chance ? `${whole(chance.moved)} if only the seed changes` : `${whole(pods.same_node)} on the same one`),
  ];
  if (added) found.push(tile("On added nodes", whole(added), `of ${whole(after.pods.placed)} that are placed`));
  if (p99) found.push(tile("Pending, p99", wait(p99.after_s), `${wait(p99.before_s)} as it is`));
  const [cpu] = pairedResources(before, after);
  if (cpu) found.push(tile(`${cpu[0].name} requested`, percent(cpu[1].average), `on average; ${percent(cpu[0].average)} as it is`));
  found.push(tile("Preempted", whole(preempted(after)), `${whole(preempted(before))} as it is`, preempted(after) > preempted(before)));
  return found;
}

const wait = (value) => (value === null ? "for ever" : seconds(value));
const preempted = (report) => report.preempted?.length ?? report.events?.Preempted ?? 0;

function pairedResources(before, after) {
  return before.resources.filter(({ name }) => name !== "pods")
    .map((each) => [each, after.resources.find(({ name }) => name === each.name)]).filter(([, other]) => other);
}

function waits(waiting) {
  return plainTable("Waiting times", [["Share"], ...SIDES.map((side) => [side, "number"])],
    waiting.map(({ share, before_s: before, after_s: after }) => [share === "max" ? "all" : share, wait(before), wait(after)]));
}

function utilisation(before, after) {
  const rows = pairedResources(before, after).flatMap(([one, other]) => [
    [`${one.name}, average`, percent(one.average), percent(other.average)], [`${one.name}, peak`, percent(one.peak), percent(other.peak)]]);
  return plainTable("Utilisation", [["Resource"], ...SIDES.map((side) => [side, "number"])], rows);
}

// --- pods ---

function otherwise({ scheduled, no_longer_scheduled: lost, comparison: { pods } }) {
  const lists = [
    ["Pods that are scheduled now", "Their row opens why they were pending.", scheduled, pods.only_placed_in_b, "0"],
    ["Pods that no longer are", "Their row opens why they are pending.", lost, pods.only_placed_in_a, "1"],
  ].filter(([, , names]) => names.length).map(([title, hint, names, total, report]) => card(title, hint, virtualTable({
    label: title, rows: names, height: 240, columns: [{ title: "Pod", width: "minmax(9rem, 1fr)", text: (name) => name }],
    open: (pod) => { location.hash = address("why", { pod, report }); },
  }), total > names.length ? el("p", { className: "fine" }, `and ${whole(total - names.length)} more; --limit lists more of them`) : null));
  return lists.length === 1 ? lists.map(wide) : lists;
}

function stillPending(reasons) {
  if (!reasons.length) return card("Still without a node", "", paragraph("None: in the changed scenario every pod gets a node."));
  const columns = [["Pods", "number"], ["Reason", "message"], ["For example", "message"]];
  return card("Still without a node", "In the changed scenario, by reason.",
    plainTable("Pods without a node, by reason", columns, reasons.map((each) => [whole(each.pods), each.kind, each.examples.join(", ")])));
}
