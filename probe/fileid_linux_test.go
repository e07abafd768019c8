package probe

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// decode returns the plan as it is read back from its recorded form, changed by
// change.
func decode(t *testing.T, plan *Plan, change func(string) string) *Plan {
	t.Helper()
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var out Plan
	if err := json.Unmarshal([]byte(change(string(b))), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func changed(st os.FileInfo) int64 { return st.Sys().(*syscall.Stat_t).Ctim.Nano() }

// TestReplacedFile: a file was read by its path and attached to by its path
// again, so that whoever replaced it in between had a breakpoint put into the
// middle of an instruction of any other program.
func TestReplacedFile(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	for how, swap := range map[string]func(path, link, other string) error{
		"renamed over": func(path, _, other string) error { return os.Rename(other, path) },
		"linked": func(_, link, other string) error {
			return errors.Join(os.Remove(link), os.Symlink(other, link))
		},
		// Within one tick of the kernel's clock a change leaves the time as it was.
		"changed": func(path, _, _ string) error {
			was, err := os.Stat(path)
			for is := was; err == nil && changed(is) == changed(was); is, err = os.Stat(path) {
				if err := os.Chmod(path, 0o700); err != nil {
					return err
				}
			}
			return err
		},
	} {
		for _, o := range []*Options{nil, {NoMulti: true}} {
			dir := t.TempDir()
			path, link, other := dir+"/file", dir+"/link", dir+"/other"
			copyFile(t, path, probetest.TargetPath())
			copyFile(t, other, probetest.TargetPath())
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			plan := mustResolve(t, o, "uprobe:"+link+":helper_*")
			if len(plan.Files) != 1 || plan.Files[link].Inode == 0 {
				t.Fatalf("files %v", plan.Files)
			}
			attachCounter(t, plan, probetest.Counting{Value: -1}) // it has not been replaced yet
			same := func(s string) string { return s }
			recorded := decode(t, plan, same)
			if err := swap(path, link, other); err != nil {
				t.Fatal(err)
			}
			for _, p := range []*Plan{plan, recorded} {
				n := loadCounter(t, p, probetest.Counting{Value: -1})
				l, err := p.Attach(n.progs, nil)
				if err == nil {
					l.Close()
				}
				if err == nil || !strings.Contains(err.Error(), link+" was replaced or changed after the plan was made") {
					t.Errorf("%s: %v", how, err)
				}
			}
			attachCounter(t, mustResolve(t, o, "uprobe:"+link+":helper_*"), probetest.Counting{Value: -1})
		}
	}
}

// TestOldPlanFiles: plans that were recorded without the files' identities load,
// and are attached without a comparison.
func TestOldPlanFiles(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "uprobe:"+probetest.TargetPath()+":add")
	old := decode(t, plan, func(s string) string { return strings.Replace(s, `"files"`, `"unknown"`, 1) })
	if len(plan.Files) != 1 || old.Files != nil {
		t.Fatalf("files %v, %v", plan.Files, old.Files)
	}
	n, _ := attachCounter(t, old, probetest.Counting{Value: -1})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
}

// TestFileBuildID: a plan says which builds of its files it is for, by readelf's word,
// recorded too, and a file of the same id is another all the same.
func TestFileBuildID(t *testing.T) {
	testenv.Need(t, testenv.Tool("readelf"))
	const sh = "/bin/sh"
	out, err := testenv.Command(t, "readelf", "-n", sh).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, want, ok := strings.Cut(string(out), "Build ID: ")
	if !ok {
		t.Fatalf("no build-id in %s", out)
	}
	want, _, _ = strings.Cut(want, "\n")
	f, err := elf.Open(sh)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plan := mustResolve(t, &Options{Unsafe: true}, fmt.Sprintf("uprobe:%s:%#x", sh, f.Entry))
	for _, p := range []*Plan{plan, decode(t, plan, func(s string) string { return s })} {
		if got := p.Files[sh]; got.BuildID != want || !strings.HasSuffix(got.String(), " build-id "+want) {
			t.Errorf("%s, want build-id %s", got, want)
		}
	}
	id := plan.Files[sh]
	other := id
	other.Inode++
	if other.Same(id) || id.Same(other) {
		t.Error("another file of the same build-id is the same")
	}
	if other = id; !other.Same(userfile.FileID{Device: id.Device, Inode: id.Inode, Changed: id.Changed}) {
		t.Error("a file whose build-id nobody has read is another")
	}
}

// TestFileBuildIDOnce: a file was mapped for its build-id, and then again to be read.
// All kinds of user probes have it.
func TestFileBuildIDOnce(t *testing.T) {
	testenv.Need(t, testenv.Tool("objcopy"))
	dir := t.TempDir()
	note, path := dir+"/note", dir+"/target"
	const want = "6275696c646d652e"
	if err := os.WriteFile(note, []byte("\x04\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00GNU\x00buildme."), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "objcopy", "--add-section", ".note.gnu.build-id="+note, probetest.TargetPath(), path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env, ids := NewEnv(nil), userfile.FileIDs{}
	from := userfile.Sources{IDs: ids}
	f, err := userfile.OpenLive(env, from, path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if id, noted := ids[path]; !noted || id.BuildID != "" {
		t.Errorf("%s was read when it was opened: %s, %v", path, id, noted)
	}
	if err := userfile.WithELF(env, from, path, func(*elffile.File) error { return nil }); err != nil || ids[path].BuildID != want {
		t.Errorf("got %s, %v, want build-id %s", ids[path], err, want)
	}
	for _, target := range []string{"uprobe:%s:add", "uretprobe:%s:add", "uprobe:%s:target.c:106", "usdt:%s:target:*"} {
		if got := mustResolve(t, nil, fmt.Sprintf(target, path)).Files[path].BuildID; got != want {
			t.Errorf("%s: build-id %q, want %s", target, got, want)
		}
	}
}

// TestReadTwice: a file that is replaced between two looks at it makes no plan.
func TestReadTwice(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/file"
	copyFile(t, path, probetest.TargetPath())
	copyFile(t, dir+"/other", probetest.TargetPath())
	env, ids := NewEnv(nil), userfile.FileIDs{}
	if _, err := usdtFile(env, userfile.Sources{IDs: ids}, path); err != nil {
		t.Fatal(err)
	}
	if _, _, c, err := userfile.OpenAt(env, userfile.Sources{IDs: ids}, path); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	if err := os.Rename(dir+"/other", path); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"openAt":   func() error { _, _, _, err := userfile.OpenAt(env, userfile.Sources{IDs: ids}, path); return err },
		"openELF":  func() error { _, _, err := userfile.OpenELF(env, userfile.Sources{IDs: ids}, path); return err },
		"usdtFile": func() error { _, err := usdtFile(env, userfile.Sources{IDs: ids}, path); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "replaced or changed while it was read") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTargetLinks: absolute symbolic links in a process's root led to the host's
// file of that name, which was attached to.
func TestTargetLinks(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	host, root := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(root+host, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, host+"/only", probetest.TargetPath())
	copyFile(t, host+"/both", probetest.TargetPath())
	copyFile(t, root+host+"/both", probetest.TargetPath())
	for _, name := range []string{"only", "both"} {
		if err := os.Symlink(filepath.Join(host, name), root+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	tid := testenv.Rooted(t, root)
	below := procfs.Dir(tid) + "/root"
	if plan, err := Resolve(nil, []Target{Uprobe{Path: below + "/only", Symbol: "add"}}, nil); err == nil {
		t.Errorf("found in the host's root: %v", plan.Files)
	}
	f, err := os.Open(root + host + "/both")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := userfile.Identify(f)
	if err != nil {
		t.Fatal(err)
	}
	of, err := Resolve(nil, []Target{Uprobe{Path: "/both", Symbol: "add", PID: tid}}, nil)
	if err != nil || of.Files[below+"/both"] != want {
		t.Errorf("with a pid: %v, %v", of, err)
	}
	for _, o := range []*Options{nil, {NoMulti: true}} {
		plan := mustResolve(t, o, "uprobe:"+below+"/both:helper_*")
		if got := plan.Files[below+"/both"]; got != want {
			t.Errorf("%v, want the target's %v", got, want)
		}
		attachCounter(t, plan, probetest.Counting{Value: -1})
	}
}

// TestTargetLdCache: the ld.so.cache of a target was read whole, of 8 TiB without
// contents, and one that is a FIFO was waited for.
func TestTargetLdCache(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(root+"/etc", 0o755), os.WriteFile(root+"/etc/ld.so.cache", nil, 0o644),
		os.Truncate(root+"/etc/ld.so.cache", 1<<32)); err != nil {
		t.Fatal(err)
	}
	env := NewEnv(nil)
	if b, err := userfile.ReadAtMost(env, root+"/etc/ld.so.cache", userfile.MaxLdCache); err == nil {
		t.Errorf("read %d bytes", len(b))
	}
	if got := userfile.CachedLibrary(env, root, "libc"); got != "" {
		t.Errorf("found %s", got)
	}
	if err := errors.Join(os.Remove(root+"/etc/ld.so.cache"), syscall.Mkfifo(root+"/etc/ld.so.cache", 0o644)); err != nil {
		t.Fatal(err)
	}
	if got := userfile.CachedLibrary(env, root, "libc"); got != "" {
		t.Errorf("found %s", got)
	}
}

// TestProcLinks: the kernel's own links of a process are taken with a pid too.
func TestProcLinks(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	path := procfs.Dir(w.PID()) + "/exe"
	n, l := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("uprobe:%s:add pid=%d", path, w.PID())), probetest.Counting{Value: -1})
	defer l.Close()
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
}
