package profile

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
)

// testProfile has kernel, inlined, unnamed and JIT frames in two processes.
func testProfile() *Profile {
	kernel := &Mapping{Start: 0xffffffff81000000, Limit: 0xffffffff82000000, File: "[kernel]"}
	libc := &Mapping{Start: 0x7f0000000000, Limit: 0x7f0000200000, Offset: 0x1000, File: "/usr/lib/libc.so.6", BuildID: "abcdef"}
	bin := &Mapping{Start: 0x400000, Limit: 0x500000, File: "/usr/bin/serve"}
	sys := &NamedFrame{stack.Frame{PC: 0xffffffff81000010, Return: false, Source: stack.SourceKernel}, []Function{{Name: "do_syscall_64", Offset: 0x10}}, kernel, FrameKernel, false}
	write := &NamedFrame{stack.Frame{PC: 0x7f0000000105, Return: true, Source: stack.SourceFP}, []Function{{Name: "write", Offset: 5}}, libc, FrameUser, false}
	anon := &NamedFrame{stack.Frame{PC: 0x7f0000000999, Return: true, Source: stack.SourceFP}, nil, libc, FrameUser, false}
	loop := &NamedFrame{stack.Frame{PC: 0x400123, Return: true, Source: stack.SourceFP}, []Function{
		{Name: "std::move<int>(int&)", SystemName: "_ZSt4moveIiEvRi", File: "move.h", Line: 7},
		{Name: "loop", File: "serve.cc", Line: 42, Column: 3, Offset: 0x23},
	}, bin, FrameUser, false}
	main := &NamedFrame{stack.Frame{PC: 0x400200, Return: true, Source: stack.SourceFP}, []Function{{Name: "main", File: "serve.cc", Line: 90}}, bin, FrameUser, false}
	jit := &NamedFrame{stack.Frame{PC: 0x31000, Return: false, Source: stack.SourceFP}, []Function{{Name: "Lorg/Main;::run"}}, nil, FrameJIT, false}
	lost := &NamedFrame{Frame: stack.Frame{PC: 0x1234}}
	return &Profile{
		SampleTypes: []ValueType{{"samples", "count"}, {"cpu", "nanoseconds"}},
		PeriodType:  ValueType{"cpu", "nanoseconds"},
		Period:      10101010,
		Time:        time.Unix(1700000000, 0).UTC(),
		Duration:    10 * time.Second,
		Comments:    []string{"test"},
		Samples: []Sample{
			{Frames: []*NamedFrame{sys, write, loop, main}, Values: []int64{5, 50505050}, Comm: "serve", PID: 12, TID: 13, CPU: 1, Time: 1500 * time.Millisecond, Stopped: stack.StopBottom},
			{Frames: []*NamedFrame{loop, main}, Values: []int64{3, 30303030}, Comm: "serve", PID: 12, TID: 12, Stopped: stack.StopBottom},
			{Frames: []*NamedFrame{anon, loop, loop, main}, Values: []int64{2, 20202020}, Comm: "serve", PID: 12, TID: 12, Stopped: stack.StopSuspect, Labels: []Label{{Key: "cgroup", Str: "/a"}, {Key: "size", Num: 7, Unit: "bytes"}}},
			{Frames: []*NamedFrame{jit, lost}, Values: []int64{4, 40404040}, Comm: "java; x", PID: 20, TID: 21, Stopped: stack.StopNoMapping},
			{Values: []int64{1, 10101010}, Comm: "", Stopped: stack.StopFault},
		},
	}
}

