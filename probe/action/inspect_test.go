//go:build linux

package action_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/inspect"
)

// TestInspect lists a program at every level, and finds it among all programs.
func TestInspect(t *testing.T) {
	n := action.NewCounter[action.Comm]("n", 64)
	s := attach(t, marked("inspect", func(c *action.Ctx) { n.Inc(c, c.Comm()) }))
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	name := st.Programs[0].Name
	for level, want := range map[inspect.Level]string{
		inspect.LevelBPF: "FnGetCurrentComm", inspect.LevelTranslated: "; @n[", inspect.LevelMachine: machineAdd[runtime.GOARCH],
	} {
		text, err := inspect.Disassemble(s.Loaded, name, level, nil)
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("level %d: %v, no %q in\n%s", level, err, want, text)
		}
	}
	list, err := bpf.LoadedPrograms()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range list {
		found = found || p.ID == st.Programs[0].ID && p.Name != "" && len(p.Maps) > 0
	}
	if !found {
		t.Errorf("program %d is not in the list", st.Programs[0].ID)
	}
}

// TestControlFlow: graphviz, where it is installed, can read the graph.
func TestControlFlow(t *testing.T) {
	testenv.Need(t, testenv.Root)
	n := action.NewCounter[action.Comm]("n", 64)
	p := marked("graph", func(c *action.Ctx) { n.Inc(c, c.Comm()) })
	l := loadRaw(t, p)
	spec, err := bpf.Compile(p.Program, rawPlan2())
	if err != nil {
		t.Fatal(err)
	}
	insns := spec.Programs["p0"].Instructions
	dot := inspect.ControlFlow(insns)
	if strings.Count(dot, "->") < 5 || !strings.Contains(dot, "style=dashed") {
		t.Errorf("%s", dot)
	}
	st := inspect.CountInstructions(insns)
	if st.Atomics != 2 || st.Helpers["FnGetCurrentComm"] != 1 || st.Stack < 16 || st.Stack > 64 || st.Calls < 4 {
		t.Errorf("%+v", st)
	}
	ls, err := l.Stats()
	if err != nil || ls.Programs[0].Instructions < st.Instructions/2 {
		t.Errorf("%+v, %v; %d instructions were compiled", ls, err, st.Instructions)
	}
	if path, err := exec.LookPath("dot"); err == nil {
		cmd := testenv.Command(t, path, "-Tplain")
		cmd.Stdin = strings.NewReader(dot)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
	}
}

// machineAdd is how machine code adds atomically: what a counter does.
var machineAdd = map[string]string{"amd64": "lock add", "arm64": "add"}
