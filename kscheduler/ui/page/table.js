// A table of any length: only the rows in sight are elements. Arrow keys move the selection, Enter opens it.

import { el } from "./dom.js";

const ROW = 34;
const AROUND = 8; // rows beyond the sight that are elements too
let tableNumber = 0;

// columns: [{title, width, text: (row, index) => string, className}]; open(row): what Enter or a click does.
export function virtualTable({ label, columns, rows, open, height = 520, empty = "None." }) {
  const id = `table-${++tableNumber}`;
  const template = columns.map((each) => each.width).join(" ");
  const head = el("div", { className: "vrow vhead", role: "row", "aria-rowindex": 1 },
    columns.map((each) => el("div", { role: "columnheader", className: each.className || "" }, each.title)));
  head.style.gridTemplateColumns = template;
  const spacer = el("div", { className: "vspace", role: "rowgroup" });
  const body = el("div", { className: "vbody", tabindex: 0, role: "grid", "aria-label": label, "aria-colcount": columns.length },
    el("div", { className: "vheads", role: "rowgroup" }, head), spacer);
  const count = el("p", { className: "fine", role: "status" });
  let shown = rows, selected = -1;

  function draw() {
    const first = Math.max(0, Math.floor(body.scrollTop / ROW) - AROUND);
    const last = Math.min(shown.length, Math.ceil((body.scrollTop + body.clientHeight) / ROW) + AROUND);
    spacer.replaceChildren(...shown.slice(first, last).map((row, at) => line(row, first + at)));
    if (selected >= first && selected < last) body.setAttribute("aria-activedescendant", `${id}-${selected}`);
    else body.removeAttribute("aria-activedescendant");
  }

  function line(row, index) {
    const element = el("div", { className: "vrow", role: "row", id: `${id}-${index}`, "aria-rowindex": index + 2,
      "aria-selected": String(index === selected), onclick: () => { selected = index; draw(); if (open) open(row); } },
      columns.map((each) => {
        const text = each.text(row, index);
        return el("div", { role: "gridcell", className: each.className || "", title: text }, el("bdi", {}, text));
      }));
    element.style.gridTemplateColumns = template;
    element.style.top = `${index * ROW}px`;
    if (open) element.classList.add("opens");
    return element;
  }

  function move(to) {
    selected = Math.max(0, Math.min(shown.length - 1, to));
    const top = selected * ROW, room = body.clientHeight - 2 * ROW;
    if (top < body.scrollTop) body.scrollTop = top;
    else if (top > body.scrollTop + room) body.scrollTop = top - room;
    draw();
  }

  const jumps = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -Infinity, End: Infinity };
  body.addEventListener("keydown", (event) => {
    if (event.key in jumps && shown.length) {
      const to = selected + jumps[event.key];
      move(to === Infinity ? shown.length - 1 : to === -Infinity ? 0 : to);
      event.preventDefault();
    } else if (event.key === "Enter" && open && selected >= 0) open(shown[selected]);
  });
  body.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(body);

  const element = el("div", { className: "vtable" }, body, count);
  element.show = (rowsNow) => {
    shown = rowsNow;
    selected = -1;
    body.scrollTop = 0;
    spacer.style.height = `${shown.length * ROW}px`;
    body.style.height = `${Math.min(height, (shown.length + 1) * ROW + 16)}px`;
    body.setAttribute("aria-rowcount", shown.length + 1);
    body.hidden = !shown.length;
    count.textContent = shown.length ? `${shown.length.toLocaleString("en-US")} ${shown.length === 1 ? "row" : "rows"}` : empty;
    draw();
  };
  element.show(rows);
  return element;
}
