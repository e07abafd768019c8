package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
)

// refusedFor expects that a request is refused, for a reason that holds the
// text, and that the audit has the same and the rule.
func (b *testBroker) refusedFor(t *testing.T, c *Client, target, why string) {
	t.Helper()
	a, err := c.Attach(Request{Offer: "count", Targets: []string{target}})
	if err == nil {
		a.Close()
		t.Errorf("%s: attached", target)
		return
	}
	b.mu.Lock()
	last := b.seen[len(b.seen)-1]
	b.mu.Unlock()
	if !strings.Contains(err.Error(), why) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want %s", target, err, why)
	}
	if last.Err == nil || last.Targets[0] != target || !strings.Contains(last.Err.Error(), "rule 0: ") || !strings.Contains(last.Err.Error(), why) {
		t.Errorf("%s: the audit has %+v", target, last)
	}
}

// attaches expects that a request is carried out.
func attaches(t *testing.T, c *Client, target string) *Attachment {
	t.Helper()
	a, err := c.Attach(Request{Offer: "count", Targets: []string{target}})
	testenv.SkipUnsupported(t, err)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

const (
	nowhere   = "not there, or can't be read"
	notOwn    = "not user 65534's own"
	notListed = "is not among the targets allowed"
)

// TestAttackFiles: what a client may not have probed in a process of its own.
func TestAttackFiles(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := hall(t)
	b := start(t, Rule{
		UIDs: []uint32{nobody}, Offers: []string{"count"}, MaxMapBytes: 1 << 20,
		Targets: []Allow{
			{Kind: "uprobe", File: dir + "/app-*", Function: "*"},
			{Kind: "uretprobe", File: dir + "/app-*", Function: "*"},
			{Kind: "uprobe", Function: "*"},
			{Kind: "watchpoint", Name: "*"},
		},
	})
	c, p := b.dialAs(t, nobody), startTarget(t, nobody, true, nil)
	free := startTarget(t, nobody, false, nil)
	put(t, dir+"/app-a", 0o755, 0)
	put(t, dir+"/app-own", 0o644, nobody)
	put(t, dir+"/app-suid", os.ModeSetuid|0o755, 0)
	put(t, dir+"/app-sgid", os.ModeSetgid|0o755, 0)
	put(t, dir+"/app-caps", 0o755, 0)
	put(t, dir+"/app-secret", 0o700, 0)
	put(t, dir+"/other-1", 0o755, 0)
	if err := errors.Join(
		unix.Mkfifo(dir+"/app-fifo", 0o666),
		os.Symlink("other-1", dir+"/app-link"), os.Symlink("app-a", dir+"/app-near"),
		os.Mkdir(dir+"/closed", 0o700), os.WriteFile(dir+"/closed/f", image(), 0o755), os.Symlink("closed/f", dir+"/app-closed"),
	); err != nil {
		t.Fatal(err)
	}
	in := func(target string, p *target) string { return fmt.Sprintf("%s pid=%d", target, p.pid) }
	for _, ok := range []string{in("uprobe:"+dir+"/app-a:f", p), in("uretprobe:"+dir+"/app-near:f", p), in("uprobe:"+dir+"/app-own:f", free)} {
		attaches(t, c, ok).Close()
	}
	for target, why := range map[string]string{
		in("uprobe:"+dir+"/app-a:0x1001", p):        "is an address",
		in("uprobe:"+dir+"/app-a:f", free):          "no_new_privs",
		in("uprobe:"+dir+"/app-suid:f", p):          "set-uid",
		in("uprobe:"+dir+"/app-s*:f", p):            "policy",
		in("uretprobe:"+dir+"/app-sgid:f", p):       "set-gid",
		in("uprobe:"+dir+"/app-secret:f", p):        nowhere,
		in("uprobe:"+dir+"/app-missing:f", p):       nowhere,
		in("uprobe:"+dir+"/app-fifo:f", p):          nowhere,
		in("uprobe:"+dir+"/app-link:f", p):          nowhere,
		in("uprobe:"+dir+"/app-closed:f", p):        nowhere,
		in("uprobe:"+dir+"/app-lin?:f", p):          notListed,
		in("uprobe:"+dir+"/other-1:f", p):           notListed,
		in("uprobe:"+dir+"/app-/../other-1:f", p):   "without . or ..",
		in("watchpoint:0xffff888000001000:8:rw", p): "is an address",
		in("watchpoint:jiffies:8:rw", p):            "is the kernel's",
	} {
		b.refusedFor(t, c, target, why)
	}
	// The same words for what is there and what is not.
	texts := map[string]bool{}
	for _, name := range []string{"app-secret", "app-missing", "app-closed"} {
		_, err := c.Attach(Request{Offer: "count", Targets: []string{in("uprobe:"+dir+"/"+name+":f", p)}})
		texts[strings.ReplaceAll(fmt.Sprint(err), name, "")] = true
	}
	if len(texts) != 1 {
		t.Errorf("what exists can be told apart: %v", texts)
	}
	if err := giveCapability(dir + "/app-caps"); err != nil {
		t.Logf("file capabilities: %v", err)
		return
	}
	b.refusedFor(t, c, in("uprobe:"+dir+"/app-caps:f", p), "file capabilities")
}

// giveCapability gives a file CAP_NET_RAW: struct vfs_ns_cap_data of revision 2, with
// the effective bit.
func giveCapability(path string) error {
	caps := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	caps = append(binary.LittleEndian.AppendUint32(caps, 1<<unix.CAP_NET_RAW), make([]byte, 12)...)
	return unix.Setxattr(path, "security.capability", caps, 0)
}

// TestAttackLinks: a link, or a pattern with one match, leads nobody to what the
// rule does not name, in all processes either.
func TestAttackLinks(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := hall(t)
	b := start(t, Rule{
		UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: []Allow{{Kind: "uprobe", File: dir + "/app-?/svc", Function: "*"}}, AllProcesses: true,
	})
	c := b.dialAs(t, nobody)
	put(t, dir+"/app-1/svc", 0o755, 0)
	put(t, dir+"/app-secret/svc", 0o755, 0)
	if err := errors.Join(os.Mkdir(dir+"/app-2", 0o755), os.Symlink("../app-secret/svc", dir+"/app-2/svc")); err != nil {
		t.Fatal(err)
	}
	attaches(t, c, "uprobe:"+dir+"/app-1/svc:f").Close()
	b.refusedFor(t, c, "uprobe:"+dir+"/app-secret/svc:f", notListed)
	b.refusedFor(t, c, "uprobe:"+dir+"/app-2/svc:f", nowhere)
	b.refusedFor(t, c, "uprobe:"+dir+"/app-[2-9]/svc:f", "policy")
	if err := os.RemoveAll(filepath.Join(dir, "app-1")); err != nil {
		t.Fatal(err)
	}
	b.refusedFor(t, c, "uprobe:"+dir+"/app-?/svc:f", notListed)
}

// TestAttackMany: of a file with a hundred thousand functions no more is resolved
// than could be allowed.
func TestAttackMany(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := hall(t)
	app := put(t, dir+"/app", 0o755, nobody)
	f := program()
	for i := range 100_000 {
		f.Symbols = append(f.Symbols, f.Symbols[0])
		f.Symbols[i+1].Name = fmt.Sprintf("f%d", i)
	}
	if err := os.WriteFile(app, f.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: []Allow{{Kind: "uprobe", File: dir + "/*", Function: "*"}}, MaxSites: 10})
	c, p := b.dialAs(t, nobody), startTarget(t, nobody, true, nil)
	_, err := c.Attach(Request{Offer: "count", Targets: []string{fmt.Sprintf("uprobe:%s:f* pid=%d", app, p.pid)}})
	if err == nil || !strings.Contains(err.Error(), "more than 144 functions") {
		t.Errorf("all of them: %v", err)
	}
	attaches(t, c, fmt.Sprintf("uprobe:%s:f5 pid=%d", app, p.pid)).Close()
}

