package region

import (
	"bytes"
	"testing"
)

func TestParts(t *testing.T) {
	i, memory := testImage(t, imageBytes)
	shape, content := i.Parts()
	again, err := FromParts(shape, content)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(imageBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Unmap()
	if err := r.Load(again, false); err != nil {
		t.Fatal(err)
	}
	expect(t, r, memory)
	b := bytes.Repeat([]byte{1}, imageBytes-123)
	again.copyTo(b, 123)
	if !bytes.Equal(b, memory[123:]) {
		t.Error("a part of the image is not what it was")
	}
}

func TestMalformedParts(t *testing.T) {
	content := make([]byte, blockBytes)
	good := Shape{PageBytes, [][2]uint64{{0, blockBytes}}}
	if _, err := FromParts(good, content); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Shape{
		"negative size":   {-PageBytes, good.Extents},
		"size of no page": {PageBytes + 1, good.Extents},
		"too large":       {MaxBytes + PageBytes, good.Extents},
		"behind the end":  {PageBytes, [][2]uint64{{PageBytes, blockBytes}}},
		"overflow":        {PageBytes, [][2]uint64{{1<<64 - blockBytes, blockBytes}}},
		"unaligned":       {PageBytes, [][2]uint64{{1, blockBytes}}},
		"empty part":      {PageBytes, [][2]uint64{{0, 0}, {0, blockBytes}}},
		"out of order":    {PageBytes, [][2]uint64{{blockBytes, blockBytes}, {0, blockBytes}}},
		"more than given": {PageBytes, [][2]uint64{{0, blockBytes}, {blockBytes, blockBytes}}},
	} {
		if _, err := FromParts(s, content); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
