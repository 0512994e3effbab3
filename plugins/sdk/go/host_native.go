//go:build !wasip1

package ks

import (
	"fmt"
	"os"
	"time"
	"unsafe"
)

// In a plugin's unit tests, which `go test` runs without a host, what the plugin says is printed.

func hostLog(level int32, at unsafe.Pointer, size uint32) {
	fmt.Fprintln(os.Stderr, "log", level, unsafe.String((*byte)(at), size))
}

func hostEvent(kind int32, reason unsafe.Pointer, reasonSize uint32, note unsafe.Pointer, noteSize uint32) {
	fmt.Fprintln(os.Stderr, "event", kind,
		unsafe.String((*byte)(reason), reasonSize), unsafe.String((*byte)(note), noteSize))
}

func hostNow() int64 { return time.Now().UnixNano() }