// TestAttackSwap: a file that takes another's place after it was allowed gets no
// probe, nor does the same file once it gives privileges.
func TestAttackSwap(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := hall(t)
	app := put(t, dir+"/app", 0o755, nobody)
	put(t, dir+"/other", 0o755, 0)
	for name, swap := range map[string]func() error{
		"rename":  func() error { return os.Rename(put(t, dir+"/new", 0o755, 0), app) },
		"symlink": func() error { return errors.Join(os.Symlink("other", dir+"/link"), os.Rename(dir+"/link", app)) },
		"set-uid": func() error { return os.Chmod(app, os.ModeSetuid|0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			put(t, dir+"/fresh", 0o755, nobody)
			if err := os.Rename(dir+"/fresh", app); err != nil {
				t.Fatal(err)
			}
			// The last that is the client's to influence is that of compiling.
			b := startServer(t, func(s *Server) {
				s.offers["count"] = Offer{Compile: func(p *probe.Plan, l Limits) (*ebpf.CollectionSpec, error) {
					if err := swap(); err != nil {
						return nil, err
					}
					return compile(p, l)
				}}
			}, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: []Allow{{Kind: "uprobe", File: dir + "/*", Function: "*"}}})
			before := links()
			p := startTarget(t, nobody, true, nil)
			_, err := b.dialAs(t, nobody).Attach(Request{Offer: "count", Targets: []string{fmt.Sprintf("uprobe:%s:f pid=%d", app, p.pid)}})
			if err == nil || !strings.Contains(err.Error(), "inode") {
				t.Errorf("swapped: %v", err)
			}
			expectLinks(t, before)
		})
	}
}

