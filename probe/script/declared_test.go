package script_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script"
)

// TestDeclaredSpace: what a variable with a declared type points to is read from where its value
// is from. It was read from the kernel's memory, so that a struct of the traced program was zero.
func TestDeclaredSpace(t *testing.T) {
	const types = "struct in { int n; }; struct out { struct in list[2]; struct in *next; };\n"
	for name, c := range map[string]struct{ text, want string }{
		"user":   {`uprobe:/bin/target:add { let $o : struct out *; $o = (struct out *)arg0; print($o.list[1].n); }`, "(uptr(struct out))$$o"},
		"first":  {`uprobe:/bin/target:add { let $o : struct out * = (struct out *)arg0; print($o.list[1].n); }`, "(uptr(struct out))$$o"},
		"number": {`uprobe:/bin/target:add { let $n : uint64 = arg0; print(((struct out *)$n).next.n); }`, "(uptr(struct out))$$n"},
		"kernel": {`uprobe:/bin/target:add { let $o : struct task_struct *; $o = curtask; print($o.pid); }`, "(ptr(struct task_struct))$$o"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := script.Compile("stdin", types+c.text, &script.Options{Env: probetest.Env(t)})
			if err != nil {
				t.Fatal(err)
			}
			if text := p.IR().String(); !strings.Contains(text, c.want) {
				t.Errorf("no %s in\n%s", c.want, text)
			}
		})
	}
}
