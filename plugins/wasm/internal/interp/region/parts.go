package region

import "errors"

// Shape says which parts of a memory an image keeps.
type Shape struct {
	// Bytes is the size of the memory.
	Bytes int64 `json:"bytes"`
	// Extents are offset and length of each part, in order.
	Extents [][2]uint64 `json:"extents"`
}

// Parts returns what an image consists of: its shape and the content of its extents,
// one after another, which must not be changed.
func (i *Image) Parts() (Shape, []byte) {
	s := Shape{Bytes: i.size}
	for _, e := range i.extents {
		s.Extents = append(s.Extents, [2]uint64{e.offset, e.bytes})
	}
	return s, i.content
}

// FromParts makes an image of parts, and keeps content.
func FromParts(s Shape, content []byte) (*Image, error) {
	bad := errors.New("malformed image")
	if s.Bytes < 0 || s.Bytes > MaxBytes || s.Bytes%PageBytes != 0 {
		return nil, bad
	}
	i := &Image{size: s.Bytes, content: content}
	end, sum := uint64(0), uint64(0)
	for _, e := range s.Extents {
		offset, n := e[0], e[1]
		if offset < end || n == 0 || n%blockBytes != 0 || offset%blockBytes != 0 || offset > uint64(s.Bytes) || n > uint64(s.Bytes)-offset {
			return nil, bad
		}
		i.starts = append(i.starts, sum)
		end, sum = offset+n, sum+n
		i.extents = append(i.extents, extent{offset, n})
	}
	if sum != uint64(len(content)) {
		return nil, bad
	}
	return i, nil
}
