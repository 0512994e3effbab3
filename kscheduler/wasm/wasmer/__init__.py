"""The engine wasmer, called through its C API: `make wasmer` builds libwasmer, since no package contains it."""
