// Reading and writing msgpack, as far as the ABI goes: no floats, no extension types.

export enum Kind {
  Unreadable,
  Integer, // also a truth
  Text, // also a bin
  List,
  Map,
  Nothing,
}

/** One msgpack value in a message. Good until your function returns; `isThere` is false for what is not there. */
export class Value {
  // What the header says:
  private kind: Kind = Kind.Unreadable;
  private number: i64 = 0;
  private size: i32 = 0; // bytes of a text, items of a list, pairs of a map
  private body: usize = 0; // after the header

  constructor(
    readonly at: usize,
    readonly end: usize,
  ) {
    if (at < end) this.readHead(load<u8>(at));
  }

  private readHead(first: u8): void {
    let kind = Kind.Unreadable;
    let width: u32 = 0; // bytes of the header after the first
    if (first < 0x80 || first >= 0xe0) {
      kind = Kind.Integer;
      this.number = <i64>(<i8>first);
    } else if (first < 0x90) {
      kind = Kind.Map;
      this.size = first & 15;
    } else if (first < 0xa0) {
      kind = Kind.List;
      this.size = first & 15;
    } else if (first < 0xc0) {
      kind = Kind.Text;
      this.size = first & 31;
    } else if (first == 0xc0) {
      kind = Kind.Nothing;
    } else if (first == 0xc2 || first == 0xc3) {
      kind = Kind.Integer;
      this.number = first & 1;
    } else if (first >= 0xc4 && first <= 0xc6) {
      kind = Kind.Text;
      width = 1 << (first - 0xc4);
    } else if (first >= 0xcc && first <= 0xd3) {
      kind = Kind.Integer;
      width = 1 << ((first - 0xcc) & 3);
    } else if (first >= 0xd9 && first <= 0xdb) {
      kind = Kind.Text;
      width = 1 << (first - 0xd9);
    } else if (first == 0xdc || first == 0xdd) {
      kind = Kind.List;
      width = 2 << (first - 0xdc);
    } else if (first == 0xde || first == 0xdf) {
      kind = Kind.Map;
      width = 2 << (first - 0xde);
    }
    const left = <u64>(this.end - this.at);
    if (left < 1 + <u64>width) return;
    if (width > 0) {
      let number: u64 = 0;
      for (let i: u32 = 1; i <= width; i++) number = (number << 8) | load<u8>(this.at + i);
      if (kind != Kind.Integer) {
        if (number > 0x7fffffff) return;
        this.size = <i32>number;
      } else if (first >= 0xd0) {
        const unused: u64 = 64 - 8 * width;
        this.number = <i64>(number << unused) >> unused;
      } else {
        this.number = <i64>number;
      }
    }
    if (kind == Kind.Text && <u64>this.size > left - 1 - width) return;
    this.body = this.at + 1 + width;
    this.kind = kind;
  }

  get isThere(): bool {
    return this.kind != Kind.Unreadable;
  }

  get isText(): bool {
    return this.kind == Kind.Text;
  }

  /** What follows the value. */
  next(): Value {
    let values: u64 = 1;
    let at: Value = this;
    while (true) {
      if (!at.isThere) return at;
      let after = at.body;
      if (at.kind == Kind.Text) after += at.size;
      else if (at.kind == Kind.List) values += at.size;
      else if (at.kind == Kind.Map) values += 2 * <u64>at.size;
      at = new Value(after, this.end);
      if (--values == 0) return at;
    }
  }

  int(otherwise: i64 = 0): i64 {
    return this.kind == Kind.Integer ? this.number : otherwise;
  }

  /** The text; "" if it is none. */
  get text(): string {
    return this.kind == Kind.Text ? String.UTF8.decodeUnsafe(this.body, this.size) : "";
  }

  /** Where the bytes of a text or a bin are, and how many; 0 if it is neither. */
  get bytes(): usize {
    return this.kind == Kind.Text ? this.body : 0;
  }

  get byteCount(): i32 {
    return this.kind == Kind.Text ? this.size : 0;
  }

  /** Items of a list, or pairs of a map. */
  get length(): i32 {
    return this.kind == Kind.List || this.kind == Kind.Map ? this.size : 0;
  }

  /** The first item of a list or key of a map; go on with `next`. */
  first(): Value {
    return new Value(this.length > 0 ? this.body : this.end, this.end);
  }

  item(index: i32): Value {
    if (index >= this.length) return new Value(this.end, this.end);
    let item = this.first();
    for (; index > 0; index--) item = item.next();
    return item;
  }

  /** The value of a key in a map. */
  get(key: string): Value {
    let at = this.first();
    for (let left = this.kind == Kind.Map ? this.size : 0; left > 0; left--) {
      const value = at.next();
      if (at.isText && at.text == key) return value;
      at = value.next();
    }
    return new Value(this.end, this.end);
  }

  /** A copy, which stays. */
  keep(): Kept {
    const size = <i32>(this.next().at - this.at);
    const bytes = new StaticArray<u8>(size);
    memory.copy(changetype<usize>(bytes), this.at, size);
    return new Kept(bytes);
  }
}

export class Kept {
  constructor(private bytes: StaticArray<u8>) {}

  get value(): Value {
    const at = changetype<usize>(this.bytes);
    return new Value(at, at + this.bytes.length);
  }
}

/** A message that is being written. */
export class Writer {
  private bytes: StaticArray<u8> = new StaticArray<u8>(4096);
  size: i32 = 0;

  get at(): usize {
    return changetype<usize>(this.bytes);
  }

  /** Room for more bytes; where they go. */
  grow(more: i32): usize {
    const size = this.size + more;
    if (size > this.bytes.length) {
      const larger = new StaticArray<u8>(max(size, 2 * this.bytes.length));
      memory.copy(changetype<usize>(larger), this.at, this.size);
      this.bytes = larger;
    }
    const at = this.at + this.size;
    this.size = size;
    return at;
  }

  private header(first: u8, value: u64, width: i32): void {
    const at = this.grow(1 + width);
    store<u8>(at, first);
    for (let i = width; i > 0; i--, value >>= 8) store<u8>(at + i, <u8>value);
  }

  map(pairs: i32): void {
    this.header(0xde, pairs, 2);
  }

  list(items: i32): void {
    this.header(0xdc, items, 2);
  }

  int(value: i64): void {
    this.header(0xd3, value, 8);
  }

  text(text: string): void {
    const size = String.UTF8.byteLength(text);
    this.header(0xdb, size, 4);
    String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, this.grow(size));
  }

  bin(from: usize, size: i32): void {
    this.header(0xc6, size, 4);
    memory.copy(this.grow(size), from, size);
  }

  texts(key: string, texts: string[]): void {
    this.text(key);
    this.list(texts.length);
    for (let i = 0; i < texts.length; i++) this.text(texts[i]);
  }
}
