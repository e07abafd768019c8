package probe

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// openings is a tree of files that counts how often each is opened.
type openings struct {
	fstest.MapFS
	n map[string]int
}

func (o openings) Open(name string) (fs.File, error) {
	o.n[name]++
	return o.MapFS.Open(name)
}

// TestUserFileOnce: before, each user function of a script or a set opened its file, read its
// debug information and looked through its symbols anew. The plan is that of each alone.
func TestUserFileOnce(t *testing.T) {
	root := openings{probetest.Root(t), map[string]int{}}
	env := NewEnv(&EnvOptions{
		Root: root, Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features(),
	})
	texts := []string{
		"uprobe:/bin/target:add", "uprobe:/bin/target:helper_one", "uretprobe:/bin/target:helper_two",
		"uprobe:/bin/target:helper_*", "uprobe:/bin/target:add+0", "uprobe:/bin/target:add",
		"uprobe:/bin/target:go:helper_two",
	}
	var targets []Target
	want := ""
	for _, text := range texts {
		target := mustParse(t, text)
		targets = append(targets, target)
		plan, err := Resolve(env, []Target{target}, &Options{DWARF: true})
		if err != nil {
			t.Fatal(err)
		}
		want += described(plan)
	}
	root.n["bin/target"] = 0
	plan, err := Resolve(env, targets, &Options{DWARF: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := described(plan); got != want {
		t.Errorf("the plan is\n%s\nthose of each alone are\n%s", got, want)
	}
	if n := root.n["bin/target"]; n != 1 {
		t.Errorf("the file is opened %d times", n)
	}
}

// described returns the sites and arguments of a plan.
func described(p *Plan) string {
	var b strings.Builder
	for _, prog := range p.Programs {
		for _, s := range prog.Sites {
			fmt.Fprintf(&b, "%s %s %#x %v\n", s.Target, s.Symbol, s.Offset, prog.Args)
		}
	}
	return b.String()
}

// TestUserMissing: of many functions those that exist are planned. The error says what one that
// does not exist could be instead, and that of many says it once.
func TestUserMissing(t *testing.T) {
	env := probetest.Env(t)
	var targets []Target
	for i := range 50 {
		targets = append(targets, mustParse(t, fmt.Sprintf("uprobe:/bin/target:helper_tw%d", i)))
	}
	_, err := Resolve(env, targets, nil)
	if err == nil || !strings.Contains(err.Error(), "helper_tw0") || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("error is %v", err)
	}
	_, err = Resolve(env, targets, &Options{Missing: MissingIgnore})
	if err == nil || !strings.HasSuffix(err.Error(), "no function helper_tw49 in /bin/target") {
		t.Errorf("error is %v", err)
	}
	targets = append(targets, mustParse(t, "uprobe:/bin/target:add"), mustParse(t, "uprobe:/bin/nosuch:f"))
	plan, err := Resolve(env, targets, &Options{Missing: MissingIgnore})
	if err != nil || len(plan.Programs) != 1 || plan.Programs[0].Sites[0].Symbol != "add" {
		t.Errorf("plan is %v, %v", plan, err)
	}
	plan, err = Resolve(env, targets, &Options{Missing: MissingWarn})
	if err != nil || len(plan.Missing) != 51 {
		t.Errorf("plan is %v, %v", plan, err)
	}
}
