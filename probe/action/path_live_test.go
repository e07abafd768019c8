//go:build linux

package action_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// pathsOf are how often each path was counted.
func pathsOf(t *testing.T, s *action.Session, n *action.Counter[[128]byte]) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for path, n := range tableOf(t, s, n) {
		out[action.Text(path[:])] = n
	}
	return out
}

// TestPathIterated: a file that is open three times, found by its path among those
// that an iterator shows, and a name that does not fit, which is counted.
func TestPathIterated(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Iter))
	name := filepath.Join(t.TempDir(), "open")
	for range 3 {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	paths := action.NewCounter[[128]byte]("paths", 4096)
	short := action.NewCount("short")
	p := action.NewProgram("paths")
	p.On(probe.Iter{Name: "task_file", PID: os.Getpid()}, func(c *action.Ctx) {
		file := c.Field("file").Ptr()
		c.ReturnUnless(file.Ne(0))
		path := file.Addr("f_path").Path(128)
		paths.Inc(c, path)
		c.If(path.Eq(name).And(file.Addr("f_path").Path(4).Len().Eq(0)), func() { short.Inc(c) })
	})
	s := attachOrSkip(t, p, nil)
	r, err := s.Link().OpenIter()
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if got := pathsOf(t, s, paths); got[name] != 3 {
		t.Errorf("%s: %d times, want 3, of %v", name, got[name], got)
	}
	st, err := s.Stats()
	if n := total(t, s, short); err != nil || n != 3 || st.Truncated < 3 {
		t.Errorf("%d names were cut, %d counted, %v; want 3", n, st.Truncated, err)
	}
}

// TestPathOpened: 23 files opened, by the path of what the function is given.
func TestPathOpened(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	name := filepath.Join(t.TempDir(), "opened")
	paths := action.NewCounter[[128]byte]("paths", 4096)
	p := action.NewProgram("opened")
	p.IncludeSelf = true
	p.On(probe.Fentry{Symbol: "security_file_open"}, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()))
		paths.Inc(c, c.ArgNamed("file").Ptr().Addr("f_path").Path(128))
	})
	s := attachOrSkip(t, p, nil)
	for range 23 {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if got := pathsOf(t, s, paths); got[name] != 23 {
		t.Errorf("%s: %d times, want 23, of %v", name, got[name], got)
	}
}

// TestPathRefused: where the kernel does not permit it, and of what is no path of
// an argument, that is said.
func TestPathRefused(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	types, err := probe.NewEnv(nil).BTF()
	if err != nil {
		t.Fatal(err)
	}
	paths := action.NewCounter[[128]byte]("paths", 64)
	compiled := func(symbol string, find func(file action.Ptr) action.Ptr) error {
		plan := rawPlan2()
		plan.Kernel, plan.BTF = "6.12.0", types
		pp := &plan.Programs[0]
		pp.Type, pp.AttachType, pp.AttachTo, pp.Context = ebpf.Tracing, ebpf.AttachTraceFEntry, symbol, probe.ContextTramp
		p := action.NewProgram("refused")
		p.On(probe.Fentry{Symbol: symbol}, func(c *action.Ctx) {
			paths.Inc(c, find(c.Arg(0).PtrTo("struct file", false)).Path(128))
		})
		_, err := bpf.Compile(p.Program, plan)
		return err
	}
	own := func(file action.Ptr) action.Ptr { return file.Addr("f_path") }
	if err := compiled("vfs_read", own); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "filp_close") {
		t.Errorf("in vfs_read: %v", err)
	}
	if err := compiled("filp_close", func(file action.Ptr) action.Ptr { return file }); err == nil || !strings.Contains(err.Error(), "struct path") {
		t.Errorf("of a file: %v", err)
	}
	if err := compiled("filp_close", func(file action.Ptr) action.Ptr { return file.Member("f_mapping").PtrTo("struct path", false) }); err == nil || !strings.Contains(err.Error(), "argument of the probe") {
		t.Errorf("of a path that was found: %v", err)
	}
}
