//! The node table in the guest's memory, and what the plugin wants of it. A row holds a node for as long as the node is there.

use crate::msgpack::Value;

/// What the plugin asks for in `describe` gives it a handle, with which it finds the column in the table.
#[derive(Clone, Copy, Default)]
pub struct Numbers(usize);

/// The handle of a column whose values repeat, such as a label.
#[derive(Clone, Copy, Default)]
pub struct Indexed(usize);

struct NumbersColumn {
    inside: &'static str, // the map of a message that has the column; "" for the message itself
    name: String,
    values: Vec<i64>,
}

/// A column whose values repeat.
pub struct IndexedColumn {
    inside: &'static str,
    name: String,
    index: Vec<i32>,
    texts: Vec<String>,
    values: Vec<Vec<u8>>,
}

impl IndexedColumn {
    /// Of the row's value. Rows with equal values have equal indexes.
    pub fn index(&self, row: usize) -> Option<usize> {
        usize::try_from(self.index[row]).ok()
    }

    /// A value that is a text.
    pub fn text(&self, index: usize) -> &str {
        &self.texts[index]
    }

    /// Any other, such as a list of taints.
    pub fn value(&self, index: usize) -> Value<'_> {
        Value(&self.values[index])
    }

    /// The number of values; those of rows that are gone are among them.
    pub fn known(&self) -> usize {
        self.values.len()
    }

    /// The row's text.
    pub fn text_at(&self, row: usize) -> Option<&str> {
        self.index(row).map(|index| self.text(index))
    }

    fn take(&mut self, message: Value, rows: &Rows) -> Result<(), &'static str> {
        if message.get("n").int().unwrap_or(0) != self.values.len() as i64 {
            return Err("an indexed column does not go on where it ended");
        }
        for value in message.get("v").items() {
            self.values.push(value.keep());
            self.texts.push(value.text().unwrap_or("").to_string());
        }
        scatter(&mut self.index, message.get("i"), rows, i32::from_le_bytes)
    }
}

/// Rows of a message: packed, or all.
pub struct Rows<'a> {
    pub packed: Option<&'a [u8]>,
    pub all: usize,
}

impl Rows<'_> {
    pub fn len(&self) -> usize {
        self.packed.map_or(self.all, |packed| packed.len() / 4)
    }

    pub fn at(&self, i: usize) -> usize {
        match self.packed {
            Some(packed) => {
                i32::from_le_bytes([packed[4 * i], packed[4 * i + 1], packed[4 * i + 2], packed[4 * i + 3]]) as usize
            }
            None => i,
        }
    }
}

/// Write entries of a message into a column; nothing if the message leaves it out.
fn scatter<T, const WIDTH: usize>(
    column: &mut [T],
    entries: Value,
    rows: &Rows,
    unpack: fn([u8; WIDTH]) -> T,
) -> Result<(), &'static str> {
    if !entries.is_there() {
        return Ok(());
    }
    let entries = entries.bytes().unwrap_or(&[]);
    if entries.len() != rows.len() * WIDTH {
        return Err("a column has the wrong length");
    }
    for (i, entry) in entries.chunks_exact(WIDTH).enumerate() {
        if let (Some(place), Ok(bytes)) = (column.get_mut(rows.at(i)), entry.try_into()) {
            *place = unpack(bytes);
        }
    }
    Ok(())
}

#[derive(Default)]
pub struct Table {
    rows: usize,
    alive: Vec<u8>,
    names: Vec<String>,
    numbers: Vec<NumbersColumn>,
    indexed: Vec<IndexedColumn>,
    pub(crate) parts: Vec<&'static str>,
}

/// The table, by row.
impl Table {
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_alive(&self, row: usize) -> bool {
        self.alive[row] != 0
    }

    /// "" in a dead row.
    pub fn node_name(&self, row: usize) -> &str {
        &self.names[row]
    }

    /// An entry for each row.
    pub fn numbers(&self, column: Numbers) -> &[i64] {
        &self.numbers[column.0].values
    }

    pub fn indexed(&self, column: Indexed) -> &IndexedColumn {
        &self.indexed[column.0]
    }
}

/// What a plugin may want, in `describe`.
impl Table {
    pub fn want_part(&mut self, part: &'static str) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    pub fn want_names(&mut self) {
        self.want_part("names");
    }

    pub fn want_allocatable(&mut self, resource: &str) -> Numbers {
        self.want_part("allocatable");
        self.want_numbers("alloc", resource)
    }

    pub fn want_used(&mut self, resource: &str) -> Numbers {
        self.want_part("usage");
        self.want_numbers("used", resource)
    }

    pub fn want_metric(&mut self, name: &str) -> Numbers {
        self.want_numbers("metrics", name)
    }

