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
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/deploy"
)

// times is how often the service calls the function that it has probed.
const times = 23

const nobody = 65534

// marker is what is probed. Go must neither inline it nor grow the stack in it.
//
//go:noinline
//go:nosplit
func marker(n int) { marked = n }

var marked int

const markerTarget = "uprobe::github.com/borescope/borescope/probe/broker.marker"

// markerAllowed has a rule allow that, and clocks the samples of clocks.
var (
	markerAllowed = []Allow{{Kind: "uprobe", Function: strings.TrimPrefix(markerTarget, "uprobe::")}}
	clocks        = []Allow{{Kind: "sample", Event: "clock"}, {Kind: "sample", Event: "cpu-clock"}}
)

// compile makes programs that count and write each event to a ring.
func compile(plan *probe.Plan, _ Limits) (*ebpf.CollectionSpec, error) {
	spec := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{
			"counts":  {Name: "counts", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
			"events":  {Name: "events", Type: ebpf.RingBuf, MaxEntries: 4096},
			".hidden": {Name: "hidden", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
		},
		Programs: map[string]*ebpf.ProgramSpec{},
	}
	for i := range plan.Programs {
		p := plan.ProgramSpec(i)
		p.License = "GPL"
		p.Instructions = asm.Instructions{
			asm.LoadMapValue(asm.R1, 0, 0).WithReference("counts"),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
			asm.FnGetCurrentUidGid.Call(),
			asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
			asm.LoadMapPtr(asm.R1, 0).WithReference("events"),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -8),
			asm.Mov.Imm(asm.R3, 8),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnRingbufOutput.Call(),
			asm.Mov.Imm(asm.R0, kernel.Idle(p.Type)),
			asm.Return(),
		}
		spec.Programs[p.Name] = p
	}
	return spec, nil
}

// broker is a server at work.
type testBroker struct {
	path    string
	server  *Server
	clients []*Client
	mu      sync.Mutex
	seen    []Decision // guarded by mu
}

// start runs a server whose socket everybody may open.
func start(t *testing.T, rules ...Rule) *testBroker {
	t.Helper()
	return startServer(t, func(*Server) {}, rules...)
}

