package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
)

// slowClose is how long the descriptors here take to be closed, as their sender has chosen.
const slowClose = 6 * time.Second

// slow returns a TCP socket that takes slowClose to be closed: it has unsent data.
func slow(t testing.TB, l *net.TCPListener) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr)
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())})
	linger := unix.Linger{Onoff: 1, Linger: int32(slowClose / time.Second)}
	if err = errors.Join(err, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger)); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 64<<10); err == nil; {
		err = unix.Sendto(fd, b, unix.MSG_DONTWAIT, nil)
	}
	return fd
}

// quiet accepts connections in the kernel's queue only, so that nobody reads of them.
func quiet(t testing.TB) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// passRights has a socket take descriptors, which kernels before 6.16 always do.
func passRights(conn *net.UnixConn, on int) (was int) {
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if was, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soPassRights); err == nil {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, soPassRights, on)
			}
		})
	}
	if err != nil {
		return -1
	}
	return was
}

// sockets returns both ends of a connection.
func sockets(t testing.TB) (here, there *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
	}
	return out[0], out[1]
}

// TestAttackDescriptors: a client sends descriptors that take long to be closed. The kernel
// closes them in the thread that receives or closes: the attachments outlived their client,
// and nothing checked their budget, for as long as the client had chosen.
func TestAttackDescriptors(t *testing.T) {
	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed})
	l := quiet(t)
	for name, dies := range map[string]bool{"stays": false, "dies": true} {
		t.Run(name, func(t *testing.T) {
			before := links()
			here, there := sockets(t)
			done := make(chan error, 1)
			go func() { done <- b.server.ServeConn(here) }()
			c := NewClient(there)
			_, err := c.Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
			testenv.SkipUnsupported(t, err)
			if err != nil {
				t.Fatal(err)
			}
			if was := passRights(here, 1); was == 1 {
				t.Error("descriptors can be sent")
			}
			began := time.Now()
			fd := slow(t, l)
			if err := writeMessage(there, []byte("{"), []int{fd, fd}); err != nil {
				t.Fatal(err)
			}
			unix.Close(fd) // in flight, so this is not the last
			if dies {
				c.Close()
			}
			if err := <-done; !errors.Is(err, errMessage) || !strings.Contains(err.Error(), "descriptors, which nobody asked for") {
				t.Errorf("served until %v", err)
			}
			expectLinks(t, before)
			if took := time.Since(began); took > slowClose/2 {
				t.Errorf("it took %v, as long as the descriptors", took)
			}
			for range 500 { // and no thread is left that waits for them
				b.server.users.mu.Lock()
				n := len(b.server.users.of)
				b.server.users.mu.Unlock()
				if n == 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took > slowClose-time.Second {
				t.Errorf("closing them took %v", took)
			}
		})
	}
}

// TestAttackServeEnds: the end of Serve waited for the descriptors that came with a connection,
// also of a client that no rule is for.
func TestAttackServeEnds(t *testing.T) {
	testenv.Need(t, testenv.Root)
	l := quiet(t)
	server, err := NewServer(Policy{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: fmt.Sprintf("@borescope-%d", os.Getpid()), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.DialUnix("unixpacket", nil, u.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	fd := slow(t, l)
	err = writeMessage(c, []byte("{"), []int{fd})
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- server.Serve(u) }()
	time.Sleep(50 * time.Millisecond) // it may have been accepted or not
	u.Close()
	<-done
	c.Close()
	if took := time.Since(began); took > slowClose/2 {
		t.Errorf("the server's end took %v", took)
	}
}

// TestAttackUnread: a client that reads no answers keeps the broker from checking nothing: its
// budget went unchecked while an answer was written.
func TestAttackUnread(t *testing.T) {
	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed, EventsPerSecond: 1})
	here, there := sockets(t)
	go b.server.ServeConn(here)
	c := NewClient(there)
	a, err := c.Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
	testenv.SkipUnsupported(t, err)
	if err != nil {
		t.Fatal(err)
	}
	if err := there.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = writeMessage(there, []byte(`{"v":1,"op":"offers"}`), nil)
	}
	began := time.Now()
	for !b.ended() {
		for i := range 50_000 {
			marker(i)
		}
		if time.Since(began) > replyTimeout-time.Second {
			t.Fatal("still attached")
		}
	}
	c.Close()
	a.Close()
}

// ended reports whether an attachment was ended by the broker.
func (b *testBroker) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.seen {
		if d.Op == "end" {
			return true
		}
	}
	return false
}

// TestAttackDeath: a client dies while a request of it is held up by a file: what it had
// attached before remained until that request was over.
func TestAttackDeath(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Uprobes, testenv.Ringbuf)
	n := newNeighbours(t)
	before := links()
	attaches(t, n.slow, fmt.Sprintf("%s pid=%d", markerTarget, n.p.pid))
	h := n.holdResolve()
	n.slow.Close()
	expectLinks(t, before) // though the lease is not given back
	h.free()
	<-h.done
}

