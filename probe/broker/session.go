package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"sort"
	"sync"
	"time"
)

// session is one client's connection. One goroutine receives requests and carries them out.
// Another one checks the attachments, and ends them if the client has gone: it waits for
// nothing that a client controls.
type session struct {
	server *Server
	conn   *net.UnixConn
	peer   Peer
	rights rights
	user   *user
	gone   chan struct{} // closed by end
	last   uint64        // id of an attachment

	mu       sync.Mutex             // not held over anything that may wait
	attached map[uint64]*attachment // guarded by mu
	over     bool                   // guarded by mu: end was called
	err      error                  // guarded by mu: of releases at the end
	releases sync.WaitGroup
}

func newSession(s *Server, conn *net.UnixConn, peer Peer) *session {
	return &session{
		server: s, conn: conn, peer: peer, gone: make(chan struct{}),
		attached: map[uint64]*attachment{},
	}
}

// run serves the client, and returns when everything that it had is gone.
func (c *session) run() error {
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { c.watch(stop) })
	err := c.serve()
	close(stop)
	watching.Wait()
	c.end()
	c.releases.Wait()
	c.mu.Lock()
	err = errors.Join(err, c.err)
	c.mu.Unlock()
	if errors.Is(err, errMessage) {
		// A client that breaks the protocol gets an answer and is dropped.
		err = errors.Join(err, c.send(errorReply(err), nil))
	}
	return err
}

func (c *session) serve() error {
	buf := make([]byte, maxMessage+1)
	for {
		err := c.conn.SetReadDeadline(time.Now().Add(c.server.idle))
		if err != nil {
			return fmt.Errorf("broker: process %d: %w", c.peer.PID, err)
		}
		n, _, err := readMessage(c.conn, buf, 0)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if c.has() == 0 {
				return fmt.Errorf("broker: process %d asked for nothing for %v", c.peer.PID, c.server.idle)
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("broker: read from process %d: %w", c.peer.PID, err)
		}
		req, err := decodeRequest(buf[:n])
		if err != nil {
			return fmt.Errorf("broker: process %d: %w", c.peer.PID, err)
		}
		if err := c.handle(req); err != nil {
			return fmt.Errorf("broker: answer process %d: %w", c.peer.PID, err)
		}
	}
}

// watch checks the attachments until stop is closed or the client has gone.
func (c *session) watch(stop <-chan struct{}) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		c.check()
		if hungUp(c.conn) {
			c.end()
			return
		}
	}
}

// has returns the number of attachments.
func (c *session) has() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.attached)
}

func (c *session) audit(req *request, err error) {
	if c.server.Audit != nil {
		c.server.Audit(Decision{c.peer, req.Op, req.Offer, slices.Clone(req.Targets), err})
	}
}

// handle carries a request out and answers; its error is the connection's.
func (c *session) handle(req *request) error {
	var files []int
	var done func()
	r := &reply{}
	var err error
	switch req.Op {
	case opAttach:
		r, files, done, err = c.attach(req)
	case opDetach:
		err = c.detach(req.Attachment)
	case opStats:
		r, err = c.stats(req.Attachment)
	case opOffers:
		r.Offers = c.server.offersFor(c.peer)
	}
	if done != nil {
		defer done()
	}
	c.audit(req, err)
	if err != nil {
		return c.send(errorReply(err), nil)
	}
	return c.sendParts(r, files)
}

// sendParts sends a reply with descriptors for its maps and then its links, in
// as many messages as they need.
func (c *session) sendParts(r *reply, files []int) error {
	links := len(files) - len(r.Maps)
	for {
		part := *r
		part.Maps = r.Maps[:min(len(r.Maps), maxFiles)]
		part.Links = min(links, maxFiles-len(part.Maps))
		n := len(part.Maps) + part.Links
		r.Maps, links = r.Maps[len(part.Maps):], links-part.Links
		part.More = len(r.Maps)+links > 0
		if err := c.send(&part, files[:n]); err != nil || !part.More {
			return err
		}
		files = files[n:]
	}
}

func (c *session) send(r *reply, files []int) error {
	r.Version = wireVersion
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("%w: an answer of %d bytes", errMessage, len(b))
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	return writeMessage(c.conn, b, files)
}

