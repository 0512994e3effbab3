//! Nodes with a team take pods of that team only; other pods go where no team is. The label's key is the configuration.

use ks::{Code, Description, Indexed, Plugin, Point, Question, Table};

struct TeamNodes {
    key: String,
    team: Indexed,
}

impl Plugin for TeamNodes {
    fn configure(&mut self, config: &str) -> Result<(), String> {
        if config.len() > 253 {
            return Err("expected the key of a label, of at most 253 bytes".to_string());
        }
        if !config.is_empty() {
            self.key = config.to_string();
        }
        Ok(())
    }

    fn describe(&mut self, table: &mut Table) -> Description {
        self.team = table.want_label(&self.key);
        Description {
            name: "TeamNodes",
            points: vec![Point::Filter],
            depends: vec!["pod", "node"],
            pod: vec!["labels"],
            ..Description::default()
        }
    }

    fn filter(&mut self, q: &mut Question, verdicts: &mut [u8]) {
        let team = q.table.indexed(self.team);
        let mine = q.pod_label(&self.key);
        let other = q.reason(Code::Unresolvable, "node(s) belonged to another team");
        let none = q.reason(Code::Unresolvable, "node(s) did not belong to the pod's team");
        for (i, verdict) in verdicts.iter_mut().enumerate() {
            let theirs = team.text_at(q.rows.at(i));
            *verdict = match theirs {
                _ if mine == theirs => 0,
                None => none,
                Some(_) => other,
            };
        }
    }
}

ks::plugin!(TeamNodes { key: "example.com/team".to_string(), team: Indexed::default() });
