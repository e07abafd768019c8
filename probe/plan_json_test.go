package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestPlanJSON: what was recorded of a plan is the plan, on every machine.
func TestPlanJSON(t *testing.T) {
	for _, m := range machines {
		if m.arch != "amd64" {
			continue
		}
		env := NewEnv(&EnvOptions{Root: probetest.Root(t), Arch: m.arch, Release: m.release, Features: probetest.Features(m.without...), BTF: probetest.BTF(t)})
		for _, text := range planned {
			if strings.Contains(text, "%s") {
				text = fmt.Sprintf(text, "/bin/target")
			}
			for _, o := range []*Options{nil, {DWARF: true, Tag: 9}, {NoTypes: true, EntryReturn: true}} {
				plan, err := Resolve(env, []Target{mustParse(t, text)}, o)
				if err != nil {
					t.Fatal(err)
				}
				checkRecorded(t, plan)
			}
		}
	}
}

// checkRecorded records a plan and reads it back, with the kernel's types and
// without.
func checkRecorded(t *testing.T, plan *Plan) {
	t.Helper()
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []*btf.Spec{plan.BTF, nil} {
		got := &Plan{BTF: spec}
		if err := json.Unmarshal(b, got); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if got.String() != plan.String() || len(got.Diff(plan)) != 0 {
			t.Errorf("recorded:\n%s\nread:\n%s\n%v", plan, got, got.Diff(plan))
		}
		if spec == nil && plan.BTF != nil {
			continue // sizes and names are all that is left of types
		}
		again, err := json.Marshal(got)
		if err != nil || string(again) != string(b) {
			t.Errorf("%v: recorded again it is\n%s\nnot\n%s", err, again, b)
		}
		for i := range plan.Programs {
			if a, b := plan.Programs[i].Sites, got.Programs[i].Sites; !slices.EqualFunc(a, b, sameSite) {
				t.Errorf("sites %+v, want %+v", b, a)
			}
			for j, a := range plan.Programs[i].Args {
				g := got.Programs[i].Args[j]
				if !reflect.DeepEqual(a.Loc, g.Loc) || !sameSize(a.Type, g.Type) {
					t.Errorf("argument %+v, want %+v", g, a)
				}
			}
		}
	}
}

// sameSite compares targets by name: an interval's clock is its own affair.
func sameSite(a, b Site) bool {
	if a.Target.String() != b.Target.String() {
		return false
	}
	a.Target, b.Target = nil, nil
	return a == b
}

func sameSize(a, b btf.Type) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, err1 := btf.Sizeof(a)
	y, err2 := btf.Sizeof(b)
	return x == y && (err1 == nil) == (err2 == nil)
}

// TestPlanJSONKernelTypes: a pointer's target is the kernel's own struct again.
func TestPlanJSONKernelTypes(t *testing.T) {
	env := probetest.Env(t)
	plan, err := Resolve(env, []Target{Kprobe{Symbol: "vfs_read"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	got := &Plan{BTF: plan.BTF}
	if err := json.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	want := plan.Programs[0].Args[0].Type.(*btf.Pointer).Target
	if have := got.Programs[0].Args[0].Type.(*btf.Pointer).Target; have != want {
		t.Errorf("argument 0 points to %v, want the kernel's %v", have, want)
	}
	other := strings.Replace(string(b), `"kind":"struct","name":"file","size":`, `"kind":"struct","name":"file","size":9`, 1)
	if other == string(b) {
		t.Fatalf("no struct file in %s", b)
	}
	if err := json.Unmarshal([]byte(other), got); err == nil || !strings.Contains(err.Error(), "another kernel") {
		t.Errorf("a struct of another size: %v", err)
	}
}

// TestPlanJSONMissing: reasons keep their identity.
func TestPlanJSONMissing(t *testing.T) {
	plan, err := Resolve(probetest.Env(t), []Target{Kprobe{Symbol: "vfs_read"}, Kprobe{Symbol: "nosuch"}}, &Options{Missing: MissingWarn})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var got Plan
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Missing) != 1 || !errors.Is(got.Missing[0].Err, fs.ErrNotExist) || got.Missing[0].Err.Error() != plan.Missing[0].Err.Error() {
		t.Errorf("%v, want %v", got.Missing, plan.Missing)
	}
}

func TestPlanDiff(t *testing.T) {
	env := probetest.Env(t)
	a, err1 := Resolve(env, []Target{Kprobe{Symbol: "vfs_read"}}, nil)
	b, err2 := Resolve(env, []Target{Kprobe{Symbol: "vfs_write"}}, nil)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	d := strings.Join(a.Diff(b), "\n")
	for _, want := range []string{"- site 0 kprobe:vfs_read", "+ site 0 kprobe:vfs_write"} {
		if !strings.Contains(d, want) {
			t.Errorf("no %q in\n%s", want, d)
		}
	}
	if d := a.Diff(a); len(d) != 0 {
		t.Errorf("a plan differs from itself: %q", d)
	}
}

func FuzzPlanJSON(f *testing.F) {
	for _, text := range []string{"kprobe:vfs_read", "uretprobe:/bin/target:add", "usdt:/bin/target:target:*", "tracepoint:sched:sched_switch", "begin,end"} {
		target, err := ParseTarget(text)
		if err != nil {
			f.Fatal(err)
		}
		plan, err := Resolve(probetest.Env(f), []Target{target}, nil)
		if err != nil {
			f.Fatal(err)
		}
		b, err := json.Marshal(plan)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"format":1,"types":[{"kind":"struct","members":[{"type":1}]},{"kind":"typedef","to":2}],"programs":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Plan
		if json.Unmarshal(b, &p) != nil {
			return
		}
		first, err := json.Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		var q Plan
		if err := json.Unmarshal(first, &q); err != nil {
			t.Fatalf("what was read can't be read again: %v\n%s", err, first)
		}
		if d := p.Diff(&q); len(d) != 0 {
			t.Errorf("changed: %q", d)
		}
	})
}
