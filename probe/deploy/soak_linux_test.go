package deploy

import (
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestSoakDeploy shares and deploys at random, on a busy machine, and leaves nothing
// behind.
func TestSoakDeploy(t *testing.T) {
	testenv.Need(t, testenv.Long)
	s := &soaker{Soak: probetest.NewSoak(t)}
	s.Add("share", s.share, feature.Uprobe)
	if feature.Test(feature.PerfLink) == nil {
		s.bpffs = testenv.BPFFSDir(t)
		s.Add("deploy", s.deploy, feature.Uprobe)
	}
	s.Run()
}

type soaker struct {
	*probetest.Soak
	bpffs string // where to deploy
}

// share has users come and go.
func (s *soaker) share() {
	t := s.T
	plan := s.plan(nil)
	mux, err := Share(plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mux.Close()
	m := probetest.NewTallies(t)
	defer m.Close()
	for range 1 + s.Rnd.IntN(MaxUsers) {
		u, err := mux.Join(probetest.Counting{Value: -1}.Collection(plan, m), &UserOptions{EventsPerSecond: s.Rnd.Uint64N(100)})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if s.Rnd.IntN(2) == 0 {
			u.Close()
		}
	}
	s.W.Run()
}

// deploy deploys, upgrades and removes.
func (s *soaker) deploy() {
	t := s.T
	dir := filepath.Join(s.bpffs, "deployed")
	plan := s.plan(&probe.Options{Filter: &probe.Filter{PIDs: []int{s.W.PID()}}})
	for v := range 3 {
		spec := deploySpec(plan, v)
		if err := plan.ApplyFilter(spec); err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.Programs {
			p.Instructions = probetest.OwnIDs(p.Instructions)
		}
		d, err := Deploy(dir, plan, spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.W.Run()
		probetest.ExpectTally(t, probetest.ReadTally(t, d.Map("hits"), v), probetest.Tally{Count: probetest.Times})
		d.Close()
	}
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
}

func (s *soaker) plan(o *probe.Options) *probe.Plan {
	return mustResolve(s.T, o, "uprobe:"+s.W.Path()+":add")
}
