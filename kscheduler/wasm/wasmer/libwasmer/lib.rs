//! Re-exports the C functions of wasmer-c-api; it has no other code.

pub use wasmer::wasm_c_api::*;
