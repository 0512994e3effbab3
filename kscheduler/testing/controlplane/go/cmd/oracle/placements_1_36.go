//go:build !kubernetes_1_37

package main

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// Placements of groups are compared with 1.37 only; see placements_1_37.go.

func withPlacements(_ context.Context, w *witness, _ fwk.Handle) (fwk.Plugin, error) { return w, nil }

func watchPlacements(*config.Plugins) {}
