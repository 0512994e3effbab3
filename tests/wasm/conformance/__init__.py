"""What every engine must do, one way to fail after the other; the guests are WebAssembly text."""
