package ks

import "unsafe"

//go:wasmimport kscheduler log
func hostLog(level int32, at unsafe.Pointer, size uint32)

//go:wasmimport kscheduler event
func hostEvent(kind int32, reason unsafe.Pointer, reasonSize uint32, note unsafe.Pointer, noteSize uint32)

//go:wasmimport kscheduler now
func hostNow() int64
