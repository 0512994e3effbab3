//! A rack has so many licenses: pods that need one go where one is left, and all pods prefer nodes that have their image.
//! How many is the configuration.

use ks::{Code, Description, Indexed, Plugin, Point, Question, Table, Value};

const LICENSE: &str = "example.com/license";

struct RackLicenses {
    licenses: usize,
    racks: Indexed,
    images: Indexed,
    on_row: Vec<usize>, // row -> licenses that pods there use
}

impl Plugin for RackLicenses {
    fn configure(&mut self, config: &str) -> Result<(), String> {
        if !config.is_empty() {
            self.licenses = config.parse().map_err(|_| "expected the number of licenses of a rack".to_string())?;
        }
        Ok(())
    }

    fn describe(&mut self, table: &mut Table) -> Description {
        self.racks = table.want_label("example.com/rack");
        self.images = table.want_images();
        table.want_pods();
        Description {
            name: "RackLicenses",
            points: vec![Point::Filter, Point::Score],
            pod: vec!["labels", "containers"],
            ..Description::default()
        }
    }

    fn pods(&mut self, row: usize, pods: Value) {
        if self.on_row.len() <= row {
            self.on_row.resize(row + 1, 0);
        }
        self.on_row[row] = pods.items().filter(|pod| pod.get("labels").get(LICENSE).is_there()).count();
    }

    fn filter(&mut self, q: &mut Question, verdicts: &mut [u8]) {
        if q.pod_label(LICENSE).is_none() {
            return;
        }
        let none = q.reason(Code::Unresolvable, "node(s) were in no rack");
        let used_up = q.reason(Code::Unschedulable, "node(s) had no license left in their rack");
        let racks = q.table.indexed(self.racks);
        let mut in_rack = vec![0; racks.known()];
        for (row, used) in self.on_row.iter().enumerate() {
            if let Some(rack) = racks.index(row) {
                in_rack[rack] += used;
            }
        }
        for (i, verdict) in verdicts.iter_mut().enumerate() {
            *verdict = match racks.index(q.rows.at(i)) {
                None => none,
                Some(rack) if in_rack[rack] >= self.licenses => used_up,
                Some(_) => 0,
            };
        }
    }

    fn score(&mut self, q: &mut Question, scores: &mut [i64]) {
        let images = q.table.indexed(self.images);
        let wanted: Vec<&str> = q.pod.get("containers").items().filter_map(|c| c.item(1).text()).collect();
        for (i, score) in scores.iter_mut().enumerate() {
            if let Some(index) = images.index(q.rows.at(i)) {
                let mut names = images.value(index).items().filter_map(|image| image.item(0).text());
                *score = if names.any(|name| wanted.contains(&name)) { 100 } else { 0 };
            }
        }
    }
}

ks::plugin!(RackLicenses { licenses: 1, racks: Indexed::default(), images: Indexed::default(), on_row: Vec::new() });
