//! Reading and writing msgpack, as far as the ABI goes: no floats, no extension types.

/// The bytes of one msgpack value, and whatever follows it. Empty for what is not there or cannot be read.
#[derive(Clone, Copy)]
pub struct Value<'a>(pub &'a [u8]);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Unreadable,
    Integer, // also a truth
    Text,    // also a bin
    List,
    Map,
    Nothing,
}

struct Head<'a> {
    kind: Kind,
    number: i64,
    size: usize,    // bytes of a text, items of a list, pairs of a map
    body: &'a [u8], // after the header
}

const UNREADABLE: Head<'static> = Head { kind: Kind::Unreadable, number: 0, size: 0, body: &[] };

impl<'a> Value<'a> {
    fn head(self) -> Head<'a> {
        let first = match self.0.first() {
            Some(first) => *first,
            None => return UNREADABLE,
        };
        // The kind, what the first byte says, and how many bytes of the header follow it.
        let (kind, small, width) = match first {
            0x00..=0x7f | 0xe0..=0xff => (Kind::Integer, first as i8 as i64, 0),
            0x80..=0x8f => (Kind::Map, (first & 15) as i64, 0),
            0x90..=0x9f => (Kind::List, (first & 15) as i64, 0),
            0xa0..=0xbf => (Kind::Text, (first & 31) as i64, 0),
            0xc0 => (Kind::Nothing, 0, 0),
            0xc2 | 0xc3 => (Kind::Integer, (first & 1) as i64, 0),
            0xc4..=0xc6 => (Kind::Text, 0, 1 << (first - 0xc4)),
            0xcc..=0xd3 => (Kind::Integer, 0, 1 << ((first - 0xcc) & 3)),
            0xd9..=0xdb => (Kind::Text, 0, 1 << (first - 0xd9)),
            0xdc | 0xdd => (Kind::List, 0, 2 << (first - 0xdc)),
            0xde | 0xdf => (Kind::Map, 0, 2 << (first - 0xde)),
            _ => return UNREADABLE, // floats and extensions are not in the ABI
        };
        if self.0.len() < 1 + width {
            return UNREADABLE;
        }
        let (header, body) = self.0.split_at(1 + width);
        let mut number = small;
        if width > 0 {
            let value = header[1..].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
            let unused = if first >= 0xd0 && kind == Kind::Integer { 64 - 8 * width } else { 0 };
            number = (value << unused) as i64 >> unused;
        }
        let size = if kind == Kind::Integer { 0 } else { number as usize };
        if kind == Kind::Text && size > body.len() {
            return UNREADABLE;
        }
        Head { kind, number, size, body }
    }

    /// What follows the value.
    pub fn next(self) -> Value<'a> {
        let mut at = self;
        let mut values = 1u64;
        while values > 0 {
            let head = at.head();
            values -= 1;
            match head.kind {
                Kind::Unreadable => return Value(&[]),
                Kind::List => values += head.size as u64,
                Kind::Map => values += 2 * head.size as u64,
                _ => {}
            }
            at = Value(if head.kind == Kind::Text { &head.body[head.size..] } else { head.body });
        }
        at
    }

    pub fn is_there(self) -> bool {
        !self.0.is_empty()
    }

    pub fn int(self) -> Option<i64> {
        let head = self.head();
        (head.kind == Kind::Integer).then(|| head.number)
    }

    /// Of a text or a bin.
    pub fn bytes(self) -> Option<&'a [u8]> {
        let head = self.head();
        (head.kind == Kind::Text).then(|| &head.body[..head.size])
    }

    pub fn text(self) -> Option<&'a str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Items of a list, or pairs of a map.
    pub fn len(self) -> usize {
        let head = self.head();
        if matches!(head.kind, Kind::List | Kind::Map) {
            head.size
        } else {
            0
        }
    }

    /// Items of a list; keys and values of a map, in turn.
    pub fn items(self) -> impl Iterator<Item = Value<'a>> {
        let head = self.head();
        let left = match head.kind {
            Kind::List => head.size,
            Kind::Map => 2 * head.size,
            _ => 0,
        };
        let mut at = Value(head.body);
        (0..left).map_while(move |_| {
            let item = at;
            at = at.next();
            item.is_there().then(|| item)
        })
    }

    /// The value of a key in a map.
    /// One of a list; not there if the list is shorter.
    pub fn item(self, index: usize) -> Value<'a> {
        self.items().nth(index).unwrap_or(Value(&[]))
    }

    pub fn get(self, key: &str) -> Value<'a> {
        let head = self.head();
        let mut at = Value(if head.kind == Kind::Map { head.body } else { &[] });
        for _ in 0..head.size {
            if !at.is_there() {
                break;
            }
            let value = at.next();
            if at.bytes() == Some(key.as_bytes()) {
                return value;
            }
            at = value.next();
        }
        Value(&[])
    }

    /// A copy of this value alone.
    pub fn keep(self) -> Vec<u8> {
        self.0[..self.0.len() - self.next().0.len()].to_vec()
    }
}

/// A message that is being written.
#[derive(Default)]
pub struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    pub fn map(&mut self, pairs: usize) {
        self.bytes.push(0xde);
        self.bytes.extend_from_slice(&(pairs as u16).to_be_bytes());
    }

    pub fn list(&mut self, items: usize) {
        self.bytes.push(0xdc);
        self.bytes.extend_from_slice(&(items as u16).to_be_bytes());
    }

    pub fn int(&mut self, number: i64) {
        self.bytes.push(0xd3);
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    pub fn text(&mut self, text: &str) {
        self.bytes.push(0xdb);
        self.bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub fn bin(&mut self, bin: &[u8]) {
        self.bytes.push(0xc6);
        self.bytes.extend_from_slice(&(bin.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(bin);
    }

    /// A column; wasm is little-endian.
    pub fn numbers(&mut self, numbers: &[i64]) {
        // Safe: any bytes of numbers may be read as bytes.
        self.bin(unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), 8 * numbers.len()) });
    }

    pub fn texts<T: AsRef<str>>(&mut self, key: &str, texts: &[T]) {
        self.text(key);
        self.list(texts.len());
        for text in texts {
            self.text(text.as_ref());
        }
    }
}
