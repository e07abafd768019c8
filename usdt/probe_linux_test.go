//go:build amd64

package usdt_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/usdt"
)

// traced attaches to a probe through package probe and stores its readable
// integer arguments, by number; key 100 counts.
type traced struct {
	t       *testing.T
	values  *action.Hash[uint32, int64]
	session *action.Session
}

func trace(t *testing.T, target probe.USDT, args []int) *traced {
	t.Helper()
	tr := &traced{t: t, values: action.NewHash[uint32, int64]("values", 128)}
	p := action.NewProgram("traced")
	p.On(target, func(c *action.Ctx) {
		for _, i := range args {
			tr.values.Set(c, c.Const(int64(i)), c.Arg(i))
		}
		tr.values.Add(c, c.Const(100), 1)
	})
	var err error
	if tr.session, err = action.Attach(p, nil); err != nil {
		t.Fatalf("%v: %v", target, err)
	}
	return tr
}

// read returns the arguments of the last fire, and the number of fires.
func (tr *traced) read() map[uint32]int64 {
	tr.t.Helper()
	table, err := tr.values.Table(tr.session)
	if err != nil {
		tr.t.Fatal(err)
	}
	s, err := table.Snapshot()
	if err != nil {
		tr.t.Fatal(err)
	}
	got := map[uint32]int64{}
	for _, e := range s.Entries {
		got[e.Key] = e.Value
	}
	return got
}

// TestValuesThroughProbe compares arguments that generated BPF reads with what
// the program prints, without and with a pid.
func TestValuesThroughProbe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Tool("cc"))
	exe := filepath.Join(t.TempDir(), "values")
	if out, err := testenv.Command(t, "cc", "-O2", "-fPIE", "-pie", "-o", exe, "testdata/values.c").CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got("cc with sys/sdt.h", fmt.Errorf("%w: %s", err, out), testenv.NoSDT...))
	}
	f, err := usdt.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	probes, err := f.Probes()
	if err != nil {
		t.Fatal(err)
	}
	readable := map[string][]int{}
	for _, p := range probes {
		for i, a := range p.Sites[0].Args {
			if a.Reason == usdt.ReasonNone && !a.Float {
				readable[p.Name] = append(readable[p.Name], i)
			}
		}
	}
	for _, byPID := range []bool{false, true} {
		t.Run(fmt.Sprint("pid=", byPID), func(t *testing.T) {
			all := map[string]*traced{}
			attachAll := func(pid int) {
				for _, p := range probes {
					all[p.Name] = trace(t, probe.USDT{Path: exe, Provider: "values", Name: p.Name, PID: pid}, readable[p.Name])
				}
			}
			cmd := testenv.Command(t, exe)
			if byPID {
				// Stopped before its first instruction until the tracers are there.
				cmd = testenv.Command(t, "sh", "-c", "kill -STOP $$; exec "+exe)
			} else {
				attachAll(0)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				for _, tr := range all {
					tr.session.Close()
				}
			}()
			if byPID {
				waitStopped(t, pid)
				attachAll(pid)
				_ = cmd.Process.Signal(syscall.SIGCONT)
			}
			checked := 0
			for range probes {
				line := readLine(t, stdout)
				waitStopped(t, pid)
				want := strings.Fields(line)
				got := all[want[0]].read()
				if got[100] != 1 {
					t.Errorf("%s: %d fires", want[0], got[100])
				}
				for _, i := range readable[want[0]] {
					v, err := strconv.ParseInt(want[i+1], 10, 64)
					if err != nil {
						u, _ := strconv.ParseUint(want[i+1], 10, 64)
						v = int64(u)
					}
					if got[uint32(i)] != v {
						t.Errorf("%s, argument %d is %d, want %d", want[0], i+1, got[uint32(i)], v)
					}
					checked++
				}
				_ = cmd.Process.Signal(syscall.SIGCONT)
			}
			if checked < 30 {
				t.Errorf("%d values compared", checked)
			}
		})
	}
}

// readLine reads a line and no more.
func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	var line []byte
	b := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// TestExceptions counts C++ exceptions by libstdc++'s own probes.
func TestExceptions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.Tool("c++"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, "/usr/lib/*/libstdc++.so.6")
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "x.cc"), filepath.Join(dir, "x")
	src := "#include <cstdio>\nint main() { for (int i = 0; i < 23; i++) try { throw i; } catch (int) {} puts(\"done\"); getchar(); }\n"
	if err := os.WriteFile(source, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "c++", "-o", exe, source).CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got("c++", fmt.Errorf("%w: %s", err, out), testenv.NoSDT...))
	}
	libs, _ := filepath.Glob("/usr/lib/*/libstdc++.so.6")
	thrown := trace(t, probe.USDT{Path: libs[0], Provider: "libstdcxx", Name: "throw"}, []int{0, 1})
	defer thrown.session.Close()
	caught := trace(t, probe.USDT{Path: libs[0], Provider: "libstdcxx", Name: "catch"}, []int{0, 1})
	defer caught.session.Close()
	if out, err := testenv.Command(t, exe).Output(); err != nil || string(out) != "done\n" {
		t.Fatalf("%v: %s", err, out)
	}
	a, b := thrown.read(), caught.read()
	// Exception and type are the same in both.
	if a[100] != 23 || b[100] != 23 || a[0] == 0 || a[1] == 0 || a[0] != b[0] || a[1] != b[1] {
		t.Errorf("throw %v, catch %v", a, b)
	}
}

