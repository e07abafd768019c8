package bpf_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

var update = flag.Bool("update", false, "write testdata/toy anew")

// TestFrontEnd: a front end of one page counts each of 23 calls, has their arguments in a
// histogram and in events, and reads the same from a recording of it.
func TestFrontEnd(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.StartOwn(t)
	toy, err := parseToy(toyScript(w.Path()))
	if err != nil {
		t.Fatal(err)
	}
	want := "calls (target, 1000): 23\n" +
		"firsts : [{0 1 1} {1 2 1} {2 4 2} {4 8 4} {8 16 8} {16 32 7}]\n"
	for i := range probetest.Times {
		want += fmt.Sprintf("(%d, target)\n", i)
	}
	dir := filepath.Join(t.TempDir(), "recording")
	if *update {
		dir = "testdata/toy"
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	liveAndRecorded(t, w, toy.program, toy.finish, dir, func(h bpf.Reader) {
		var got strings.Builder
		if err := toy.report(&got, h, probetest.Times); err != nil || got.String() != want {
			t.Errorf("%v\n%s\nwant\n%s", err, &got, want)
		}
	})
}

// liveAndRecorded runs the target under a program, whose last types declare sets. It has the
// results read twice: live, and from their recording in dir.
func liveAndRecorded(t *testing.T, w *probetest.Workload, p *ir.Program, declare func(*probe.Plan) error, dir string, read func(bpf.Reader)) {
	t.Helper()
	plan, err := bpf.Resolve(nil, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := declare(plan); err != nil {
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
	rec, err := recording.Create(dir, &recording.Meta{Tool: p.Name})
	if err != nil {
		t.Fatal(err)
	}
	loaded.Record(rec)
	read(loaded)
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
	read(recorded)
}

// TestMapStats compares the bytes of a map with those of all maps in the kernel that hold its
// entries: one for each depth of stacks, each twice.
func TestMapStats(t *testing.T) {
	testenv.Need(t, testenv.Root)
	m := &ir.Map{
		Name: "mapst", Agg: ir.AggCount, Flip: true,
		Key: ir.BytesType(8 * 30).WithFormat(ir.FormatKstack),
	}
	stack := &ir.Expr{Op: ir.OpKstack, Int: 30}
	p := &ir.Program{Name: "mapstats", Actions: []ir.Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"},
		Body:   []*ir.Stmt{{Op: ir.StmtAgg, Map: m, Key: stack}},
	}}}
	plan, err := bpf.Resolve(nil, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := bpf.Load(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	st, err := loaded.Stats()
	if err != nil || len(st.Maps) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	var bytes uint64
	var names []string
	for id := ebpf.MapID(0); ; {
		if id, err = ebpf.MapGetNextID(id); err != nil {
			break
		}
		km, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // closed meanwhile
		}
		info, err := km.Info()
		if err == nil && strings.HasPrefix(info.Name, m.Name) && info.Type != ebpf.ArrayOfMaps {
			n, _ := info.Memlock()
			bytes += n
			names = append(names, info.Name)
		}
		km.Close()
	}
	if len(names) != 6 || bytes == 0 || st.Maps[0].Bytes != bytes {
		t.Errorf("%d bytes; the kernel has %d in %q", st.Maps[0].Bytes, bytes, names)
	}
}