// offersFor returns the names of the offers that a peer may ask for.
func (s *Server) offersFor(peer Peer) []string {
	var out []string
	for name := range s.offers {
		if _, _, err := s.policy.rule(peer, name); err == nil {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// attach checks a request against the policy and carries it out. done closes the
// descriptors after they are sent.
func (c *session) attach(req *request) (r *reply, files []int, done func(), err error) {
	fail := func(err error) (*reply, []int, func(), error) {
		return nil, nil, nil, fmt.Errorf("attach: %w", err)
	}
	index, rule, err := c.server.policy.rule(c.peer, req.Offer)
	if err != nil {
		return fail(err)
	}
	offer, ok := c.server.offers[req.Offer]
	if !ok {
		return fail(fmt.Errorf("no offer is called %s: %w", req.Offer, errNotExist))
	}
	g := &grant{
		rule: rule, offer: &offer,
		a: &attachment{account: account{index, c.peer.UID}, since: time.Now()},
	}
	if files, err = c.grant(req, g); err != nil {
		return fail(fmt.Errorf("rule %d: %w", index, errors.Join(err, g.close(), c.server.release(g.a))))
	}
	if err := c.keep(g.a); err != nil {
		return fail(errors.Join(err, g.close(), c.server.release(g.a)))
	}
	return &reply{Attachment: c.last, Sites: g.sites, Maps: g.names}, files, func() { g.close() }, nil
}

// keep gives the client an attachment.
func (c *session) keep(a *attachment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errGone
	}
	c.last++
	c.attached[c.last] = a
	return nil
}

// errGone is the error of requests whose client has gone.
var errGone = fmt.Errorf("the client has gone: %w", fs.ErrClosed)

// grant does everything that attaching needs, and returns the descriptors for the client.
// If it fails, the caller undoes what it has done.
func (c *session) grant(req *request, g *grant) ([]int, error) {
	if c.has() >= maxOnConnection {
		return nil, refuse("%d attachments on one connection are allowed", maxOnConnection)
	}
	self := 0
	if req.Self {
		// A peer in a process namespace that this one can't see has no pid here.
		if self = c.peer.PID; self == 0 {
			return nil, refuse("the client's process is not visible to the broker")
		}
	}
	targets, err := g.rule.targets(req.Targets, self)
	if err != nil {
		return nil, err
	}
	own := ownPIDs(g.rule, targets)
	if len(own) > 0 {
		if g.a.gate, err = newGate(own); err != nil {
			return nil, err
		}
	}
	v := &vetting{session: c, rule: g.rule, offer: g.offer, targets: targets, own: own}
	if err := c.within(v.run); err != nil {
		return nil, err
	}
	g.plan = v.plan
	places := placesOf(g.plan)
	if err := c.server.pauses.check(c.peer.UID, places, time.Now()); err != nil {
		return nil, err
	}
	g.a.tooHot = func(now time.Time) { c.server.pauses.begin(c.peer.UID, places, now) }
	if err := c.compile(g); err != nil {
		return nil, err
	}
	if err := g.carryOut(&c.server.commons); err != nil {
		return nil, err
	}
	if err := v.again(); err != nil {
		return nil, err
	}
	// Threads may have been started since they were counted.
	if err := tooManyThreads(g.sites - len(places)); err != nil {
		return nil, err
	}
	if err := g.a.ended(time.Now()); err != nil {
		return nil, err
	}
	return g.files()
}

// within calls f, which may never return, because the client itself may serve the files
// that f reads. within returns after attachTimeout, or when the client has gone; the request
// stays pending until f returns, which is soon unless a system call waits.
func (c *session) within(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.server.patient)
	defer cancel()
	go func() {
		select {
		case <-c.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	end, err := c.server.users.begin(ctx, c.user)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer end()
		done <- f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case <-c.gone:
		return errGone
	default:
		return fmt.Errorf("the targets could not be resolved in %v: %w", c.server.patient,
			os.ErrDeadlineExceeded)
	}
}

// compile makes the programs, and counts their memory.
func (c *session) compile(g *grant) error {
	left := g.rule.maxMapBytes() - c.server.used(g.a.account).bytes
	spec, err := g.offer.Compile(g.plan, Limits{g.rule.eventsPerSecond(), left})
	if err != nil {
		return err
	}
	if g.a.bytes, err = mapBytes(spec); err != nil {
		g.a.bytes = 0
		return err
	}
	g.spec = spec.Copy()
	if g.a.gate != nil {
		if err := g.a.gate.put(g.spec, g.rule.Kernel); err != nil {
			return err
		}
	}
	return c.server.book(g.rule, g.a)
}

// errNoAttachment returns the error for an id that the client has no attachment of.
func errNoAttachment(id uint64) error { return fmt.Errorf("no attachment %d: %w", id, errNotExist) }

func (c *session) detach(id uint64) error {
	c.mu.Lock()
	a := c.attached[id]
	delete(c.attached, id)
	c.mu.Unlock()
	if a == nil {
		return fmt.Errorf("detach: %w", errNoAttachment(id))
	}
	return c.server.release(a)
}

func (c *session) stats(id uint64) (*reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.attached[id]
	err := errNoAttachment(id)
	if ok {
		err = a.ended(time.Now())
	}
	if err == nil && a.share == nil {
		err = fmt.Errorf("its links were handed over: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	st, err := a.share.Stats()
	return &reply{Events: st.Events, Dropped: st.Dropped}, err
}

// check ends the attachments that may not go on, each in a goroutine of its own: detaching
// one may wait for a process that it is for, and the others are checked meanwhile.
func (c *session) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, a := range c.attached {
		if err := a.ended(now); err != nil && !a.told {
			a.told = true
			c.releases.Go(func() {
				c.audit(&request{Op: "end"}, errors.Join(err, c.server.release(a)))
			})
		}
	}
}

// end begins to end everything that the client had. It may be called again.
func (c *session) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	close(c.gone)
	for id, a := range c.attached {
		delete(c.attached, id)
		c.releases.Go(func() {
			err := c.server.release(a)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.err = errors.Join(c.err, err)
		})
	}
}