// startServer is start with a server that is changed before.
func startServer(t *testing.T, change func(*Server), rules ...Rule) *testBroker {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Ringbuf)
	dir, err := os.MkdirTemp("", "broker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &testBroker{path: filepath.Join(dir, "sock")}
	server, err := NewServer(Policy{Rules: rules}, map[string]Offer{
		"count": {Compile: compile}, "secret": {Compile: compile},
		"sessions": {Compile: compile, Resolve: &probe.Options{EntryReturn: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	change(server)
	server.Audit = func(d Decision) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen = append(b.seen, d)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: b.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(b.path, 0o666)); err != nil {
		t.Fatal(err)
	}
	b.server = server
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		if len(server.usage) > 0 {
			t.Errorf("accounts still hold %+v", server.usage)
		}
	})
	return b
}

func (b *testBroker) dial(t *testing.T) *Client {
	t.Helper()
	c, err := Dial(b.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	b.clients = append(b.clients, c)
	return c
}

// report is what the service found out.
type report struct {
	UID          int
	Capabilities string
	Offers       []string
	Sites        int
	Maps         []string
	Count        uint64
	Events       int
	Owner        uint32
	Seen         uint64
	WriteErr     string
	Unsupported  string
	Refused      map[string]string
}

// TestServiceChild is the service of TestService: a process of nobody's.
func TestServiceChild(t *testing.T) {
	path := os.Getenv("BORESCOPE_BROKER")
	if path == "" {
		return // it is of use to its parent only
	}
	r, err := service(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("REPORT %s\n", b)
}

// service has itself probed.
func service(path string) (*report, error) {
	r := &report{UID: os.Getuid(), Capabilities: effective(), Refused: map[string]string{}}
	c, err := Dial(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if r.Offers, err = c.Offers(); err != nil {
		return nil, err
	}
	for name, req := range refused() {
		_, err := c.Attach(req)
		if !errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%s: %v, want a refusal", name, err)
		}
		r.Refused[name] = err.Error()
	}
	a, err := c.Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
	if errors.Is(err, errors.ErrUnsupported) {
		r.Unsupported = err.Error()
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer a.Close()
	r.Sites = a.Sites
	for name := range a.Maps {
		r.Maps = append(r.Maps, name)
	}
	return r, r.count(a)
}

// count calls the function that is probed, and reads what was counted.
func (r *report) count(a *Attachment) error {
	for i := range times {
		marker(i)
	}
	if err := a.Maps["counts"].Lookup(uint32(0), &r.Count); err != nil {
		return err
	}
	if err := a.Maps["counts"].Put(uint32(0), uint64(0)); err != nil {
		r.WriteErr = err.Error()
	}
	ring, err := mapx.OpenRing(a.Maps["events"], nil)
	if err != nil {
		return err
	}
	defer ring.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var rec mapx.Record
	for r.Events < times {
		if err := ring.ReadInto(ctx, &rec); err != nil {
			return err
		}
		r.Events++
		r.Owner = uint32(rec.Data[0]) | uint32(rec.Data[1])<<8
	}
	st, err := a.Stats()
	r.Seen = st.Events
	return err
}

// effective is this process's effective capabilities, in hexadecimal.
func effective() string {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), "CapEff:\t")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// refused are requests that the policy of TestService does not allow.
func refused() map[string]Request {
	self := []string{markerTarget}
	return map[string]Request{
		"offer":     {Offer: "secret", Targets: self, Self: true},
		"target":    {Offer: "count", Targets: []string{"uprobe::runtime.mallocgc"}, Self: true},
		"kernel":    {Offer: "count", Targets: []string{"kprobe:vfs_read"}},
		"everybody": {Offer: "count", Targets: self},
		"root's":    {Offer: "count", Targets: []string{markerTarget + " pid=1"}},
	}
}

// TestService: a process of nobody's, without capabilities, has itself probed
// by the broker, and counts 23 events.
func TestService(t *testing.T) {
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: markerAllowed})
	before := links()
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestServiceChild$")
	cmd.Env = append(os.Environ(), "BORESCOPE_BROKER="+b.path, lockEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, text, _ := strings.Cut(string(out), "REPORT ")
	text, _, _ = strings.Cut(text, "\n")
	var r report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r.UID != nobody || strings.Trim(r.Capabilities, "0") != "" {
		t.Errorf("the service is user %d with capabilities %s", r.UID, r.Capabilities)
	}
	if len(r.Offers) != 1 || r.Offers[0] != "count" || len(r.Refused) != len(refused()) {
		t.Errorf("%+v", r)
	}
	if r.Unsupported != "" {
		if feature.KernelAtLeast("5.19") || !strings.Contains(r.Unsupported, "unprivileged_bpf_disabled") {
			t.Errorf("refused on this kernel: %s", r.Unsupported)
		}
	} else if r.Sites != 1 || r.Count != times || r.Events != times || r.Owner != nobody || r.Seen != times || len(r.Maps) != 2 || r.WriteErr == "" {
		t.Errorf("%+v", r)
	}
	b.mu.Lock()
	last := b.seen[1] // after the list of offers
	b.mu.Unlock()
	if last.Peer.UID != nobody || last.Peer.PID != cmd.Process.Pid || last.Err == nil {
		t.Errorf("the audit has %+v", last)
	}
	expectLinks(t, before) // the service is dead
}

// links are those that the helper, which is this process, holds, and its clients
// here: of the machine's, others may be of other tests.
func links() map[uint32]bool {
	out := map[uint32]bool{}
	for _, id := range testenv.ObjectsOf(0).Links {
		out[id] = true
	}
	return out
}

// dispatchers are the links of dispatchers that there were not before.
func dispatchers(before map[uint32]bool) []uint32 {
	return slices.DeleteFunc(newLinks(before), func(id uint32) bool { return !dispatches(id) })
}

// newLinks are those that there were not before.
func newLinks(before map[uint32]bool) (found []uint32) {
	for id := range links() {
		if !before[id] {
			found = append(found, id)
		}
	}
	return found
}

// expectLinks waits until none is left that was not there before.
func expectLinks(t *testing.T, before map[uint32]bool) {
	t.Helper()
	var left []uint32
	for range 1000 {
		if left = newLinks(before); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("links %v are still there", left)
}

// dispatches tells the link of a program that this package's dispatcher is from
// that of what watches for the process's end.
func dispatches(id uint32) bool {
	l, err := link.NewFromID(link.ID(id))
	if err != nil {
		return false
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return false
	}
	p, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return false
	}
	defer p.Close()
	pi, err := p.Info()
	return err == nil && strings.HasPrefix(pi.Name, "githubcom")
}

// TestDisconnect: a client that goes without a word leaves nothing behind.
func TestDisconnect(t *testing.T) {
	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed})
	before := links()
	c := b.dial(t)
	a, err := c.Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
	if err != nil {
		t.Fatal(err)
	}
	marker(1)
	if st, err := a.Stats(); err != nil || st.Events != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	ours := dispatchers(before)
	if len(ours) != 1 && feature.Test(feature.PerfLink) == nil {
		t.Errorf("%d links of ours", len(ours))
	}
	c.Close()
	expectLinks(t, before)
	testenv.Objects{Links: ours}.WaitGone(t)
	if err := a.Close(); err != nil {
		t.Errorf("closing what the broker has closed: %v", err)
	}
	if _, err := c.Attach(Request{Offer: "count", Targets: []string{markerTarget}}); err == nil {
		t.Error("a closed client attaches")
	}
}

