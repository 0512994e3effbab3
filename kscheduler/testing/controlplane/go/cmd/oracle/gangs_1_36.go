//go:build !kubernetes_1_37

package main

import "errors"

func (w *world) gang(*request) (*ganged, error) {
	return nil, errors.New("mode: groups are compared with 1.37 alone")
}
