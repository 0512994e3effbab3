//! Prefer the nodes whose name ends with the same digit as the pod's.

use ks::{Code, Description, Plugin, Point, Question, Table};

#[derive(Default)]
struct NodeNumber {
    reverse: bool,
}

fn last_digit(name: &str) -> Option<u8> {
    name.bytes().last().filter(u8::is_ascii_digit).map(|byte| byte - b'0')
}

impl Plugin for NodeNumber {
    fn configure(&mut self, config: &str) -> Result<(), String> {
        self.reverse = config == r#"{"reverse":true}"#;
        match config {
            "" | r#"{"reverse":true}"# | r#"{"reverse":false}"# => Ok(()),
            _ => Err(r#"expected {"reverse":true}, {"reverse":false} or nothing"#.to_string()),
        }
    }

    fn describe(&mut self, table: &mut Table) -> Description {
        table.want_names();
        Description {
            name: "NodeNumber",
            points: vec![Point::PreScore, Point::Score],
            depends: vec!["pod", "node"],
            pod: vec!["name"],
            ..Description::default()
        }
    }

    /// preScore: the pod's digit is worked out once, and remembered.
    fn status(&mut self, q: &mut Question) -> Code {
        match last_digit(q.pod.get("name").text().unwrap_or("")) {
            Some(digit) => {
                q.remember(&[digit]);
                Code::Success
            }
            None => Code::Skip,
        }
    }

    fn score(&mut self, q: &mut Question, scores: &mut [i64]) {
        let wanted = q.state().and_then(|state| state.first().copied());
        for (i, score) in scores.iter_mut().enumerate() {
            let matches = wanted.is_some() && last_digit(q.table.node_name(q.rows.at(i))) == wanted;
            *score = if matches != self.reverse { 10 } else { 0 };
        }
    }
}

ks::plugin!(NodeNumber::default());
