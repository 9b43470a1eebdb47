package host

import (
	"fmt"
	"time"
)

// hangTimeout ends a call of a module that is verified and does not come back: it waits
// for something that costs no fuel. A busy machine does not keep one for so long.
const hangTimeout = 30 * time.Second

// pace judges how long calls take whose work is bounded by fuel. One that took longer
// than its timeout says nothing by itself, since the machine may have had other things
// to do; one that does so each time, or many that do, say that the module waits.
type pace struct {
	timeout     time.Duration
	now         func() time.Time
	calls, slow int
}

const (
	// paceTries is how often a call may take too long before it is the module's fault.
	paceTries = 5
	// slowCalls of many, if they are more than one in slowShare, are the module's fault.
	slowCalls, slowShare = 100, 100
)

// best makes the same call again until one is in time. Errors end it.
func (p *pace) best(call func() error) error {
	least := time.Duration(0)
	for range paceTries {
		began := p.now()
		if err := call(); err != nil {
			return err
		}
		took := p.now().Sub(began)
		if took <= p.timeout {
			return nil
		}
		if least == 0 || took < least {
			least = took
		}
	}
	return fmt.Errorf("took %v or longer %d times, and its timeout is %v", least.Round(time.Millisecond), paceTries, p.timeout)
}

// one makes one of many calls.
func (p *pace) one(call func() error) error {
	began := p.now()
	if err := call(); err != nil {
		return err
	}
	p.calls++
	if p.now().Sub(began) > p.timeout {
		p.slow++
	}
	if p.slow > slowCalls && p.slow > p.calls/slowShare {
		return fmt.Errorf("%d of %d calls took longer than its timeout of %v", p.slow, p.calls, p.timeout)
	}
	return nil
}

// remark tells of slow calls that were let pass.
func (p *pace) remark() string {
	if p.slow == 0 {
		return ""
	}
	return fmt.Sprintf("; %d took longer than the timeout of %v, as happens on a busy machine", p.slow, p.timeout)
}
