package agentwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

func TestFrames(t *testing.T) {
	var b []byte
	want := []frame{
		{KindOpen, 1, []byte("open")},
		{KindData, 1, bytes.Repeat([]byte{7}, 1+MaxData)},
		{KindMessage, 1<<32 - 1, []byte{1}},
		{KindCredit, 2, []byte{0, 0, 0, 1}},
		{KindCancel, 3, []byte{}},
		{KindEnd, 3, make([]byte, MaxEnd)},
	}
	for _, f := range want {
		b = appendFrame(b, f.kind, f.stream, f.payload[:len(f.payload)/2], f.payload[len(f.payload)/2:])
	}
	r := bytes.NewReader(b)
	for _, w := range want {
		f, err := readFrame(r)
		if err != nil || f.kind != w.kind || f.stream != w.stream || !bytes.Equal(f.payload, w.payload) {
			t.Fatalf("frame %d of stream %d with %d bytes came as %d, %d, %d bytes: %v", w.kind, w.stream, len(w.payload), f.kind, f.stream, len(f.payload), err)
		}
	}
	if _, err := readFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v", err)
	}
}

func TestBadFrames(t *testing.T) {
	head := func(kind byte, stream, n uint32) []byte {
		b := binary.BigEndian.AppendUint32([]byte{kind}, stream)
		return binary.BigEndian.AppendUint32(b, n)
	}
	for name, b := range map[string][]byte{
		"no kind":              head(0, 1, 1),
		"unknown kind":         head(7, 1, 1),
		"no stream":            head(byte(KindOpen), 0, 1),
		"open too long":        head(byte(KindOpen), 1, MaxOpen+1),
		"data too long":        head(byte(KindData), 1, MaxData+2),
		"message too long":     head(byte(KindMessage), 1, MaxData+2),
		"answer too long":      head(byte(KindEnd), 1, MaxEnd+1),
		"endless":              head(byte(KindData), 1, 1<<32-1),
		"data of no channel":   head(byte(KindData), 1, 0),
		"empty request":        head(byte(KindOpen), 1, 0),
		"short credit":         append(head(byte(KindCredit), 1, 2), 0, 0),
		"cancel with a reason": append(head(byte(KindCancel), 1, 1), 0),
	} {
		if f, err := readFrame(bytes.NewReader(b)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	for n := 1; n < headerSize+3; n++ {
		b := append(head(byte(KindData), 1, 4), 1, 2, 3)[:n]
		if _, err := readFrame(bytes.NewReader(b)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("half a frame of %d bytes: %v", n, err)
		}
	}
}

func TestPreamble(t *testing.T) {
	want := Preamble{Protocol: 513, Busy: true, Build: "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}
	b := want.Append(nil)
	if len(b) != PreambleSize {
		t.Fatalf("%d bytes", len(b))
	}
	if got, err := ReadPreamble(bytes.NewReader(b)); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b[:len(magic)] {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, err := ReadPreamble(bytes.NewReader(bad)); !errors.Is(err, ErrProtocol) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	if _, err := ReadPreamble(bytes.NewReader([]byte("OCI runtime exec failed: exec failed: unable to start"))); !errors.Is(err, ErrProtocol) {
		t.Errorf("an error text: %v", err)
	}
	if _, err := ReadPreamble(bytes.NewReader(b[:PreambleSize-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a preamble: %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(nil, KindOpen, 1, []byte{byte(OpRun)}, Encode(&Run{})))
	f.Add(appendFrame(appendFrame(nil, KindData, 1, []byte{1, 2}), KindCancel, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			fr, err := readFrame(r)
			if err != nil {
				return
			}
			again, err := readFrame(bytes.NewReader(appendFrame(nil, fr.kind, fr.stream, fr.payload)))
			if err != nil || again.kind != fr.kind || again.stream != fr.stream || !bytes.Equal(again.payload, fr.payload) {
				t.Fatalf("%+v came back as %+v, %v", fr, again, err)
			}
		}
	})
}