// TestPostgres runs Debian's server and reads the number of buffers out of a
// checkpoint's probe, whose argument is relative to the program counter.
func TestPostgres(t *testing.T) {
	paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(paths) == 0 {
		paths = []string{"/usr/lib/postgresql/bin/postgres"}
	}
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.Long, testenv.File(paths[0]))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, paths[0])
	dir, err := os.MkdirTemp("", "usdt-postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	asNobody := func(args ...string) *testenv.Cmd {
		cmd := testenv.Command(t, args[0], args[1:]...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return cmd
	}
	bin, data := filepath.Dir(paths[0]), dir+"/data"
	if out, err := asNobody(bin+"/initdb", "-D", data, "-N", "-U", "postgres", "-A", "trust").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	server := asNobody(paths[0], "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "shared_buffers=1234")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
	}()
	sync := trace(t, probe.USDT{Path: paths[0], Provider: "postgresql", Name: "buffer__sync__start"}, []int{0, 1})
	defer sync.session.Close()
	psql := func(sql string) string {
		out, _ := asNobody("psql", "-h", dir, "-U", "postgres", "-Atc", sql, "postgres").CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	for begin := time.Now(); psql("select 1") != "1"; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("the server doesn't answer: %s", psql("select 1"))
		}
	}
	if out := psql("create table x as select generate_series(1, 1000)"); !strings.HasPrefix(out, "SELECT") {
		t.Fatal(out)
	}
	if out := psql("checkpoint"); out != "CHECKPOINT" {
		t.Fatal(out)
	}
	got := sync.read()
	if got[100] < 1 || got[0] != 1234 || got[1] < 1 || got[1] > 1234 {
		t.Errorf("buffer__sync__start(NBuffers, written) is %v, want 1234 buffers", got)
	}
}

// TestRuby counts the arrays that a script makes, by their length and by the file
// that makes them: a probe of several sites with different operands, behind a
// semaphore.
func TestRuby(t *testing.T) {
	libs, _ := filepath.Glob("/usr/lib/*/libruby-*.so.*.*.*")
	if len(libs) == 0 {
		libs = []string{"/usr/lib/libruby.so"}
	}
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.Tool("ruby"), testenv.File(libs[0]))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, libs[0])
	f, err := usdt.Open(libs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, err := f.Find("ruby", "array__create")
	if err != nil || len(found.Sites) < 2 || found.Sites[0].Semaphore == 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	lengths := action.NewCounter[int64]("lengths", 4096)
	files := action.NewCounter[[4]byte]("files", 4096)
	program := action.NewProgram("arrays")
	program.On(probe.USDT{Path: libs[0], Provider: "ruby", Name: "array__create"}, func(c *action.Ctx) {
		lengths.Inc(c, c.Arg(0))
		files.Inc(c, c.Arg(1).UserStr(4))
	})
	session, err := action.Attach(program, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	out, err := testenv.Command(t, "ruby", "-e", "23.times { [0] * 4242 }; 17.times { Array.new }; puts 'done'").CombinedOutput()
	if err != nil || string(out) != "done\n" {
		t.Fatalf("%v: %s", err, out)
	}
	byLength, err1 := lengths.Table(session)
	byFile, err2 := files.Table(session)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	l, err1 := byLength.Snapshot()
	n, err2 := byFile.Snapshot()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	got := mapx.Values(l)
	if got[4242] != 23 || got[0] < 17 {
		t.Errorf("%d arrays of 4242, %d empty ones, want 23 and 17 or more", got[4242], got[0])
	}
	if made := mapx.Values(n)[[4]byte{'-', 'e'}]; made < 40 {
		t.Errorf("%d arrays made by -e, want 40 or more", made)
	}
}

// TestJava reads a probe of the virtual machine: the names of threads that it
// starts, and their lengths.
func TestJava(t *testing.T) {
	java, err := filepath.EvalSymlinks("/usr/bin/java")
	testenv.Need(t, testenv.Got("java", err))
	jvm := filepath.Join(filepath.Dir(java), "../lib/server/libjvm.so")
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.File(jvm))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, jvm)
	f, err := usdt.Open(jvm)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := f.Find("hotspot", "thread__start")
	testenv.Need(t, testenv.Got("hotspot:thread__start", err)) // built without its probes
	if len(p.Sites[0].Args) != 5 {
		t.Fatalf("%+v", p)
	}
	names := action.NewCounter[[16]byte]("names", 64)
	lengths := action.NewCounter[int64]("lengths", 64)
	program := action.NewProgram("threads")
	program.On(probe.USDT{Path: jvm, Provider: "hotspot", Name: "thread__start"}, func(c *action.Ctx) {
		names.Inc(c, c.Arg(0).UserStr(16))
		lengths.Inc(c, c.Arg(1))
	})
	session, err := action.Attach(program, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if out, err := testenv.Command(t, java, "-XX:-UsePerfData", "-version").CombinedOutput(); err != nil {
		t.Fatalf("java: %v: %s", err, out)
	}
	table, err := names.Table(session)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range s.Entries {
		name, _, _ := strings.Cut(string(e.Key[:]), "\x00")
		seen[name] = true
	}
	if !seen["Reference Handl"] && !seen["Reference Handler"] || !seen["Finalizer"] {
		t.Errorf("threads started: %v", seen)
	}
	lens, err := lengths.Table(session)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lens.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range l.Entries {
		found = found || e.Key == int64(len("Reference Handler"))
	}
	if !found {
		t.Errorf("lengths of names: %v", l.Entries)
	}
}
