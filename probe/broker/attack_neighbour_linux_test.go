package broker

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
)

// neighbours are clients of one broker: whose request is held up, and those who must
// not notice.
type neighbours struct {
	*testBroker
	t *testing.T
	// slow is of nobody's, near another connection of the same user, far another user's.
	slow, near, far *Client
	p               *target // nobody's
	app             string  // the file that slow asks for
	// compiling is called when slow's offer is compiled.
	compiling atomic.Pointer[func()]
}

// held is a client's request that was begun and is held up.
type held struct {
	done chan error
	free func() // lets it go on
}

// TestAttackNeighbour: while a request of one client is held up, wherever that is, other
// clients' are carried out: nothing that they need is locked over resolving, compiling,
// attaching, detaching or answering.
func TestAttackNeighbour(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Uprobes, testenv.Ringbuf)
	for _, c := range []struct {
		name string
		hold func(*neighbours) held
	}{
		{"resolve", (*neighbours).holdResolve},
		{"compile", (*neighbours).holdCompile},
		{"attach", (*neighbours).holdAttach},
		{"detach", (*neighbours).holdDetach},
		{"answer", (*neighbours).holdAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNeighbours(t)
			h := c.hold(n)
			n.served(h)
			h.free()
			if err := <-h.done; err != nil {
				t.Errorf("the request that was held up: %v", err)
			}
		})
	}
}

func newNeighbours(t *testing.T) *neighbours {
	t.Helper()
	dir := hall(t)
	n := &neighbours{t: t, app: put(t, dir+"/app", 0o755, nobody)}
	n.testBroker = startServer(t, func(s *Server) {
		s.offers["secret"] = Offer{Compile: func(p *probe.Plan, l Limits) (*ebpf.CollectionSpec, error) {
			if hold := n.compiling.Load(); hold != nil {
				(*hold)()
			}
			return compile(p, l)
		}}
	},
		Rule{Anyone: true, Offers: []string{"count"}, Targets: []Allow{{Kind: "uprobe", File: "*", Function: "*", Also: []string{"languages"}}, {Kind: "usdt", File: "*", Provider: "*", Name: "*"}}, MaxAttachments: 16},
		Rule{Anyone: true, Offers: []string{"secret"}, Targets: []Allow{{Kind: "uprobe", File: "*", Function: "*"}}, AllProcesses: true},
	)
	n.p = startTarget(t, nobody, true, nil)
	n.slow, n.near, n.far = n.dialAs(t, nobody), n.dialAs(t, nobody), n.dial(t)
	return n
}

// begin has slow ask for something.
func (n *neighbours) begin(offer, target string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := n.slow.Attach(Request{Offer: offer, Targets: []string{target}})
		done <- err
	}()
	return done
}

// holdResolve has the broker open a file that its owner has a lease of: open(2) waits
// until the lease is given back, and longer than this test takes.
func (n *neighbours) holdResolve() held {
	fd, err := unix.Open(n.app, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { unix.Close(fd) })
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	testenv.Need(n.t, testenv.Got("a lease of a file", err))
	done := n.begin("count", fmt.Sprintf("uprobe:%s:f pid=%d", n.app, n.p.pid))
	n.wait("the lease is asked back", func() bool {
		kind, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0)
		return err == nil && kind != unix.F_WRLCK // what it is to become
	})
	return held{done, func() {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			n.t.Error(err)
		}
	}}
}

// holdCompile waits in the offer.
func (n *neighbours) holdCompile() held {
	began, end := make(chan bool), make(chan bool)
	hold := func() {
		close(began)
		<-end
	}
	n.compiling.Store(&hold)
	h := held{n.begin("secret", "uprobe:"+n.app+":f"), func() { close(end) }}
	<-began
	return h
}

// holdAttach waits where slow's probes are attached.
func (n *neighbours) holdAttach() held {
	target := "uprobe:" + n.app + ":f"
	free := n.lock(target)
	h := held{n.begin("secret", target), free}
	n.wait("the request is there", func() bool { return n.users(target) == 2 })
	return h
}

// holdDetach waits where they are detached.
func (n *neighbours) holdDetach() held {
	target := "uprobe:" + n.app + ":f"
	a, err := n.slow.Attach(Request{Offer: "secret", Targets: []string{target}})
	testenv.SkipUnsupported(n.t, err)
	if err != nil {
		n.t.Fatal(err)
	}
	n.server.commons.mu.Lock()
	m := n.server.commons.of[n.key(target)][0]
	n.server.commons.mu.Unlock()
	m.mu.Lock()
	done := make(chan error, 1)
	go func() { done <- a.Close() }()
	n.wait("the last user goes", func() bool { return n.users(target) == 0 })
	return held{done, m.mu.Unlock}
}

// holdAnswer asks again and again and reads no answer.
func (n *neighbours) holdAnswer() held {
	conn := n.connect(n.t)
	for _, size := range []func() error{func() error { return conn.SetReadBuffer(1) }, func() error { return conn.SetWriteBuffer(1 << 20) }} {
		if err := size(); err != nil {
			n.t.Fatal(err)
		}
	}
	var asked atomic.Int64
	done := make(chan error, 1)
	go func() {
		for {
			if err := writeMessage(conn, []byte(`{"v":1,"op":"offers"}`), nil); err != nil {
				done <- nil // closed by free
				return
			}
			asked.Add(1)
		}
	}()
	was := int64(-1)
	n.wait("nothing is written any more", func() bool {
		time.Sleep(50 * time.Millisecond)
		now := asked.Load()
		defer func() { was = now }()
		return now == was
	})
	return held{done, func() { conn.Close() }}
}