func TestProfileFolded(t *testing.T) {
	p := testProfile()
	for _, c := range []struct {
		name string
		o    *FoldOptions
		want string
	}{
		{"default", nil, `[unknown] 1
java: x;[unknown];Lorg/Main:::run 4
serve;main;loop;std::move<int>(int&) 3
serve;main;loop;std::move<int>(int&);loop;std::move<int>(int&);[libc.so.6] 2
serve;main;loop;std::move<int>(int&);write;do_syscall_64 5
`},
		{"all", &FoldOptions{Value: 1, TID: true, Annotate: true, NoInline: false, Delimit: true, Addresses: true, Incomplete: true}, `[unknown]-0/0 10101010
java: x-20/21;[truncated];[0x1234];Lorg/Main:::run_[j] 40404040
serve-12/12;[truncated];main;loop;std::move<int>(int&)_[i];loop;std::move<int>(int&)_[i];[libc.so.6+0x1998] 20202020
serve-12/12;main;loop;std::move<int>(int&)_[i] 30303030
serve-12/13;main;loop;std::move<int>(int&)_[i];write;-;do_syscall_64_[k] 50505050
`},
		{"bare", &FoldOptions{NoComm: true, NoInline: true}, `[unknown] 1
[unknown];Lorg/Main:::run 4
main;loop 3
main;loop;loop;[libc.so.6] 2
main;loop;write;do_syscall_64 5
`},
	} {
		if got := p.Folded(c.o).String(); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.name, got, c.want)
		}
	}
	if n := p.Folded(&FoldOptions{Value: 2}).Len(); n != 0 {
		t.Errorf("value that is not there gives %d stacks", n)
	}
}

func TestProfileWritePprof(t *testing.T) {
	p := testProfile()
	var b, again bytes.Buffer
	if err := p.WritePprof(&b); err != nil {
		t.Fatal(err)
	}
	if err := p.WritePprof(&again); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("not deterministic, error %v", err)
	}
	raw := b.Bytes()
	q, err := pprof.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/profile.pprof.txt", []byte(q.String()))
	// shared frames are written once
	if len(q.Location) != 7 || len(q.Mapping) != 3 {
		t.Errorf("%d locations, %d mappings", len(q.Location), len(q.Mapping))
	}
	pprofTop(t, raw)
}

// pprofTop compares with what "go tool pprof -top" says, where there is one.
func pprofTop(t *testing.T, raw []byte) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil || testing.Short() { // the go command builds its pprof first
		t.Log("no go tool to compare with, or -short")
		return
	}
	file := filepath.Join(t.TempDir(), "p.pb.gz")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, goTool, "tool", "pprof", "-top", "-sample_index=samples", "-nodecount=100", "-nodefraction=0", file)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir(), "PPROF_BINARY_PATH="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range []string{
		`(?m)^\s+5 33\.33% .* 5 33\.33%\s+do_syscall_64$`,
		`(?m)^\s+3 20\.00% .* 10 66\.67%\s+std::move.*\(inline\)$`,
		`(?m)^\s+0 .* 10 66\.67%\s+main$`,
	} {
		if !regexp.MustCompile(line).Match(out) {
			t.Errorf("go tool pprof -top: no line %s in\n%s", line, out)
		}
	}
}

