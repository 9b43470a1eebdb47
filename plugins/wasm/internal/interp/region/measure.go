package region

import (
	"fmt"
	"time"
)

// Choice says how regions get an image, and what that was found to cost.
type Choice struct {
	// COW tells that the image is mapped copy-on-write, not copied.
	COW bool
	// Copy and Map are what a guest's memory costs in each way; Map is 0 where it
	// cannot be had.
	Copy, Map time.Duration
}

// String describes the choice for an operator.
func (c Choice) String() string {
	way := "copied"
	if c.COW {
		way = "mapped copy-on-write"
	}
	if c.Map == 0 {
		return fmt.Sprintf("%s (%v; mapping is not to be had)", way, c.Copy.Round(time.Microsecond))
	}
	return fmt.Sprintf("%s (copying takes %v, mapping %v)", way, c.Copy.Round(time.Microsecond), c.Map.Round(time.Microsecond))
}

const (
	// trainedBlocks is how many blocks of an image a short program writes to.
	trainedBlocks = 256
	rounds        = 4
)

// Measure finds out which way of loading the image is faster on this machine, as it
// is now: it loads it, writes where a short program could, and cleans up again.
func Measure(i *Image, pages *Pagemap) Choice {
	c := Choice{Copy: i.cost(false, pages), Map: i.cost(true, pages)}
	c.COW = c.Map > 0 && c.Map < c.Copy
	return c
}

// cost is the least of several rounds; 0 if it cannot be done.
func (i *Image) cost(cow bool, pages *Pagemap) time.Duration {
	r, err := New(i.size)
	if err != nil {
		return 0
	}
	defer r.Unmap()
	best := time.Duration(0)
	for n := range rounds {
		start := time.Now()
		if r.Load(i, cow) != nil {
			return 0
		}
		i.train(r.b)
		r.Clean(i, pages)
		// The first round has the faults of new memory.
		if took := time.Since(start); n == 1 || n > 0 && took < best {
			best = took
		}
	}
	return best
}

// train writes to blocks that are spread over the image.
func (i *Image) train(b []byte) {
	blocks := len(i.content) / blockBytes
	step := max(blocks/trainedBlocks, 1)
	n := 0
	for _, e := range i.extents {
		for off := e.offset; off < e.offset+e.bytes; off += blockBytes {
			if n%step == 0 {
				b[off] ^= 1
			}
			n++
		}
	}
}
