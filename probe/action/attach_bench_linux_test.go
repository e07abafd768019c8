package action_test

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// BenchmarkAttach attaches by BTF, to what neither an attachment nor its end waits
// for: with an Env of its own, and with one that has read the kernel's types.
func BenchmarkAttach(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.BTF)
	shared := probe.NewEnv(nil)
	for _, bb := range []struct {
		name string
		env  func() *probe.Env
	}{
		{"first", func() *probe.Env { return probe.NewEnv(nil) }},
		{"again", func() *probe.Env { return shared }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				n := action.NewCount("n")
				p := action.NewProgram("attach")
				p.On(probe.Iter{Name: "task"}, func(c *action.Ctx) { n.Inc(c) })
				s, err := action.Attach(p, &action.Options{Env: bb.env()})
				if err != nil {
					testenv.SkipUnsupported(b, err)
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
