// One pod: why it waits, or why it is where it is, with the scores by plugin and the second choice.

import { claimsCard } from "../claims.js";
import { decisionCards, OUTCOMES, rejectionsCard } from "../decision.js";
import { card, controls, el, facts, link, paragraph, plainTable, shortName, wide } from "../dom.js";
import { amount, whole } from "../format.js";
import { ask, Refusal } from "./connection.js";
import { standby } from "./overview.js";
import { address } from "../route.js";

const REFRESH_MS = 5000;

export class LivePod {
  constructor(settings, { state, refused }) {
    Object.assign(this, { state, refused, pod: settings.get("pod") || "", timer: null, before: "", hasEnded: false });
    this.status = el("p", { role: "status" }, this.pod ? "Asking the scheduler …" : "Type the name of a pod, or choose one in the queue.");
    this.answer = el("div", { className: "wide parts" });
    const search = el("input", { type: "search", value: this.pod, placeholder: "namespace/name", "data-filter": true,
      onchange: () => { location.hash = address("pod", { pod: search.value.trim() }); } });
    this.elements = [wide(card("Why is this pod pending?", "", controls(el("label", { className: "field grow" }, el("span", {}, "Pod"), search)), this.status)), this.answer];
    if (this.pod) this.load();
    else state("");
  }

  end() {
    this.hasEnded = true;
    clearTimeout(this.timer);
  }

  // Asks again as long as the answer may change.
  async load() {
    let again;
    try {
      const found = await ask("api/pod", { pod: this.pod });
      again = found.state !== "gone";
      if (!this.hasEnded) this.show(found);
    } catch (error) {
      const isRefusal = error instanceof Refusal;
      again = !isRefusal || error.status === 429 || error.status >= 500;
      if (this.hasEnded) return;
      if (isRefusal && error.status === 401) return this.refused(error);
      this.status.textContent = isRefusal ? error.message : "The scheduler does not answer.";
      this.state(again ? "Trying again" : "");
    }
    if (again && !this.hasEnded) this.timer = setTimeout(() => this.load(), REFRESH_MS);
  }

  show(found) {
    this.state("");
    this.status.textContent = `Pod ${this.pod} ${found.summary.replace(/\.+$/, "")}.`;
    const now = JSON.stringify({ ...found, record: null });
    if (now !== this.before) this.answer.replaceChildren(...explained(found, this.pod));
    this.before = now;
  }
}

function explained(found, pod) {
  const [latest, ...earlier] = found.decisions;
  const cards = [...standby(found.replica), card("The pod", "", facts(factsOf(found)))];
  if (latest) cards.push(...decisionCards(latest, { pod, when: clock }));
  if (found.gang) cards.push(...gangCards(found.gang, pod));
  if (found.claims) cards.push(wide(claimsCard(found.claims, "at this moment")));
  if (found.quota) cards.push(wide(quota(found.quota)));
  if (found.shareQueue) cards.push(wide(shares(found.shareQueue)));
  if (latest?.nominatedNode || latest?.postFilter) cards.push(preemption(latest));
  if (found.queue && found.nearest?.length && !latest?.node) cards.push(wide(nearest(found.nearest)));
  if (earlier.length) cards.push(wide(card("Earlier attempts", "", plainTable("Earlier attempts",
    [["Attempt", "number"], ["At"], ["Outcome"], ["Node"], ["Message", "message"]],
    earlier.map((each) => [whole(each.attempt), clock(each.time), OUTCOMES[each.outcome] || each.outcome, each.node || "–", each.message])))));
  return cards;
}

// How its gang stands, and what kept the pod from a node that stopped it. An older scheduler leaves that out.
function gangCards({ api, namespace, name, summary, minMembers, members, latestAttempt }, pod) {
  const counts = Object.entries(MEMBERS).filter(([field]) => members[field]).map(([field, word]) => `${whole(members[field])} ${word}`);
  const known = [["Gang", `${namespace}/${name} (${api})`], ["At least", minMembers === null ? "not known" : `${whole(minMembers)} together`],
    ["Pods", [whole(members.known), ...counts].join(", ")], ["Stands", summary]];
  const stopper = latestAttempt?.stoppedBy;
  if (!stopper) return [card("Its gang", "", facts(known))];
  const isOther = stopper.pod !== pod;
  known.push(["Stopped by", isOther ? link(address("pod", { pod: stopper.pod }), shortName(stopper.pod)) : "this pod"]);
  return [card("Its gang", "", facts(known)), ...(isOther ? [rejectionsCard("What rejected the nodes for the pod that stopped its gang", stopper)] : [])];
}

const MEMBERS = { gated: "gated", queued: "waiting", inFlight: "being decided", assumed: "being bound", bound: "bound", succeeded: "succeeded" };

// How the namespace stands with its quota at this moment, and which limits it would exceed with the pod.
const EXCEEDED = { max: "more than max", all: "more than all are guaranteed together" };

function quota({ name, resources }) {
  const rows = resources.map((each) => [each.resource, each.requested, each.used, each.min, each.max || "unlimited", each.usedByAll, each.minOfAll,
    each.beyond.map((limit) => EXCEEDED[limit]).join(" and ") || "–"]);
  const borrowed = resources.filter((each) => each.overMin.length).map((each) => paragraph(`Beyond their min, ${each.resource} is used by `,
    each.overMin.map(({ namespace, amount: used }, at) => [at ? ", " : "", shortName(namespace), ` (${used})`]),
    each.overMinLeftOut ? `, and ${whole(each.overMinLeftOut)} more.` : "."));
  return card("Quota of the namespace", name, plainTable("Quota",
    [["Resource"], ["Pod", "number"], ["Used", "number"], ["Min", "number"], ["Max", "number"], ["Used by all", "number"], ["Min of all", "number"], ["With the pod", "message"]],
    rows), ...borrowed);
}

