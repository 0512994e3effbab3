// Composes a `kscheduler whatif` command about the input of a report, to be copied: the page itself runs nothing.

import { isQuoted, shellCommand, shellWords } from "./command.js";
import { card, controls, el, textField, wide } from "./dom.js";
import { remember } from "./route.js";

const SCORED = ["NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "TaintToleration", "ImageLocality"];
const SHAPES = ["node-shape", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];
const NODES = "a node, a shape, a label selector, or all; 3:… for three of them";
const TAINT = /^[^=:\s]+(=[^=:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)-?$/;

// Title, what it does, and fields: [name in the address, label, example, kind].
const GROUPS = [
  ["Nodes", `Nodes are named by ${NODES}.`, [
    ["add", "More nodes", "20", "number"], ["shape", "Their shape", "general-32", "shape"], ["remove", "Without nodes", "2:general-16"],
    ["cordon", "Cordoned nodes", "pool=batch"], ["tainted", "Tainted nodes", "all"], ["taint", "Taint", "pool=web:NoSchedule"]]],
  ["Configuration", "In place of the present one, or a change of it.", [
    ["config", "Configuration file", "scheduler.yaml"], ["plugin", "Plugin", "NodeResourcesFit", "plugin"], ["weight", "Its weight", "5", "number"],
    ["without", "Without plugin", "ImageLocality", "plugin"]]],
  ["Capacity", "With an objective, the fewest nodes of the shape that meet it are found.", [["slo", "Objective", "pending p99 < 30s"]]],
];

export function composeView(report, settings) {
  const wanted = { input: settings.get("input") ?? shellWords(inputOf(report)) };
  const command = shellCommand("Command"), faults = el("div", { role: "status" });
  const lists = { shape: suggestions("shapes", shapesOf(report)), plugin: suggestions("plugins", SCORED) };
  function show() {
    const { words, wrong } = flagsOf(wanted);
    const missing = words.length ? wrong : ["Fill in below what is to be different."];
    faults.replaceChildren(...missing.map((each) => el("p", { className: words.length ? "fine worse" : "fine" }, each)));
    command.show(missing.length ? "" : ["kscheduler whatif", wanted.input.trim(), shellWords(words)].filter(Boolean).join(" "));
  }
  const field = ([name, label, example, kind]) => {
    wanted[name] = settings.get(name) || "";
    return textField(label, wanted[name], (value) => { wanted[name] = value; remember(name, value); show(); },
      { placeholder: example, inputmode: kind === "number" ? "numeric" : null, className: kind || "", list: lists[kind]?.id });
  };
  const groups = GROUPS.map(([title, hint, fields]) => card(title, hint, controls(...fields.map(field))));
  const input = textField("Flags of the input", wanted.input, (value) => { wanted.input = value; remember("input", value); show(); },
    { placeholder: "--record monday.zst" });
  input.classList.add("grow");
  show();
  return [
    wide(card("Ask what if", "Compose a command that simulates the same pods with other nodes or another configuration, and copy it: this page runs " +
      "nothing. Its answer (--html FILE writes it) is a page like this one. A report names files without their folders: add them to the flags.",
      controls(input), command, faults, ...Object.values(lists))),
    ...groups.map((each, at) => (at ? each : wide(each))),
  ];
}

const suggestions = (id, names) => el("datalist", { id }, names.map((name) => el("option", { value: name })));

function shapesOf({ node_history: history }) {
  const named = (history?.labels || []).filter(({ key }) => SHAPES.includes(key)).flatMap(({ values }) => values);
  return [...new Set(named)];
}

// The flags for what a report says of its input; files are named without their folders there.
function inputOf({ parameters }) {
  const source = (name) => / from ([^]+)$/.exec(parameters[name] || "")?.[1];
  const number = (name) => /^([\d,]+) generated$/.exec(parameters[name] || "")?.[1].replaceAll(",", "");
  const known = parameters.record ? [["--record", source("record")], ["--nodes", source("nodes") ?? number("nodes")]] : [
    ["--nodes", source("nodes") ?? number("nodes")], ["--pods", source("pods") ?? number("pods")], ["--workload", parameters.workload],
    ["--arrival", parameters.arrival], ["--duration", parameters.duration], ["--speedup", parameters.speedup]];
  const flags = [...known, ["--seed", parameters.seed]].filter(([, value]) => value).flat();
  if (parameters.departures === "ignored") flags.push("--arrivals-only");
  if (/^the first/.test(parameters["equal scores"] || "")) flags.push("--first-on-tie");
  return flags;
}

// The flags of the fields, and what is wrong with them.
function flagsOf(wanted) {
  const words = [], wrong = [];
  const value = Object.fromEntries(Object.entries(wanted).map(([name, text]) => [name, text.replace(/[\x00-\x1f\x7f]/g, " ").trim()]));
  const check = (fits, fault) => { if (!fits) wrong.push(fault); };
  const counts = (text) => /^[1-9]\d{0,9}$/.test(text);
  check(isQuoted(wanted.input), "Flags of the input: expected words without what a shell would interpret, or in single quotes.");
  if (value.slo) {
    check(value.shape, "An objective needs the shape of the nodes to add.");
    check(/[<>]/.test(value.slo), "Expected an objective such as pending p99 < 30s.");
    words.push("--find", "min-nodes", "--slo", value.slo, "--add-nodes", value.shape);
  } else if (value.add || value.shape) {
    check(counts(value.add), "More nodes: expected a whole number, such as 20.");
    check(value.shape, "More nodes: expected their shape, such as general-32.");
    words.push("--add-nodes", `${value.add}:${value.shape}`);
  }
  if (value.remove) words.push("--remove-nodes", value.remove);
  if (value.cordon) words.push("--cordon", value.cordon);
  if (value.tainted || value.taint) {
    check(value.tainted, "Taint: expected the nodes that get it, such as all.");
    check(TAINT.test(value.taint), "Taint: expected KEY=VALUE:EFFECT with NoSchedule, PreferNoSchedule or NoExecute; a - behind it removes it.");
    words.push("--taint", value.tainted, value.taint);
  }
  if (value.config) words.push("--new-config", value.config);
  if (value.plugin || value.weight) {
    check(value.plugin, "Weight: expected the plugin, such as NodeResourcesFit.");
    check(counts(value.weight), "Weight: expected a whole number above 0, such as 5.");
    words.push("--weight", `${value.plugin}=${value.weight}`);
  }
  if (value.without) words.push("--no-plugin", value.without);
  return { words, wrong };
}
