//go:build linux

package action_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	probeenv "github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestMinimalBTFIsEnough compiles the action of every tool, and one with every builtin, with all
// of the kernel's types and with those that capture would embed: to the same instructions. The
// types for pcomm lacked its members.
func TestMinimalBTFIsEnough(t *testing.T) {
	const kernel = "/sys/kernel/btf/vmlinux"
	raw, err := os.ReadFile(kernel)
	if err != nil {
		testenv.SkipUnsupported(t, &probe.UnsupportedError{Feature: "btf", Hint: "CONFIG_DEBUG_INFO_BTF is not set", Err: err})
	}
	full, err := btf.LoadSpec(kernel)
	if err != nil {
		t.Fatal(err)
	}
	env := func(types *btf.Spec) *probe.Env {
		return probe.NewEnv(&probe.EnvOptions{Root: os.DirFS("/"), Release: "6.12.0", BTF: types})
	}
	compiled := 0
	tools := corpus()
	for _, b := range ir.Builtins() {
		tools = append(tools, tool{b.Name, func(p *action.Program) {
			p.Program.Actions = []ir.Action{{
				Target: probe.RawTracepoint{Name: "sys_enter"},
				Body:   []*ir.Stmt{{Op: ir.StmtEval, X: ir.NewBuiltin(b.Name)}},
			}}
		}})
	}
	for _, tl := range tools {
		p := action.NewProgram(tl.name)
		tl.build(p)
		want, err := compileIn(env(full), p)
		if err != nil {
			t.Logf("%s: %v", tl.name, err) // of a function or a file that is not here
			continue
		}
		small, err := probeenv.MinimalBTF(raw, bpf.BTFNeeds(p.Program))
		if err != nil {
			t.Fatal(err)
		}
		if len(small) > 64<<10 {
			t.Errorf("%s: %d bytes are not minimal", tl.name, len(small))
		}
		types, err := loadBTF(small)
		if err != nil {
			t.Fatal(err)
		}
		got, err := compileIn(env(types), p)
		if err != nil || got != want {
			t.Errorf("%s: with minimal BTF: %v\n%s\nwith all:\n%s", tl.name, err, got, want)
		}
		compiled++
	}
	if compiled < 3 {
		t.Errorf("only %d programs were compared", compiled)
	}
	t.Logf("%d programs", compiled)
}

func loadBTF(raw []byte) (*btf.Spec, error) { return btf.LoadSpecFromReader(bytes.NewReader(raw)) }

func compileIn(env *probe.Env, p *action.Program) (string, error) {
	plan, err := probe.Resolve(env, p.Targets(), &probe.Options{Missing: probe.MissingIgnore})
	if err != nil {
		return "", err
	}
	if plan.BTF == nil {
		if plan.BTF, err = env.BTF(); err != nil {
			return "", err
		}
	}
	spec, err := bpf.Compile(p.Program, plan)
	if err != nil {
		return "", err
	}
	out := ""
	for i := range plan.Programs {
		out += fmt.Sprintln(spec.Programs[plan.Programs[i].Name].Instructions)
	}
	return out, nil
}

// TestCapturedBTFLive: a program that is compiled with what was captured of the
// running kernel's types reads what it should.
func TestCapturedBTFLive(t *testing.T) {
	testenv.Need(t, testenv.Root)
	n := action.NewCounter[uint32]("n", 64)
	p := marked("captured", func(c *action.Ctx) { n.Inc(c, c.CurTask().Member("group_leader").Ptr().TaskPID()) })
	raw, path, err := bpf.CaptureBTF(p.Program, probe.NewEnv(nil))
	if err != nil {
		testenv.SkipUnsupported(t, err)
	}
	hub := probe.NewEnv(&probe.EnvOptions{Root: fstest.MapFS{}, Release: probe.NewEnv(nil).Release(), BTFDir: fstest.MapFS{
		"x/1/" + path[strings.LastIndex(path[:strings.LastIndex(path, "/")], "/")+1:]: {Data: raw},
	}})
	types, err := hub.BTF()
	if err != nil {
		t.Fatal(err)
	}
	s := attachOrSkip(t, p, &action.Options{Env: probe.NewEnv(&probe.EnvOptions{BTF: types})})
	marks(23)
	tab, err := n.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != 1 || snap.Entries[0].Key != uint32(os.Getpid()) || snap.Entries[0].Value != 23 {
		t.Errorf("%+v, %v; want 23 of process %d", snap, err, os.Getpid())
	}
}
