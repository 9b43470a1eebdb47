package region

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testImage has content at its start, a large hole, small holes, and content before
// its end.
func testImage(t testing.TB, size int) (*Image, []byte) {
	t.Helper()
	memory := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for _, off := range []int{0, 3, 9, 16, 17, 40, size/blockBytes - 5} {
		for i := range blockBytes {
			memory[off*blockBytes+i] = byte(r.Uint32() | 1)
		}
	}
	i := NewImage(memory)
	t.Cleanup(func() { _ = i.Close() })
	return i, memory
}

// fill makes all bytes c.
func fill(b []byte, c byte) {
	b[0] = c
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// zero tells whether all bytes are.
func zero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

// ways runs a test for each way of loading and of finding what was touched.
func ways(t *testing.T, f func(t *testing.T, cow bool, pages *Pagemap)) {
	for _, cow := range []bool{false, true} {
		for _, blind := range []bool{false, true} {
			t.Run(fmt.Sprintf("cow %v, blind %v", cow, blind), func(t *testing.T) {
				var pages *Pagemap
				if !blind {
					var err error
					if pages, err = OpenPagemap(); err != nil {
						t.Skip(err)
					}
					defer pages.Close()
				}
				if i, _ := testImage(t, imageBytes); cow && i.cost(true, nil) == 0 {
					t.Skip("no copy-on-write images here")
				}
				f(t, cow, pages)
			})
		}
	}
}

const imageBytes = 6 << 20

// expect compares all memory that any guest of the test could have used.
func expect(t *testing.T, r *Region, image []byte) {
	t.Helper()
	if !bytes.Equal(r.b[:len(image)], image) {
		t.Error("the image is not what it was")
	}
	if rest := r.b[len(image):]; !zero(rest) {
		t.Error("something is left behind the image")
	}
}

func TestNothingIsLeft(t *testing.T) {
	ways(t, func(t *testing.T, cow bool, pages *Pagemap) {
		i, image := testImage(t, imageBytes)
		r, err := New(imageBytes + 3*keepTail)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Unmap()
		rnd := rand.New(rand.NewPCG(3, 4))
		for range 15 {
			if err := r.Load(i, cow); err != nil {
				t.Fatal(err)
			}
			expect(t, r, image)
			size := imageBytes + rnd.IntN(3*keepTail/PageBytes+1)*PageBytes
			mem := r.Reallocate(uint64(size))
			switch rnd.IntN(3) {
			case 0: // everything
				fill(mem, 0xaa)
			case 1: // here and there
				for range 200 {
					mem[rnd.IntN(size)] = 0xbb
				}
			case 2: // the ends of everything
				for _, e := range i.extents {
					mem[e.offset], mem[e.offset+e.bytes-1] = 0xcc, 0xcc
					mem[e.offset+e.bytes] = 0xcc
				}
				mem[size-1] = 0xcc
			}
			r.Clean(i, pages)
		}
		if err := r.Load(i, cow); err != nil {
			t.Fatal(err)
		}
		expect(t, r, image)
	})
}

func TestImagesDoNotMix(t *testing.T) {
	ways(t, func(t *testing.T, cow bool, pages *Pagemap) {
		big, bigMemory := testImage(t, imageBytes)
		small, smallMemory := testImage(t, imageBytes/4)
		r, err := New(2 * imageBytes)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Unmap()
		use := func(i *Image, memory []byte) {
			t.Helper()
			if err := r.Load(i, cow); err != nil {
				t.Fatal(err)
			}
			expect(t, r, memory)
			fill(r.Reallocate(2*imageBytes), 0xdd)
		}
		use(big, bigMemory)
		r.Clean(small, pages)
		use(small, smallMemory)
		r.Clean(big, pages)
		use(small, smallMemory) // after it was cleaned for another
		r.Clean(nil, pages)
		expect(t, r, nil)
		use(big, bigMemory)
		r.Clean(nil, pages)
		use(small, smallMemory)
	})
}

func TestWaysCanChange(t *testing.T) {
	i, image := testImage(t, imageBytes)
	if i.cost(true, nil) == 0 {
		t.Skip("no copy-on-write images here")
	}
	r, err := New(2 * imageBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Unmap()
	for _, cow := range []bool{true, false, true, true, false} {
		if err := r.Load(i, cow); err != nil {
			t.Fatal(err)
		}
		expect(t, r, image)
		fill(r.Reallocate(2*imageBytes), 1)
		r.Clean(i, nil)
	}
}

// Regions with one image do not see what others write.
func TestMappingsArePrivate(t *testing.T) {
	i, image := testImage(t, imageBytes)
	if i.cost(true, nil) == 0 {
		t.Skip("no copy-on-write images here")
	}
	var regions []*Region
	for range 2 {
		r, err := New(imageBytes)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Unmap()
		if err := r.Load(i, true); err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
	}
	fill(regions[0].b, 1)
	expect(t, regions[1], image)
}

func TestLimit(t *testing.T) {
	r, err := New(MaxBytes)
	if err != nil {
		t.Skip(err)
	}
	defer r.Unmap()
	r.Bind(10*PageBytes + 5)
	if b := r.Reallocate(10 * PageBytes); len(b) != 10*PageBytes || r.Refused() || r.Limit() != 10*PageBytes {
		t.Errorf("%d bytes of %d, refused %v", len(b), r.Limit(), r.Refused())
	}
	if r.Reallocate(11*PageBytes) != nil || !r.Refused() || r.Peak() != 10*PageBytes {
		t.Error("the limit was passed")
	}
	r.Clean(nil, nil)
	if r.Refused() || r.Peak() != 0 || r.Limit() != MaxBytes {
		t.Error("the next guest is told of the one before")
	}
}

func TestPool(t *testing.T) {
	i, image := testImage(t, imageBytes)
	other, _ := testImage(t, imageBytes/2)
	p := NewPool(2)
	get := func(i *Image) *Region {
		t.Helper()
		r, err := p.Get(i, imageBytes)
		if err != nil {
			t.Fatal(err)
		}
		if i != nil {
			if err := r.Load(i, false); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	a, b, c := get(i), get(i), get(other)
	fill(a.Reallocate(imageBytes), 1)
	p.Put(a, i)
	p.Put(c, other)
	p.Put(b, i) // no room
	if b.b != nil || p.Idle(i) != 1 || p.Idle(other) != 1 {
		t.Errorf("idle: %d and %d", p.Idle(i), p.Idle(other))
	}
	if d := get(i); d != a {
		t.Error("not the region that had the image")
	}
	if !bytes.Equal(a.b[:imageBytes], image) {
		t.Error("the image is not what it was")
	}
	p.Put(a, i)
	if z := get(nil); !zero(z.b[:2*imageBytes]) {
		t.Error("a region for anything is not zero")
	} else {
		p.Put(z, nil)
	}
	p.Tidy()
	p.Trim(i)
	if p.Idle(i) != 0 {
		t.Error("trimmed regions are idle")
	}
	d := get(i)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	p.Put(d, i)
	if d.b != nil {
		t.Error("a region outlived its pool")
	}
}

func TestMeasure(t *testing.T) {
	i, _ := testImage(t, imageBytes)
	p := NewPool(1)
	defer p.Close()
	c := p.Measure(i)
	if c.Copy <= 0 || c.COW && c.Map >= c.Copy || c.String() == "" {
		t.Errorf("%+v", c)
	}
	t.Log(c)
}