    /// Any other column of numbers, by the part that it belongs to.
    pub fn want_number(&mut self, part: &'static str, column: &str) -> Numbers {
        self.want_part(part);
        self.want_numbers("", column)
    }

    pub fn want_label(&mut self, key: &str) -> Indexed {
        self.want_indexed("labels", key)
    }

    pub fn want_annotation(&mut self, key: &str) -> Indexed {
        self.want_indexed("annotations", key)
    }

    pub fn want_taints(&mut self) -> Indexed {
        self.want_part("taints");
        self.want_indexed("", "taints")
    }

    /// Lists of `[name, bytes]`.
    pub fn want_images(&mut self) -> Indexed {
        self.want_part("images");
        self.want_indexed("", "images")
    }

    /// The pods on nodes, which `Plugin::pods` gets, with the parts of a pod that the plugin wants.
    pub fn want_pods(&mut self) {
        self.want_part("pods");
    }

    fn want_numbers(&mut self, inside: &'static str, name: &str) -> Numbers {
        self.numbers.push(NumbersColumn { inside, name: name.to_string(), values: Vec::new() });
        Numbers(self.numbers.len() - 1)
    }

    fn want_indexed(&mut self, inside: &'static str, name: &str) -> Indexed {
        let (index, texts, values) = (Vec::new(), Vec::new(), Vec::new());
        self.indexed.push(IndexedColumn { inside, name: name.to_string(), index, texts, values });
        Indexed(self.indexed.len() - 1)
    }

    /// The names of the columns of these maps, each once.
    pub(crate) fn names_in(&self, maps: &[&str]) -> Vec<&str> {
        let numbers = self.numbers.iter().map(|column| (column.inside, column.name.as_str()));
        let indexed = self.indexed.iter().map(|column| (column.inside, column.name.as_str()));
        let mut found = Vec::new();
        for (inside, name) in numbers.chain(indexed) {
            if maps.contains(&inside) && !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }
}

/// What the host sends.
impl Table {
    pub(crate) fn take(&mut self, message: Value) -> Result<(), &'static str> {
        self.rows = message.get("rows").int().unwrap_or(0) as usize;
        let rows = Rows { packed: message.get("at").bytes(), all: self.rows };
        if message.get("full").int().unwrap_or(0) != 0 {
            self.forget();
        }
        self.lengthen();
        scatter(&mut self.alive, message.get("alive"), &rows, |[byte]: [u8; 1]| byte)?;
        self.take_names(message.get("names"), &rows)?;
        for column in &mut self.numbers {
            let value = within(message, column.inside, &column.name);
            scatter(&mut column.values, value, &rows, i64::from_le_bytes)?;
        }
        for column in &mut self.indexed {
            let value = within(message, column.inside, &column.name);
            if value.is_there() {
                column.take(value, &rows)?;
            }
        }
        Ok(())
    }

    /// The rows whose pods a message tells, and the lists of these, which the table does not keep.
    pub(crate) fn pods_in<'a>(&self, message: Value<'a>) -> Result<Vec<(usize, Value<'a>)>, &'static str> {
        let rows = Rows { packed: message.get("at").bytes(), all: self.rows };
        let pods = message.get("pods");
        if pods.is_there() && pods.len() != rows.len() {
            return Err("a column has the wrong length");
        }
        let placed = pods.items().enumerate().map(|(i, on_row)| (rows.at(i), on_row));
        Ok(placed.filter(|(row, _)| *row < self.rows).collect())
    }

    fn forget(&mut self) {
        self.alive.clear();
        self.names.clear();
        self.numbers.iter_mut().for_each(|column| column.values.clear());
        for column in &mut self.indexed {
            column.index.clear();
            column.texts.clear();
            column.values.clear();
        }
    }

    fn lengthen(&mut self) {
        self.alive.resize(self.rows, 0);
        self.names.resize(self.rows, String::new());
        for column in &mut self.numbers {
            column.values.resize(self.rows, 0);
        }
        for column in &mut self.indexed {
            column.index.resize(self.rows, -1);
        }
    }

    fn take_names(&mut self, names: Value, rows: &Rows) -> Result<(), &'static str> {
        if names.is_there() && names.len() != rows.len() {
            return Err("a column has the wrong length");
        }
        for (i, name) in names.items().enumerate() {
            if let Some(place) = self.names.get_mut(rows.at(i)) {
                *place = name.text().unwrap_or("").to_string();
            }
        }
        Ok(())
    }
}

fn within<'a>(message: Value<'a>, inside: &str, name: &str) -> Value<'a> {
    if inside.is_empty() {
        message.get(name)
    } else {
        message.get(inside).get(name)
    }
}
