// The nodes of a run: the map over time, and the chosen node with its pods.

import { card, colour, el, facts, segments, select, wide } from "./dom.js";
import { amount, counted, moment, percent, seconds } from "./format.js";
import { NodeMap } from "./nodemap.js";
import { FULL, NO_CAPACITY, frameAt, frames, podsOn, unitOf } from "./report.js";
import { address, remember } from "./route.js";
import { scrubber } from "./scrubber.js";
import { virtualTable } from "./table.js";

export function nodesView(report, settings) {
  const history = report.node_history;
  if (!history) return [wide(card("Nodes", "", el("p", {}, "This report has no history of its nodes: there were none, or an earlier version wrote it.")))];
  const { names } = history, resources = Object.keys(history.used);
  const state = {
    resource: resources.includes(settings.get("resource")) ? settings.get("resource") : resources[0],
    group: settings.get("group") ?? (history.labels[0]?.key || ""),
    sorted: settings.get("sorted") === "1",
    frame: frameAt(report, settings.has("t") ? Number(settings.get("t")) : report.busiest_s),
    node: names.indexOf(settings.get("node") || ""),
  };
  const valueOf = (row, resource = state.resource) => frames(report, resource)[state.frame * names.length + row];
  const shareOf = (row, resource) => {
    const value = valueOf(row, resource);
    return value === NO_CAPACITY ? null : value / FULL;
  };
  const detail = el("div", { className: "detail" });
  const map = new NodeMap({
    groups: grouped(), valueOf,
    label: `Map of ${counted(names.length, "node")} coloured by use. Arrow keys move from node to node, Escape leaves the node.`,
    describe: (row) => `${names[row]}\n` + resources.map((name) => `${name} ${percent(shareOf(row, name), 0)}`).join("\n"),
    pick: (row) => { state.node = row; remember("node", row < 0 ? "" : names[row]); showNode(); },
  });
  map.chosen = state.node;

  function grouped() {
    const label = history.labels.find((each) => each.key === state.group);
    const lists = new Map();
    names.forEach((_, row) => {
      const value = !label ? "all" : label.of_node[row] < 0 ? "without the label" : label.values[label.of_node[row]];
      if (!lists.has(value)) lists.set(value, []);
      lists.get(value).push(row);
    });
    const rank = (row) => (valueOf(row) === NO_CAPACITY ? -1 : valueOf(row));
    const groups = [...lists].map(([name, nodes]) => ({ name, nodes: state.sorted ? [...nodes].sort((a, b) => rank(b) - rank(a)) : nodes }));
    return groups.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  function showNode() {
    if (state.node < 0) {
      detail.replaceChildren(el("p", { className: "fine" }, "Choose a node in the map to see what it has and which pods are on it."));
      return;
    }
    const time = history.time_s[state.frame], row = state.node;
    const known = resources.map((name) => [name, history.capacity[name][row]
      ? `${percent(shareOf(row, name))} of ${amount(history.capacity[name][row], unitOf(report, name))}` : "none"]);
    for (const label of history.labels) if (label.of_node[row] >= 0) known.push([label.key, label.values[label.of_node[row]]]);
    const pods = podsOn(report, names[row], time);
    detail.replaceChildren(el("h3", {}, el("bdi", {}, names[row])),
      facts(known),
      el("h3", {}, `Pods at ${moment(time, report.simulated_s)}`),
      pods ? virtualTable({ label: "Pods on the node", rows: pods, height: 300, empty: "None.", open: (each) => { location.hash = address("decision", { pod: each.pod }); }, columns: [
        { title: "Pod", width: "minmax(9rem, 3fr)", main: true, text: (each) => each.pod },
        { title: "Since", width: "8.5rem", className: "number", text: (each) => moment(Math.max(0, each.bound_s), report.simulated_s) },
        { title: "Runs for", width: "6rem", className: "number", text: (each) => (each.left_s === null ? "to the end" : seconds(each.left_s - each.bound_s)) },
      ] }) : el("p", { className: "fine" }, "The report has too many pods to hold where each of them was."));
  }

  const slider = scrubber(history.time_s, state.frame, report.simulated_s, (frame) => {
    state.frame = frame;
    remember("t", history.time_s[frame]);
    if (state.sorted) map.regroup(grouped());
    else map.draw();
    showNode();
  });
  slider.dataset.scrubber = "";
  const sort = el("input", { type: "checkbox", checked: state.sorted, onchange: () => { state.sorted = sort.checked; remember("sorted", sort.checked ? "1" : ""); map.regroup(grouped()); } });
  const groups = [["", "nothing"], ...history.labels.map((each) => [each.key, each.key])];
  return [wide(card("Nodes", "One cell a node; the darker, the more of the resource is requested (in dark colours: the brighter).",
    el("div", { className: "controls" },
      segments("Resource", resources.map((name) => [name, name]), state.resource, (name) => {
        state.resource = name;
        remember("resource", name);
        map.regroup(grouped());
      }),
      select("Group by", groups, state.group, (key) => { state.group = key; remember("group", key || " "); map.regroup(grouped()); }),
      el("label", { className: "check" }, sort, "fullest first")),
    slider, map.element, legend())), wide(card("The chosen node", "", detail))];
}

export function legend() {
  const bar = el("i");
  bar.style.background = `linear-gradient(to right, ${colour("h0")}, ${colour("h1")})`;
  const swatch = (name, text) => {
    const box = el("i", { className: "swatch" });
    box.style.background = colour(name);
    return el("span", {}, box, text);
  };
  return el("div", { className: "scale", "aria-hidden": "true" }, el("span", {}, "0 %"), bar, el("span", {}, "100 %"), swatch("bad", "more"), swatch("none", "has none"));
}
