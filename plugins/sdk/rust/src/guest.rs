//! The ABI's side: messages in, answers out.

use crate::msgpack::{Value, Writer};
use crate::table::{Rows, Table};
use crate::{log, Plugin, Point, Question, Reply};

const POINTS: [(Point, &str); 11] = [
    (Point::PreEnqueue, "preEnqueue"),
    (Point::PreFilter, "preFilter"),
    (Point::Filter, "filter"),
    (Point::PreScore, "preScore"),
    (Point::Score, "score"),
    (Point::NormalizeScore, "normalizeScore"),
    (Point::Reserve, "reserve"),
    (Point::Unreserve, "unreserve"),
    (Point::Permit, "permit"),
    (Point::PreBind, "preBind"),
    (Point::PostBind, "postBind"),
];

/// A plugin with its table, and the messages between it and the host.
pub struct Guest {
    plugin: Box<dyn Plugin>,
    table: Table,
    message: Vec<u8>, // the host writes here
    out: Writer,      // the answer, until the next call
}

impl Guest {
    pub fn new(plugin: Box<dyn Plugin>) -> Guest {
        std::panic::set_hook(Box::new(|panic| log(2, &panic.to_string())));
        Guest { plugin, table: Table::default(), message: Vec::new(), out: Writer::default() }
    }

    pub fn alloc(&mut self, size: usize) -> *mut u8 {
        self.message.resize(size.max(1), 0);
        self.message.as_mut_ptr()
    }

    pub fn configure(&mut self, size: usize) -> u64 {
        let done = match std::str::from_utf8(&self.message[..size]) {
            Ok(config) => self.plugin.configure(config),
            Err(_) => Err("expected a text in UTF-8".to_string()),
        };
        self.answer_error(done.err().as_deref())
    }

    pub fn describe(&mut self) -> u64 {
        let d = self.plugin.describe(&mut self.table);
        let word = |point| POINTS.iter().find(|(known, _)| known == point).map_or("", |(_, word)| *word);
        let points: Vec<&str> = d.points.iter().map(word).collect();
        let out = &mut self.out;
        out.bytes.clear();
        out.map(11);
        out.text("abi");
        out.int(1);
        out.text("name");
        out.text(d.name);
        out.text("normalize");
        out.text(d.normalize);
        out.texts("points", &points);
        out.texts("depends", &d.depends);
        out.texts("pod", &d.pod);
        out.texts("table", &self.table.parts);
        out.texts("resources", &self.table.names_in(&["alloc", "used"]));
        out.texts("labels", &self.table.names_in(&["labels"]));
        out.texts("annotations", &self.table.names_in(&["annotations"]));
        out.texts("metrics", &self.table.names_in(&["metrics"]));
        self.answer()
    }

    pub fn table(&mut self, size: usize) -> u64 {
        let message = Value(&self.message[..size]);
        let done = self.table.take(message).and_then(|()| self.table.pods_in(message));
        let pods = match done {
            Ok(pods) => pods,
            Err(wrong) => return self.answer_error(Some(wrong)),
        };
        for (row, on_row) in pods {
            self.plugin.pods(row, on_row);
        }
        self.answer_error(None)
    }

    pub fn call(&mut self, point: i32, size: usize) -> u64 {
        let point = match POINTS.iter().find(|(known, _)| *known as i32 == point) {
            Some((point, _)) => *point,
            None => return self.answer_error(Some("an extension point that is not known")),
        };
        let message = Value(&self.message[..size]);
        let pods = message.get("pods");
        let (plugin, table, out) = (self.plugin.as_mut(), &self.table, &mut self.out);
        let mut raw = message.get("scores").items();
        out.bytes.clear();
        out.map(1);
        out.text("pods");
        out.list(pods.len());
        for pod in pods.items() {
            let rows = Rows { packed: message.get("rows").bytes(), all: table.rows() };
            let mut q = Question { point, pod, message, rows, table, reply: Reply::default() };
            let before = out.bytes.len();
            match point {
                Point::Filter => put_verdicts(out, plugin, &mut q),
                Point::Score | Point::NormalizeScore => put_scores(out, plugin, &mut q, raw.next()),
                _ => put_status(out, plugin, &mut q),
            }
            if let Some(failure) = &q.reply.failure {
                out.bytes.truncate(before);
                put_error(out, failure);
            }
        }
        self.answer()
    }

    fn answer(&self) -> u64 {
        match self.out.bytes.len() {
            0 => 0,
            size => (self.out.bytes.as_ptr() as u64) << 32 | size as u64,
        }
    }

    fn answer_error(&mut self, failure: Option<&str>) -> u64 {
        self.out.bytes.clear();
        if let Some(failure) = failure {
            put_error(&mut self.out, failure);
        }
        self.answer()
    }
}

fn put_error(out: &mut Writer, failure: &str) {
    out.map(1);
    out.text("error");
    out.text(failure);
}

fn put_verdicts(out: &mut Writer, plugin: &mut dyn Plugin, q: &mut Question) {
    let mut verdicts = vec![0; q.rows.len()];
    plugin.filter(q, &mut verdicts);
    out.map(2);
    out.text("verdicts");
    out.bin(&verdicts);
    out.text("reasons");
    out.list(q.reply.reasons.len());
    for (code, text) in &q.reply.reasons {
        out.list(2);
        out.int(*code as i64);
        out.text(text);
    }
}

fn put_scores(out: &mut Writer, plugin: &mut dyn Plugin, q: &mut Question, raw: Option<Value>) {
    let mut scores = vec![0; q.rows.len()];
    let raw = raw.and_then(Value::bytes).unwrap_or(&[]);
    for (score, bytes) in scores.iter_mut().zip(raw.chunks_exact(8)) {
        *score = bytes.try_into().map_or(0, i64::from_le_bytes);
    }
    plugin.score(q, &mut scores);
    out.map(1);
    out.text("scores");
    out.numbers(&scores);
}

fn put_status(out: &mut Writer, plugin: &mut dyn Plugin, q: &mut Question) {
    let code = plugin.status(q);
    let reply = &q.reply;
    out.map(1 + usize::from(reply.state.is_some()) + usize::from(reply.wait_ms > 0));
    out.text("status");
    out.list(1 + reply.said.len());
    out.int(code as i64);
    for reason in &reply.said {
        out.text(reason);
    }
    if let Some(state) = &reply.state {
        out.text("state");
        out.bin(state);
    }
    if reply.wait_ms > 0 {
        out.text("wait_ms");
        out.int(i64::from(reply.wait_ms));
    }
}
