package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/plugins/exec/internal/bodies"
	"github.com/caisson-run/caisson/plugins/exec/internal/programmatic"
	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
)

// requestHeader names a request so that its caller can cancel it.
const requestHeader = "X-LibreChat-Code-Request-ID"

// maxRequestID bounds such a name, maxKeptReply a reply that can be had again.
const (
	maxRequestID = 128
	maxKeptReply = 1 << 20
)

// programmatic answers POST /exec/programmatic: the first request of a program, and each
// continuation.
func (d *door) programmatic(w http.ResponseWriter, r *http.Request) error {
	p := principal(r)
	if err := checkHeaders(r.Header); err != nil {
		return err
	}
	// The place comes first: it bounds how many bodies are in memory.
	place, err := d.join(p.Org)
	if err != nil {
		return err
	}
	mine := newBorrowed(place, d.bodies.Open(p.Org))
	defer mine.end()
	body, whole, err := d.programBody(w, r, programOwner(p), mine.share)
	if away, ok := errors.AsType[*awayError](err); ok {
		if whole.over {
			return refuse(http.StatusBadRequest, "invalid_request", "continuation_token must come before tool_results")
		}
		mine.giveBack()
		return d.pass(w, r, away.node, io.MultiReader(bytes.NewReader(whole.kept), whole.Reader))
	}
	if err != nil {
		return programRefusal(err)
	}
	if body.Token != "" {
		return d.continueProgram(w, r, p, mine, body)
	}
	return d.beginProgram(w, r, p, mine, body, whole)
}

// borrowed is a request's place and the memory of its body. A program may have both, too.
type borrowed struct {
	*queue.Place
	holders atomic.Int32
	gone    bool // from the request

	share *bodies.Body
	kept  bool // the program closes it
}

func newBorrowed(place *queue.Place, share *bodies.Body) *borrowed {
	b := &borrowed{Place: place, share: share}
	b.holders.Store(1)
	return b
}

func (b *borrowed) end() {
	b.giveBack()
	if !b.kept {
		b.share.Close()
	}
}

func (b *borrowed) giveBack() {
	if !b.gone {
		b.gone = true
		b.drop()
	}
}

func (b *borrowed) drop() {
	if b.holders.Add(-1) == 0 {
		b.Place.Leave()
	}
}

// hand lets a program have the place, too: it runs until the program does not, and is
// taken until the request has been answered as well. An answer takes memory until it has
// been read.
func (b *borrowed) hand() programmatic.Slot {
	b.holders.Add(1)
	return handed{b}
}

// handed is the place as a program has it.
type handed struct{ b *borrowed }

func (h handed) Leave() {
	h.b.Done()
	h.b.drop()
}

// programBody reads a body. The beginning of what another node has to be given is kept; a
// token of a program there is an *awayError.
func (d *door) programBody(w http.ResponseWriter, r *http.Request, owner programmatic.Owner, share *bodies.Body) (*programmatic.Body, *replayed, error) {
	over := "the body is larger than " + strconv.Itoa(programmatic.MaxBody) + " bytes"
	g, err := d.guard(w, r, programmatic.MaxBody, over, false)
	if err != nil {
		return nil, nil, err
	}
	whole := &replayed{Reader: g.weighed(share), most: int(d.o.BodyBytes) + maxReplay}
	if d.host.Peers() == nil {
		whole.forget()
	}
	end := func() {}
	defer func() { end() }()
	body, err := programmatic.ReadBody(whole, programmatic.BodyOptions{
		Members: d.o.BodyBytes, Results: programCalls, Known: programMembers,
		Token: func(token string) error {
			share.InParts()
			id, ok := nodePart(token)
			if !ok {
				return &programmatic.BodyError{Rule: "continuation_token is not one that was issued"}
			}
			node, err := d.host.Peers().Away(r, id)
			switch {
			case err != nil:
				return programmatic.ErrNotFound // on a node that is not there
			case node != nil:
				return &awayError{node}
			}
			whole.forget()
			done, err := d.programs.Read(owner, token)
			if err == nil {
				end = done
			}
			return err
		},
	})
	return body, whole, g.read(err)
}

