// Oracle answers what kube-scheduler's own code decides about pods on a cluster that is given as JSON.
//
// One request a line on standard input, one answer a line on standard output. Requests know nothing of each other,
// so a process can answer thousands. Nothing runs in parallel, so the same request gets the same answer. The flag
// --feature-gates is kube-scheduler's, and holds for all requests.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"

	"kscheduler.test/controlplane/internal/jsonlines"
)

func main() {
	klog.SetLogger(klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	gates := flag.String("feature-gates", "", "such as GenericWorkload=true")
	flag.Parse()
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintf(os.Stderr, "--feature-gates: %v\n", err)
		os.Exit(2)
	}
	jsonlines.Serve("oracle",
		func(asked request) (answer, error) { return asked.answer() },
		func(problem string) answer { return answer{Error: problem} })
}
