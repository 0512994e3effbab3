// Starts the page of a running scheduler: asks for a token, watches the view of the address, and shows the connection.

import { removeCharts } from "../chart.js";
import { card, el, wide } from "../dom.js";
import { hasToken, useToken, watch } from "./connection.js";
import { liveDecisions } from "./decisions.js";
import { liveNodes } from "./nodes.js";
import { liveOverview } from "./overview.js";
import { livePod } from "./pod.js";
import { liveQueue } from "./queue.js";
import { route } from "../route.js";
import { beginShell, currentView } from "../shell.js";

const VIEWS = [
  ["overview", "Overview", liveOverview],
  ["queue", "Queue", liveQueue],
  ["pod", "Why pending", livePod],
  ["decisions", "Decisions", liveDecisions],
  ["nodes", "Nodes", liveNodes],
];
const main = document.querySelector("main");
const connection = el("span", { role: "status" });
const forget = el("button", { type: "button", className: "link", hidden: true, onclick: () => { useToken(""); show(); } }, "Forget the token");
const bar = el("p", { className: "connection" }, connection, forget);
let end = () => {};

function show() {
  end();
  end = () => {};
  removeCharts();
  const [name, , make] = currentView();
  main.dataset.view = name;
  forget.hidden = !hasToken();
  if (!hasToken()) return askForToken("");
  const refused = (refusal) => (refusal.status === 401 ? askForToken(refusal.message) : say(refusal.message));
  const view = make(route().settings, { state, refused });
  main.replaceChildren(...view.elements);
  const on = (event, document) => {
    try {
      view.on[event]?.(document);
    } catch (error) {
      end();
      say(String(error));
      console.error(error);
    }
  };
  end = view.end || watch(view.view, { on, state, refused });
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
  end();
  end = () => {};
  removeCharts();
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

document.getElementById("headline").textContent = "The running scheduler";
document.getElementById("lead").replaceWith(bar);
beginShell(() => VIEWS, show);