// TestCommon: clients that ask for the same place in all processes share one
// link, each with counts of its own; who goes disturbs nobody, and the last one
// takes the link along.
func TestCommon(t *testing.T) {
	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: []Allow{{Kind: "uprobe", File: "*", Function: "*"}}, AllProcesses: true, MaxAttachments: 2 * deploy.MaxUsers})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := links()
	req := Request{Offer: "count", Targets: []string{strings.Replace(markerTarget, "uprobe:", "uprobe:"+exe, 1)}}
	attach := func() (*Client, *Attachment) {
		c := b.dial(t)
		a, err := c.Attach(req)
		if err != nil {
			t.Fatal(err)
		}
		return c, a
	}
	expect := func(a *Attachment, want uint64) {
		t.Helper()
		if st, err := a.Stats(); err != nil || st.Events != want {
			t.Errorf("%+v, %v, want %d events", st, err, want)
		}
	}
	expectOurs := func(want int) {
		t.Helper()
		if n := len(dispatchers(before)); n != want && feature.Test(feature.PerfLink) == nil {
			t.Errorf("%d links of ours, want %d", n, want)
		}
	}
	first, a := attach()
	marker(1)
	_, second := attach()
	marker(2)
	expect(a, 2)
	expect(second, 1)
	expectOurs(1)
	first.Close()
	var n uint64
	if err := second.Maps["counts"].Lookup(uint32(0), &n); err != nil || n != 1 {
		t.Errorf("%d counted, %v", n, err)
	}
	marker(3)
	expect(second, 2)
	// More than there is room for in one.
	for range deploy.MaxUsers {
		attach()
	}
	expectOurs(2)
	marker(4)
	expect(second, 3)
	for _, c := range b.clients {
		c.Close()
	}
	expectLinks(t, before)
}

// TestLimits: what a rule's numbers allow, and that what is given back can be
// had again.
func TestLimits(t *testing.T) {
	rule := Rule{Anyone: true, Offers: []string{"count"}, Targets: []Allow{{Kind: "uprobe", Function: "*"}}, MaxSites: 1, MaxAttachments: 2, EventsPerSecond: 1}
	b := start(t, rule)
	c := b.dial(t)
	req := Request{Offer: "count", Targets: []string{markerTarget}, Self: true}
	two := Request{Offer: "count", Targets: []string{markerTarget, "uprobe::github.com/borescope/borescope/probe/broker.compile"}, Self: true}
	if _, err := c.Attach(two); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "2 places, 1 are allowed") {
		t.Errorf("too many places: %v", err)
	}
	a, err := c.Attach(req)
	if err != nil {
		t.Fatal(err)
	}
	other := b.dial(t) // the limit is the user's, not the connection's
	if _, err := other.Attach(req); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Attach(req); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "has 2 attachments") {
		t.Errorf("too many attachments: %v", err)
	}
	for i := range times {
		marker(i)
	}
	if st, err := a.Stats(); err != nil || st.Events == 0 || st.Dropped == 0 || st.Events+st.Dropped != times {
		t.Errorf("one event a second is allowed: %+v, %v", st, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := other.Attach(req); err != nil {
		t.Errorf("after one was closed: %v", err)
	}

	small := start(t, Rule{Anyone: true, Offers: []string{"*"}, Targets: []Allow{{Kind: "*"}}, MaxMapBytes: 20_000, AllProcesses: true})
	c = small.dial(t)
	if _, err := c.Attach(req); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Attach(req); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("too much memory: %v", err)
	}
	for want, r := range map[string]Request{
		"no offer is called x": {Offer: "x", Targets: []string{markerTarget}},
		"nosuch":               {Offer: "count", Targets: []string{"uprobe::nosuch"}, Self: true},
		"no process 4194304":   {Offer: "count", Targets: []string{markerTarget + " pid=4194304"}},
	} {
		if _, err := c.Attach(r); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", r, err, want)
		}
	}
}

