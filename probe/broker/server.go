package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
)

// Offer is a program that clients may ask for by name.
type Offer struct {
	// Compile makes the programs and maps for a plan: action.Compile of a
	// program, or a collection from an object file, with the programs under
	// their names in the plan. It is called by several connections at a time.
	Compile func(*probe.Plan, Limits) (*ebpf.CollectionSpec, error)
	// Resolve is how targets are resolved; nil is the default. Missing has to
	// be MissingError: what a client asks for it gets, or an error.
	Resolve *probe.Options
	// Maps are the names of the maps that the client is given; nil is all whose
	// names do not begin with a dot.
	Maps []string
	// Writable are those of them that the client may write to. Others it can
	// only read, except ring buffers.
	Writable []string
}

// Decision is what a Server decided about a request: plain data for an audit.
type Decision struct {
	Peer    Peer
	Op      string
	Offer   string
	Targets []string
	// Err is nil if the request was carried out.
	Err error
}

// Server attaches what its policy allows for the clients that connect. It is
// safe for concurrent use.
type Server struct {
	// Audit, if set, is told of every request, before it is answered. It is
	// called by several connections at a time. Set it before the first.
	Audit func(Decision)
	// Env is what plans depend on; nil is this machine. Set it before the first
	// connection.
	Env *probe.Env

	policy Policy
	offers map[string]Offer

	commons commons

	mu    sync.Mutex
	usage map[account]usage // guarded by mu
}

// account is who uses what: a user under a rule.
type account struct {
	rule int
	uid  uint32
}

type usage struct {
	attachments int
	bytes       int64
}

// NewServer makes a server, which attaches nothing until it is asked to. Policy
// and offers are copied.
func NewServer(policy Policy, offers map[string]Offer) (*Server, error) {
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	s := &Server{policy: Policy{slices.Clone(policy.Rules)}, offers: map[string]Offer{}, usage: map[account]usage{}}
	for name, o := range offers {
		if o.Compile == nil {
			return nil, fmt.Errorf("broker: offer %s: nothing to compile", name)
		}
		if o.Resolve != nil && o.Resolve.Missing != probe.MissingError {
			return nil, fmt.Errorf("broker: offer %s: it resolves with a policy for what is missing", name)
		}
		s.offers[name] = o
	}
	return s, nil
}

// replyTimeout is how long a client may take to accept an answer. One that does
// not read holds up nobody but itself, and is dropped.
const replyTimeout = 10 * time.Second

// maxOnConnection bounds the attachments of one connection, whatever the rules.
const maxOnConnection = 16

// ServeConn serves one client until it goes, and detaches then whatever it had
// attached. It closes the connection, which must be of the network "unixpacket".
// It returns nil when the client closed the connection, and an error when it
// broke the protocol or the connection failed; closing the connection from
// elsewhere ends it. The caller runs it in a goroutine for each client.
func (s *Server) ServeConn(conn *net.UnixConn) error {
	defer conn.Close()
	peer, err := peerOf(conn)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	c := &session{server: s, conn: conn, peer: peer, attached: map[uint64]*attachment{}}
	err = c.serve()
	return errors.Join(err, c.close())
}

// session is one client's connection.
type session struct {
	server   *Server
	conn     *net.UnixConn
	peer     Peer
	attached map[uint64]*attachment
	last     uint64
}

// attachment is what a session holds for its client.
type attachment struct {
	account account
	bytes   int64
	// common and share are set on those that belong to the connection.
	common *common
	share  *probe.Share
}

