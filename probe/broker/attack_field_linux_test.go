package broker

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// field is where the attacks take place.
type field struct {
	t       *testing.T
	dir     string
	rnd     *rand.Rand
	clients []*person
	people  []*person // the clients, and others
	files   []string
	fixed   []*fixed
	// kinds are the shapes that there are, which are taken in turn.
	kinds []func() *wanted
	next  int
	seen  map[string][3]int // by shape: by verdict
	told  map[string]bool   // of the oracle
	none  map[string]int    // refused for what this kernel has not
}

// newField makes files and processes.
func newField(t *testing.T, seed uint64) *field {
	t.Helper()
	f := &field{t: t, dir: hall(t), rnd: rand.New(rand.NewPCG(seed, 1)), seen: map[string][3]int{}, none: map[string]int{}, told: map[string]bool{}}
	for name, mode := range map[string]os.FileMode{
		"app-a": 0o755, "app-read": 0o444, "app-secret": 0o700, "app-suid": os.ModeSetuid | 0o755,
		"app-sgid": os.ModeSetgid | 0o755, "other": 0o755, "good-1": 0o755, "good-2": 0o644,
	} {
		putImage(t, f.dir+"/"+name, richImage(), mode, 0)
		putImage(t, f.dir+"/own-"+name, richImage(), mode, nobody)
	}
	for name, mode := range map[string]os.FileMode{"libroot.so.1": 0o644, "libsuid.so.1": os.ModeSetuid | 0o755} {
		putImage(t, f.dir+"/"+name, richImage(), mode, 0)
	}
	putImage(t, f.dir+"/libown.so.1", richImage(), 0o644, nobody)
	putImage(t, f.dir+"/app.zip", zipped(t, richImage()), 0o644, 0)
	putImage(t, f.dir+"/own.zip", zipped(t, richImage()), 0o644, nobody)
	putImage(t, f.dir+"/app-script", []byte("#!/bin/sh\n"), 0o755, nobody)
	if err := errors.Join(
		unix.Mkfifo(f.dir+"/app-fifo", 0o666), os.Symlink(f.dir+"/other", f.dir+"/app-link"), os.Symlink("app-read", f.dir+"/app-near"),
		os.Symlink("app-suid", f.dir+"/app-up"), os.Mkdir(f.dir+"/app-dir", 0o755), os.Symlink("nowhere", f.dir+"/app-lost"),
	); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range entries {
		if !strings.HasSuffix(d.Name(), ".zip") {
			f.files = append(f.files, d.Name())
		}
	}
	f.files = append(f.files, "nothing", "good-1", "good-2", "own-good-1", "own-good-2", "app-a", "app-read", "other")
	f.populate()
	f.fixed = fixedTargets(f.dir + "/app-suid")
	f.shapes()
	return f
}

// richImage is a program with two functions and a USDT probe.
func richImage() []byte {
	p := program()
	code := p.Sections[0].Data
	p.Sections[0].Data = append(slices.Clone(code), code...)
	second := p.Symbols[0]
	second.Name, second.Value = "f2", second.Value+uint64(len(code))
	p.Symbols = append(p.Symbols, second)
	p.Sections = append(p.Sections, elfbuild.Section{Name: ".note.stapsdt", Type: elf.SHT_NOTE, Data: elfbuild.Stapsdt(""), Align: 4})
	return p.Bytes()
}

