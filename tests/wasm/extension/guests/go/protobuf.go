package main

// object is what a pod and a node have in common.
type object struct {
	name   string
	labels map[string]string
}

// decode reads metadata.name and metadata.labels of a pod or a node.
func decode(data []byte) object {
	found := object{labels: map[string]string{}}
	for number, value := range fields(data) {
		if number != 1 { // metadata
			continue
		}
		for number, value := range fields(value) {
			switch number {
			case 1: // name
				found.name = string(value)
			case 11: // an entry of labels
				var key, text string
				for number, value := range fields(value) {
					if number == 1 {
						key = string(value)
					} else {
						text = string(value)
					}
				}
				found.labels[key] = text
			}
		}
	}
	return found
}

// fields goes through a message; values that are no bytes are skipped.
func fields(data []byte) func(yield func(number uint64, value []byte) bool) {
	return func(yield func(uint64, []byte) bool) {
		for len(data) > 0 {
			tag := varint(&data)
			size := varint(&data)
			if tag&7 != 2 {
				continue // it was the value
			}
			if !yield(tag>>3, data[:size]) {
				return
			}
			data = data[size:]
		}
	}
}

func varint(data *[]byte) (value uint64) {
	for shift := 0; ; shift += 7 {
		next := (*data)[0]
		*data = (*data)[1:]
		value |= uint64(next&0x7f) << shift
		if next < 0x80 {
			return value
		}
	}
}