// beginProgram answers the first request.
func (d *door) beginProgram(w http.ResponseWriter, r *http.Request, p host.Principal, place *borrowed, body *programmatic.Body, whole *replayed) error {
	if err := d.take(r.Context(), p, RateRuns); err != nil {
		return err
	}
	in, err := decodeProgram(body.Members)
	if err != nil {
		return err
	}
	if node, err := d.nodeOf(r, &in.CodeRun); node != nil || err != nil {
		if err != nil {
			return err
		}
		if whole.over {
			return refuse(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than "+strconv.FormatInt(d.o.BodyBytes, 10)+" bytes")
		}
		place.giveBack()
		return d.pass(w, r, node, bytes.NewReader(whole.kept))
	}
	whole.forget()
	source, err := in.text()
	if err != nil {
		return err
	}
	if err := place.share.Decoded(2 * int64(len(source))); err != nil { // it has the code, and so has in
		return tooManyBodies(err)
	}
	var tools []string
	for _, t := range in.tools {
		tools = append(tools, t.Name)
	}
	prog, err := d.programs.Begin(programOwner(p), requestName(r), tools, place.hand())
	if err != nil {
		return programRefusal(err)
	}
	if in.Lang == langBash {
		prog.Gather(gatherShells)
	}
	alive := make(chan struct{})
	tooled := &program{Program: prog, source: source, calls: len(tools) > 0}
	c := &call{
		in: &in.CodeRun, place: place.Place, principal: p, billing: d.billing, cents: d.o.Fee(), log: d.log,
		admitted: sync.OnceFunc(func() { close(alive) }),
		program:  tooled, watch: tooled,
	}
	// What the request's context carries, such as who pays, is for the whole program; its
	// end is that of this request only.
	place.kept = true
	prog.Run(context.WithoutCancel(r.Context()), func(ctx context.Context) outcome {
		defer place.share.Close()
		return d.runProgram(ctx, c)
	})
	out := newReply(w, d.o.KeepAlive)
	return d.answerProgram(r, out, prog, nil, alive)
}

// requestName is what the caller may cancel the request by; empty where that is nothing.
func requestName(r *http.Request) string {
	name := r.Header.Get(requestHeader)
	if len(name) > maxRequestID {
		return ""
	}
	return name
}

// runProgram is the whole life of a program. A panic ends it and not the process.
func (d *door) runProgram(ctx context.Context, c *call) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			d.log.Error("panic in a program", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			o = outcome{c: c, err: refuse(http.StatusInternalServerError, "internal", "internal error")}
		}
	}()
	res, err := d.run(ctx, c)
	return outcome{c: c, res: res, err: err}
}

// continueProgram answers a continuation.
func (d *door) continueProgram(w http.ResponseWriter, r *http.Request, p host.Principal, place *borrowed, body *programmatic.Body) error {
	cont, err := d.programs.Continue(programOwner(p), requestName(r), body.Token, body.Results)
	if err != nil {
		return programRefusal(err)
	}
	out := newReply(w, d.o.KeepAlive)
	if cont.Replay != nil {
		out.encoded(cont.Replay)
		return nil
	}
	body.Results = nil // the program has them now
	if err := d.room(r.Context(), place.Place, cont); err != nil {
		if r.Context().Err() != nil {
			cont.Stop()
			return programRefusal(programmatic.ErrCanceled)
		}
		cont.Abandon()
		return err
	}
	out.keepAlive() // not before: who finds no room may come again, which only a status says
	cont.Resume(place.hand())
	return d.answerProgram(r, out, cont.Program, cont, nil)
}

// room waits for room to run on. Memory the program has.
func (d *door) room(ctx context.Context, place *queue.Place, cont *programmatic.Continuation[outcome]) error {
	if cont.Over() {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, d.o.MaxWait)
	defer cancel()
	place.Resumes()
	if cont.Program.Elsewhere() {
		place.Elsewhere()
	}
	err := place.Wait(wait)
	if err != nil {
		place.Done()
	}
	if err != nil && ctx.Err() == nil {
		err = rateLimited("no room to run within "+d.o.MaxWait.String(), defaultRetry, err)
	}
	return err
}

