package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// field is one field of a message.
//
// Kind is string, bool, int, bytes, or the name of a message; Shape says how often it is there: "one" (always, be it
// empty), "maybe", "list", or "map" (from strings).
type field struct {
	JSON   string `json:"json"` // "" where the message's fields stand among those around it
	Number int    `json:"number"`
	Kind   string `json:"kind"`
	Shape  string `json:"shape"`
}

// Messages that have an encoding of their own in Go, whatever their fields are.
var special = map[string]bool{"Time": true, "MicroTime": true, "Quantity": true, "IntOrString": true, "FieldsV1": true}

// schemaOf describes the messages that roots consist of, by name.
func schemaOf(roots ...any) map[string][]field {
	found := map[string][]field{}
	for _, root := range roots {
		describe(reflect.TypeOf(root), found)
	}
	return found
}

func describe(message reflect.Type, found map[string][]field) {
	if _, known := found[message.Name()]; known || special[message.Name()] {
		return
	}
	found[message.Name()] = []field{}
	for i := range message.NumField() {
		tag := strings.Split(message.Field(i).Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue // TypeMeta, which is no part of the encoding
		}
		number, err := strconv.Atoi(tag[1])
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", message.Name(), message.Field(i).Name, err))
		}
		name, _, _ := strings.Cut(message.Field(i).Tag.Get("json"), ",")
		kind, shape := shapeOf(message.Field(i).Type, found)
		found[message.Name()] = append(found[message.Name()], field{name, number, kind, shape})
	}
}

func shapeOf(t reflect.Type, found map[string][]field) (kind, shape string) {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem(), found), "maybe"
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("map from %s", t.Key()))
		}
		return kindOf(t.Elem(), found), "map"
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return kindOf(t.Elem(), found), "list"
		}
	}
	return kindOf(t, found), "one"
}

func kindOf(t reflect.Type, found map[string][]field) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Slice:
		return "bytes"
	case reflect.Struct:
		describe(t, found)
		return t.Name()
	}
	panic(fmt.Sprintf("no way to describe %s", t))
}
