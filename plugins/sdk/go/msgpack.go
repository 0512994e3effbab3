package ks

import "encoding/binary"

// A Value is the bytes of one msgpack value, and whatever follows it. It is empty for what is not there or cannot be read.
type Value []byte

type kind byte

const (
	unreadable kind = iota
	integer         // also a truth
	text            // also a bin
	list
	dictionary
	nothing
)

type head struct {
	kind   kind
	number int64
	size   int   // bytes of a text, items of a list, pairs of a map
	body   Value // after the header
}

func (v Value) head() head {
	if len(v) == 0 {
		return head{}
	}
	first := v[0]
	h := head{}
	width := 0 // bytes of the header after the first
	switch {
	case first < 0x80 || first >= 0xe0:
		h.kind, h.number = integer, int64(int8(first))
	case first < 0x90:
		h.kind, h.size = dictionary, int(first&15)
	case first < 0xa0:
		h.kind, h.size = list, int(first&15)
	case first < 0xc0:
		h.kind, h.size = text, int(first&31)
	case first == 0xc0:
		h.kind = nothing
	case first == 0xc2 || first == 0xc3:
		h.kind, h.number = integer, int64(first&1)
	case first >= 0xc4 && first <= 0xc6:
		h.kind, width = text, 1<<(first-0xc4)
	case first >= 0xcc && first <= 0xcf:
		h.kind, width = integer, 1<<(first-0xcc)
	case first >= 0xd0 && first <= 0xd3:
		h.kind, width = integer, 1<<(first-0xd0)
	case first >= 0xd9 && first <= 0xdb:
		h.kind, width = text, 1<<(first-0xd9)
	case first == 0xdc || first == 0xdd:
		h.kind, width = list, 2<<(first-0xdc)
	case first == 0xde || first == 0xdf:
		h.kind, width = dictionary, 2<<(first-0xde)
	default: // floats and extensions are not in the ABI
		return head{}
	}
	if len(v) < 1+width {
		return head{}
	}
	if width > 0 {
		number := uint64(0)
		for _, b := range v[1 : 1+width] {
			number = number<<8 | uint64(b)
		}
		if h.kind != integer {
			h.size = int(number)
		} else if h.number = int64(number); first >= 0xd0 {
			unused := 64 - 8*width
			h.number = int64(number<<unused) >> unused
		}
	}
	h.body = v[1+width:]
	if h.kind == text && h.size > len(h.body) {
		return head{}
	}
	return h
}

// rest is what follows the value.
func (v Value) rest() Value {
	for values := uint64(1); values > 0; values-- {
		h := v.head()
		switch h.kind {
		case unreadable:
			return nil
		case text:
			v = h.body[h.size:]
			continue
		case list:
			values += uint64(h.size)
		case dictionary:
			values += 2 * uint64(h.size)
		}
		v = h.body
	}
	return v
}

// Int is the number, or otherwise.
func (v Value) Int(otherwise int64) int64 {
	if h := v.head(); h.kind == integer {
		return h.number
	}
	return otherwise
}

// Bytes are those of a text or a bin; nil if it is neither. They are good until the function that got them returns.
func (v Value) Bytes() []byte {
	h := v.head()
	if h.kind != text {
		return nil
	}
	return h.body[:h.size:h.size]
}

// Text is a copy of a text.
func (v Value) Text() string { return string(v.Bytes()) }

// Len is the number of items of a list, or of pairs of a map.
func (v Value) Len() int {
	if h := v.head(); h.kind == list || h.kind == dictionary {
		return h.size
	}
	return 0
}

// Items goes through a list.
func (v Value) Items(yield func(int, Value) bool) {
	h := v.head()
	if h.kind != list {
		return
	}
	for i, item := 0, h.body; i < h.size && len(item) > 0; i++ {
		if !yield(i, item) {
			return
		}
		item = item.rest()
	}
}

// Item is one of a list.
func (v Value) Item(index int) Value {
	for i, item := range v.Items {
		if i == index {
			return item
		}
	}
	return nil
}

// Get is the value of a key in a map.
func (v Value) Get(key string) Value {
	h := v.head()
	if h.kind != dictionary {
		return nil
	}
	for at := h.body; h.size > 0 && len(at) > 0; h.size-- {
		value := at.rest()
		if string(at.Bytes()) == key {
			return value
		}
		at = value.rest()
	}
	return nil
}

func addMap(out []byte, pairs int) []byte {
	return binary.BigEndian.AppendUint16(append(out, 0xde), uint16(pairs))
}

func addList(out []byte, items int) []byte {
	return binary.BigEndian.AppendUint16(append(out, 0xdc), uint16(items))
}

func addInt(out []byte, number int64) []byte {
	return binary.BigEndian.AppendUint64(append(out, 0xd3), uint64(number))
}

func addText(out []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(append(out, 0xdb), uint32(len(text))), text...)
}

func addBin(out, bin []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(out, 0xc6), uint32(len(bin))), bin...)
}

func addTexts(out []byte, key string, texts []string) []byte {
	out = addList(addText(out, key), len(texts))
	for _, text := range texts {
		out = addText(out, text)
	}
	return out
}
