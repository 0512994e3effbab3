// A scheduling policy for the tests: a pod labelled disk=X fits on nodes labelled disk=X, and prefers nodes whose name
// ends as its own does. Built as a reactor, so that the exports below live on after the start.
package main

import (
	"fmt"
	"os"
	"unsafe"
)

//go:wasmimport k8s.io/scheduler get_config
func hostConfig(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentPod
func hostPod(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentNodeName
func hostNodeName(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler filteredNodeList
func hostFiltered(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/api node
func hostNode(name unsafe.Pointer, size uint32, buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler result.status_reason
func hostReason(text unsafe.Pointer, size uint32)

//go:wasmimport k8s.io/klog log
func hostLog(severity uint32, text unsafe.Pointer, size uint32)

const (
	success       = 0
	unschedulable = 2
)

// What is remembered of the pod at hand, from prefilter on.
var (
	pod      object
	prefers  = map[string]bool{} // names of the nodes that passed
	passed   string
	attempts int
)

func main() {}

func init() {
	fmt.Fprintln(os.Stdout, "guest started with", os.Args, read(hostConfig))
}

//go:wasmexport prefilter
func prefilter() uint32 {
	pod = decode([]byte(read(hostPod)))
	clear(prefers)
	passed = ""
	attempts++
	return success
}

//go:wasmexport filter
func filter() uint32 {
	if attempts == 0 {
		panic("prefilter was not called")
	}
	name := read(hostNodeName)
	node := decode([]byte(read(func(buffer unsafe.Pointer, limit uint32) uint32 {
		return hostNode(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), buffer, limit)
	})))
	if node.name != name {
		panic("expected node " + name + ", got " + node.name)
	}
	if want, have := pod.labels["disk"], node.labels["disk"]; want != "" && want != have {
		reason(fmt.Sprintf("pod wants disk %s, node has %q", want, have))
		return unschedulable
	}
	return success
}

//go:wasmexport prescore
func prescore() uint32 {
	passed = read(hostFiltered)
	return success
}

//go:wasmexport score
func score() uint64 {
	if pod.labels["fault"] == "trap" {
		var nobody *object
		return uint64(len(nobody.name))
	}
	if pod.labels["fault"] == "loop" {
		for attempts > 0 {
			attempts++
		}
	}
	name := read(hostNodeName)
	if len(passed) == 0 || name[len(name)-1] != pod.name[len(pod.name)-1] {
		return 0
	}
	message := "preferred " + name + " of " + passed + "\n"
	hostLog(0, unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)))
	return 100 << 32
}

func reason(text string) {
	hostReason(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

// read asks with a small buffer, and again if that does not do.
func read(ask func(buffer unsafe.Pointer, limit uint32) uint32) string {
	buffer := make([]byte, 16)
	size := ask(unsafe.Pointer(&buffer[0]), uint32(len(buffer)))
	if int(size) > len(buffer) {
		buffer = make([]byte, size)
		if again := ask(unsafe.Pointer(&buffer[0]), size); again != size {
			panic("the two answers differ in length")
		}
	}
	return string(buffer[:size])
}