// key is what attachments are found by.
func (n *neighbours) key(target string) string {
	n.t.Helper()
	parsed, err := probe.ParseTarget(target)
	if err != nil {
		n.t.Fatal(err)
	}
	plan, err := probe.Resolve(nil, []probe.Target{probe.Set{parsed}}, &probe.Options{MaxFunctions: 8*64 + 64})
	if err != nil {
		n.t.Fatal(err)
	}
	return commonKey(plan)
}

// users are how many are attached at a place, or about to be.
func (n *neighbours) users(target string) int {
	key := n.key(target)
	n.server.commons.mu.Lock()
	defer n.server.commons.mu.Unlock()
	users := 0
	for _, m := range n.server.commons.of[key] {
		users += m.users
	}
	return users
}

// lock keeps whoever attaches at a place waiting.
func (n *neighbours) lock(target string) (free func()) {
	m := n.server.commons.enter(n.key(target))
	m.mu.Lock()
	return func() {
		m.mu.Unlock()
		if n.server.commons.exit(m) {
			n.t.Error("nobody has joined")
		}
	}
}

// wait waits until something is so.
func (n *neighbours) wait(what string, so func() bool) {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("it never happens that %s", what)
		}
	}
}

// served has the others do all that there is, while a request is held up.
func (n *neighbours) served(h held) {
	n.t.Helper()
	all := make(chan error, 1)
	go func() {
		all <- errors.Join(
			n.serves(n.far, Request{Offer: "count", Targets: []string{markerTarget}, Self: true}),
			n.serves(n.near, Request{Offer: "count", Targets: []string{fmt.Sprintf("%s pid=%d", markerTarget, n.p.pid)}}),
			n.serves(n.far, Request{Offer: "count", Targets: []string{"uprobe:" + n.app + "-not:f"}, Self: true}),
			n.comes(),
		)
	}()
	select {
	case err := <-all:
		if err != nil {
			n.t.Error(err)
		}
	case err := <-h.done:
		n.t.Errorf("it was not held up: %v", err)
		h.done <- err
	case <-time.After(20 * time.Second): // whoever is not held up takes milliseconds
		n.t.Error("the others wait for it")
	}
}

// serves attaches and detaches.
func (n *neighbours) serves(c *Client, r Request) error {
	a, err := c.Attach(r)
	if strings.Contains(r.Targets[0], "-not") {
		if err == nil {
			return errors.Join(errors.New("attached to what is not there"), a.Close())
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, err = a.Stats()
	return errors.Join(err, a.Close())
}

// comes connects, asks and goes.
func (n *neighbours) comes() error {
	c, err := Dial(n.path)
	if err != nil {
		return err
	}
	_, err = c.Offers()
	return errors.Join(err, c.Close())
}

// TestAttackWorst: what takes a broker longest, on as many connections as a user may have
// busy, keeps nobody else from being served. How long it takes is only told.
func TestAttackWorst(t *testing.T) {
	testenv.Need(t, testenv.Long)
	n := newNeighbours(t)
	dir := hall(t)
	const files, functions = 2000, 20_000
	for i := range files {
		if err := os.WriteFile(fmt.Sprintf("%s/f%d", dir, i), []byte("no program"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := program()
	for i := range functions {
		f.Symbols = append(f.Symbols, f.Symbols[0])
		f.Symbols[i+1].Name = fmt.Sprintf("_ZN%dabcdefghij%dE%s", 10+len(fmt.Sprint(i)), i, strings.Repeat("PK", 20))
	}
	big := putImage(t, hall(t)+"/big", f.Bytes(), 0o755, nobody)
	many := func(target string) []string {
		out := make([]string, maxTargets)
		for i := range out {
			out[i] = fmt.Sprintf("%s pid=%d", target, n.p.pid)
		}
		return out
	}
	worst := [][]string{
		append(many("uprobe:" + dir + "/*:f")[:maxTargets-1], fmt.Sprintf("uprobe:%s:f pid=%d", n.app, n.p.pid)),
		many("uprobe:" + big + ":cpp:*z*"),
		many("uprobe:" + big + ":nosuch"),
		many("usdt:" + dir + "/*:n"),
	}
	stop := make(chan bool)
	var attackers sync.WaitGroup
	var mu sync.Mutex
	took := map[string]time.Duration{} // guarded by mu: by the first target
	asked := 0                         // guarded by mu
	for i := range maxPending {
		c := n.dialAs(t, nobody)
		attackers.Go(func() {
			for k := i; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				targets := worst[k%len(worst)]
				a, err := c.Attach(Request{Offer: "count", Targets: targets})
				if err == nil {
					a.Close()
				}
				mu.Lock()
				asked++
				took[targets[0]] = max(took[targets[0]], time.Since(began))
				mu.Unlock()
			}
		})
	}
	longest := time.Duration(0)
	for range 8 {
		began := time.Now()
		if err := n.serves(n.far, Request{Offer: "count", Targets: []string{markerTarget}, Self: true}); err != nil {
			t.Error(err)
		}
		longest = max(longest, time.Since(began))
	}
	n.wait("each of the attackers has been answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return asked >= maxPending
	})
	close(stop)
	attackers.Wait()
	t.Logf("%d worst requests, of %d targets each, took at most: %v; the neighbour's, meanwhile: %v", asked, maxTargets, took, longest)
}
