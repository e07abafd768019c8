package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
)

// TestAttackConnections: nobody's connections keep others out.
func TestAttackConnections(t *testing.T) {
	b := start(t, Rule{UIDs: []uint32{0, nobody}, Offers: []string{"count"}, Targets: markerAllowed})
	// A user whom no rule names.
	c := b.dialAs(t, nobody-1)
	if _, err := c.Offers(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "no rule is for user 65533") {
		t.Errorf("of no rule: %v", err)
	}
	for range maxConnections {
		if _, err := b.dialAs(t, nobody).Offers(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.dialAs(t, nobody).Offers(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "has 32 connections already") {
		t.Errorf("one more: %v", err)
	}
	if _, err := b.dial(t).Offers(); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// TestAttackTurnedAway: whoever is turned away hears why, also where the request is on its
// way while the broker says so.
func TestAttackTurnedAway(t *testing.T) {
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: markerAllowed})
	for i := range 400 {
		c := b.dial(t)
		for range i % 8 {
			runtime.Gosched()
		}
		if _, err := c.Offers(); !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("connection %d: %v", i, err)
		}
		c.Close()
	}
	// Who asks for nothing is not waited for.
	if n, _, err := readMessage(b.connect(t), make([]byte, maxMessage), 0); err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// TestAttackIdle: who says nothing is dropped, who has attachments is not.
func TestAttackIdle(t *testing.T) {
	testenv.Need(t, testenv.Long)
	b := startServer(t, func(s *Server) { s.idle = time.Second }, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed})
	silent := b.connect(t)
	a, err := b.dial(t).Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
	testenv.SkipUnsupported(t, err)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := readMessage(silent, make([]byte, maxMessage), 0); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if _, err := a.Stats(); err != nil {
		t.Errorf("who has an attachment: %v", err)
	}
}

// TestAttackAccept: a shortage of descriptors passes, and Serve goes on.
func TestAttackAccept(t *testing.T) {
	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed})
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: b.path})
	time.Sleep(50 * time.Millisecond) // for Serve to see it; it passes if it does not
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.dial(t).Offers(); err != nil {
		t.Errorf("after the shortage: %v", err)
	}
	for _, no := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED} {
		if !passing(&os.SyscallError{Syscall: "accept4", Err: no}) {
			t.Errorf("%v ends the server", no)
		}
	}
	if passing(nil) || passing(syscall.EINVAL) {
		t.Error("other errors pass")
	}
}

// TestAttackMaps: memory that a client still has descriptors of stays its own,
// whether or not it is attached.
func TestAttackMaps(t *testing.T) {
	testenv.Need(t, testenv.Long)
	b := start(t, Rule{
		Anyone: true, Offers: []string{"count"}, Targets: markerAllowed, MaxAttachments: 1, MaxMapBytes: 40_000,
	})
	c := b.dial(t)
	req := Request{Offer: "count", Targets: []string{markerTarget}, Self: true}
	var kept []*ebpf.Map
	defer func() {
		for _, m := range kept {
			m.Close()
		}
	}()
	for i := range 3 {
		a, err := c.Attach(req)
		if i == 2 {
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "bytes") {
				t.Fatalf("the third: %v", err)
			}
			break
		}
		testenv.SkipUnsupported(t, err)
		if err != nil {
			t.Fatal(err)
		}
		m, err := a.Maps["events"].Clone()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, m)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range kept {
		m.Close()
	}
	a, err := c.Attach(req)
	if err != nil {
		t.Fatalf("after all was given back: %v", err)
	}
	a.Close()
}

// TestAttackThreads: who has many threads does not take all descriptors of the broker,
// which samples of each of them would.
func TestAttackThreads(t *testing.T) {
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: []Allow{{Kind: "sample", Event: "software"}, {Kind: "watchpoint"}}})
	testenv.Need(t, testenv.Perf)
	c, p := b.dialAs(t, nobody), startTarget(t, nobody, true, nil)
	p.tell("threads %d", maxThreads/maxTargets+1)
	var targets []string
	for i := range maxTargets {
		targets = append(targets, fmt.Sprintf("software:page-faults:%d pid=%d", 1_000_000+i, p.pid))
	}
	before := len(testenv.ObjectsOf(0).Links)
	if _, err := c.Attach(Request{Offer: "count", Targets: targets}); !errors.Is(err, fs.ErrPermission) ||
		!strings.Contains(err.Error(), "threads, 4096 are allowed") {
		t.Errorf("64 samples of 65 threads: %v", err)
	}
	if after := len(testenv.ObjectsOf(0).Links); after > before {
		t.Errorf("%d links, before %d", after, before)
	}
	a, err := c.Attach(Request{Offer: "count", Targets: targets[:1]})
	if err != nil {
		t.Fatal(err)
	}
	if a.Sites < maxThreads/maxTargets {
		t.Errorf("one sample of all of them: %d places", a.Sites)
	}
	a.Close()
}