// zipped is an archive that has a file as it is, at a page's beginning.
func zipped(t *testing.T, file []byte) []byte {
	t.Helper()
	const name = "lib.so"
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Extra: make([]byte, 4096-30-len(name))})
	if err == nil {
		_, err = w.Write(file)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// populate starts the processes.
func (f *field) populate() {
	add := func(name string, p *target, uid, gid uint32, locked bool, libs ...string) *person {
		n := &person{target: p, name: name, uid: uid, gid: gid, locked: locked, knows: true}
		for _, lib := range libs {
			lib = f.dir + "/" + lib + ".so.1"
			if got := p.tell("map %s", lib); got != "mapped" {
				f.t.Fatalf("%s maps %s: %s", name, lib, got)
			}
			n.libs = append(n.libs, lib)
		}
		f.people = append(f.people, n)
		return n
	}
	with := func(change func(*testenv.Cmd)) func(*testenv.Cmd) { return change }
	f.clients = []*person{
		add("locked", startTarget(f.t, nobody, true, nil), nobody, nobody, true, "libown", "libroot"),
		add("free", startTarget(f.t, nobody, false, nil), nobody, nobody, false, "libown"),
		add("other", startTarget(f.t, nobody-1, true, nil), nobody-1, nobody-1, true, "libroot", "libsuid"),
		add("grouped", startTarget(f.t, nobody, true, with(func(cmd *testenv.Cmd) { cmd.SysProcAttr.Credential.Gid = 4242 })), nobody, 4242, true, "libown"),
		add("root", startBare(f.t), 0, 0, false, "libroot"),
	}
	add("capable", startTarget(f.t, nobody, true, with(func(cmd *testenv.Cmd) {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	})), nobody, nobody, true, "libown")
	add("root's", startTarget(f.t, 0, false, nil), 0, 0, false, "libroot")
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", f.clients[0].pid))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range threads {
		if id, _ := strconv.Atoi(d.Name()); id != f.clients[0].pid {
			f.people = append(f.people, &person{
				target: &target{pid: id}, name: "thread", borders: true, knows: true, libs: f.clients[0].libs,
			})
			break
		}
	}
	f.people = append(f.people,
		&person{target: &target{pid: 1}, name: "init", borders: true},
		&person{target: &target{pid: 1 << 22}, name: "none", absent: true})
}

// one chooses.
func one[T any](f *field, of ...T) T { return of[f.rnd.IntN(len(of))] }

// shapes lists all shapes of targets.
func (f *field) shapes() {
	for _, x := range f.fixed {
		if x.guest && !testenv.InGuest() {
			continue
		}
		f.kinds = append(f.kinds, func() *wanted {
			return &wanted{shape: x.shape, text: x.text, kind: "", fixed: x}
		})
	}
	files := map[string]func() string{
		"path":     func() string { return f.dir + "/" + one(f, f.files...) },
		"own path": func() string { return f.dir + "/own-" + one(f, "app-a", "good-1", "good-2", "other") },
		"pattern": func() string {
			return f.dir + "/" + one(f, "app-*", "app-r*", "own-go*", "go*", "own-good-[12]", "own-app-?", "own-o*", "app-l*", "[ao]*r", "good-*", "own-good-?", "*good-1", "own-*", "zz*")
		},
		"soname":  func() string { return one(f, "libown", "libroot", "libsuid", "libown.so.1", "libnone", "libroot.so") },
		"program": func() string { return "" },
		"archive": func() string {
			return f.dir + one(f, "/app.zip!/lib.so", "/own.zip!/lib.so", "/app.zip!/nosuch.so", "/other!/lib.so")
		},
		"detour": func() string {
			return one(f, f.dir+"/../"+f.dir[5:]+"/app-a", f.dir+"/./app-a", "/"+f.dir+"/app-a", f.dir+"/app-a/", "./app-a")
		},
		"no directory": func() string { return "hall/app-a" },
		"proc": func() string {
			return fmt.Sprintf("/proc/%d/root%s/%s", one(f, f.people...).pid, f.dir, one(f, "app-a", "own-app-a", "app-secret"))
		},
	}
	for _, kind := range []string{"uprobe", "uretprobe", "usdt"} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			f.kinds = append(f.kinds, func() *wanted {
				w := &wanted{shape: kind + " by " + name, kind: kind, file: files[name]()}
				switch {
				case kind == "usdt":
					w.what = one(f, "p:n", "n", "p:*", "?:n", "q:n", "p:m")
				case w.file == "":
					w.what = one(f, markerName, markerName, markerName+"x", "0x1000")
				default:
					w.what = one(f, "f", "f", "f", "f2", "f*", "f?", "*", "g", "0x1000", "f+1", "go:f", "cpp:f", "f@V", "app.c:3")
				}
				w.text = w.kind + ":" + w.file + ":" + w.what
				return w
			})
		}
	}
}

