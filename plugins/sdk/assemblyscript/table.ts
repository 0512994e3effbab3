// The node table in the guest's memory. A row holds a node for as long as the node is there.

import { Kept, Value } from "./msgpack";

/** Rows in a message: packed, or all. */
export class Rows {
  readonly length: i32;
  private packed: usize; // 0: all

  constructor(packed: Value, all: i32) {
    this.packed = packed.bytes;
    this.length = packed.isText ? packed.byteCount / 4 : all;
  }

  at(i: i32): i32 {
    return this.packed == 0 ? i : load<i32>(this.packed + 4 * i);
  }
}

/** Write entries of a message into a column of as many bytes an entry. Returns what is wrong, or "". */
function scatter(column: usize, entries: Value, width: i32, where: Rows): string {
  const n = where.length;
  if (entries.byteCount != n * width) return "a column has the wrong length";
  for (let i = 0; i < n; i++) {
    const row = where.at(i);
    if (<u32>row < <u32>rows) memory.copy(column + row * width, entries.bytes + i * width, width);
  }
  return "";
}

/** A column with a number for each row. */
export class Numbers {
  values: StaticArray<i64> = new StaticArray<i64>(0);

  constructor(
    readonly map: string, // of a message that has the column; "" for the message itself
    readonly name: string,
  ) {}

  @operator("[]")
  at(row: i32): i64 {
    return this.values[row];
  }

  forget(): void {
    this.values = new StaticArray<i64>(0);
  }

  take(message: Value, where: Rows): string {
    if (this.values.length < rows) this.values = StaticArray.concat(this.values, new StaticArray<i64>(rows - this.values.length));
    const column = within(message, this.map, this.name);
    return column.isThere ? scatter(changetype<usize>(this.values), column, 8, where) : "";
  }
}

/** A column whose values repeat, such as a label. */
export class Indexed {
  private index: StaticArray<i32> = new StaticArray<i32>(0);
  private texts: string[] = [];
  private values: Kept[] = [];

  constructor(
    readonly map: string,
    readonly name: string,
  ) {}

  /** Of the row's value, or -1 if it has none. Rows with equal values have equal indexes. */
  indexOf(row: i32): i32 {
    return this.index[row];
  }

  /** A value that is a text. */
  text(index: i32): string {
    return this.texts[index];
  }

  /** Any other, such as a list of taints. */
  value(index: i32): Value {
    return this.values[index].value;
  }

  /** The number of values; those of rows that are gone are among them. */
  get known(): i32 {
    return this.values.length;
  }

  /** The row's text; null if it has none. */
  textAt(row: i32): string | null {
    const index = this.index[row];
    return index < 0 ? null : this.texts[index];
  }

  forget(): void {
    this.index = new StaticArray<i32>(0);
    this.texts = [];
    this.values = [];
  }

  take(message: Value, where: Rows): string {
    const known = this.index.length;
    if (known < rows) {
      this.index = StaticArray.concat(this.index, new StaticArray<i32>(rows - known));
      this.index.fill(-1, known);
    }
    const column = within(message, this.map, this.name);
    if (!column.isThere) return "";
    if (column.get("n").int() != this.values.length) return "an indexed column does not go on where it ended";
    const list = column.get("v");
    let value = list.first();
    for (let i = 0; i < list.length && value.isThere; i++, value = value.next()) {
      this.values.push(value.keep());
      this.texts.push(value.text);
    }
    return scatter(changetype<usize>(this.index), column.get("i"), 4, where);
  }
}

const numbers: Numbers[] = [];
const indexed: Indexed[] = [];
export const parts: string[] = [];

let rows: i32 = 0;
let alive = new StaticArray<u8>(0);
let names: string[] = [];

/** How long the table is. */
export function tableRows(): i32 {
  return rows;
}

export function isAlive(row: i32): bool {
  return alive[row] != 0;
}

/** "" in a dead row. */
export function nodeName(row: i32): string {
  return names[row];
}

/** The want functions ask for columns of the table. Call them in describe. */
export function wantPart(part: string): void {
  if (!parts.includes(part)) parts.push(part);
}

export function wantNames(): void {
  wantPart("names");
}

export function wantAllocatable(resource: string): Numbers {
  wantPart("allocatable");
  return wantNumbers("alloc", resource);
}

export function wantUsed(resource: string): Numbers {
  wantPart("usage");
  return wantNumbers("used", resource);
}

export function wantMetric(name: string): Numbers {
  return wantNumbers("metrics", name);
}

/** Any other column of numbers, by the part that it belongs to. */
export function wantNumber(part: string, column: string): Numbers {
  wantPart(part);
  return wantNumbers("", column);
}

export function wantLabel(key: string): Indexed {
  return wantIndexed("labels", key);
}

export function wantAnnotation(key: string): Indexed {
  return wantIndexed("annotations", key);
}

export function wantTaints(): Indexed {
  wantPart("taints");
  return wantIndexed("", "taints");
}

/** Lists of [name, bytes]. */
export function wantImages(): Indexed {
  wantPart("images");
  return wantIndexed("", "images");
}

/** The pods on nodes, which Plugin.pods gets, with the parts of a pod that the plugin wants. */
export function wantPods(): void {
  wantPart("pods");
}

function wantNumbers(map: string, name: string): Numbers {
  const column = new Numbers(map, name);
  numbers.push(column);
  return column;
}

function wantIndexed(map: string, name: string): Indexed {
  const column = new Indexed(map, name);
  indexed.push(column);
  return column;
}

/** The names of the columns of these maps, each once. */
export function namesIn(maps: string[]): string[] {
  const found: string[] = [];
  for (let i = 0; i < numbers.length; i++) {
    const column = numbers[i];
    if (maps.includes(column.map) && !found.includes(column.name)) found.push(column.name);
  }
  for (let i = 0; i < indexed.length; i++) {
    const column = indexed[i];
    if (maps.includes(column.map) && !found.includes(column.name)) found.push(column.name);
  }
  return found;
}

function within(message: Value, map: string, name: string): Value {
  return map == "" ? message.get(name) : message.get(map).get(name);
}

/** Returns what is wrong, or "". */
export function takeTable(message: Value): string {
  rows = <i32>message.get("rows").int();
  const where = new Rows(message.get("at"), rows);
  if (message.get("full").int() != 0) forget();
  let wrong = takeNodes(message, where);
  for (let i = 0; i < numbers.length && wrong == ""; i++) wrong = numbers[i].take(message, where);
  for (let i = 0; i < indexed.length && wrong == ""; i++) wrong = indexed[i].take(message, where);
  return wrong;
}

function forget(): void {
  alive = new StaticArray<u8>(0);
  names = [];
  for (let i = 0; i < numbers.length; i++) numbers[i].forget();
  for (let i = 0; i < indexed.length; i++) indexed[i].forget();
}

function takeNodes(message: Value, where: Rows): string {
  if (alive.length < rows) alive = StaticArray.concat(alive, new StaticArray<u8>(rows - alive.length));
  while (names.length < rows) names.push("");
  const list = message.get("names");
  if (list.isThere && list.length != where.length) return "a column has the wrong length";
  let name = list.first();
  for (let i = 0; i < list.length && name.isThere; i++, name = name.next()) {
    const row = where.at(i);
    if (<u32>row < <u32>rows) names[row] = name.text;
  }
  const column = message.get("alive");
  return column.isThere ? scatter(changetype<usize>(alive), column, 1, where) : "";
}
