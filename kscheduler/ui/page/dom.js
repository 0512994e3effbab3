// Builds elements. Strings become text nodes: no name from a cluster is ever parsed as HTML.

export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "className") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

let cardNumber = 0;

// A titled section; screen readers announce it by its title.
export function card(title, hint, ...children) {
  const id = `card-${++cardNumber}`;
  return el("section", { className: "card", "aria-labelledby": id }, el("h2", { id }, title),
    hint ? el("p", { className: "hint" }, hint) : null, ...children);
}

export function wide(element) {
  element.classList.add("wide");
  return element;
}

// A figure in large type: what it is, its value, and a few words more.
export const tile = (name, value, more, bad = false) => el("div", { className: bad ? "tile bad" : "tile", role: "listitem" },
  el("div", { className: "name" }, name), el("div", { className: "value" }, value), el("div", { className: "more" }, more));

export const tileList = (label, tiles) => el("div", { className: "tiles wide", role: "list", "aria-label": label }, tiles);

// A small table. `columns`: [title, className]; each row is a list of texts or elements.
export function plainTable(label, columns, rows) {
  const head = columns.map(([title, name]) => el("th", { scope: "col", className: name || "" }, title));
  const body = rows.map((row) => el("tr", {}, row.map((cell, at) => el("td", { className: columns[at][1] || "" }, cell))));
  return scrolling(label, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

// What is wider than the page can be moved in its own frame.
export const scrolling = (label, child) => el("div", { className: "scroll", tabindex: 0, role: "region", "aria-label": label }, child);

// A name that is cut off where it is longer than a table can bear; pointing at it shows all of it.
export const shortName = (text) => el("bdi", { className: "short", title: text }, text);

export const link = (href, ...children) => el("a", { href }, children);

export const paragraph = (...children) => el("p", {}, children);

// A row of a view's filters.
export const controls = (...children) => el("div", { className: "controls" }, children);

// The filter of a list, which the key "/" goes to.
export function searchField(placeholder, value, type) {
  const input = el("input", { type: "search", value, placeholder, "data-filter": true, oninput: () => type(input.value) });
  return el("label", { className: "field" }, el("span", {}, "Filter"), input);
}

// A field for text; `more`: further properties of the input.
export function textField(label, value, type, more = {}) {
  const input = el("input", { type: "text", value, spellcheck: "false", autocomplete: "off", ...more, oninput: () => type(input.value) });
  return el("label", { className: "field" }, el("span", {}, label), input);
}

// Terms with their texts: [[term, text]].
export function facts(pairs) {
  return el("dl", { className: "facts" }, pairs.map(([term, text]) => [el("dt", {}, term), el("dd", {}, el("bdi", {}, text))]));
}

// Buttons of which one is pressed.
export function segments(label, choices, chosen, choose) {
  const group = el("div", { className: "segments", role: "group", "aria-label": label });
  for (const [value, text] of choices) {
    const button = el("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
      choose(value);
    } }, text);
    group.append(button);
  }
  return group;
}

export function select(label, choices, chosen, choose) {
  const options = choices.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
  return el("label", { className: "field" }, el("span", {}, label),
    el("select", { onchange: (event) => choose(event.target.value) }, options));
}

// The colours of the page's theme, as the canvas needs them.
export function colour(name) {
  const probe = el("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
