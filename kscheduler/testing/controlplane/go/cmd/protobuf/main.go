// Writes API objects as Kubernetes' own encoder writes them, for the tests that compare ours with it.
//
// Each line of input is {"kind": "Pod", "object": {...}}; each line of output {"protobuf": "base64"} or {"error": "..."}.
// With -schema it prints instead what the encoder knows of each message: see schema.go.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects with their full definition can be long: a node with images, or a list of nodes.
const longestLine = 64 << 20

type question struct {
	Kind   string          `json:"kind"`
	Object json.RawMessage `json:"object"`
}

type answer struct {
	Protobuf []byte `json:"protobuf,omitempty"`
	Error    string `json:"error,omitempty"`
}

type message interface {
	Marshal() ([]byte, error)
}

func main() {
	out := json.NewEncoder(os.Stdout)
	if len(os.Args) > 1 && os.Args[1] == "-schema" {
		if err := out.Encode(schemaOf(v1.Pod{}, v1.NodeList{})); err != nil {
			fatal(err)
		}
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		data, err := encode(lines.Bytes())
		reply := answer{Protobuf: data}
		if err != nil {
			reply.Error = err.Error()
		}
		if err := out.Encode(reply); err != nil {
			fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		fatal(err)
	}
}

func encode(line []byte) ([]byte, error) {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	var object message
	switch asked.Kind {
	case "Pod":
		object = &v1.Pod{}
	case "Node":
		object = &v1.Node{}
	case "NodeList":
		object = &v1.NodeList{}
	default:
		return nil, fmt.Errorf("expected kind Pod, Node or NodeList, got %q", asked.Kind)
	}
	if err := json.Unmarshal(asked.Object, object); err != nil {
		return nil, err
	}
	if about, ok := object.(metav1.Object); ok {
		about.SetManagedFields(nil) // kube-scheduler's plugins do not get to see them
	}
	return object.Marshal()
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
