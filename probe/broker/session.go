package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sort"
	"time"
)

// session is one client's connection.
type session struct {
	server   *Server
	conn     *net.UnixConn
	peer     Peer
	rights   rights
	user     *user
	attached map[uint64]*attachment
	last     uint64
	checked  time.Time
}

func (c *session) serve() error {
	buf := make([]byte, maxMessage+1)
	heard := time.Now()
	for {
		err := c.conn.SetReadDeadline(time.Now().Add(min(checkEvery, c.server.idle)))
		if err != nil {
			return fmt.Errorf("broker: process %d: %w", c.peer.PID, err)
		}
		n, _, err := readMessage(c.conn, buf, 0)
		c.check()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if len(c.attached) == 0 && time.Since(heard) >= c.server.idle {
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
			// A client that breaks the protocol gets an answer and is dropped.
			return errors.Join(fmt.Errorf("broker: process %d: %w", c.peer.PID, err),
				c.send(errorReply(err), nil))
		}
		if err := c.handle(req); err != nil {
			return fmt.Errorf("broker: answer process %d: %w", c.peer.PID, err)
		}
		heard = time.Now()
	}
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
	c.last++
	c.attached[c.last] = g.a
	return &reply{Attachment: c.last, Sites: g.sites, Maps: g.names}, files, func() { g.close() }, nil
}

// grant does everything that attaching needs, and returns the descriptors for the client.
// If it fails, the caller undoes what it has done.
func (c *session) grant(req *request, g *grant) ([]int, error) {
	if len(c.attached) >= maxOnConnection {
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
// that f reads. within returns after attachTimeout; the request stays pending until f
// returns, which is soon unless a system call waits.
func (c *session) within(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.server.patient)
	defer cancel()
	end, err := c.server.users.begin(ctx, c.user)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer end()
		done <- f(ctx)
	}()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			c.check()
		case <-ctx.Done():
			return fmt.Errorf("the targets could not be resolved in %v: %w", c.server.patient,
				os.ErrDeadlineExceeded)
		}
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
		if err := g.a.gate.put(g.spec); err != nil {
			return err
		}
	}
	return c.server.book(g.rule, g.a)
}

func (c *session) find(id uint64) (*attachment, error) {
	a := c.attached[id]
	if a == nil {
		return nil, fmt.Errorf("no attachment %d: %w", id, errNotExist)
	}
	return a, nil
}

func (c *session) detach(id uint64) error {
	a, err := c.find(id)
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	delete(c.attached, id)
	return c.server.release(a)
}

func (c *session) stats(id uint64) (*reply, error) {
	a, err := c.find(id)
	if err == nil {
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

// check ends the attachments that may not go on. It does so at most once in checkEvery.
func (c *session) check() {
	now := time.Now()
	if now.Sub(c.checked) < checkEvery {
		return
	}
	c.checked = now
	for _, a := range c.attached {
		if err := a.ended(now); err != nil && a.share != nil {
			c.audit(&request{Op: "end"}, errors.Join(err, c.server.release(a)))
		}
	}
}

// close ends everything that the client had.
func (c *session) close() error {
	var errs []error
	for id := range c.attached {
		errs = append(errs, c.detach(id))
	}
	return errors.Join(errs...)
}