// TestHandOver: links that outlive the connection.
func TestHandOver(t *testing.T) {
	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed, AllProcesses: true, HandOver: true})
	testenv.Need(t, testenv.Feature(feature.PerfLink))
	before := links()
	c := b.dial(t)
	a, err := c.Attach(Request{Offer: "count", Targets: []string{markerTarget}, Self: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Stats(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("statistics of the broker: %v", err)
	}
	c.Close()
	for i := range times {
		marker(i)
	}
	var n uint64
	if err := a.Maps["counts"].Lookup(uint32(0), &n); err != nil || n != times {
		t.Errorf("%d events, %v", n, err)
	}
	if _, err := a.Link.Stats(); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	expectLinks(t, before)
}

// TestHandOverFsession: programs that cilium/ebpf can't load; entry and return
// of each call are counted by one of them.
func TestHandOverFsession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Fsession))
	target := map[string]string{"amd64": "fentry:__x64_sys_getpgid", "arm64": "fentry:__arm64_sys_getpgid"}[runtime.GOARCH]
	function := strings.TrimPrefix(target, "fentry:")
	b := start(t, Rule{Anyone: true, Offers: []string{"sessions"}, Targets: []Allow{{Kind: "fentry", Function: function}}, AllProcesses: true, HandOver: true})
	a, err := b.dial(t).Attach(Request{Offer: "sessions", Targets: []string{target}})
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		if _, err := syscall.Getpgid(0); err != nil {
			t.Fatal(err)
		}
	}
	var n uint64
	if err := a.Maps["counts"].Lookup(uint32(0), &n); err != nil || n != 2*times {
		t.Errorf("%d entries and returns, %v, want %d", n, err, 2*times)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	// What can't be shared says so where it is not handed over.
	b = start(t, Rule{Anyone: true, Offers: []string{"sessions"}, Targets: []Allow{{Kind: "fentry", Function: function}}, AllProcesses: true})
	if _, err := b.dial(t).Attach(Request{Offer: "sessions", Targets: []string{target}}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "shared") {
		t.Errorf("shared: %v", err)
	}
}

// TestRude: clients that don't keep to the protocol are dropped, and others
// served.
func TestRude(t *testing.T) {
	b := start(t, Rule{Anyone: true, Offers: []string{"count"}, Targets: markerAllowed})
	polite := b.dial(t)
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, message := range map[string]string{
		"nonsense": "hello", "large": strings.Repeat("x", maxMessage+1), "version": `{"v":7,"op":"offers"}`,
	} {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: b.path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		err = writeMessage(conn, []byte(message), []int{int(null.Fd())})
		if errors.Is(err, syscall.EPERM) { // from 6.16 on nobody can send descriptors
			err = writeMessage(conn, []byte(message), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, maxMessage)
		n, _, err := readMessage(conn, buf, 0)
		if gone(err) { // what was not read resets the connection, and that is told first
			n, _, err = readMessage(conn, buf, 0)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if r, err := decodeReply(buf[:n], 0); err != nil || !errors.Is(r.err(), errMessage) {
			t.Errorf("%s: answered %s", name, buf[:n])
		}
		if _, _, err := readMessage(conn, buf, 0); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: not dropped: %v", name, err)
		}
		conn.Close()
	}
	if offers, err := polite.Offers(); err != nil || len(offers) != 1 {
		t.Errorf("%v, %v", offers, err)
	}
}