func TestProfileWriteSpeedscope(t *testing.T) {
	var b bytes.Buffer
	if err := testProfile().WriteSpeedscope(&b, "test"); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/profile.speedscope.json", b.Bytes())
	var f speedscopeFile
	if err := json.Unmarshal(b.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Profiles {
		var sum int64
		for i, s := range p.Samples {
			sum += p.Weights[i]
			for _, n := range s {
				if n < 0 || n >= len(f.Shared.Frames) {
					t.Fatalf("%s: frame %d of %d", p.Name, n, len(f.Shared.Frames))
				}
			}
		}
		if sum != p.End {
			t.Errorf("%s: weights sum to %d, end is %d", p.Name, sum, p.End)
		}
	}
}

func TestProfileWritePerfScript(t *testing.T) {
	var b bytes.Buffer
	if err := testProfile().WritePerfScript(&b, "", 1); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/profile.perf.txt", b.Bytes())
	if err := testProfile().WritePerfScript(&b, "", 2); err == nil {
		t.Error("value that is not there accepted")
	}
}

func TestProfileTop(t *testing.T) {
	p := testProfile()
	top := p.Top(nil)
	golden.Compare(t, "testdata/profile.top.txt", []byte(top.String()+"\n"+p.Top(&TopOptions{ByTotal: true, N: 3, Callers: -1}).String()))
	if top.Total != 14 {
		t.Errorf("total %d, want 14: the sample without a stack has no function", top.Total)
	}
	var self int64
	byName := make(map[string]TopFunction)
	for _, fn := range top.Functions {
		self += fn.Self
		byName[fn.Name] = fn
		if fn.Total < fn.Self || fn.Total > top.Total {
			t.Errorf("%s: self %d, total %d of %d", fn.Name, fn.Self, fn.Total, top.Total)
		}
	}
	if self != top.Total {
		t.Errorf("self sums to %d of %d", self, top.Total)
	}
	if loop := byName["loop"]; loop.Total != 10 || loop.Self != 0 {
		t.Errorf("a recursive function counts twice: %+v", loop)
	}
	if got := strings.Join(byName["do_syscall_64"].Callers, " "); got != "write std::move<int>(int&) loop main" {
		t.Errorf("callers of do_syscall_64: %s", got)
	}
}

func TestProfileErrors(t *testing.T) {
	for _, p := range []*Profile{
		{Samples: []Sample{{Values: []int64{1, 2}}}},
		{Samples: []Sample{{Values: []int64{1}, Frames: []*NamedFrame{nil}}}},
	} {
		var b bytes.Buffer
		if p.WritePprof(&b) == nil || p.WriteSpeedscope(&b, "") == nil || p.WritePerfScript(&b, "", 0) == nil {
			t.Errorf("%+v accepted", p)
		}
	}
}

// TestLeftOut: the stacks that the walker inside BPF leaves are counted by the file at fault.
// They were among those that no rule covers.
func TestLeftOut(t *testing.T) {
	lib := &Mapping{File: "/lib/libodd.so"}
	end := func(m *Mapping, n int64) Sample {
		return Sample{
			Frames: []*NamedFrame{{}, {Mapping: m}}, Values: []int64{n}, Stopped: stack.StopLeftOut,
		}
	}
	p := &Profile{Samples: []Sample{
		end(lib, 2), end(lib, 3), end(nil, 1), {Stopped: stack.StopNoRule, Values: []int64{9}},
	}}
	if got, want := p.LeftOut(), map[string]int64{"/lib/libodd.so": 5, "": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := new(Profile).LeftOut(); got != nil {
		t.Errorf("got %v of nothing", got)
	}
}

// TestCut: user stacks that end too early are counted by the file of their outermost frame and the reason.
func TestCut(t *testing.T) {
	lib := &NamedFrame{Mapping: &Mapping{File: "/lib/libodd.so"}, Kind: FrameUser}
	bare, kernel := &NamedFrame{Kind: FrameUser}, &NamedFrame{Kind: FrameKernel}
	end := func(why stack.StopReason, n int64, frames ...*NamedFrame) Sample {
		return Sample{Frames: frames, Values: []int64{n}, Stopped: why}
	}
	p := &Profile{Samples: []Sample{
		end(stack.StopNoRule, 2, bare, lib), end(stack.StopNoRule, 3, lib), end(stack.StopBadMemory, 1, lib),
		end(stack.StopNoMapping, 7, lib, bare),
		end(stack.StopBottom, 100, lib), end(stack.StopNone, 100, lib), end(stack.StopLimit, 100, kernel), end(stack.StopNoRule, 100),
	}}
	want := []Cut{
		{"", stack.StopNoMapping, 7},
		{"/lib/libodd.so", stack.StopNoRule, 5},
		{"/lib/libodd.so", stack.StopBadMemory, 1},
	}
	if got := p.Cut(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPprofNoLines: a profile did not say why a file's functions had no lines. It says it once
// for each file.
func TestPprofNoLines(t *testing.T) {
	bin := &Mapping{File: "/bin/serve"}
	frame := func(pc uint64, fn Function) *NamedFrame {
		return &NamedFrame{Frame: stack.Frame{PC: pc}, Functions: []Function{fn}, Mapping: bin}
	}
	p := &Profile{Samples: []Sample{{Values: []int64{1}, Frames: []*NamedFrame{
		frame(1, Function{Name: "a", NoLine: "stripped"}), frame(2, Function{Name: "b", NoLine: "stripped"}),
		frame(3, Function{Name: "c", File: "c.c", Line: 3}),
	}}}}
	var b bytes.Buffer
	if err := p.WritePprof(&b); err != nil {
		t.Fatal(err)
	}
	got, err := pprof.Parse(&b)
	if want := []string{"/bin/serve: no lines: stripped"}; err != nil || !slices.Equal(got.Comments, want) {
		t.Errorf("%q, %v, want %q", got.Comments, err, want)
	}
}
