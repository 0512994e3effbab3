//! Prefer nodes by the number in one of their labels, whose key is the configuration.

use ks::{Description, Indexed, Plugin, Point, Question, Table};

struct LabelScore {
    key: String,
    label: Indexed,
}

/// Of a label: decimal digits, at most 18 of them; 0 for anything else.
fn number_of(text: &str) -> i64 {
    match text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().unwrap_or(0),
        false => 0,
    }
}

impl Plugin for LabelScore {
    fn configure(&mut self, config: &str) -> Result<(), String> {
        if !config.is_empty() {
            self.key = config.to_string();
        }
        Ok(())
    }

    fn describe(&mut self, table: &mut Table) -> Description {
        self.label = table.want_label(&self.key);
        Description {
            name: "LabelScore",
            points: vec![Point::Score],
            depends: vec!["node"],
            normalize: "default",
            ..Description::default()
        }
    }

    fn score(&mut self, q: &mut Question, scores: &mut [i64]) {
        let label = q.table.indexed(self.label);
        let (mut known, mut number) = (None, 0); // nodes with equal labels often follow each other
        for (i, score) in scores.iter_mut().enumerate() {
            let index = label.index(q.rows.at(i));
            if index != known {
                known = index;
                number = index.map_or(0, |index| number_of(label.text(index)));
            }
            *score = number;
        }
    }
}

ks::plugin!(LabelScore { key: "example.com/performance".to_string(), label: Indexed::default() });
