// Command kube-scheduler is the peer our scheduler is measured against.
//
// It is a binary of its own, not a part of cmd/controlplane: the packages of an apiserver and an etcd would be
// initialised too, and its memory would look larger than it is.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand()))
}
