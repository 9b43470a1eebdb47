package queue

import "math"

// share reports whether p leaves its tenant within its part of the memory.
func (q *Queue) share(t *tenant, p *Place) bool {
	switch {
	case p.need == 0, t.running == 0 && t.held == 0:
		return true
	case p.lasts && t.held > 0 && t.held+p.need > q.keeps():
		return false
	}
	return q.limits.TenantMemory <= 0 || t.memory+p.need <= q.limits.TenantMemory
}

// keeps is how much memory the runs of one tenant that keep it may have.
func (q *Queue) keeps() int64 {
	most := int64(math.MaxInt64)
	if q.limits.Memory > 0 {
		most = q.limits.Memory / 4
	}
	if q.limits.TenantMemory > 0 {
		most = min(most, q.limits.TenantMemory/2)
	}
	return most
}

// room reports whether there is memory for p.
func (q *Queue) room(p *Place) bool {
	most := q.limits.Memory
	switch {
	case most <= 0, p.need == 0, q.running == 0 && q.held == 0:
		return true
	case p.lasts && q.held > 0 && q.held+p.need > most/2:
		return false
	}
	return q.memory+p.need <= most
}

// comes reports whether there is memory for p of t once those that run have ended, without
// those that keep theirs.
func (q *Queue) comes(t *tenant, p *Place) bool {
	most, mine := q.limits.Memory, q.limits.TenantMemory
	switch {
	case p.need == 0:
		return true
	case p.lasts && (t.held > 0 && t.held+p.need > q.keeps() || most > 0 && q.held > 0 && q.held+p.need > most/2):
		return false
	}
	return (most <= 0 || q.held == 0 || q.held+p.need <= most) && (mine <= 0 || t.held == 0 || t.held+p.need <= mine)
}
