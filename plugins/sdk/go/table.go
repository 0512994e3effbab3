package ks

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Numbers are a column with a number for each row of the table.
type Numbers struct {
	inside, name string // the map of a message that has the column; "" for the message itself
	values       []int64
}

// Values has an entry for each row. Call it again in each call of the plugin.
func (n *Numbers) Values() []int64 { return n.values }

// Indexed is a column whose values repeat, such as a label.
type Indexed struct {
	inside, name string
	index        []int32
	texts        []string
	values       []Value
}

// Index of the row's value, or -1 if it has none. Rows with equal values have equal indexes.
func (c *Indexed) Index(row int) int { return int(c.index[row]) }

// Text is a value that is a text.
func (c *Indexed) Text(index int) string { return c.texts[index] }

// Value is any other, such as a list of taints.
func (c *Indexed) Value(index int) Value { return c.values[index] }

// Known is the number of values; those of rows that are gone are among them.
func (c *Indexed) Known() int { return len(c.values) }

// TextAt is the row's text, and whether it has one.
func (c *Indexed) TextAt(row int) (string, bool) {
	if i := c.Index(row); i >= 0 {
		return c.texts[i], true
	}
	return "", false
}

// The columns that the plugin wants, which describe asks for.
var (
	numbers    []*Numbers
	indexed    []*Indexed
	tableParts []string
)

func wantNumbers(part, inside, name string) *Numbers {
	WantPart(part)
	numbers = append(numbers, &Numbers{inside: inside, name: name})
	return numbers[len(numbers)-1]
}

func wantIndexed(inside, name string) *Indexed {
	indexed = append(indexed, &Indexed{inside: inside, name: name})
	return indexed[len(indexed)-1]
}

// The Want functions ask for columns of the table. Call them in Describe.
func WantAllocatable(resource string) *Numbers { return wantNumbers("allocatable", "alloc", resource) }
func WantUsed(resource string) *Numbers        { return wantNumbers("usage", "used", resource) }
func WantMetric(name string) *Numbers          { return wantNumbers("", "metrics", name) }
func WantNumber(part, column string) *Numbers  { return wantNumbers(part, "", column) }
func WantLabel(key string) *Indexed            { return wantIndexed("labels", key) }
func WantAnnotation(key string) *Indexed       { return wantIndexed("annotations", key) }
func WantTaints() *Indexed                     { WantPart("taints"); return wantIndexed("", "taints") }
func WantImages() *Indexed                     { WantPart("images"); return wantIndexed("", "images") }
func WantNames()                               { WantPart("names") }

// WantPods asks for the pods on nodes, which the plugin's function Pods gets, with the parts of a pod that it wants.
func WantPods() { WantPart("pods") }

// WantPart asks for a part of the table, by the name it has in the ABI.
func WantPart(part string) {
	if part != "" && !slices.Contains(tableParts, part) {
		tableParts = append(tableParts, part)
	}
}

// namesIn are the columns of these maps, each once.
func namesIn(maps ...string) []string {
	found := []string{}
	for _, column := range numbers {
		if slices.Contains(maps, column.inside) && !slices.Contains(found, column.name) {
			found = append(found, column.name)
		}
	}
	for _, column := range indexed {
		if slices.Contains(maps, column.inside) && !slices.Contains(found, column.name) {
			found = append(found, column.name)
		}
	}
	return found
}

// The table: a row holds a node for as long as the node is there.
var (
	rows      int
	alive     []byte
	nodeNames []string
)

// Rows is the length of the table.
func Rows() int { return rows }

// IsAlive tells whether a node is in the row.
func IsAlive(row int) bool { return alive[row] != 0 }

// NodeName is "" in a dead row.
func NodeName(row int) string { return nodeNames[row] }

// at are rows in a message: packed, or nil for all.
type at []byte

func (a at) count() int {
	if a == nil {
		return rows
	}
	return len(a) / 4
}

func (a at) row(i int) int {
	if a == nil {
		return i
	}
	return int(binary.LittleEndian.Uint32(a[4*i:]))
}

var errLength = errors.New("a column has the wrong length")

// scatter writes entries of a message into a column.
func scatter[T any](column []T, entries []byte, width int, where at, unpack func([]byte) T) error {
	n := where.count()
	if len(entries) != n*width {
		return errLength
	}
	for i := range n {
		if row := where.row(i); row < rows {
			column[row] = unpack(entries[i*width:])
		}
	}
	return nil
}

// lengthen makes a column as long as the table.
func lengthen[T any](column []T, fill T) []T {
	for len(column) < rows {
		column = append(column, fill)
	}
	return column
}

func unpackByte(b []byte) byte   { return b[0] }
func unpackIndex(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) }
func unpackInt(b []byte) int64   { return int64(binary.LittleEndian.Uint64(b)) }

// within is a column's value in a message.
func within(message Value, inside, name string) Value {
	if inside != "" {
		message = message.Get(inside)
	}
	return message.Get(name)
}

func takeTable(message Value) error {
	rows = int(message.Get("rows").Int(0))
	where := at(message.Get("at").Bytes())
	if message.Get("full").Int(0) != 0 {
		forget()
	}
	if err := takeNodes(message, where); err != nil {
		return err
	}
	for _, column := range numbers {
		column.values = lengthen(column.values, 0)
		if value := within(message, column.inside, column.name); value != nil {
			if err := scatter(column.values, value.Bytes(), 8, where, unpackInt); err != nil {
				return err
			}
		}
	}
	for _, column := range indexed {
		column.index = lengthen(column.index, -1)
		if value := within(message, column.inside, column.name); value != nil {
			if err := column.take(value, where); err != nil {
				return err
			}
		}
	}
	return takePods(message, where)
}

// takePods hands the pods of rows on, which the library does not keep.
func takePods(message Value, where at) error {
	pods := message.Get("pods")
	if pods == nil || plugin.Pods == nil {
		return nil
	}
	if pods.Len() != where.count() {
		return errLength
	}
	for i, onRow := range pods.Items {
		if row := where.row(i); row < rows {
			plugin.Pods(row, onRow)
		}
	}
	return nil
}

func forget() {
	alive, nodeNames = nil, nil
	for _, column := range numbers {
		column.values = nil
	}
	for _, column := range indexed {
		column.index, column.texts, column.values = nil, nil, nil
	}
}

func takeNodes(message Value, where at) error {
	alive, nodeNames = lengthen(alive, 0), lengthen(nodeNames, "")
	if value := message.Get("alive"); value != nil {
		if err := scatter(alive, value.Bytes(), 1, where, unpackByte); err != nil {
			return err
		}
	}
	names := message.Get("names")
	if names != nil && names.Len() != where.count() {
		return errLength
	}
	for i, name := range names.Items {
		if row := where.row(i); row < rows {
			nodeNames[row] = name.Text()
		}
	}
	return nil
}

func (c *Indexed) take(message Value, where at) error {
	if message.Get("n").Int(0) != int64(len(c.values)) {
		return errors.New("an indexed column does not go on where it ended")
	}
	for _, value := range message.Get("v").Items {
		kept := slices.Clone(value[:len(value)-len(value.rest())])
		c.values = append(c.values, kept)
		c.texts = append(c.texts, kept.Text())
	}
	if err := scatter(c.index, message.Get("i").Bytes(), 4, where, unpackIndex); err != nil {
		return err
	}
	for _, index := range c.index {
		if int(index) >= len(c.values) {
			return errors.New("an indexed column has an index without a value")
		}
	}
	return nil
}
