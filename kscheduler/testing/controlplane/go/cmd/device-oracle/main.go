// Device-oracle answers what kube-scheduler's own allocator of devices does with claims on a cluster given as JSON.
//
// One request a line on standard input, one answer a line on standard output. Requests know nothing of each other, so
// a process can answer thousands; it keeps none of them, only CEL expressions that it has compiled.
package main

import (
	"io"

	"k8s.io/klog/v2"

	"kscheduler.test/controlplane/internal/jsonlines"
)

func main() {
	klog.SetLogger(klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	jsonlines.Serve("device-oracle",
		func(asked request) (answer, error) { return asked.answer() },
		func(problem string) answer { return answer{Error: problem} })
}
