// One pod: why it waits, or why it is where it is, with the scores by plugin and the second choice.

import { decisionCards, OUTCOMES } from "../decision.js";
import { card, el, facts, plainTable, wide } from "../dom.js";
import { amount, whole } from "../format.js";
import { ask, Refusal } from "./connection.js";
import { address } from "../route.js";

const REFRESH_MS = 5000;

export function livePod(settings, { state, refused }) {
  const pod = settings.get("pod") || "", status = el("p", { role: "status" }, pod ? "Asking the scheduler …" : "Type the name of a pod as namespace/name, or choose one in the queue.");
  const search = el("input", { type: "search", value: pod, placeholder: "namespace/name", "data-filter": true,
    onchange: (event) => { location.hash = address("pod", { pod: event.target.value.trim() }); } });
  const chooser = wide(card("Why is this pod pending?", "", el("div", { className: "controls" }, el("label", { className: "field grow" }, el("span", {}, "Pod"), search)), status));
  const answer = el("div", { className: "wide parts" });
  let ended = false, timer = null, before = "";

  async function load() {
    let again = true;
    try {
      const found = await ask("api/pod", { pod });
      if (ended) return;
      state("");
      status.textContent = `Pod ${pod} ${found.summary}.`.replace(/\.+$/, ".");
      const now = JSON.stringify({ ...found, record: null });
      if (now !== before) answer.replaceChildren(...explained(found));
      before = now;
      again = found.state !== "gone";
    } catch (error) {
      if (ended) return;
      if (error instanceof Refusal && error.status === 401) return refused(error);
      status.textContent = error instanceof Refusal ? error.message : "The scheduler does not answer.";
      state(error instanceof Refusal && error.status < 500 ? "" : "Trying again");
      again = !(error instanceof Refusal) || error.status === 429 || error.status >= 500;
    }
    if (again) timer = setTimeout(load, REFRESH_MS);
  }

  if (pod) load();
  else state("");
  return { elements: [chooser, answer], end: () => { ended = true; clearTimeout(timer); } };
}

function explained(found) {
  const { queue, replica } = found, [latest, ...earlier] = found.decisions;
  const cards = [];
  if (!replica.leads) cards.push(el("p", { className: "verdict warn" }, replica.leader ? `This replica stands by and decides nothing: ${replica.leader} leads.` : "This replica stands by; nobody leads at the moment."));
  const known = [["State", found.state], ["Priority", whole(found.pod.priority)], ["Scheduler", found.pod.schedulerName || "–"]];
  if (found.pod.nodeName) known.push(["Node", found.pod.nodeName]);
  if (found.pod.nominatedNodeName) known.push(["Nominated node", found.pod.nominatedNodeName]);
  if (found.waitsForPermitOf.length) known.push(["Waits for a permit of", found.waitsForPermitOf.join(", ")]);
  if (queue) {
    known.push(["In the queue", `${queue.pool}, since ${clock(queue.since)}`], ["Attempts", whole(queue.attempts)]);
    if (queue.backoffUntil) known.push(["Backs off until", clock(queue.backoffUntil)]);
    if (queue.gatedBy) known.push(["Held back by", queue.gatedBy]);
    else if (queue.rejectingPlugins.length) known.push(["Rejected by", queue.rejectingPlugins.join(", ")]);
    if (queue.triedAgainBy) known.push(["Tried again by", clock(queue.triedAgainBy)]);
    if (queue.wokenBy.length) known.push(["Woken by", queue.wokenBy.map((each) => `${each.resource === "*" ? "anything" : each.resource} (${each.actions.join(", ")})`).join("; ")]);
  }
  cards.push(card("The pod", "", facts(known)));
  if (latest) cards.push(...decisionCards(latest, { pod: `${found.pod.namespace}/${found.pod.name}`, when: clock }));
  if (latest?.nominatedNode || latest?.postFilter) cards.push(card("Would preemption help?", "", latest.nominatedNode ? el("p", {}, "It makes room on ", el("bdi", {}, latest.nominatedNode), ".") : null, latest.postFilter ? el("p", {}, latest.postFilter) : null));
  if (queue && found.nearest?.length && !latest?.node) cards.push(wide(card("Nearest nodes", "By free resources at this moment, whatever else a filter asks for.", plainTable("Nearest nodes", [["Node"], ["Would fit with"]],
    found.nearest.map((each) => [el("a", { href: address("nodes", { node: each.node }) }, el("bdi", {}, each.node)), lacking(each.lacks)])))));
  if (earlier.length) cards.push(wide(card("Earlier attempts", "", plainTable("Earlier attempts", [["Attempt", "number"], ["At"], ["Outcome"], ["Node"], ["Message", "message"]],
    earlier.map((each) => [whole(each.attempt), clock(each.time), OUTCOMES[each.outcome] || each.outcome, each.node || "–", each.message])))));
  return cards;
}

const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

export const amountOf = (resource, value) => (resource === "cpu" ? amount(value / 1000, "cores") : resource === "memory" || resource === "ephemeral-storage" ? amount(value, "bytes") : amount(value, resource === "pods" ? "pods" : "units"));

function lacking(lacks) {
  const parts = Object.entries(lacks).map(([name, value]) => (name === "pods" ? "room for one more pod" : `${amountOf(name, value)} more ${name} free`));
  return parts.join(", ") || "nothing more: it has room, and other filters reject it";
}
