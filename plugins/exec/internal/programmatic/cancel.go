package programmatic

import (
	"sync"
	"time"
)

// maxRemembered bounds the cancellations of one tenant that wait for their request. The
// oldest gives way: its request then runs as if it had never been canceled, and is
// stopped when its caller closes the connection.
const maxRemembered = 256

// cancellations are those that came before the request they are about. The registry's
// mutex guards them.
type cancellations struct {
	lasting time.Duration
	tenants map[string]map[request]time.Time // until when
	timer   *time.Timer
}

func (c *cancellations) add(mu *sync.Mutex, q request) {
	m := c.tenants[q.owner.Tenant]
	if m == nil {
		m = make(map[request]time.Time)
		c.tenants[q.owner.Tenant] = m
	}
	if len(m) >= maxRemembered {
		var oldest request
		for k, at := range m {
			if oldest.id == "" || at.Before(m[oldest]) {
				oldest = k
			}
		}
		delete(m, oldest)
	}
	m[q] = time.Now().Add(c.lasting)
	if c.timer == nil {
		c.timer = time.AfterFunc(c.lasting, func() { c.tick(mu) })
	}
}

// tick forgets what is due, so that memory is given back without anybody asking.
func (c *cancellations) tick(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	if c.timer == nil {
		return // cleared meanwhile
	}
	if c.purge(); len(c.tenants) > 0 {
		c.timer.Reset(c.lasting)
	} else {
		c.timer = nil
	}
}

func (c *cancellations) purge() {
	now := time.Now()
	for tenant, m := range c.tenants {
		for q, at := range m {
			if !now.Before(at) {
				delete(m, q)
			}
		}
		if len(m) == 0 {
			delete(c.tenants, tenant)
		}
	}
}

// take reports whether q was canceled, and forgets it.
func (c *cancellations) take(q request) bool {
	m := c.tenants[q.owner.Tenant]
	until, ok := m[q]
	ok = ok && time.Now().Before(until)
	if delete(m, q); len(m) == 0 {
		delete(c.tenants, q.owner.Tenant)
	}
	return ok
}

func (c *cancellations) clear() {
	clear(c.tenants)
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