// TestAttackProcesses: whose process it is the kernel says.
func TestAttackProcesses(t *testing.T) {
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: append(clocks, markerAllowed...)})
	c := b.dialAs(t, nobody)
	own := startTarget(t, nobody, true, nil)
	attaches(t, c, fmt.Sprintf("%s pid=%d", markerTarget, own.pid)).Close()
	attaches(t, c, fmt.Sprintf("profile:hz:99 pid=%d", own.pid)).Close()
	capable := startTarget(t, nobody, true, func(cmd *testenv.Cmd) {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_RAW}
	})
	other := startTarget(t, nobody-1, true, nil)
	grouped := startTarget(t, nobody, true, func(cmd *testenv.Cmd) { cmd.SysProcAttr.Credential.Gid = 4242 })
	for name, pid := range map[string]int{
		"root's": os.Getppid(), "init": 1, "capable": capable.pid, "other": other.pid, "group": grouped.pid, "none": 1 << 22,
	} {
		t.Run(name, func(t *testing.T) {
			for _, what := range []string{markerTarget, "profile:hz:99"} {
				b.refusedFor(t, c, fmt.Sprintf("%s pid=%d", what, pid), notOwn)
			}
		})
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", own.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range threads {
		if d.Name() != fmt.Sprint(own.pid) {
			b.refusedFor(t, c, markerTarget+" pid="+d.Name(), notOwn)
			break
		}
	}
}

