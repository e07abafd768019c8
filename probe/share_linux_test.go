package probe

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/testenv"
)

// userSpec is a collection of counting programs for a plan, which write to m.
func userSpec(plan *Plan, c counting, m *ebpf.Map) *ebpf.CollectionSpec {
	spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{}, Maps: map[string]*ebpf.MapSpec{}}
	for i := range plan.Programs {
		p := plan.ProgramSpec(i)
		p.License, p.Instructions = "GPL", c.instructions(p.Type, m)
		spec.Programs[p.Name] = p
	}
	return spec
}

// sharer is a user with the map that it counts in.
type sharer struct {
	*Share
	m *ebpf.Map
}

func join(t *testing.T, s *Shared, c counting, o *ShareOptions) sharer {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	u, err := s.Join(userSpec(s.plan, c, m), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return sharer{u, m}
}

func (u sharer) expect(t *testing.T, want uint64) {
	t.Helper()
	expectTally(t, tally{Count: (&counter{m: u.m}).read(t, 0).Count}, tally{Count: want})
	st, err := u.Stats()
	if err != nil || st.Events+st.Dropped < want {
		t.Errorf("%+v, %v: want %d events or more", st, err, want)
	}
}

// TestShare: users of one attachment count for themselves, come and go.
func TestShare(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	plan := mustResolve(t, nil, "uprobe:"+targetPath()+":add")
	s, err := plan.Share(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ids := linkIDs(t, s.link)
	w.run() // with nobody there
	c := counting{value: -1}
	a := join(t, s, c, nil)
	w.run()
	a.expect(t, times)
	b := join(t, s, c, nil)
	third := join(t, s, c, &ShareOptions{EventsPerSecond: 1})
	w.run()
	a.expect(t, 2*times)
	b.expect(t, times)
	st, err := third.Stats()
	if err != nil || st.Events == 0 || st.Dropped == 0 || st.Events+st.Dropped != times {
		t.Errorf("with a budget of one a second: %+v, %v", st, err)
	}
	expectTally(t, tally{Count: (&counter{m: third.m}).read(t, 0).Count}, tally{Count: st.Events})

	// The first leaves: those behind it go on, also through the gap.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.run()
	expectTally(t, tally{Count: (&counter{m: a.m}).read(t, 0).Count}, tally{Count: 2 * times})
	b.expect(t, 2*times)
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	d := join(t, s, c, nil) // in the first slot
	w.run()
	d.expect(t, times)
	b.expect(t, 2*times)
	if _, err := a.Stats(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("statistics of a closed share: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w.run()
	d.expect(t, times)
	if _, err := s.Join(userSpec(plan, c, d.m), nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("joining what is closed: %v", err)
	}
	for _, id := range ids {
		expectGone(t, id)
	}
}

// TestShareFull: as many users as there is room for, each of them sees all.
func TestShareFull(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	plan := mustResolve(t, nil, "uprobe:"+targetPath()+":add")
	s, err := plan.Share(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var users []sharer
	for range MaxShares {
		users = append(users, join(t, s, counting{value: -1}, nil))
	}
	if _, err := s.Join(userSpec(plan, counting{value: -1}, users[0].m), nil); err == nil || !strings.Contains(err.Error(), "16 users") {
		t.Errorf("one too many: %v", err)
	}
	for i := 1; i < MaxShares-1; i += 2 { // gaps
		users[i].Close()
	}
	w.run()
	for i, u := range users {
		if i%2 == 0 || i == MaxShares-1 {
			u.expect(t, times)
		}
	}
}

// TestShareFunctions: a program that has functions of its own.
func TestShareFunctions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startTarget(t)
	plan := mustResolve(t, nil, "uprobe:"+targetPath()+":add")
	s, err := plan.Share(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	plain := join(t, s, counting{value: -1}, nil)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	spec := userSpec(plan, counting{value: -1}, m)
	prog := spec.Programs[plan.Programs[0].Name]
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
	behind := join(t, s, counting{value: -1}, nil)
	w.run()
	sharer{u, m}.expect(t, times)
	plain.expect(t, times)
	behind.expect(t, times)
}

// TestShareKinds: everything that can be shared, with cookies.
func TestShareKinds(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, c := range []struct {
		target string
		needs  []testenv.Requirement
		want   uint64
		c      counting
	}{
		{"uretprobe:" + targetPath() + ":add", []testenv.Requirement{testenv.Uprobes}, times, counting{value: -1, sites: hasCookies()}},
		{"tracepoint:syscalls:sys_enter_getppid", []testenv.Requirement{testenv.Tracefs}, times, counting{value: -1}},
		{"kprobe:" + getppidFunc(), []testenv.Requirement{testenv.Kprobes}, times, counting{value: -1}},
		{"kretprobe:" + getppidFunc(), []testenv.Requirement{testenv.Kprobes}, times, counting{value: -1}},
		{"fentry:" + getppidFunc(), []testenv.Requirement{testenv.Fentry}, times, counting{value: -1}},
		{"fexit:" + getppidFunc(), []testenv.Requirement{testenv.Fentry}, times, counting{value: -1}},
	} {
		t.Run(strings.ReplaceAll(c.target, "/", "_"), func(t *testing.T) {
			testenv.Need(t, c.needs...)
			w := startTarget(t)
			s, err := mustResolve(t, nil, c.target).Share(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c.c.pid = w.pid()
			a, b := join(t, s, c.c, nil), join(t, s, c.c, nil)
			w.run()
			for _, u := range []sharer{a, b} {
				u.expect(t, c.want)
			}
		})
	}
}

// TestShareRefuses: what can't be shared, and programs that don't fit.
func TestShareRefuses(t *testing.T) {
	for target, o := range map[string]*Options{
		"begin": nil, "iter:task": nil, "socket:lo": nil, "lsm:file_open": nil, "kprobe:vfs_read": {Session: true},
	} {
		plan, err := Resolve(testEnv(t), []Target{mustParse(t, target)}, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plan.Share(nil); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), target) {
			t.Errorf("%s: %v", target, err)
		}
	}
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	plan := mustResolve(t, nil, "uprobe:"+targetPath()+":add")
	s, err := plan.Share(nil)
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
