// A map of all nodes: one cell a node on a canvas, grouped by a label and coloured by use. Made for 10,000 cells and more.

import { colour, el } from "./dom.js";
import { counted } from "./format.js";
import { FULL, NO_CAPACITY } from "./report.js";

const HEADER = 24, GAP = 12, LARGEST = 34, SMALLEST = 3, TALLEST = 560;

// groups: [{name, nodes: [row]}]; valueOf(row): the byte of the node's use; pick(row): called when a cell is chosen.
export class NodeMap {
  constructor({ groups, valueOf, describe, pick, label }) {
    Object.assign(this, { groups, valueOf, describe, pick, hovered: -1, chosen: -1 });
    this.canvas = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": "node map", "aria-label": label });
    this.cells = el("canvas"); // without outlines, so that pointing at a node does not draw all of them again
    this.small = el("canvas");
    this.tip = el("div", { className: "tip", hidden: true });
    this.spoken = el("div", { className: "hidden", role: "status" });
    this.element = el("div", { className: "nodemap" }, this.canvas, this.tip, this.spoken);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => this.choose(this.at(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.layOut()).observe(this.element);
  }

  regroup(groups) {
    this.groups = groups;
    this.layOut();
  }

  // Cells as large as the width allows without the map being taller than a screen.
  layOut() {
    const width = this.element.clientWidth;
    if (!width) return;
    const heads = this.groups.length > 1 ? HEADER : 0;
    const heightOf = (size) => this.groups.reduce((sum, group) => sum + heads + Math.ceil(group.nodes.length / Math.floor(width / size)) * size + (heads ? GAP : 0), 0);
    let size = LARGEST;
    while (size > SMALLEST && heightOf(size) > TALLEST) size--;
    this.size = size;
    this.columns = Math.max(1, Math.floor(width / size));
    let top = 0;
    this.places = this.groups.map((group) => {
      const place = { group, top: top + heads, head: top, rows: Math.ceil(group.nodes.length / this.columns) };
      top = place.top + place.rows * size + (heads ? GAP : 0);
      return place;
    });
    this.order = this.groups.flatMap((group) => group.nodes);
    const scale = devicePixelRatio || 1;
    Object.assign(this, { width, height: Math.max(size, top), scale });
    for (const canvas of [this.canvas, this.cells]) Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(this.height * scale) });
    this.canvas.style.height = `${this.height}px`;
    this.draw();
  }

  // The colour of each value as a pixel: red, green, blue and opacity, in the order of the bytes of an image.
  palette() {
    const parse = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
    const [low, high, none, over] = ["h0", "h1", "none", "bad"].map((name) => parse(colour(name)));
    const pixels = new Uint32Array(256), bytes = new Uint8Array(pixels.buffer);
    for (let value = 0; value < 256; value++) {
      const mixed = low.map((from, at) => Math.round(from + ((high[at] - from) * value) / FULL));
      bytes.set([...(value === NO_CAPACITY ? none : value > FULL ? over : mixed), 255], value * 4);
    }
    return pixels;
  }

  // A cell is one pixel of a small image, which is enlarged; then the gaps between cells are cut out.
  draw() {
    if (!this.places) return;
    const context = this.cells.getContext("2d"), { size, columns } = this;
    const pixels = this.palette(), inner = this.inner = size > 7 ? size - 2 : size - 1;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.imageSmoothingEnabled = false;
    context.font = "600 12.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = colour("ink");
    for (const { group, top, head, rows } of this.places) {
      if (this.groups.length > 1) context.fillText(`${group.name} · ${counted(group.nodes.length, "node")}`, 0, head + HEADER / 2, this.width);
      if (!rows) continue;
      const image = new ImageData(columns, rows), target = new Uint32Array(image.data.buffer);
      for (let at = 0; at < group.nodes.length; at++) target[at] = pixels[this.valueOf(group.nodes[at])];
      Object.assign(this.small, { width: columns, height: rows });
      this.small.getContext("2d").putImageData(image, 0, 0);
      context.drawImage(this.small, 0, top, columns * size, rows * size);
      for (let column = 0; column < columns; column++) context.clearRect(column * size + inner, top, size - inner, rows * size);
      for (let row = 0; row < rows; row++) context.clearRect(0, top + row * size + inner, columns * size, size - inner);
    }
    this.outline();
  }

  outline() {
    if (!this.places) return;
    const context = this.canvas.getContext("2d"), { inner } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.cells, 0, 0);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    for (const [row, name] of [[this.hovered, "soft"], [this.chosen, "accent"]]) {
      const where = this.where(row);
      if (!where) continue;
      context.strokeStyle = colour(name);
      context.lineWidth = 2;
      context.strokeRect(where.x - 0.5, where.y - 0.5, inner + 1, inner + 1);
    }
  }

  where(row) {
    for (const { group, top } of row < 0 ? [] : this.places) {
      const at = group.nodes.indexOf(row);
      if (at >= 0) return { x: (at % this.columns) * this.size, y: top + Math.floor(at / this.columns) * this.size };
    }
    return null;
  }

  // The row of the node at a point of the canvas, -1 if there is none.
  at(x, y) {
    const column = Math.floor(x / this.size);
    for (const { group, top, rows } of this.places || [])
      if (y >= top && y < top + rows * this.size && column < this.columns) {
        const at = Math.floor((y - top) / this.size) * this.columns + column;
        return at < group.nodes.length ? group.nodes[at] : -1;
      }
    return -1;
  }

  point(event) {
    const row = event ? this.at(event.offsetX, event.offsetY) : -1;
    this.tip.hidden = row < 0;
    if (row >= 0) {
      this.tip.textContent = this.describe(row);
      const left = Math.min(event.offsetX + 14, this.width - this.tip.offsetWidth - 4);
      this.tip.style.left = `${Math.max(0, left)}px`;
      this.tip.style.top = `${event.offsetY + 16}px`;
    }
    if (row !== this.hovered) {
      this.hovered = row;
      this.outline();
    }
  }

  choose(row) {
    this.chosen = row;
    this.spoken.textContent = row < 0 ? "" : this.describe(row);
    this.outline();
    this.pick(row);
  }

  key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns };
    const at = this.order.indexOf(this.chosen), last = this.order.length - 1;
    if (event.key in moves) this.choose(this.order[at < 0 ? 0 : Math.max(0, Math.min(last, at + moves[event.key]))]);
    else if (event.key === "Home") this.choose(this.order[0]);
    else if (event.key === "End") this.choose(this.order[last]);
    else if (event.key === "Escape") this.choose(-1);
    else return;
    event.preventDefault();
  }
}