// TestAttackExec: a process that executes another program takes no probe along
// that tells anything of it.
func TestAttackExec(t *testing.T) {
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: markerAllowed})
	c := b.dialAs(t, nobody)
	before := links()
	p, other := startTarget(t, nobody, true, nil), startTarget(t, nobody, true, nil)
	a := attaches(t, c, fmt.Sprintf("%s pid=%d", markerTarget, p.pid))
	stays := attaches(t, c, fmt.Sprintf("%s pid=%d", markerTarget, other.pid))
	p.tell("call 5")
	if st, err := a.Stats(); err != nil || st.Events != 5 {
		t.Fatalf("%+v, %v, want 5 events", st, err)
	}
	if got := p.tell("exec"); got != "ready" {
		t.Fatal(got)
	}
	p.tell("call 7")
	other.tell("call 3")
	var n uint64
	if err := a.Maps["counts"].Lookup(uint32(0), &n); err != nil || n != 5 {
		t.Errorf("%d counted, %v, want the 5 of before", n, err)
	}
	if _, err := a.Stats(); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "executed another program") {
		t.Errorf("statistics: %v", err)
	}
	if st, err := stays.Stats(); err != nil || st.Events != 3 {
		t.Errorf("the other process: %+v, %v", st, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	stays.Close()
	expectLinks(t, before)
}

// TestAttackPrivileged: a program that is set-uid, set-gid or has file capabilities is
// nobody's own, whoever started it, nor is a process that was the client's before it
// executed one.
func TestAttackPrivileged(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Guest)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := hall(t)
	own := putImage(t, dir+"/own", self, 0o755, nobody)
	b := start(t, Rule{UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: append(clocks, markerAllowed...)})
	c := b.dialAs(t, nobody)
	capable := putImage(t, dir+"/capable", self, 0o755, 0)
	if err := giveCapability(capable); err != nil {
		t.Fatal(err)
	}
	for path, gains := range map[string]string{
		putImage(t, dir+"/suid", self, 0o755|os.ModeSetuid, 0): "Uid:\t65534\t0\t0\t0\n",
		putImage(t, dir+"/sgid", self, 0o755|os.ModeSetgid, 0): "Gid:\t65534\t0\t0\t0\n",
		capable: "CapEff:\t0000000000002000\n",
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			before := links()
			from := func(path string) *target {
				return startTarget(t, nobody, false, func(cmd *testenv.Cmd) { cmd.Path = path })
			}
			gained := func(p *target) {
				t.Helper()
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
				if err != nil || !strings.Contains(string(b), gains) {
					t.Fatalf("no %q: %v\n%s", gains, err, b)
				}
			}
			p := from(path)
			gained(p)
			for _, what := range []string{markerTarget, "profile:hz:99"} {
				b.refusedFor(t, c, fmt.Sprintf("%s pid=%d", what, p.pid), notOwn)
			}
			p = from(own)
			a := attaches(t, c, fmt.Sprintf("profile:hz:99 pid=%d", p.pid))
			if got := p.tell("exec %s", path); got != "ready" {
				t.Fatal(got)
			}
			gained(p)
			if _, err := a.Stats(); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "executed another program") {
				t.Errorf("statistics: %v", err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			expectLinks(t, before)
		})
	}
}

// TestAttackRights: the thread with a client's rights can be neither traced nor
// killed by the client, has no capabilities left, and is nobody else's later.
func TestAttackRights(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := hall(t)
	secret := put(t, dir+"/secret", 0o600, 0)
	grouped := put(t, dir+"/grouped", 0o040, 4242)
	r := rights{uid: nobody, gid: nobody, groups: []uint32{4242}}
	status := ""
	err := asClient(r, 0, func() error {
		b, err := os.ReadFile("/proc/thread-self/status")
		status = string(b)
		if _, err := os.Open(secret); !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("another's file: %w", err)
		}
		fd, gerr := unix.Open(grouped, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if gerr == nil {
			unix.Close(fd)
		}
		return errors.Join(err, gerr)
	})
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"Uid:\t0\t0\t0\t65534\n", "Gid:\t0\t0\t0\t65534\n", "CapEff:\t0000000000000000\n"} {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in %s", want, status)
		}
	}
	for range 100 { // whichever thread this runs on
		if f, err := os.Open(secret); err != nil {
			t.Fatal(err)
		} else {
			f.Close()
		}
	}
	if syscall.Geteuid() != 0 {
		t.Error("the process has changed")
	}
}
