//! Plugins of kscheduler in Rust: implement `Plugin`, and say `ks::plugin!(Yours::default());`.
//! The library speaks the ABI (../../abi/README.md) and keeps the node table.

mod guest;
mod host;
mod msgpack;
mod table;

pub use guest::Guest;
pub use host::{event, log, now};
pub use msgpack::Value;
pub use table::{Indexed, IndexedColumn, Numbers, Rows, Table};

/// Extension points, as in the ABI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    PreEnqueue = 1,
    PreFilter = 2,
    Filter = 3,
    PreScore = 5,
    Score = 6,
    NormalizeScore = 7,
    Reserve = 8,
    Unreserve = 9,
    Permit = 10,
    PreBind = 11,
    PostBind = 12,
}

/// How a question ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    Success,
    Error,
    Unschedulable,
    Unresolvable,
    Wait,
    Skip,
    Pending,
}

/// What the plugin is, as in the ABI's ks_describe.
pub struct Description {
    pub name: &'static str,
    pub points: Vec<Point>,
    pub depends: Vec<&'static str>, // what answers follow from: "pod", "node", "usage" and so on
    pub pod: Vec<&'static str>,     // parts of the pod
    pub normalize: &'static str,
}

impl Default for Description {
    fn default() -> Description {
        Description { name: "plugin", points: Vec::new(), depends: vec!["other"], pod: Vec::new(), normalize: "none" }
    }
}

/// Yours to implement: write the methods you need.
pub trait Plugin {
    /// An error refuses the configuration.
    fn configure(&mut self, _config: &str) -> Result<(), String> {
        Ok(())
    }

    /// Ask for columns of the table here, and keep their handles.
    fn describe(&mut self, table: &mut Table) -> Description;

    /// All pods on a row, whenever they have changed: a list of maps. See `Table::want_pods`.
    fn pods(&mut self, _row: usize, _pods: Value) {}

    /// `verdicts` has an entry for each row asked about, all 0.
    fn filter(&mut self, _q: &mut Question, _verdicts: &mut [u8]) {}

    /// Likewise. At NormalizeScore raw scores come in.
    fn score(&mut self, _q: &mut Question, _scores: &mut [i64]) {}

    /// All other points.
    fn status(&mut self, _q: &mut Question) -> Code {
        Code::Success
    }
}

/// A question about one pod, at one extension point.
pub struct Question<'a> {
    pub point: Point,
    pub pod: Value<'a>,     // a map, pod.get("labels"), with the parts that were asked for
    pub message: Value<'a>, // all of it: "node" and "row" in the binding cycle
    pub rows: Rows<'a>,     // that are asked about
    pub table: &'a Table,
    pub(crate) reply: Reply,
}

/// What the plugin says besides verdicts and scores.
#[derive(Default)]
pub(crate) struct Reply {
    pub failure: Option<String>,
    pub said: Vec<String>,
    pub reasons: Vec<(Code, String)>,
    pub state: Option<Vec<u8>>,
    pub wait_ms: u32,
}

impl<'a> Question<'a> {
    pub fn pod_label(&self, key: &str) -> Option<&'a str> {
        self.pod.get("labels").get(key).text()
    }

    pub fn pod_request(&self, resource: &str) -> i64 {
        self.pod.get("requests").get(resource).int().unwrap_or(0)
    }

    /// What `remember` kept at an earlier point of this pod's cycle.
    pub fn state(&self) -> Option<&'a [u8]> {
        self.pod.get("state").bytes()
    }

    pub fn remember(&mut self, state: &[u8]) {
        self.reply.state = Some(state.to_vec());
    }

    /// This question failed.
    pub fn fail(&mut self, why: &str) {
        self.reply.failure = Some(why.to_string());
    }

    /// A reason for the code that `status` returns.
    pub fn say(&mut self, reason: &str) {
        self.reply.said.push(reason.to_string());
    }

    /// How long a pod waits whose status is Wait.
    pub fn wait_ms(&mut self, milliseconds: u32) {
        self.reply.wait_ms = milliseconds;
    }

    /// In `filter`: the verdict that rejects a row. Ask for each reason once.
    pub fn reason(&mut self, code: Code, text: &str) -> u8 {
        self.reply.reasons.push((code, text.to_string()));
        self.reply.reasons.len() as u8
    }
}

/// The exports of the ABI, for one plugin.
#[macro_export]
macro_rules! plugin {
    ($make:expr) => {
        thread_local! {
            static GUEST: std::cell::RefCell<$crate::Guest> = std::cell::RefCell::new($crate::Guest::new(Box::new($make)));
        }

        #[no_mangle]
        pub extern "C" fn kscheduler_abi_v1() -> i32 {
            1
        }

        #[no_mangle]
        pub extern "C" fn ks_alloc(size: usize) -> *mut u8 {
            GUEST.with(|guest| guest.borrow_mut().alloc(size))
        }

        #[no_mangle]
        pub extern "C" fn ks_configure(_at: usize, size: usize) -> u64 {
            GUEST.with(|guest| guest.borrow_mut().configure(size))
        }

        #[no_mangle]
        pub extern "C" fn ks_describe() -> u64 {
            GUEST.with(|guest| guest.borrow_mut().describe())
        }

        #[no_mangle]
        pub extern "C" fn ks_table(_at: usize, size: usize) -> u64 {
            GUEST.with(|guest| guest.borrow_mut().table(size))
        }

        #[no_mangle]
        pub extern "C" fn ks_call(point: i32, _at: usize, size: usize) -> u64 {
            GUEST.with(|guest| guest.borrow_mut().call(point, size))
        }
    };
}
