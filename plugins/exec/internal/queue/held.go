package queue

// Held is memory that a run has although it does not run: its program waits, alive.
type Held struct {
	q     *Queue
	t     *tenant
	bytes int64
}

// Lasts says, before the place waits, that the run will keep its memory (see Keep).
func (p *Place) Lasts() {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	p.lasts = true
}

// Resumes says, before the place waits, that it is for a run that has its memory. It
// comes before others of its tenant: they may wait for that memory.
func (p *Place) Resumes() {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	p.resumes = true
}

// Keep takes the memory over from a place that runs, until Release: the run goes on
// from other places, which need none. It is nil for a place that does not run.
func (p *Place) Keep() *Held {
	q := p.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.state != running {
		return nil
	}
	h := &Held{q, p.t, p.need}
	if !p.lasts {
		q.held += h.bytes
		p.t.held += h.bytes
	}
	p.need = 0
	p.t.holds++
	return h
}

// Release gives the memory back. It may be called on nil, and once on others.
func (h *Held) Release() {
	if h == nil {
		return
	}
	q, t := h.q, h.t
	q.mu.Lock()
	defer q.mu.Unlock()
	q.memory -= h.bytes
	q.held -= h.bytes
	t.memory -= h.bytes
	t.held -= h.bytes
	t.holds--
	q.forget(t)
	q.dispatch()
}

// forget removes a tenant of whom there is nothing any more.
func (q *Queue) forget(t *tenant) {
	if t.places == 0 && t.holds == 0 {
		delete(q.tenants, t.name)
	}
}
