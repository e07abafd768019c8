package bpf_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestFrontEnd: a program made of text and data at run time counts each of 23 calls and
// sums up what they are given, and a recording of it reads the same.
func TestFrontEnd(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.StartOwn(t)
	target, err := probe.ParseTarget("uprobe:" + w.Path() + ":add")
	if err != nil {
		t.Fatal(err)
	}
	calls := &ir.Map{Name: "calls", Agg: ir.AggCount, Key: ir.StringType(16)}
	sum := &ir.Map{Name: "sum", Agg: ir.AggSum}
	p := &ir.Program{Name: "front_end", Actions: []ir.Action{{Target: target, Body: []*ir.Stmt{
		{Op: ir.StmtAgg, Map: calls, Key: ir.NewBuiltin("comm")},
		{Op: ir.StmtAgg, Map: sum, X: &ir.Expr{Op: ir.OpCast, Type: ir.Int64Type(), Args: []*ir.Expr{{Op: ir.OpArg}}}},
	}}}}
	plan, err := bpf.Resolve(nil, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := bpf.Load(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	link, err := plan.Attach(loaded.Programs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	w.Run()

	dir := filepath.Join(t.TempDir(), "recording")
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Record(rec)
	expectCalls(t, loaded, calls, sum)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	recorded, err := bpf.Open(p, again)
	if err != nil {
		t.Fatal(err)
	}
	expectCalls(t, recorded, calls, sum)
}

// expectCalls reads what the target's calls of add(i, …), i from 0 to 22, leave.
func expectCalls(t *testing.T, h bpf.Handles, calls, sum *ir.Map) {
	t.Helper()
	counts, err := bpf.CountTable[[16]byte](h, calls)
	if err != nil {
		t.Fatal(err)
	}
	got, err := counts.Snapshot()
	if want := [16]byte([]byte("target\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")); err != nil || len(got.Entries) != 1 ||
		got.Entries[0].Key != want || got.Entries[0].Value != probetest.Times {
		t.Errorf("%v, %v: want %d of %s", got.Entries, err, probetest.Times, want)
	}
	sums, err := bpf.NumberTable[struct{}](h, sum)
	if err != nil {
		t.Fatal(err)
	}
	total, err := sums.Snapshot()
	const want = probetest.Times * (probetest.Times - 1) / 2
	if err != nil || len(total.Entries) != 1 || total.Entries[0].Value != want {
		t.Errorf("sum %v, %v: want %d", total.Entries, err, want)
	}
}