// want is the next target.
func (f *field) want(c *person, next bool) *wanted {
	i := f.rnd.IntN(len(f.kinds))
	if next {
		i = f.next % len(f.kinds)
		f.next++
	}
	w := f.kinds[i]()
	switch n := f.rnd.IntN(10); {
	case n < 6:
		w.p = c
	case n < 8:
		w.p = one(f, f.people...)
	}
	return w
}

// randomRule makes a rule of every shape that there is.
func (f *field) randomRule() Rule {
	r := Rule{Offers: one(f, []string{"count"}, []string{"count"}, []string{"*"}, []string{"*"}, []string{"c*", "secret"}, []string{"sessions", "count"}, []string{"secret"})}
	switch f.rnd.IntN(5) {
	case 0:
		r.UIDs = []uint32{nobody}
	case 1:
		r.UIDs = []uint32{nobody - 1, 0}
	case 2:
		r.GIDs = []uint32{one[uint32](f, nobody, 4242), 0}
	default:
		r.Anyone = true
	}
	d := f.dir
	for range 1 + f.rnd.IntN(4) {
		file := one(f, d+"/app-*", d+"/*", d+"/own-*", d+"/[a-n]*", d+"/*good-?", d+"/*/lib.so", "lib*", "libown", "", "*", "/proc/*")
		some := func() bool { return f.rnd.IntN(2) == 0 }
		w := Allow{Kind: one(f, "uprobe", "uretprobe", "usdt"), File: file}
		if w.Kind == "usdt" {
			w.Provider, w.Name = one(f, "*", "*", "p", "?"), one(f, "*", "*", "n", "[nx]")
		} else {
			w.Function = one(f, "*", "*", "f", "f*", "f?", "[fp]*")
			if some() {
				w.Also = append(w.Also, "languages")
			}
		}
		if w.Kind == "uprobe" {
			if some() {
				w.Also = append(w.Also, "offsets")
			}
			if w.Function == "*" && some() {
				w.Also = append(w.Also, "lines")
			}
		}
		r.Targets = append(r.Targets, w)
	}
	if f.rnd.IntN(2) == 0 {
		r.Targets = append(r.Targets, Allow{Kind: "*"})
	}
	for range f.rnd.IntN(4) {
		r.Targets = append(r.Targets, one(f, Allow{Kind: "*"}, Allow{Kind: "sample", Event: "*"}, Allow{Kind: "sample", Event: "clock"},
			Allow{Kind: "sample", Event: "software"}, Allow{Kind: "sample", Event: "page-faults"}, Allow{Kind: "interval"},
			Allow{Kind: "watchpoint"}, Allow{Kind: "watchpoint", Name: "*"}, Allow{Kind: "tracepoint", Group: "sched", Name: "*"},
			Allow{Kind: "tracepoint", Group: "*", Name: "sched_process_exit"}, Allow{Kind: "rawtracepoint", Name: "sched_process_*"},
			Allow{Kind: "kprobe", Function: "k*"}, Allow{Kind: "fentry", Function: "*"}, Allow{Kind: "begin"}, Allow{Kind: "iter", Name: "*"}))
	}
	if f.rnd.IntN(3) == 0 { // one that leaves the rest to decide
		r = Rule{Anyone: true, Offers: []string{"*"}, Targets: []Allow{{Kind: "*"}}}
	}
	if r.AllProcesses = f.rnd.IntN(3) == 0; r.AllProcesses {
		r.HandOver = f.rnd.IntN(4) == 0
	}
	r.Kernel = !r.AllProcesses && f.rnd.IntN(2) == 0
	r.MaxSites = one(f, 0, 0, 0, 0, 1, 2, 1000)
	r.MaxMapBytes = one[int64](f, 0, 0, 0, 0, 0, 0, 0, 0, 0, scarce)
	if !r.HandOver {
		r.MaxAttachments = one(f, 0, 0, 1, 3, 16, 16)
		r.EventsPerSecond = one[uint64](f, 0, 1, 1<<62)
	}
	return r
}
