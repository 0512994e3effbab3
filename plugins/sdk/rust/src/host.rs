//! What the host offers. In a plugin's unit tests, which run without a host, what the plugin says is printed.

#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "kscheduler")]
extern "C" {
    #[link_name = "log"]
    fn host_log(level: i32, at: *const u8, size: usize);
    #[link_name = "event"]
    fn host_event(kind: i32, reason: *const u8, reason_size: usize, note: *const u8, note_size: usize);
    #[link_name = "now"]
    fn host_now() -> i64;
}

/// A line for the scheduler's log. Level 0 info, 1 warning, 2 error.
pub fn log(level: i32, line: &str) {
    #[cfg(target_arch = "wasm32")]
    // Safe: the host only reads these bytes.
    unsafe {
        host_log(level, line.as_ptr(), line.len())
    }
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("log {level} {line}");
}

/// An Event about the pod.
pub fn event(is_warning: bool, reason: &str, note: &str) {
    #[cfg(target_arch = "wasm32")]
    // Safe: the host only reads these bytes.
    unsafe {
        host_event(is_warning as i32, reason.as_ptr(), reason.len(), note.as_ptr(), note.len())
    }
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("event {} {reason} {note}", is_warning as i32);
}

/// Nanoseconds since 1970. Answers of a guest that asks are not kept.
pub fn now() -> i64 {
    #[cfg(target_arch = "wasm32")]
    // Safe: no memory is touched.
    unsafe {
        host_now()
    }
    #[cfg(not(target_arch = "wasm32"))]
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |passed| passed.as_nanos() as i64)
}
