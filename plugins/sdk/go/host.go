package ks

import "unsafe"

// Log writes a line to the scheduler's log. Level 0 info, 1 warning, 2 error.
func Log(level int32, line string) {
	hostLog(level, unsafe.Pointer(unsafe.StringData(line)), uint32(len(line)))
}

// Now is nanoseconds since 1970. Answers of a guest that asks are not kept.
func Now() int64 { return hostNow() }

func event(isWarning bool, reason, note string) {
	kind := int32(0)
	if isWarning {
		kind = 1
	}
	hostEvent(kind, unsafe.Pointer(unsafe.StringData(reason)), uint32(len(reason)),
		unsafe.Pointer(unsafe.StringData(note)), uint32(len(note)))
}
