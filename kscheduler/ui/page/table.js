// A table of any length: only the rows in sight are elements. Arrow keys move the selection, Enter opens it. Where the
// width does not suffice for columns, a row takes several lines: its main column, its short ones, then each long one.

import { el } from "./dom.js";

const HEAD = 34, ROW = 34, LINE = 20;
const NARROW = 560; // pixels
const AROUND = 8; // rows beyond the sight that are elements too
let tableNumber = 0;

// columns: [{title, width, text: (row, index) => string, className, main, long, wide}]; `wide`: not shown
// where rows take several lines; open(row): what Enter or a click does.
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
  const main = columns.filter((each) => each.main), long = columns.filter((each) => each.long), short = columns.filter((each) => !each.main && !each.long && !each.wide);
  let shown = rows, selected = -1, stacked = false, size = ROW;

  function layOut() {
    stacked = body.clientWidth > 0 && body.clientWidth < NARROW && main.length > 0;
    size = stacked ? 14 + LINE * (1 + (short.length ? 1 : 0) + long.length) : ROW;
    body.classList.toggle("stacked", stacked);
    spacer.style.height = `${shown.length * size}px`;
    body.style.height = `${Math.min(height, shown.length * size + (stacked ? 0 : HEAD) + 16)}px`;
    if (selected >= 0) reveal();
    draw();
  }

  function reveal() {
    const top = selected * size, room = body.clientHeight - size - (stacked ? 0 : HEAD);
    if (top < body.scrollTop) body.scrollTop = top;
    else if (top > body.scrollTop + room) body.scrollTop = top - room;
  }

  function draw() {
    const first = Math.max(0, Math.floor(body.scrollTop / size) - AROUND);
    const last = Math.min(shown.length, Math.ceil((body.scrollTop + body.clientHeight) / size) + AROUND);
    spacer.replaceChildren(...shown.slice(first, last).map((row, at) => line(row, first + at)));
    if (selected >= first && selected < last) body.setAttribute("aria-activedescendant", `${id}-${selected}`);
    else body.removeAttribute("aria-activedescendant");
  }

  function cell(column, row, index) {
    const text = column.text(row, index);
    const title = stacked && column.className === "number" ? el("span", { className: "label" }, `${column.title} `) : null;
    const kind = column.width.startsWith("minmax") ? "" : " fixed";
    return el("div", { role: "gridcell", className: (column.className || "") + kind, title: text }, title, el("bdi", {}, text));
  }

  function line(row, index) {
    const cells = (list) => list.map((column) => cell(column, row, index));
    const inside = !stacked ? cells(columns) : [el("div", { className: "first", role: "presentation" }, cells(main)),
      short.length ? el("div", { className: "rest", role: "presentation" }, cells(short)) : null,
      long.map((column) => el("div", { className: "rest", role: "presentation" }, cell(column, row, index)))];
    const element = el("div", { className: "vrow", role: "row", id: `${id}-${index}`, "aria-rowindex": index + 2,
      "aria-selected": String(index === selected) }, inside);
    if (!stacked) element.style.gridTemplateColumns = template;
    element.style.height = `${size}px`;
    element.style.top = `${index * size}px`;
    if (open) element.classList.add("opens");
    return element;
  }

  function move(to) {
    selected = Math.max(0, Math.min(shown.length - 1, to));
    reveal();
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
  // By its place, since a refresh may replace the element between press and release.
  spacer.addEventListener("click", (event) => {
    const index = Math.floor((event.clientY - spacer.getBoundingClientRect().top) / size);
    if (!shown[index]) return;
    selected = index;
    draw();
    if (open) open(shown[index]);
  });
  body.addEventListener("scroll", draw);
  new ResizeObserver(layOut).observe(body);

  const element = el("div", { className: "vtable" }, body, count);
  // The same rows as they are now: what is in sight and selected stays, `key(row)` says which row is which.
  element.refresh = (rowsNow, key) => {
    const chosen = selected >= 0 ? key(shown[selected]) : null;
    place(rowsNow);
    selected = chosen === null ? -1 : shown.findIndex((row) => key(row) === chosen);
    draw();
  };
  element.show = (rowsNow) => {
    body.scrollTop = 0;
    place(rowsNow);
  };
  function place(rowsNow) {
    shown = rowsNow;
    selected = -1;
    body.setAttribute("aria-rowcount", shown.length + 1);
    body.hidden = !shown.length;
    count.textContent = shown.length ? `${shown.length.toLocaleString("en-US")} ${shown.length === 1 ? "row" : "rows"}` : empty;
    layOut();
  }
  // Selects a row, if it is shown, without opening it.
  element.choose = (row) => { if (shown.includes(row)) move(shown.indexOf(row)); };
  element.show(rows);
  return element;
}
