// Starts the page of a running scheduler: asks for a token, watches the view of the address, and shows the connection.

import { removeCharts } from "../chart.js";
import { card, el, wide } from "../dom.js";
import { hasToken, useToken, watch } from "./connection.js";
import { LiveDecisions } from "./decisions.js";
import { LiveNodes } from "./nodes.js";
import { LiveOverview } from "./overview.js";
import { LivePod } from "./pod.js";
import { LiveQueue } from "./queue.js";
import { route } from "../route.js";
import { beginShell, currentView } from "../shell.js";

const VIEWS = [
  ["overview", "Overview", LiveOverview],
  ["queue", "Queue", LiveQueue],
  ["pod", "Why pending", LivePod],
  ["decisions", "Decisions", LiveDecisions],
  ["nodes", "Nodes", LiveNodes],
];
const HIDDEN_MS = 60_000;
const main = document.querySelector("main");
const connection = el("span", { role: "status" });
const forget = el("button", { type: "button", className: "link", hidden: true, onclick: () => { useToken(""); show(); } }, "Forget the token");
const bar = el("p", { className: "connection" }, connection, forget);
let end = () => {};

function show() {
  leave();
  const [name, , View] = currentView();
  main.dataset.view = name;
  forget.hidden = !hasToken();
  if (!hasToken()) return askForToken("");
  const view = new View(route().settings, { state, refused });
  main.replaceChildren(...view.elements);
  end = view.watches ? watch(view.watches, { on: (event, document) => pass(view, event, document), state, refused }) : () => view.end();
}

function pass(view, event, document) {
  try {
    view.on[event]?.(document);
  } catch (error) {
    leave();
    say(String(error));
    console.error(error);
  }
}

function leave() {
  end();
  end = () => {};
  removeCharts();
}

function refused(refusal) {
  if (refusal.status === 401) askForToken(refusal.message);
  else say(refusal.message);
}

function state(words) {
  connection.textContent = words || "Live";
  bar.classList.toggle("live", !words);
}

function say(words) {
  state("Not connected");
  main.replaceChildren(wide(card("This cannot be shown", "", el("p", { role: "alert" }, words))));
}

function askForToken(words) {
  leave();
  useToken("");
  forget.hidden = true;
  state("Not connected");
  const input = el("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, "data-filter": true });
  const form = el("form", { className: "controls", onsubmit: (event) => { event.preventDefault(); useToken(input.value); show(); } },
    el("label", { className: "field grow" }, el("span", {}, "Token"), input), el("button", { className: "button" }, "Connect"));
  main.replaceChildren(wide(card("A token is needed", "The apiserver is asked whose it is, and what its user may see. It is kept in this tab only, until you close it.",
    words ? el("p", { role: "alert", className: "verdict warn" }, words) : null, form,
    el("p", { className: "fine" }, "One that lasts an hour: ", el("code", {}, "kubectl create token ACCOUNT --namespace NAMESPACE")))));
  input.focus();
}

// A tab that nobody sees costs the scheduler nothing after a while.
let hiding = null, isPaused = false;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(pause, HIDDEN_MS);
  else if (isPaused) { isPaused = false; show(); }
});

function pause() {
  leave();
  isPaused = true;
  state("Paused while this tab is hidden");
}

document.getElementById("headline").textContent = "The running scheduler";
document.getElementById("lead").replaceWith(bar);
beginShell(() => VIEWS, show);
