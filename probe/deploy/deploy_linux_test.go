package deploy

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// thisMachine is read once: an emulated guest takes half a second for the kernel's types.
var thisMachine = sync.OnceValue(func() *env.Env { return env.New(nil) })

func mustResolve(t testing.TB, o *probe.Options, target string) *probe.Plan {
	t.Helper()
	return resolve(t, thisMachine(), o, target)
}

func resolve(t testing.TB, on *env.Env, o *probe.Options, target string) *probe.Plan {
	t.Helper()
	parsed, err := probe.ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := probe.Resolve(on, []probe.Target{parsed}, o)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// linkIDs are the ids of the bpf_links that a Link holds.
func linkIDs(t testing.TB, l *probe.Link) []link.ID {
	t.Helper()
	files, err := l.Files()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // before 5.15 a uprobe has none
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []link.ID
	for _, f := range files {
		info, err := kernel.Info(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, link.ID(info.ID))
		f.Close()
	}
	return ids
}

// deploySpec is version v of a program: it counts its events under its number.
func deploySpec(plan *probe.Plan, v int) *ebpf.CollectionSpec {
	spec := probetest.Counting{Value: -1, Key: int32(v)}.Collection(plan, nil)
	spec.Maps["hits"] = &ebpf.MapSpec{Name: "hits", Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 256}
	return spec
}

func deployDir(t *testing.T, name string) string {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Mounts, testenv.Feature(feature.PerfLink))
	dir := filepath.Join(testenv.BPFFSDir(t), name)
	t.Cleanup(func() {
		if _, err := os.Stat(dir); err != nil {
			return
		}
		if err := Remove(dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("the directory is still there")
		}
	})
	return dir
}

