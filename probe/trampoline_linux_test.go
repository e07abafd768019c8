package probe

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestFsessionCounts: one program at entry and return, which sees the value at
// the return and 0 before; loaded alone and in a collection.
func TestFsessionCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Fsession))
	w := probetest.Start(t)
	// ksys_write(fd, buf, count): the third argument is 1, at entry and at return.
	third, _ := attachCounter(t, mustResolve(t, &Options{EntryReturn: true}, "fentry:ksys_write"),
		probetest.Counting{PID: w.PID(), Value: 16})
	plan := mustResolve(t, &Options{EntryReturn: true}, "fentry:"+probetest.GetppidFunc())
	p := &plan.Programs[0]
	if p.AttachType != AttachFsession || p.Ret == nil || p.Ret.Loc.Offset != 8 {
		t.Fatalf("a session is\n%s", plan)
	}
	result, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: 8})
	spec := plan.ProgramSpec(0)
	spec.License = "GPL"
	spec.Instructions = probetest.Counting{PID: w.PID(), Value: 8}.Instructions(spec.Type, nil)
	coll, err := LoadCollection(&ebpf.CollectionSpec{
		Maps:     map[string]*ebpf.MapSpec{"hits": {Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1}},
		Programs: map[string]*ebpf.ProgramSpec{spec.Name: spec},
	}, ebpf.CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer coll.Close()
	l, err := plan.Attach(coll.Programs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.Run()
	want := probetest.Tally{Count: 2 * probetest.Times, Sum: probetest.Times * uint64(os.Getpid())}
	probetest.ExpectTally(t, result.read(t, 0), want)
	probetest.ExpectTally(t, (&counter{m: coll.Maps["hits"]}).read(t, 0), want)
	w.WaitBlocked() // its write is over
	writes := third.read(t, 0)
	writes.Count, writes.Sum = writes.Count/2, writes.Sum/2 // entry and return
	probetest.ExpectWrites(t, writes)
}

// TestFsessionRefused: the verifier's own words.
func TestFsessionRefused(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Fsession))
	spec := &ebpf.ProgramSpec{
		Name: "bad", Type: ebpf.Tracing, AttachType: AttachFsession, AttachTo: "ksys_write", License: "GPL",
		Instructions: asm.Instructions{asm.LoadMem(asm.R0, asm.R1, 4096, asm.DWord), asm.Mov.Imm(asm.R0, 0), asm.Return()},
	}
	load := func() error {
		coll, err := LoadCollection(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"bad": spec}}, ebpf.CollectionOptions{})
		if err == nil {
			coll.Close()
		}
		return err
	}
	var refused *ebpf.VerifierError
	if err := load(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "context access") {
		t.Errorf("%v, want what the verifier says", err)
	}
	spec.AttachTo = "nosuch_function"
	if err := load(); err == nil || !strings.Contains(err.Error(), "nosuch_function") {
		t.Errorf("%v, want that there is no such function", err)
	}
}

