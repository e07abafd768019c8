package probe

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// exercise is a kind of target of its own, added by this file alone.
type exercise struct{ name string }

func (t exercise) String() string       { return "exercise:" + t.name }
func (exercise) requires(q *requirer)   { q.capability("CAP_NET_RAW", "exercise") }
func (t exercise) list(l *lister) error { return l.put(Match{Target: t}) }

func (t exercise) word() string { return t.name }
func (t exercise) resolve(r *resolver) error {
	r.add(ProgramPlan{Type: ebpf.SocketFilter, Method: MethodSocket, Sites: []Site{{Target: t, CPU: -1}}})
	return nil
}

// TestExercise: a kind that is added touches nothing else, in a Set neither. (One that is
// written as text has a line in kinds, and one that fires by a perf event a case in
// siteEvent.)
func TestExercise(t *testing.T) {
	env := probetest.Env(t)
	for _, target := range []Target{exercise{"bend"}, Set{exercise{"bend"}, Begin{}}} {
		p, err := Resolve(env, []Target{target}, nil)
		if err != nil || p.Programs[0].Name != "bend_0" || p.Programs[0].Place() != "exercise:bend" {
			t.Errorf("%v\n%v", err, p)
		}
		found := false
		for _, r := range Requires(env, []Target{target}) {
			found = found || strings.Contains(r.String(), "CAP_NET_RAW")
		}
		if !found {
			t.Errorf("%s: its requirement is not asked for", target)
		}
	}
}