// compileWhere makes programs that count by whether the instruction is in the kernel.
func compileWhere(plan *probe.Plan, _ Limits) (*ebpf.CollectionSpec, error) {
	spec := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{
			"where": {Name: "where", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1},
		},
		Programs: map[string]*ebpf.ProgramSpec{},
	}
	for i := range plan.Programs {
		p := plan.ProgramSpec(i)
		p.License = "GPL"
		p.Instructions = asm.Instructions{
			asm.LoadMem(asm.R3, asm.R1, userIP[probe.NewEnv(nil).Arch()], asm.DWord),
			asm.LoadMapValue(asm.R1, 0, 0).WithReference("where"),
			asm.Mov.Imm(asm.R2, 1),
			asm.JSLT.Imm(asm.R3, 0, "kernel"),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
			asm.Ja.Label("out"),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 8).WithSymbol("kernel"),
			asm.Mov.Imm(asm.R0, kernel.Idle(p.Type)).WithSymbol("out"),
			asm.Return(),
		}
		spec.Programs[p.Name] = p
	}
	return spec, nil
}

// where attaches samples of a process, has it do something, and returns how many samples were
// taken in user mode and in the kernel.
func where(t *testing.T, r Rule, target, tell, want string) (user, inside uint64) {
	t.Helper()
	r.UIDs, r.Offers, r.Targets = []uint32{nobody}, []string{"where"}, []Allow{{Kind: "sample", Event: "*"}}
	b := startServer(t, func(s *Server) { s.offers["where"] = Offer{Compile: compileWhere} }, r)
	testenv.Need(t, testenv.Perf)
	p := startTarget(t, nobody, true, nil)
	a, err := b.dialAs(t, nobody).Attach(Request{Offer: "where", Targets: []string{fmt.Sprintf("%s pid=%d", target, p.pid)}})
	testenv.SkipUnsupported(t, err)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.tell("%s", tell); got != want {
		t.Fatal(got)
	}
	var n [2]uint64
	if err := a.Maps["where"].Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	return n[0], n[1]
}

// TestAttackKernelAddresses: samples of an own process gave its client addresses of the kernel,
// which /proc/kallsyms hides from it.
func TestAttackKernelAddresses(t *testing.T) {
	user, inside := where(t, Rule{}, "profile:us:1000", "spin 300", "spun")
	if user == 0 || inside != 0 {
		t.Errorf("%d samples in user mode, %d in the kernel", user, inside)
	}
	if user, inside = where(t, Rule{Kernel: true}, "profile:us:1000", "spin 300", "spun"); user == 0 || inside == 0 {
		t.Errorf("with the kernel: %d samples in user mode, %d in the kernel", user, inside)
	}
}

// TestAttackChildren: samples of an own process went on in what it started, also after that
// had executed another program, which nobody had checked.
func TestAttackChildren(t *testing.T) {
	const long, every = 500, 1 // ms
	user, inside := where(t, Rule{Kernel: true}, "profile:ms:1", fmt.Sprintf("child %d", long), "ended")
	if n := user + inside; n > long/every/2 { // the process itself starts the other one and waits
		t.Errorf("%d samples, in a child of %d ms", n, long)
	}
}

// TestAttackSampleRate: samples that come too often are refused, or end soon where that can't
// be told before; and then nobody asks for them by another period or for another process.
func TestAttackSampleRate(t *testing.T) {
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: []Allow{{Kind: "sample", Event: "software"}}, EventsPerSecond: 100})
	testenv.Need(t, testenv.Long, testenv.Perf)
	c, p, other := b.dialAs(t, nobody), startTarget(t, nobody, true, nil), startTarget(t, nobody, true, nil)
	b.refusedFor(t, c, fmt.Sprintf("software:cpu-clock:10001 pid=%d", p.pid), "comes 99990 times a second")
	a := attaches(t, c, fmt.Sprintf("software:page-faults:1 pid=%d", p.pid))
	// As many faults as this has to take for half a minute: it ends long before.
	rounds := 0
	for ; !b.ended(); rounds++ {
		if rounds == 100 {
			t.Fatal("still attached")
		}
		if got := p.tell("fault 50000"); got != "faulted" {
			t.Fatal(got)
		}
	}
	if _, err := a.Stats(); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "times a second, 10000 are allowed") {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
	for _, again := range []string{
		fmt.Sprintf("software:page-faults:1 pid=%d", p.pid), fmt.Sprintf("software:page-faults:2 pid=%d", p.pid),
		fmt.Sprintf("perf:page-faults:u:hz:50 pid=%d", other.pid),
	} {
		if _, err := c.Attach(Request{Offer: "count", Targets: []string{again}}); err == nil || !strings.Contains(err.Error(), "hit too often") {
			t.Errorf("%s: %v", again, err)
		}
	}
}

