// Command controlplane is a Kubernetes control plane for tests, in one binary.
//
// The component is named by argv[0] or, when that names none, by argv[1]; the rest of the arguments is the
// component's own command line:
//
//	controlplane etcd --data-dir ...
//	kube-apiserver --etcd-servers ...      (through a link of that name)
//
// One binary instead of four, because they share most of their packages: it links once and takes a quarter of the
// disk. Anything whose memory is measured against another program has a binary of its own; see cmd/kube-scheduler.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata" // time zones of CronJob, on machines without a zone database

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// components maps a component's name to what runs it; args holds the name and the component's own arguments.
var components = map[string]func(args []string){
	"etcd":                    etcdmain.Main,
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
}

// command adapts a cobra command, which reads os.Args and answers with an exit code.
func command(build func() *cobra.Command) func([]string) {
	return func(args []string) {
		os.Args = args
		os.Exit(cli.Run(build()))
	}
}

func main() {
	args := os.Args
	args[0] = filepath.Base(args[0])
	if components[args[0]] == nil {
		args = args[1:]
	}
	if len(args) == 0 || components[args[0]] == nil {
		fmt.Fprintf(os.Stderr, "usage: controlplane COMPONENT [FLAGS]; COMPONENT is one of: %s\n", names())
		os.Exit(2)
	}
	components[args[0]](args)
}

func names() string {
	var all []string
	for name := range components {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}
