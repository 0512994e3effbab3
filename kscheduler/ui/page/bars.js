// Bars that show how many of the nodes each reason rejected.

import { el } from "./dom.js";
import { percent, whole } from "./format.js";

// counts: [{count, reason, plugin, examples}]; plugin and examples may be missing.
export function bars(counts, nodes) {
  return el("ul", { className: "bars" }, counts.map(({ count, reason, plugin, examples }) => {
    const bar = el("i", { "aria-hidden": "true" });
    bar.style.width = `${nodes ? (100 * Math.min(count, nodes)) / nodes : 0}%`;
    const named = examples?.length ? el("div", { className: "fine" }, "such as ", el("bdi", {}, examples.join(", "))) : null;
    const text = el("div", { className: "bar-text" }, el("b", {}, whole(count)), el("span", {}, ` ${reason}`),
      plugin ? el("code", {}, plugin) : null, el("span", { className: "share" }, percent(nodes ? count / nodes : 0, 0)));
    return el("li", {}, text, el("div", { className: "bar" }, bar), named);
  }));
}
