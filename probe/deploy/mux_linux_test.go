package deploy

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// sharer is a user with the map that it counts in.
type sharer struct {
	*User
	m *ebpf.Map
}

func join(t *testing.T, s *Mux, c probetest.Counting, o *UserOptions) sharer {
	t.Helper()
	m := probetest.NewTallies(t)
	t.Cleanup(func() { m.Close() })
	u, err := s.Join(c.Collection(s.plan, m), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return sharer{u, m}
}

func (u sharer) expect(t *testing.T, want uint64) {
	t.Helper()
	probetest.ExpectTally(t, probetest.Tally{Count: probetest.ReadTally(t, u.m, 0).Count}, probetest.Tally{Count: want})
	st, err := u.Stats()
	if err != nil || st.Events+st.Dropped < want {
		t.Errorf("%+v, %v: want %d events or more", st, err, want)
	}
}

// shareAdd shares a function that a program calls, until the test ends.
func shareAdd(t *testing.T) (*probetest.Workload, *Mux) {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.StartOwn(t)
	s, err := Share(mustResolve(t, nil, "uprobe:"+w.Path()+":add"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return w, s
}

// TestShare: users of one attachment count for themselves, come and go.
func TestShare(t *testing.T) {
	w, s := shareAdd(t)
	ids := linkIDs(t, s.link)
	w.Run() // with nobody there
	c := probetest.Counting{Value: -1}
	a := join(t, s, c, nil)
	w.Run()
	a.expect(t, probetest.Times)
	b := join(t, s, c, nil)
	third := join(t, s, c, &UserOptions{EventsPerSecond: 1})
	w.Run()
	a.expect(t, 2*probetest.Times)
	b.expect(t, probetest.Times)
	st, err := third.Stats()
	if err != nil || st.Events == 0 || st.Dropped == 0 || st.Events+st.Dropped != probetest.Times {
		t.Errorf("with a budget of one a second: %+v, %v", st, err)
	}
	probetest.ExpectTally(t, probetest.Tally{Count: probetest.ReadTally(t, third.m, 0).Count}, probetest.Tally{Count: st.Events})

	// The first leaves: those behind it go on, also through the gap.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.Run()
	probetest.ExpectTally(t, probetest.Tally{Count: probetest.ReadTally(t, a.m, 0).Count}, probetest.Tally{Count: 2 * probetest.Times})
	b.expect(t, 2*probetest.Times)
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	d := join(t, s, c, nil) // in the first slot
	w.Run()
	d.expect(t, probetest.Times)
	b.expect(t, 2*probetest.Times)
	if _, err := a.Stats(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("statistics of a closed share: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w.Run()
	d.expect(t, probetest.Times)
	if _, err := s.Join(c.Collection(s.plan, d.m), nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("joining what is closed: %v", err)
	}
	for _, id := range ids {
		probetest.ExpectGone(t, id)
	}
}

// TestShareFull: as many users as there is room for, each of them sees all.
func TestShareFull(t *testing.T) {
	w, s := shareAdd(t)
	var users []sharer
	for range MaxUsers {
		users = append(users, join(t, s, probetest.Counting{Value: -1}, nil))
	}
	if _, err := s.Join(probetest.Counting{Value: -1}.Collection(s.plan, users[0].m), nil); err == nil || !strings.Contains(err.Error(), "16 users") {
		t.Errorf("one too many: %v", err)
	}
	for i := 1; i < MaxUsers-1; i += 2 { // gaps
		users[i].Close()
	}
	w.Run()
	for i, u := range users {
		if i%2 == 0 || i == MaxUsers-1 {
			u.expect(t, probetest.Times)
		}
	}
}

// TestShareFunctions: a program that has functions of its own.
func TestShareFunctions(t *testing.T) {
	w, s := shareAdd(t)
	plain := join(t, s, probetest.Counting{Value: -1}, nil)
	m := probetest.NewTallies(t)
	defer m.Close()
	spec := probetest.Counting{Value: -1}.Collection(s.plan, m)
	prog := spec.Programs[s.plan.Programs[0].Name]
	function := prog.Instructions
	function[0] = function[0].WithSymbol("count")
	prog.Instructions = append(asm.Instructions{
		asm.Call.Label("count"), asm.Mov.Imm(asm.R0, 0), asm.Return(),
	}, function...)
	u, err := s.Join(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	behind := join(t, s, probetest.Counting{Value: -1}, nil)
	w.Run()
	sharer{u, m}.expect(t, probetest.Times)
	plain.expect(t, probetest.Times)
	behind.expect(t, probetest.Times)
}

// TestShareKinds: everything that can be shared, with cookies.
func TestShareKinds(t *testing.T) {
	testenv.Need(t, testenv.Root)
	program := probetest.OwnTarget(t)
	for _, c := range []struct {
		target string
		needs  []testenv.Requirement
		want   uint64
		c      probetest.Counting
	}{
		{"uretprobe:" + program + ":add", []testenv.Requirement{testenv.Uprobes}, probetest.Times, probetest.Counting{Value: -1, Sites: probetest.HasCookies()}},
		{"tracepoint:syscalls:sys_enter_getppid", []testenv.Requirement{testenv.Tracefs}, probetest.Times, probetest.Counting{Value: -1}},
		{"kprobe:" + probetest.GetppidFunc(), []testenv.Requirement{testenv.Kprobes}, probetest.Times, probetest.Counting{Value: -1}},
		{"kretprobe:" + probetest.GetppidFunc(), []testenv.Requirement{testenv.Kprobes}, probetest.Times, probetest.Counting{Value: -1}},
		{"fentry:" + probetest.GetppidFunc(), []testenv.Requirement{testenv.Fentry}, probetest.Times, probetest.Counting{Value: -1}},
		{"fexit:" + probetest.GetppidFunc(), []testenv.Requirement{testenv.Fentry}, probetest.Times, probetest.Counting{Value: -1}},
	} {
		t.Run(strings.ReplaceAll(c.target, "/", "_"), func(t *testing.T) {
			testenv.Need(t, c.needs...)
			w := probetest.StartCommand(t, testenv.Command(t, program))
			s, err := Share(mustResolve(t, nil, c.target), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c.c.PID = w.PID()
			a, b := join(t, s, c.c, nil), join(t, s, c.c, nil)
			w.Run()
			for _, u := range []sharer{a, b} {
				u.expect(t, c.want)
			}
		})
	}
}

// TestShareRefuses: what can't be shared, and programs that don't fit.
func TestShareRefuses(t *testing.T) {
	for target, o := range map[string]*probe.Options{
		"begin": nil, "iter:task": nil, "socket:lo": nil, "lsm:file_open": nil, "kprobe:vfs_read": {EntryReturn: true},
	} {
		plan := resolve(t, probetest.Env(t), o, target)
		if _, err := Share(plan, nil); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), target) {
			t.Errorf("%s: %v", target, err)
		}
	}
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	plan := mustResolve(t, nil, "uprobe:"+probetest.OwnTarget(t)+":add")
	s, err := Share(plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Join(&ebpf.CollectionSpec{}, nil); err == nil || !strings.Contains(err.Error(), plan.Programs[0].Name) {
		t.Errorf("a collection without programs: %v", err)
	}
	spec := plan.ProgramSpec(0)
	spec.License = "GPL"
	spec.Instructions = asm.Instructions{
		asm.StoreMem(asm.RFP, -512, asm.R1, asm.DWord), asm.Mov.Imm(asm.R0, 0), asm.Return(),
	}
	_, err = s.Join(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{spec.Name: spec}}, nil)
	if err == nil || !strings.Contains(err.Error(), "stack") {
		t.Errorf("a program that uses all of its stack: %v", err)
	}
}