// How the pod's queue with shares stands at this moment, and those above it. An older scheduler leaves some of it out.
function shares({ name, unusable, takePods = [], takePodsLeftOut = 0, isPreemptible, requestedForPods = 1, levels, ...taking }) {
  const asker = requestedForPods > 1 ? `${whole(requestedForPods)} pods` : "pod";
  const rows = levels.flatMap((level) => level.resources.map((each) => [shortName(level.name), each.resource, each.requested, each.used, each.asked,
    each.deserved, each.fairShare, each.limit, each.beyond.length ? `beyond its ${each.beyond.map((bound) => BOUNDS[bound]).join(" and ")}` : "–"]));
  return card("Shares of its queue", name, paragraph(`The pod is ${isPreemptible ? "" : "not "}preemptible.`),
    unusable ? paragraph(`No pod can be placed: ${unusable}.`) : null,
    takePods.length ? paragraph("Queues below it that take pods: ", namesOf(takePods, takePodsLeftOut), ".") : null,
    rows.length ? plainTable("Shares", [["Queue"], ["Resource"], [requestedForPods > 1 ? asker : "Pod", "number"], ["Used", "number"],
      ["Asked for", "number"], ["Deserved", "number"], ["Fair share", "number"], ["Limit", "number"], [`With the ${asker}`, "message"]], rows) : null,
    unusable ? null : paragraph(...roomOfOthers(taking)));
}

const BOUNDS = { limit: "limit", deserved: "deserved amount", "fair share": "fair share" };

const namesOf = (names, leftOut) => [names.map((name, at) => [at ? ", " : "", shortName(name)]), leftOut ? ` and ${whole(leftOut)} more` : ""];

// Whether the pod, or its gang, takes room of other queues, and of which.
function roomOfOthers({ mayReclaim, preemptsNever, reclaimsForPods, mayReclaimFrom, mayReclaimFromLeftOut }) {
  const all = reclaimsForPods > 1 ? `all ${reclaimsForPods} pods that its gang needs` : "the pod";
  if (preemptsNever) return ["It takes no room of others: its preemptionPolicy is Never."];
  if (!mayReclaim) return [`With ${all}, the queue may not take room of other queues.`];
  const within = `With ${all}, the queue stays within its fair share`;
  if (!mayReclaimFrom) return [`${within}: it may take room of queues beyond theirs.`];
  if (!mayReclaimFrom.length) return [`${within}, but there is no queue that must give it room.`];
  return [`${within}: it may take room of `, namesOf(mayReclaimFrom, mayReclaimFromLeftOut), "."];
}

const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

function factsOf({ state, pod, waitsForPermitOf, queue, condition }) {
  const known = [["State", state], ["Priority", whole(pod.priority)], ["Scheduler", pod.schedulerName || "–"]];
  if (pod.nodeName) known.push(["Node", pod.nodeName]);
  if (pod.nominatedNodeName) known.push(["Nominated node", pod.nominatedNodeName]);
  if (!queue && condition?.message) known.push(["Condition PodScheduled", condition.message]);
  if (waitsForPermitOf.length) known.push(["Waits for a permit of", waitsForPermitOf.join(", ")]);
  return queue ? [...known, ...factsOfQueue(queue)] : known;
}

function factsOfQueue(queue) {
  const known = [["In the queue", `${queue.pool}, since ${clock(queue.since)}`], ["Attempts", whole(queue.attempts)]];
  if (queue.backoffUntil) known.push(["Backs off until", clock(queue.backoffUntil)]);
  if (queue.gatedBy) known.push(["Held back by", queue.gatedBy]);
  else if (queue.rejectingPlugins.length) known.push(["Rejected by", queue.rejectingPlugins.join(", ")]);
  if (queue.triedAgainBy) known.push(["Tried again by", clock(queue.triedAgainBy)]);
  const event = ({ resource, actions }) => `${resource === "*" ? "anything" : resource} (${actions.join(", ")})`;
  if (queue.wokenBy.length) known.push(["Woken by", queue.wokenBy.map(event).join("; ")]);
  return known;
}

function preemption({ nominatedNode, postFilter }) {
  return card("Would preemption help?", "", nominatedNode ? paragraph("It makes room on ", el("bdi", {}, nominatedNode), ".") : null,
    postFilter ? paragraph(postFilter) : null);
}

function nearest(nodes) {
  const rows = nodes.map((each) => [link(address("nodes", { node: each.node }), shortName(each.node)), lacking(each.lacks)]);
  return card("Nearest nodes", "By free resources at this moment, whatever else a filter asks for.", plainTable("Nearest nodes", [["Node"], ["Would fit with"]], rows));
}

function lacking(lacks) {
  const part = ([name, value]) => (name === "pods" ? "room for one more pod" : `${amountOf(name, value)} more ${name} free`);
  return Object.entries(lacks).map(part).join(", ") || "nothing more: it has room, and other filters reject it";
}

// An amount in the units of the scheduler: milli-cores and bytes.
export function amountOf(resource, value) {
  if (resource === "cpu") return amount(value / 1000, "cores");
  if (resource === "memory" || resource === "ephemeral-storage") return amount(value, "bytes");
  return amount(value, resource === "pods" ? "pods" : "units");
}