// TestAttackHandOver: links count for as long as they exist, whoever has them.
func TestAttackHandOver(t *testing.T) {
	b := start(t, Rule{
		Anyone: true, Offers: []string{"count"}, Targets: markerAllowed, AllProcesses: true, HandOver: true, MaxAttachments: 1,
	})
	testenv.Need(t, testenv.Long, testenv.Feature(feature.PerfLink))
	req := Request{Offer: "count", Targets: []string{markerTarget}, Self: true}
	first := b.dial(t)
	a, err := first.Attach(req)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	c := b.dial(t)
	if _, err := c.Attach(req); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "has 1 attachments already") {
		t.Errorf("a second: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // the broker may not have seen yet that the first client is gone
		if a, err = c.Attach(req); err == nil {
			a.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("after the first has gone: %v", err)
}

// TestAttackHot: places that are hit too often are left alone, however few of
// the events are let through.
func TestAttackHot(t *testing.T) {
	testenv.Need(t, testenv.Long)
	at := time.Unix(1000, 0)
	a := &attachment{perSecond: 1, since: at}
	for i, c := range []struct {
		after time.Duration
		hits  uint64
		ends  bool
	}{{500 * time.Millisecond, 1e6, false}, {time.Second, 10_000, false}, {4 * time.Second, 40_000, false}, {5 * time.Second, 50_001, true}} {
		if err := a.rate(at.Add(c.after), c.hits); (err != nil) != c.ends {
			t.Errorf("%d: %v", i, err)
		}
	}
	if hot(1<<63) < 1<<48 || hot(5000) != 50_000 {
		t.Errorf("%d, %d", hot(1<<63), hot(5000))
	}

	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed, EventsPerSecond: 1})
	before := links()
	c := b.dial(t)
	live, err := c.Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
	testenv.SkipUnsupported(t, err)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		for i := range 50_000 {
			marker(i)
		}
		_, err := live.Stats()
		if errors.Is(err, fs.ErrClosed) && strings.Contains(err.Error(), "times a second, 10000 are allowed") {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("still attached: %v", err)
		}
	}
	expectLinks(t, before)
	// And it isn't attached again at once, by whatever name and for whomever.
	for _, target := range []string{markerTarget, fmt.Sprintf("%s pid=%d", markerTarget, os.Getpid())} {
		if _, err := b.dial(t).Attach(Request{Offer: "count", Targets: []string{target}, Self: target == markerTarget}); err == nil ||
			!strings.Contains(err.Error(), "hit too often: ask again in") {
			t.Errorf("%s again: %v", target, err)
		}
	}
}

// TestAttackRate: who asks too often waits; what was not used up is not saved.
func TestAttackRate(t *testing.T) {
	var b bucket
	at := time.Unix(1000, 0)
	for i := range attachBurst {
		if wait := b.take(at); wait != 0 {
			t.Fatalf("request %d waits %v", i, wait)
		}
	}
	if wait := b.take(at); wait != time.Second/attachRate {
		t.Errorf("one more waits %v", wait)
	}
	at = at.Add(time.Hour)
	for range attachBurst {
		if wait := b.take(at); wait != 0 {
			t.Fatalf("an hour later: waits %v", wait)
		}
	}
	if b.take(at) == 0 {
		t.Error("an hour's requests at once")
	}
}

// TestAttackFUSE: files whose server never answers keep nobody waiting but whom
// they belong to.
func TestAttackFUSE(t *testing.T) {
	b := startServer(t, func(s *Server) { s.patient = 5 * time.Second },
		Rule{Anyone: true, Offers: []string{"count"}, Targets: append([]Allow{{Kind: "uprobe", File: "/*", Function: "*"}}, markerAllowed...)})
	dir := hall(t)
	dev, p := deaf(t, dir)
	var all sync.WaitGroup
	for range maxPending + 1 {
		c := b.dialAs(t, nobody)
		all.Go(func() {
			_, err := c.Attach(Request{Offer: "count", Targets: []string{fmt.Sprintf("uprobe:%s/x/y:f pid=%d", dir, p.pid)}})
			if err == nil || !strings.Contains(err.Error(), "could not be resolved in") && !strings.Contains(err.Error(), "requests pending") {
				t.Errorf("a file that is never answered for: %v", err)
			}
		})
	}
	all.Wait()
	b.server.users.mu.Lock()
	stuck := len(b.server.users.of[nobody].pending)
	b.server.users.mu.Unlock()
	if stuck != maxPending {
		t.Errorf("%d requests are pending, want %d", stuck, maxPending)
	}
	a, err := b.dial(t).Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
	testenv.SkipUnsupported(t, err)
	if err != nil {
		t.Errorf("another user: %v", err)
	} else {
		a.Close()
	}
	unix.Close(dev) // all who wait are told that the server is gone
	for range 3000 {
		b.server.users.mu.Lock()
		n := len(b.server.users.all)
		b.server.users.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("requests are pending for ever")
}