// answerProgram waits for what comes of the program next and answers with that.
func (d *door) answerProgram(r *http.Request, out *reply, prog *programmatic.Program[outcome], cont *programmatic.Continuation[outcome], alive <-chan struct{}) error {
	answered := false
	defer func() {
		out.end()
		if !answered {
			prog.Stop() // a panic, or nobody to answer
		}
	}()
	e, err := prog.Next(r.Context(), alive, out.keepAlive)
	if err != nil {
		annotate(r.Context(), "session", prog.Session(), "outcome", "abandoned")
		return programRefusal(programmatic.ErrCanceled)
	}
	answered = true
	var reply *programReply
	switch {
	case e.Round != nil && d.programs.Closed(): // nobody would be there to continue it with
		prog.Stop()
		if cont != nil {
			cont.Answered(nil)
		}
		return d.failProgram(out, prog.Session(), 0, queue.ErrClosed)
	case e.Round != nil:
		annotate(r.Context(), "session", prog.Session(), "calls", len(e.Round.Calls))
		reply = roundReply(prog, e.Round)
	default:
		o := e.Outcome
		annotate(r.Context(), "run", o.c.runID, "session", o.c.session, "started", o.c.started, "outcome", o.c.outcome)
		if reply, err = endOf(prog, o); err != nil {
			if cont != nil {
				cont.Answered(nil)
			}
			return d.failProgram(out, o.c.named, o.c.wall, err)
		}
	}
	b := response.Encode(reply)
	if cont != nil {
		kept := b
		if len(kept) > maxKeptReply {
			kept = nil
		}
		cont.Answered(kept)
	}
	out.encoded(b)
	return nil
}

// endOf is the reply to whoever waits for a program that has ended, or why there is none.
func endOf(prog *programmatic.Program[outcome], o outcome) (*programReply, error) {
	if o.err == nil {
		return endReply(o.res), nil
	}
	why := prog.Stopped()
	switch {
	case errors.Is(why, programmatic.ErrOverrun):
		return lateReply(o.c.named, o.c.wall, refuse(http.StatusGatewayTimeout, codeTimeout, textTimeout)), nil
	case why != nil:
		return nil, programRefusal(why)
	}
	return nil, o.err
}

// failProgram answers with why there is nothing else to answer with. Wall is how long the
// program ran, as far as that is known.
func (d *door) failProgram(out *reply, session string, wall time.Duration, err error) error {
	out.end()
	if !out.sent {
		return err
	}
	out.encoded(response.Encode(lateReply(session, wall, asRefusal(err))))
	return errors.Join(err, errLate)
}

// cancelBytes bounds the body of a cancellation.
const cancelBytes = 16 << 10

// peerCancel bounds how long other replicas are asked to cancel a request.
const peerCancel = 2 * time.Second

// cancelProgram answers POST /exec/programmatic/cancel. Nobody learns whether there was
// such a request.
func (d *door) cancelProgram(w http.ResponseWriter, r *http.Request) error {
	p := principal(r)
	body, err := d.readBody(w, r, cancelBytes, nil)
	if err != nil {
		return err
	}
	var in struct {
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.RequestID == "" || len(in.RequestID) > maxRequestID {
		return refuse(http.StatusBadRequest, "invalid_request", "request_id must be a string of 1 to "+strconv.Itoa(maxRequestID)+" bytes")
	}
	d.programs.Cancel(programOwner(p), in.RequestID)
	d.tellOthers(r, body)
	response.JSON(w, http.StatusAccepted, map[string]any{"message": "accepted", "status": http.StatusAccepted})
	return nil
}

// tellOthers passes a cancellation on: any of the other replicas may have the program, or
// be about to. It is an attempt; a program whose caller is gone ends by its ttl.
func (d *door) tellOthers(r *http.Request, body []byte) {
	ctx, cancel := context.WithTimeout(r.Context(), peerCancel)
	defer cancel()
	var all sync.WaitGroup
	for _, node := range d.host.Peers().Others(r) {
		all.Go(func() {
			// A proxy whose other side breaks off ends its handler, which is not this one.
			defer func() {
				if v := recover(); v != nil && v != http.ErrAbortHandler {
					d.log.Error("panic in a cancellation", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				}
			}()
			q := r.Clone(ctx)
			q.Body, q.ContentLength = http.NoBody, int64(len(body))
			node.Forward(&nowhere{h: make(http.Header)}, q, bytes.NewReader(body), func(err error) {
				d.log.Debug("a cancellation was not passed on", "node", node.Name, "error", err)
			})
		})
	}
	all.Wait()
}

// nowhere is an answer that nobody reads.
type nowhere struct{ h http.Header }

func (n *nowhere) Header() http.Header         { return n.h }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}
