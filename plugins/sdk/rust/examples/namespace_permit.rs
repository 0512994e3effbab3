//! Let pods of some namespaces pass, named in the configuration with commas between; the others are turned down.

use ks::{Code, Description, Plugin, Point, Question, Table};

const TURNED_DOWN: &str = "the pod's namespace may not use this cluster";

#[derive(Default)]
struct NamespacePermit {
    allowed: Vec<String>,
}

impl Plugin for NamespacePermit {
    fn configure(&mut self, config: &str) -> Result<(), String> {
        self.allowed = config.split(',').map(str::to_string).collect();
        Ok(())
    }

    fn describe(&mut self, _table: &mut Table) -> Description {
        Description {
            name: "NamespacePermit",
            points: vec![Point::Permit],
            pod: vec!["namespace"],
            ..Description::default()
        }
    }

    fn status(&mut self, q: &mut Question) -> Code {
        let namespace = q.pod.get("namespace").text().unwrap_or("");
        if self.allowed.iter().any(|allowed| allowed == namespace) {
            return Code::Success;
        }
        ks::event(true, "NotPermitted", TURNED_DOWN);
        q.say(TURNED_DOWN);
        Code::Unschedulable
    }
}

ks::plugin!(NamespacePermit::default());