// TestDeployChild is a process of TestDeployUpgrades: version BORESCOPE_VERSION
// of the program.
func TestDeployChild(t *testing.T) {
	dir, target, version := os.Getenv("BORESCOPE_DEPLOY"), os.Getenv("BORESCOPE_TARGET"), os.Getenv("BORESCOPE_VERSION")
	if dir == "" {
		return // it is of use to its parent only
	}
	v, err := strconv.Atoi(version)
	if err != nil {
		t.Fatal(err)
	}
	plan := mustResolve(t, nil, "uprobe:"+target+":add")
	d, err := Deploy(dir, plan, deploySpec(plan, v), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if !d.Adopted() {
		t.Error("not adopted")
	}
}

// TestDeployUpgrades: 20 processes, each with another version of the program,
// take over from the one before under load, and every event is counted once.
func TestDeployUpgrades(t *testing.T) {
	dir := deployDir(t, "upgrades")
	w := probetest.StartOwn(t)
	plan := mustResolve(t, nil, "uprobe:"+w.Path()+":add")
	d, err := Deploy(dir, plan, deploySpec(plan, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Adopted() {
		t.Error("adopted what was not there")
	}
	hits := d.Map("hits")

	stop := w.KeepBusy()
	defer stop()
	atWork := func(v int) {
		for probetest.ReadTally(t, hits, v).Count == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	atWork(0) // else the first process takes over before anything happened
	const upgrades = 20
	for v := 1; v <= upgrades; v++ {
		cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestDeployChild$")
		cmd.Env = append(os.Environ(), "BORESCOPE_DEPLOY="+dir, "BORESCOPE_TARGET="+w.Path(), "BORESCOPE_VERSION="+strconv.Itoa(v))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("version %d: %v\n%s", v, err, out)
		}
		atWork(v) // without its process
	}
	want := probetest.Times * uint64(stop())
	sum := uint64(0)
	for v := range upgrades + 1 {
		n := probetest.ReadTally(t, hits, v).Count
		if n == 0 {
			t.Errorf("version %d counted nothing", v)
		}
		sum += n
	}
	if sum != want {
		t.Errorf("%d events counted, %d happened", sum, want)
	}
	t.Logf("%d events, %d versions", sum, upgrades+1)
}

// TestDeployRemoved: the probes end with their directory.
func TestDeployRemoved(t *testing.T) {
	dir := deployDir(t, "removed")
	w := probetest.StartOwn(t)
	plan := mustResolve(t, nil, "uprobe:"+w.Path()+":add")
	d, err := Deploy(dir, plan, deploySpec(plan, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	hits := d.Map("hits")
	l, err := d.Link()
	if err != nil {
		t.Fatal(err)
	}
	ids := linkIDs(t, l)
	l.Close()
	w.Run()
	probetest.ExpectTally(t, probetest.ReadTally(t, hits, 0), probetest.Tally{Count: probetest.Times})
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		probetest.ExpectGone(t, id)
	}
	w.Run()
	probetest.ExpectTally(t, probetest.ReadTally(t, hits, 0), probetest.Tally{Count: probetest.Times})
	if err := Remove(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removing it again: %v", err)
	}
}

// TestDeployIncompatible: what differs is named, and what is deployed goes on.
func TestDeployIncompatible(t *testing.T) {
	dir := deployDir(t, "incompatible")
	w := probetest.StartOwn(t)
	plan := mustResolve(t, nil, "uprobe:"+w.Path()+":add")
	u64 := &btf.Int{Name: "u64", Size: 8}
	pair := func(second string) btf.Type {
		return &btf.Struct{Name: "probetest.Tally", Size: 16, Members: []btf.Member{{Name: "count", Type: u64}, {Name: second, Type: u64, Offset: 64}}}
	}
	typed := func(spec *ebpf.CollectionSpec, second string) *ebpf.CollectionSpec {
		spec.Maps["hits"].Key, spec.Maps["hits"].Value = &btf.Int{Name: "u32", Size: 4}, pair(second)
		return spec
	}
	o := &Options{Layouts: map[string]string{"hits": "v1"}}
	d, err := Deploy(dir, plan, typed(deploySpec(plan, 0), "sum"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	other := mustResolve(t, nil, "uprobe:"+w.Path()+":helper_one")
	for name, c := range map[string]struct {
		plan   *probe.Plan
		o      *Options
		change func(*ebpf.CollectionSpec)
		want   string
	}{
		"place":  {other, o, func(*ebpf.CollectionSpec) {}, "the plan is another one: - program add_0"},
		"size":   {plan, o, func(s *ebpf.CollectionSpec) { s.Maps["hits"].ValueSize = 24 }, "map hits: size of the values: 16 there, 24 here"},
		"type":   {plan, o, func(s *ebpf.CollectionSpec) { s.Maps["hits"].Type = ebpf.Hash }, "map hits: type: Array there, Hash here"},
		"fields": {plan, o, func(s *ebpf.CollectionSpec) { typed(s, "total") }, "map hits: values: struct probetest.Tally {0: unsigned 64 count, 64: unsigned 64 sum} there, struct probetest.Tally {0: unsigned 64 count, 64: unsigned 64 total} here"},
		"layout": {plan, nil, func(s *ebpf.CollectionSpec) {}, "map hits: layout: v1 there, not said here"},
	} {
		spec := typed(deploySpec(c.plan, 1), "sum")
		c.change(spec)
		again, err := Deploy(dir, c.plan, spec, c.o)
		if !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
		again.Close()
	}
	bad := typed(deploySpec(plan, 1), "sum")
	bad.Programs[plan.Programs[0].Name].Instructions = asm.Instructions{asm.Return()} // R0 is not set
	var verdict *ebpf.VerifierError
	if _, err := Deploy(dir, plan, bad, o); !errors.As(err, &verdict) {
		t.Errorf("a program that the verifier refuses: %v", err)
	}
	w.Run()
	probetest.ExpectTally(t, probetest.ReadTally(t, d.Map("hits"), 0), probetest.Tally{Count: probetest.Times})
}

// TestDeployMaps: versions may add maps and drop them; a half-made deployment
// is made again.
func TestDeployMaps(t *testing.T) {
	dir := deployDir(t, "maps")
	plan := mustResolve(t, nil, "uprobe:"+probetest.OwnTarget(t)+":add")
	with := func(names ...string) *ebpf.CollectionSpec {
		spec := deploySpec(plan, 0)
		for _, n := range names {
			spec.Maps[n] = &ebpf.MapSpec{Name: "x", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}
		}
		spec.Maps["const"] = &ebpf.MapSpec{
			Name: "const", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
			Contents: []ebpf.MapKV{{Key: uint32(0), Value: uint64(len(names))}},
		}
		return spec
	}
	if err := os.Mkdir(dir, 0o700); err != nil { // by a process that was killed
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/maps", 0o700); err != nil {
		t.Fatal(err)
	}
	var value uint64
	for i, names := range [][]string{{".a"}, {".a", "b"}, {"b"}} {
		d, err := Deploy(dir, plan, with(names...), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Adopted() != (i > 0) {
			t.Errorf("step %d: adopted %v", i, d.Adopted())
		}
		if err := d.Map(names[0]).Lookup(uint32(0), &value); err != nil || i < 2 && value != uint64(i) || i == 2 && value != 77 {
			t.Errorf("step %d: %s holds %d, %v", i, names[0], value, err)
		}
		if err := d.Map(names[0]).Put(uint32(0), uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := d.Map("b").Put(uint32(0), uint64(77)); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Map("const").Lookup(uint32(0), &value); err != nil || value != uint64(len(names)) {
			t.Errorf("step %d: the constant is %d, %v", i, value, err)
		}
		_, gone := os.Stat(mapPath(dir, ".a"))
		if (gone != nil) != (i == 2) {
			t.Errorf("step %d: .a: %v", i, gone)
		}
		d.Close()
	}
}

// TestDeployRefuses: what can't be deployed leaves nothing behind.
func TestDeployRefuses(t *testing.T) {
	dir := deployDir(t, "refuses")
	for _, target := range []string{"begin", "iter:task", "socket:lo"} {
		plan := mustResolve(t, nil, target)
		if _, err := Deploy(dir, plan, deploySpec(plan, 0), nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", target, err)
		}
	}
	plan := mustResolve(t, nil, "uprobe:"+probetest.OwnTarget(t)+":add")
	if _, err := Deploy("/proc/self/nosuch/dir", plan, deploySpec(plan, 0), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that can't be: %v", err)
	}
	elsewhere := t.TempDir() + "/d"
	if _, err := Deploy(elsewhere, plan, deploySpec(plan, 0), nil); err == nil {
		t.Error("deployed to a file system that is none of BPF's")
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a failed deployment leaves its directory")
	}
}

// TestDeployDirectoryIsOnesOwn: a directory that somebody else had made in a BPF
// file system, where all may, was taken over with what was planted there.
func TestDeployDirectoryIsOnesOwn(t *testing.T) {
	dir := t.TempDir()
	own, open, link := filepath.Join(dir, "own"), filepath.Join(dir, "open"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(own, 0o700), os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.Symlink(own, link)); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockDir(own)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := lockDir(open); !errors.Is(err, os.ErrPermission) {
		t.Error("a directory that all may write to:", err)
	}
	if _, err := lockDir(link); err == nil {
		t.Error("a link was followed")
	}
	if os.Geteuid() != 0 {
		return // only root gives directories away
	}
	if err := os.Chown(own, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(own); !errors.Is(err, os.ErrPermission) {
		t.Error("somebody else's directory:", err)
	}
}
