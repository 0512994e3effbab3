// For perf.wasm_filter, a guest of kube-scheduler-wasm-extension's interface as its Go SDK makes them: a node takes the
// pod if it is schedulable and has no taint that keeps the pod out. The pod is decoded once a cycle and each node when
// it is first asked about; `prefilter` forgets both.
package main

import (
	"unsafe"

	v1 "k8s.io/api/core/v1"
)

//go:wasmimport k8s.io/scheduler currentPod
func currentPod(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentNodeName
func currentNodeName(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/api node
func node(name unsafe.Pointer, size uint32, buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler result.status_reason
func statusReason(text unsafe.Pointer, size uint32)

type known struct {
	name string
	node *v1.Node
}

var (
	buffer = make([]byte, 2048)
	pod    *v1.Pod
	nodes  []known
)

func main() {}

// read gives the bytes of a value, with a larger buffer if it does not fit.
func read(ask func(at unsafe.Pointer, limit uint32) uint32) []byte {
	size := ask(unsafe.Pointer(&buffer[0]), uint32(len(buffer)))
	if int(size) > len(buffer) {
		buffer = make([]byte, size)
		ask(unsafe.Pointer(&buffer[0]), size)
	}
	return buffer[:size]
}

func thePod() *v1.Pod {
	if pod == nil {
		pod = &v1.Pod{}
		if err := pod.Unmarshal(read(currentPod)); err != nil {
			panic(err)
		}
	}
	return pod
}

func theNode() *v1.Node {
	name := string(read(currentNodeName))
	for _, each := range nodes { // as the SDK looks one up
		if each.name == name {
			return each.node
		}
	}
	found := &v1.Node{}
	packed := read(func(at unsafe.Pointer, limit uint32) uint32 {
		return node(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), at, limit)
	})
	if err := found.Unmarshal(packed); err != nil {
		panic(err)
	}
	nodes = append(nodes, known{name, found})
	return found
}

//go:wasmexport prefilter
func prefilter() int32 {
	pod, nodes = nil, nil
	return 0
}

//go:wasmexport filter
func filter() int32 {
	found := theNode()
	for _, taint := range found.Spec.Taints {
		if taint.Effect == v1.TaintEffectPreferNoSchedule || tolerated(taint) {
			continue
		}
		why := "node has the taint " + taint.Key
		statusReason(unsafe.Pointer(unsafe.StringData(why)), uint32(len(why)))
		return 3
	}
	return 0
}

func tolerated(taint v1.Taint) bool {
	for _, each := range thePod().Spec.Tolerations {
		if (each.Key == "" || each.Key == taint.Key) && (each.Effect == "" || each.Effect == taint.Effect) &&
			(each.Operator == v1.TolerationOpExists || each.Value == taint.Value) {
			return true
		}
	}
	return false
}
