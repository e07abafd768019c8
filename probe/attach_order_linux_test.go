package probe

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestOrder: programs of a plan at one place run in the plan's order. Of those at functions the
// last ran first.
func TestOrder(t *testing.T) {
	testenv.Need(t, testenv.Root)
	several := strings.ReplaceAll(probetest.GetppidFunc(), "getppid", "get*pid") // by one link, if there is one
	for _, c := range []struct {
		target string
		o      *Options
		needs  []testenv.Requirement
	}{
		{"uprobe:TARGET:add", nil, []testenv.Requirement{testenv.Uprobes}},
		{"uprobe:TARGET:add", &Options{NoMulti: true}, []testenv.Requirement{testenv.Uprobes}},
		{"uretprobe:TARGET:add", nil, []testenv.Requirement{testenv.Uprobes}},
		{"uretprobe:TARGET:add", &Options{NoMulti: true}, []testenv.Requirement{testenv.Uprobes}},
		{"usdt:TARGET:target:twice", nil, []testenv.Requirement{testenv.Uprobes}},
		{"kprobe:" + probetest.GetppidFunc(), nil, []testenv.Requirement{testenv.Kprobes}},
		{"kprobe:" + probetest.GetppidFunc(), &Options{NoMulti: true}, []testenv.Requirement{testenv.Kprobes}},
		{"kretprobe:" + probetest.GetppidFunc(), nil, []testenv.Requirement{testenv.Kprobes}},
		{"kretprobe:" + probetest.GetppidFunc(), &Options{NoMulti: true}, []testenv.Requirement{testenv.Kprobes}},
		{"kprobe:" + several, nil, []testenv.Requirement{testenv.Kprobes}},
		{"kretprobe:" + several, nil, []testenv.Requirement{testenv.Kprobes}},
		{"fentry:" + several, nil, []testenv.Requirement{testenv.Fentry}},
		{"fexit:" + several, nil, []testenv.Requirement{testenv.Fentry}},
		{"fentry:" + probetest.GetppidFunc(), nil, []testenv.Requirement{testenv.Fentry}},
		{"fexit:" + probetest.GetppidFunc(), nil, []testenv.Requirement{testenv.Fentry}},
		{"tracepoint:syscalls:sys_enter_getppid", nil, []testenv.Requirement{testenv.Tracefs}},
		{"rawtracepoint:sys_enter", &Options{NoTypes: true}, nil},
	} {
		name := c.target
		if c.o != nil && c.o.NoMulti {
			name += " each"
		}
		t.Run(strings.NewReplacer("/", "_", "*", "S").Replace(name), func(t *testing.T) {
			testenv.Need(t, c.needs...)
			w := probetest.Start(t)
			target := strings.ReplaceAll(c.target, "TARGET", w.Path())
			plan := mustResolve(t, c.o, target, target, target)
			m := probetest.NewTallies(t)
			defer m.Close()
			spec := probetest.Counting{Value: -1}.Collection(plan, m)
			for i := range plan.Programs {
				p := spec.Programs[plan.Programs[i].Name]
				p.Instructions = appendDigit(p.Type, m, w.PID(), plan.Programs[i].Group+1)
			}
			loaded, err := LoadCollection(spec, ebpf.CollectionOptions{Cache: plan.Cache})
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			l, err := plan.Attach(loaded.Programs, nil)
			if err != nil {
				testenv.SkipUnsupported(t, err)
				t.Fatal(err)
			}
			defer l.Close()
			w.Run()
			if got := probetest.ReadTally(t, m, 0).Count; got != 123 || len(plan.Programs) < 3 {
				t.Errorf("%s: %d programs ran in the order %d", plan.Programs[0].Method, len(plan.Programs), got)
			} else {
				t.Log(plan.Programs[0].Method)
			}
		})
	}
}

// TestSitesOrder: sites are in the plan's order, in whatever order they were attached.
func TestSitesOrder(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	file := "uprobe:" + probetest.TargetPath()
	want := []string{file + ":add", "rawtracepoint:sys_enter", file + ":helper_one", file + ":nested"}
	plan := mustResolve(t, &Options{NoTypes: true}, want...)
	_, l := attachCounter(t, plan, probetest.Counting{Value: -1})
	var got []string
	for _, s := range l.Sites() {
		got = append(got, s.Target.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("sites are %q", got)
	}
}

// appendDigit returns a program that appends a digit to the number in the first tally, for a
// process's first event: while the number has fewer than three.
func appendDigit(typ ebpf.ProgramType, m *ebpf.Map, pid, digit int) asm.Instructions {
	return probetest.OwnIDs(asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(pid), "exit"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.JGT.Imm(asm.R1, 99, "exit"),
		asm.Mul.Imm(asm.R1, 10),
		asm.Add.Imm(asm.R1, int32(digit)),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, kernel.Idle(typ)).WithSymbol("exit"),
		asm.Return(),
	})
}

// TestFunctionOfModule: a function of a module is found by its name alone, and by a pattern for the
// module. There was no prototype for it.
func TestFunctionOfModule(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Guest, testenv.Fentry, testenv.File("/sys/kernel/btf/overlay"))
	for _, target := range []string{"fentry:ovl_init_fs_context", "fentry:overla?:ovl_init_fs_context", "kprobe:over*:ovl_init_fs_context"} {
		plan, err := Resolve(thisMachine(), []Target{mustParse(t, target)}, nil)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		n, _ := attachCounter(t, plan, probetest.Counting{Value: -1, PID: os.Getpid()})
		fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 1})
	}
}
