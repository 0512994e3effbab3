//! Fill up nodes with GPUs before others are begun, and keep pods without GPUs away from them.

use ks::{Description, Numbers, Plugin, Point, Question, Table};

struct GpuPacking {
    resource: String,
    allocatable: Numbers,
    used: Numbers,
}

fn score_of(has: i64, taken: i64, wanted: i64) -> i64 {
    let full = taken + wanted;
    match (wanted, has) {
        (0, 0) => 100,
        (0, _) => 0,
        _ if has <= 0 => 0,
        _ if full >= has => 100,
        _ => full * 100 / has,
    }
}

impl Plugin for GpuPacking {
    fn configure(&mut self, config: &str) -> Result<(), String> {
        if !config.is_empty() {
            self.resource = config.to_string();
        }
        Ok(())
    }

    fn describe(&mut self, table: &mut Table) -> Description {
        self.allocatable = table.want_allocatable(&self.resource);
        self.used = table.want_used(&self.resource);
        Description {
            name: "GpuPacking",
            points: vec![Point::Score],
            depends: vec!["pod", "node", "usage"],
            pod: vec!["requests"],
            ..Description::default()
        }
    }

    fn score(&mut self, q: &mut Question, scores: &mut [i64]) {
        let (has, taken) = (q.table.numbers(self.allocatable), q.table.numbers(self.used));
        let wanted = q.pod_request(&self.resource);
        for (i, score) in scores.iter_mut().enumerate() {
            let row = q.rows.at(i);
            *score = score_of(has[row], taken[row], wanted);
        }
    }
}

ks::plugin!(GpuPacking {
    resource: "nvidia.com/gpu".to_string(),
    allocatable: Numbers::default(),
    used: Numbers::default(),
});
