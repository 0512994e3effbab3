package main

import (
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// success is what an apiserver answers to a binding.
var success = encode("v1", "Status", &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})

// writeCreated answers 201 with the headers that an apiserver sends.
func writeCreated(response http.ResponseWriter, body []byte) {
	header := response.Header()
	header.Set("Audit-Id", "5f1dd7e5-0ab0-4d9e-8a25-9b5e4c6a7f11")
	header.Set("Cache-Control", "no-cache, private")
	header.Set("Content-Type", protobuf)
	header.Set("X-Kubernetes-Pf-Flowschema-Uid", "6b0a5e9c-4f2e-4a51-8b8c-1d0d3d9b7a21")
	header.Set("X-Kubernetes-Pf-Prioritylevel-Uid", "0c9f7d53-6f0d-4d5a-9d51-0a7a2c1d6f45")
	response.WriteHeader(http.StatusCreated)
	response.Write(body)
}

// writePatched answers 200, without the object that an apiserver would send.
func writePatched(response http.ResponseWriter) {
	response.Header().Set("Content-Type", "application/json")
	io.WriteString(response, `{"kind":"Status","apiVersion":"v1","status":"Success","code":200}`)
}

func encode(version, kind string, object interface{ Marshal() ([]byte, error) }) []byte {
	raw, err := object.Marshal()
	if err != nil {
		panic(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
	made, err := unknown.Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte("k8s\x00"), made...)
}