func (c *session) serve() error {
	buf := make([]byte, maxMessage+1)
	for {
		n, _, err := readMessage(c.conn, buf, 0)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("broker: read from process %d: %w", c.peer.PID, err)
		}
		req, err := decodeRequest(buf[:n])
		if err != nil {
			// Who does not keep to the protocol is told so and dropped.
			return errors.Join(fmt.Errorf("broker: process %d: %w", c.peer.PID, err), c.send(errorReply(err), nil))
		}
		if err := c.handle(req); err != nil {
			return fmt.Errorf("broker: answer process %d: %w", c.peer.PID, err)
		}
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
	if c.server.Audit != nil {
		c.server.Audit(Decision{c.peer, req.Op, req.Offer, slices.Clone(req.Targets), err})
	}
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

// offersFor lists what a peer may ask for.
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

// attach checks a request against the policy and carries it out. done closes
// the descriptors, once they are sent.
func (c *session) attach(req *request) (r *reply, files []int, done func(), err error) {
	fail := func(err error) (*reply, []int, func(), error) { return nil, nil, nil, fmt.Errorf("attach: %w", err) }
	index, rule, err := c.server.policy.rule(c.peer, req.Offer)
	if err != nil {
		return fail(err)
	}
	offer, ok := c.server.offers[req.Offer]
	if !ok {
		return fail(fmt.Errorf("no offer is called %s: %w", req.Offer, errNotExist))
	}
	self := 0
	if req.Self {
		// A peer in a process namespace that this one can't see has no pid here.
		if self = c.peer.PID; self == 0 {
			return fail(refuse("the client's process is not visible to the broker"))
		}
	}
	targets, err := rule.targets(req.Targets, self)
	if err != nil {
		return fail(err)
	}
	owners, err := c.owners(rule, targets)
	if err != nil {
		return fail(err)
	}
	plan, err := c.plan(rule, &offer, targets)
	if err != nil {
		return fail(err)
	}
	a := &attachment{account: account{index, c.peer.UID}}
	spec, err := c.compile(rule, &offer, plan, a)
	if err != nil {
		return fail(err)
	}
	g := &grant{rule: rule, offer: &offer, plan: plan, spec: spec}
	err = g.carryOut(&c.server.commons, a)
	if err == nil {
		err = c.sameOwners(owners)
	}
	if err == nil {
		files, err = g.files()
	}
	if err != nil {
		return fail(errors.Join(err, g.close(), c.server.release(a)))
	}
	c.last++
	c.attached[c.last] = a
	return &reply{Attachment: c.last, Sites: g.sites, Maps: g.names}, files, func() { g.close() }, nil
}

// plan resolves the targets and checks everything that they stand for.
func (c *session) plan(rule *Rule, offer *Offer, targets []probe.Target) (*probe.Plan, error) {
	o := probe.Options{}
	if offer.Resolve != nil {
		o = *offer.Resolve
	}
	plan, err := probe.Resolve(c.server.Env, []probe.Target{probe.Set(targets)}, &o)
	if err != nil {
		return nil, err
	}
	sites := 0
	for i := range plan.Programs {
		for _, s := range plan.Programs[i].Sites {
			if err := rule.allows(s.Target); err != nil {
				return nil, err
			}
			sites++
		}
	}
	if n := rule.maxSites(); sites > n {
		return nil, refuse("%d places, %d are allowed", sites, n)
	}
	return plan, nil
}

// compile makes the programs, and books what they take.
func (c *session) compile(rule *Rule, offer *Offer, plan *probe.Plan, a *attachment) (*ebpf.CollectionSpec, error) {
	if len(c.attached) >= maxOnConnection {
		return nil, refuse("%d attachments on one connection are allowed", maxOnConnection)
	}
	left := rule.maxMapBytes() - c.server.used(a.account).bytes
	spec, err := offer.Compile(plan, Limits{rule.eventsPerSecond(), left})
	if err != nil {
		return nil, err
	}
	if a.bytes, err = mapBytes(spec); err != nil {
		return nil, err
	}
	return spec, c.server.book(rule, a)
}

func (s *Server) used(a account) usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage[a]
}

// book counts an attachment against its user's limits.
func (s *Server) book(rule *Rule, a *attachment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.usage[a.account]
	if u.attachments >= rule.maxAttachments() {
		return refuse("user %d has %d attachments already, %d are allowed", a.account.uid, u.attachments, rule.maxAttachments())
	}
	if left := rule.maxMapBytes() - u.bytes; a.bytes > left {
		return refuse("the maps take %d bytes, %d are left of the %d allowed", a.bytes, left, rule.maxMapBytes())
	}
	s.usage[a.account] = usage{u.attachments + 1, u.bytes + a.bytes}
	return nil
}

// release detaches and books out.
func (s *Server) release(a *attachment) error {
	s.mu.Lock()
	u := s.usage[a.account]
	s.usage[a.account] = usage{u.attachments - 1, u.bytes - a.bytes}
	s.mu.Unlock()
	if a.share == nil {
		return nil
	}
	return s.commons.leave(a.common, a.share)
}

// mapBytes estimates the memory of a collection's maps.
func mapBytes(spec *ebpf.CollectionSpec) (int64, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for name, m := range spec.Maps {
		// Rounded as the kernel does, with some 64 bytes for an entry of a hash.
		value, entry := (int64(m.ValueSize)+7)&^7, (int64(m.KeySize)+7)&^7+64
		n := int64(m.MaxEntries)
		switch m.Type {
		case ebpf.RingBuf:
			total += n
			continue
		case ebpf.Array:
			entry = 0
		case ebpf.PerCPUArray:
			entry, value = 8, value*int64(cpus)
		case ebpf.PerCPUHash, ebpf.LRUCPUHash:
			value *= int64(cpus)
		case ebpf.Hash, ebpf.LRUHash, ebpf.StackTrace, ebpf.PerfEventArray:
		default:
			return 0, fmt.Errorf("map %s: what a map of type %s takes is not known here: %w", name, m.Type, errors.ErrUnsupported)
		}
		total += n * (entry + value)
	}
	return total, nil
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
	if err == nil && a.share == nil {
		err = fmt.Errorf("its links were handed over: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	st, err := a.share.Stats()
	return &reply{Events: st.Events, Dropped: st.Dropped}, err
}

// close ends whatever the client had.
func (c *session) close() error {
	var errs []error
	for id := range c.attached {
		errs = append(errs, c.detach(id))
	}
	return errors.Join(errs...)
}

// owners notes whose the targets' processes are.
func (c *session) owners(rule *Rule, targets []probe.Target) (map[int]process, error) {
	out := map[int]process{}
	for _, t := range targets {
		pid := pidOf(t)
		if rule.AllProcesses || pid == 0 {
			continue
		}
		p, err := processOf(pid)
		if err != nil {
			return nil, fmt.Errorf("%s: no process %d: %w", t, pid, errNotExist)
		}
		if p.uid != c.peer.UID {
			return nil, refuse("%s: process %d is not of user %d", t, pid, c.peer.UID)
		}
		out[pid] = p
	}
	return out, nil
}

// sameOwners checks that the pids still stand for the same processes.
func (c *session) sameOwners(owners map[int]process) error {
	for pid, was := range owners {
		if is, err := processOf(pid); err != nil || is != was {
			return fmt.Errorf("process %d has changed meanwhile: %w", pid, errNotExist)
		}
	}
	return nil
}

// isOwn tells the maps that a broker does not give away.
func isOwn(name string) bool { return strings.HasPrefix(name, ".") }
