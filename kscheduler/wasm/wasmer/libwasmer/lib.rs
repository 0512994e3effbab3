//! Re-exports the C functions of wasmer-c-api; there is no code of our own.

pub use wasmer::wasm_c_api::*;