// TestTracingMultiCounts: entries, returns and sessions of two functions by one
// program each, told apart by cookies, with arguments and values.
func TestTracingMultiCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.TracingMulti))
	w := probetest.Start(t)
	env := NewEnv(nil)
	parent := uint64(os.Getpid())
	var counters []*counter
	kinds := []struct {
		kind    string
		session bool
		c       probetest.Counting
		parents probetest.Tally // what getppid counts, which has no third argument
	}{
		{"fentry", false, probetest.Counting{Helper: asm.FnGetFuncArg, Value: 2}, probetest.Tally{Count: probetest.Times}},
		{"fexit", false, probetest.Counting{Helper: asm.FnGetFuncRet}, probetest.Tally{Count: probetest.Times, Sum: probetest.Times * parent}},
		{"fentry", true, probetest.Counting{Helper: asm.FnGetFuncRet}, probetest.Tally{Count: 2 * probetest.Times, Sum: probetest.Times * parent}},
	}
	for _, k := range kinds {
		set := mustParse(t, k.kind+":ksys_write,"+k.kind+":"+probetest.GetppidFunc()+","+k.kind+":ksys_write")
		plan, err := Resolve(env, []Target{set}, &Options{TracingMulti: true, EntryReturn: k.session})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Programs) != 1 || plan.Programs[0].Method != MethodTracingMulti || len(plan.Programs[0].Sites) != 2 {
			t.Fatalf("two functions make\n%s", plan)
		}
		k.c.PID, k.c.Sites = w.PID(), true
		n, l := attachCounter(t, plan, k.c)
		if l.Method(0) != MethodTracingMulti || l.Method(1) != MethodTracingMulti {
			t.Errorf("attached by %s and %s", l.Method(0), l.Method(1))
		}
		counters = append(counters, n)
	}
	w.Run()
	w.WaitBlocked() // its write is over
	for i, k := range kinds {
		t.Logf("%s, session %t", k.kind, k.session)
		got, missed := counters[i].read(t, 1), counters[i].missed(t)
		// A program of ksys_write, which everybody calls, may be preempted in
		// another task: in this process's own write, which wakes the target. Until
		// that task goes on the kernel leaves out what runs on its CPU, of both
		// functions, and counts it.
		if !got.LeftOut(k.parents, missed) {
			probetest.ExpectTally(t, got, k.parents)
		}
		writes := counters[i].read(t, 0)
		if k.session { // the entry, where the value is 0
			writes.Count /= 2
		}
		if missed == 0 || writes.Count > 0 {
			probetest.ExpectWrites(t, writes)
		}
	}
}

// TestTracingMultiBulk: Attach finds out by itself that a program is for many
// functions, leaves out what can't be had, and detaches all.
func TestTracingMultiBulk(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.TracingMulti), testenv.Tracefs)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: AttachFentryMulti, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	const n = 100
	var targets []Target
	for _, k := range manyFunctions(t, n) {
		targets = append(targets, Fentry{Symbol: k.(Kprobe).Symbol})
	}
	targets = append(targets, Fentry{Symbol: "_printk"}) // its arguments are variable
	t0 := time.Now()
	l, err := Attach(prog, Set(targets), &Options{Missing: MissingWarn, NoTypes: true})
	if err != nil {
		t.Fatal(err)
	}
	attach := time.Since(t0)
	ids := linkIDs(t, l)
	if got := len(l.Sites()); got < n/2 || l.Method(0) != MethodTracingMulti {
		t.Errorf("%d of %d functions attached by %s", got, n, l.Method(0))
	}
	missing := l.Missing()
	if len(missing)+len(l.Sites()) != len(targets) || len(missing) == 0 || missing[len(missing)-1].Target != targets[n] {
		t.Errorf("%d sites and %d missing of %d", len(l.Sites()), len(missing), len(targets))
	}
	t0 = time.Now()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d links, %d of %d functions: attached in %v, detached in %v", len(ids), len(l.Sites()), n, attach, time.Since(t0))
	for _, m := range missing[:min(3, len(missing))] {
		t.Logf("missing %s: %v", m.Target, m.Err)
	}
	for _, id := range ids {
		probetest.ExpectGone(t, id)
	}
}

// TestTracingProgramIsBound: a program that was loaded for one function is
// refused for two, and told how it is done.
func TestTracingProgramIsBound(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "ksys_write", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	env := NewEnv(nil)
	two := []Target{Fentry{Symbol: "ksys_write"}, Fentry{Symbol: "ksys_read"}}
	if _, err := Attach(prog, Set(two), &Options{Env: env}); err == nil || !strings.Contains(err.Error(), "TraceFentryMulti") {
		t.Errorf("%v", err)
	}
	if _, err := Attach(prog, Set(two[:1]), &Options{AttachType: AttachFentryMulti, Env: env}); err == nil {
		t.Error("attached with an attach type that it was not loaded with")
	} else if feature.Test(feature.TracingMulti) != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, want that this kernel has no tracing.multi", err)
	}
	l, err := Attach(prog, Set(two[:1]), &Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
