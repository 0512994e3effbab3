"""The engine wasmtime, called through its C API; it is the default."""
