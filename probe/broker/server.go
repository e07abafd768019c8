package broker

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
)

// Offer is a program that clients may ask for by name.
type Offer struct {
	// Compile returns the programs and maps for a plan: by bpf.Compile, or from an object
	// file, with the programs under their names in the plan. Several connections may call
	// it at the same time.
	Compile func(*probe.Plan, Limits) (*ebpf.CollectionSpec, error)
	// Resolve are the options for resolving targets; nil are the defaults. Missing must be
	// MissingError: a client gets everything that it asks for, or an error. Unsafe must be
	// false.
	Resolve *probe.Options
	// Maps are the names of the maps that the client gets; nil is all maps whose names do
	// not begin with a dot.
	Maps []string
	// Writable are those of Maps that the client may write to. It can only read the
	// others, except ring buffers.
	Writable []string
}

// Decision is what a Server decided about a request. It is plain data for an audit.
type Decision struct {
	Peer    Peer
	Op      string
	Offer   string
	Targets []string
	// Err is nil if the request was carried out.
	Err error
}

// Server attaches what its policy allows for the clients that connect. It is safe for
// concurrent use.
type Server struct {
	// Audit, if set, is called for every request, before it is answered. Several
	// connections may call it at the same time. Set it before the first connection.
	Audit func(Decision)
	// Env is what plans depend on; nil is this machine. Set it before the first
	// connection.
	Env *probe.Env

	policy Policy
	offers map[string]Offer

	commons commons
	users   *users
	pauses  pauses
	leaving chan struct{} // clients that are being turned away
	idle    time.Duration // idleTimeout
	patient time.Duration // attachTimeout

	mu    sync.Mutex
	usage map[account]usage // guarded by mu
	kept  []kept            // guarded by mu
}

// NewServer returns a Server, which attaches nothing until a client asks for it. Policy and
// offers are copied.
func NewServer(policy Policy, offers map[string]Offer) (*Server, error) {
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	s := &Server{
		policy:  Policy{slices.Clone(policy.Rules)},
		offers:  map[string]Offer{},
		users:   newUsers(),
		leaving: make(chan struct{}, maxLeaving),
		idle:    idleTimeout,
		patient: attachTimeout,
		usage:   map[account]usage{},
	}
	for name, o := range offers {
		if o.Compile == nil {
			return nil, fmt.Errorf("broker: offer %s: nothing to compile", name)
		}
		if o.Resolve != nil && o.Resolve.Missing != probe.MissingError {
			return nil, fmt.Errorf("broker: offer %s: an offer must not set Options.Missing", name)
		}
		if o.Resolve != nil && o.Resolve.Unsafe {
			return nil, fmt.Errorf(
				"broker: offer %s: it lets clients put breakpoints inside of instructions", name)
		}
		s.offers[name] = o
	}
	return s, nil
}

// replyTimeout is how long a client may take to accept an answer. A client that does not
// read blocks only itself, and is dropped.
const replyTimeout = 10 * time.Second

// maxOnConnection bounds the attachments of one connection, whatever the rules.
const maxOnConnection = 16

// Serve accepts clients and serves each in a goroutine, until the listener, which must be
// of the network "unixpacket", is closed or fails. If accepting fails for lack of
// descriptors or memory, Serve waits and goes on. When it returns, all connections are shut
// down and their attachments gone. Its error is the listener's, net.ErrClosed after closing.
func (s *Server) Serve(l *net.UnixListener) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	conns := map[*net.UnixConn]bool{} // guarded by mu
	held, err := own(l)
	for ; passing(err); held, err = own(l) {
		time.Sleep(acceptDelay)
	}
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	defer wg.Wait()
	defer func() {
		closeAside(held, func() {})
		mu.Lock()
		defer mu.Unlock()
		for conn := range conns {
			go conn.Close() // one that no session owns yet may have unread messages
		}
	}()
	delay := acceptDelay
	for {
		conn, err := l.AcceptUnix()
		if passing(err) {
			time.Sleep(delay)
			delay = min(2*delay, time.Second)
			continue
		}
		if err != nil {
			return fmt.Errorf("broker: %w", err)
		}
		delay = acceptDelay
		mu.Lock()
		conns[conn] = true
		mu.Unlock()
		wg.Go(func() {
			s.ServeConn(conn) // the error concerns the client only: Audit has its requests
			mu.Lock()
			defer mu.Unlock()
			delete(conns, conn)
		})
	}
}

// acceptDelay is the first wait after connections could not be accepted.
const acceptDelay = 5 * time.Millisecond

// ServeConn serves one client until it disconnects, and then detaches everything that it
// had attached. It closes the connection, which must be of the network "unixpacket". To end
// it, close the connection from elsewhere. Programs that don't use Serve run ServeConn in a
// goroutine for each client.
//
// It returns nil if the client closed the connection. It returns an error if the connection
// failed or was idle for too long, and if the client broke the protocol, has too many
// connections or a user that no rule is for. A client that is turned away gets the reason
// once it has sent a request, or after a second.
func (s *Server) ServeConn(conn *net.UnixConn) error {
	held, err := own(conn)
	if err != nil {
		go conn.Close() // it may have unread messages
		return fmt.Errorf("broker: %w", err)
	}
	closed := func() {}
	defer func() {
		shutdown(held)
		conn.Close()
		closeAside(held, closed)
	}()
	peer, err := peerOf(conn)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	c := newSession(s, conn, peer)
	if c.rights, err = rightsOf(conn, peer); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	if err = s.policy.knows(peer); err == nil {
		c.user, err = s.users.connect(peer.UID)
	}
	if err != nil {
		c.audit(&request{Op: "connect"}, err)
		return errors.Join(fmt.Errorf("broker: process %d: %w", peer.PID, err), s.turnAway(c, err))
	}
	closed = func() { s.users.disconnect(c.user) }
	return c.run()
}

// A client that is turned away may first send a request, within this time, and only so many
// clients at a time.
const (
	leaveTimeout = time.Second
	maxLeaving   = 64
)

// turnAway sends a client the reason why it is not served, once it has sent a request.
// Before Linux 6.2 a socket that is written to while its other end is being closed loses
// what it has received (unix_dgram_sendmsg and unix_dgram_disconnected, net/unix/af_unix.c).
func (s *Server) turnAway(c *session, why error) error {
	select {
	case s.leaving <- struct{}{}:
		defer func() { <-s.leaving }()
		if err := c.conn.SetReadDeadline(time.Now().Add(leaveTimeout)); err != nil {
			return err
		}
		_, _, _ = readMessage(c.conn, make([]byte, 1), 0) // its contents do not matter
	default:
	}
	return c.send(errorReply(why), nil)
}
