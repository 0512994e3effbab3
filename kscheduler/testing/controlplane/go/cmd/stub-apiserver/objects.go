package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// template is the text of an object with places for what differs: {index}, {uid}, {rv} and, of a bound pod, {node}.
type template struct {
	parts [][]byte // a text, a place, a text, ...: places are at odd indices
}

func parse(text string) template {
	var parts [][]byte
	rest := []byte(text)
	for {
		at, place := len(rest), ""
		for _, name := range []string{"{index}", "{uid}", "{rv}", "{node}"} {
			if found := bytes.Index(rest, []byte(name)); found >= 0 && found < at {
				at, place = found, name
			}
		}
		parts = append(parts, rest[:at])
		if place == "" {
			return template{parts}
		}
		parts = append(parts, []byte(place))
		rest = rest[at+len(place):]
	}
}

func (t template) fill(index int, version uint64, node string) []byte {
	size := 0
	for _, part := range t.parts {
		size += len(part) + 16
	}
	made := make([]byte, 0, size)
	for i, part := range t.parts {
		if i%2 == 0 {
			made = append(made, part...)
			continue
		}
		switch string(part) {
		case "{index}":
			made = strconv.AppendInt(made, int64(index), 10)
		case "{uid}":
			made = append(made, uidOf(index)...)
		case "{rv}":
			made = strconv.AppendUint(made, version, 10)
		case "{node}":
			made = append(made, node...)
		}
	}
	return made
}

// withConditions returns the text of a pod that has these conditions, and none before.
func withConditions(text, conditions []byte) []byte {
	status := []byte(`"status":{`)
	at := bytes.LastIndex(text, status)
	if at < 0 {
		return text
	}
	at += len(status)
	made := make([]byte, 0, len(text)+len(conditions)+16)
	made = append(made, text[:at]...)
	made = append(made, `"conditions":`...)
	made = append(made, conditions...)
	made = append(made, ',')
	return append(made, text[at:]...)
}

// uidOf is the uid of the object with this number: as long as a real one, and another for each.
func uidOf(index int) string {
	return fmt.Sprintf("7a3f0c52-9b1e-4d08-8f6c-%012d", index)
}

// object is one node or pod as the list and the watches show it.
type object struct {
	index int
	kind  int // of its template
	text  []byte
	node  string // its name, once bound
}

// batch is what creates objects: `count` of them from `first` on, the templates taking turns.
type batch struct {
	Count     int      `json:"count"`
	First     int      `json:"first"`
	Name      string   `json:"name"` // with {index}
	Templates []string `json:"templates"`
	Bound     []string `json:"bound"` // the same pods with a node
}
