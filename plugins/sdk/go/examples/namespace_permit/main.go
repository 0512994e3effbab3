// Let pods of some namespaces pass, named in the configuration with commas between; the others are turned down.
package main

import (
	"slices"
	"strings"

	ks "kscheduler/sdk"
)

var allowed []string

func init() {
	ks.Plugin{Configure: configure, Describe: describe, Status: permit}.Register()
}

func main() {}

func configure(config string) error {
	allowed = strings.Split(config, ",")
	return nil
}

func describe() ks.Description {
	return ks.Description{Name: "NamespacePermit", Points: []ks.Point{ks.Permit}, Pod: []string{"namespace"}}
}

func permit(q *ks.Question) ks.Code {
	if slices.Contains(allowed, q.Pod.Get("namespace").Text()) {
		return ks.Success
	}
	q.Event(true, "NotPermitted", "the pod's namespace may not use this cluster")
	q.Say("the pod's namespace may not use this cluster")
	return ks.Unschedulable
}