// TestAttackRude: random clients that send descriptors and half messages, read nothing, and
// die at any moment. Meanwhile budgets are checked from outside: a place that is hit too often
// is left alone, whoever asks for it next to them; and nothing of them remains. BROKER_RUDE
// is for how long, BROKER_SEED the seed; what takes longer is for guests:
//
//	go run ./internal/vmtest -kernel 7.2 -env BROKER_RUDE=5m -timeout 8m -run '^TestAttackRude$' ./probe/broker
func TestAttackRude(t *testing.T) {
	testenv.Need(t, testenv.Long)
	long := time.Second
	if s := os.Getenv("BROKER_RUDE"); s != "" {
		testenv.Need(t, testenv.Guest)
		var err error
		if long, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := numberFrom(t, "BROKER_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed %d", seed)
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: markerAllowed, MaxAttachments: 16, EventsPerSecond: 1},
		Rule{Anyone: true, Offers: []string{"*"}, Targets: markerAllowed, MaxAttachments: 64})
	before, l := newState(t), quiet(t)
	end := time.Now().Add(long)
	var all sync.WaitGroup
	var made, sent atomic.Int64
	for i := range 4 {
		r := &rude{t: t, b: b, rnd: rand.New(rand.NewPCG(seed, uint64(i))), l: l, sent: &sent}
		all.Go(func() {
			for time.Now().Before(end) {
				r.client()
				made.Add(1)
			}
		})
	}
	// A true process that dies, with all that it has.
	all.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 100))
		for time.Now().Before(end) {
			t.Run("dies", func(t *testing.T) {
				p := startTarget(t, nobody, true, nil)
				if a := p.answers(t, "dial %s", b.path); a.Err == "" {
					p.asks(t, request{Op: opAttach, Offer: "count", Targets: []string{markerTarget}, Self: true})
				}
				time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
			}) // which kills it
		}
	})
	outside := b.dialAs(t, nobody)
	for i := 0; i == 0 || time.Now().Before(end); i++ {
		t.Run("outside", func(t *testing.T) { b.fromOutside(t, outside) })
	}
	all.Wait()
	outside.Close()
	t.Logf("%d clients, %d messages with descriptors", made.Load(), sent.Load())
	before.expect(t, b)
}

// fromOutside has a client's place be hit until its attachment ends.
func (b *testBroker) fromOutside(t *testing.T, c *Client) {
	b.server.pauses.mu.Lock()
	b.server.pauses.of = nil
	b.server.pauses.mu.Unlock()
	b.pardon(nobody)
	p := startTarget(t, nobody, true, nil)
	a, err := c.Attach(Request{Offer: "count", Targets: []string{fmt.Sprintf("%s pid=%d", markerTarget, p.pid)}})
	testenv.SkipUnsupported(t, err)
	if err != nil && strings.Contains(err.Error(), "attachments already") {
		return // the others have them all
	}
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	calls := 0
	for began := time.Now(); err == nil; _, err = a.Stats() {
		// An emulated machine may not hit it often enough: that says nothing.
		if took := time.Since(began); took > slowClose-time.Second {
			if n := float64(calls) / took.Seconds(); n > 2*hotLeast {
				t.Errorf("nobody checks the budget: %.0f hits a second for %v", n, took)
			}
			return
		}
		p.tell("call 50000")
		calls += 50_000
	}
	if !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// rude is a random client.
type rude struct {
	t    *testing.T
	b    *testBroker
	rnd  *rand.Rand
	l    *net.TCPListener
	sent *atomic.Int64
}

// client connects, does a few things, and goes.
func (r *rude) client() {
	here, there := sockets(r.t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		r.b.server.ServeConn(here)
	}()
	if r.rnd.IntN(4) > 0 { // as on older kernels; otherwise as it is
		for range 1000 {
			if was := passRights(here, 1); was != 1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := there.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		r.t.Error(err)
	}
	good, _ := json.Marshal(&request{Version: wireVersion, Op: opAttach, Offer: "count", Targets: []string{markerTarget}, Self: true})
	buf := make([]byte, maxMessage)
	for range r.rnd.IntN(6) {
		message := good
		var files []int
		if r.rnd.IntN(3) == 0 {
			message = good[:1+r.rnd.IntN(len(good))]
		}
		if r.rnd.IntN(3) == 0 {
			fd := slow(r.t, r.l)
			defer closeAside(fd, func() {})
			files = []int{fd}
			for r.rnd.IntN(2) == 0 {
				files = append(files, fd)
			}
		}
		err := writeMessage(there, message, files)
		if err == nil && files != nil {
			r.sent.Add(1)
		}
		if err == nil && r.rnd.IntN(2) == 0 {
			_, fds, _ := readMessage(there, buf, maxFiles)
			closeFiles(fds)
		}
	}
	there.Close()
	<-served
}
