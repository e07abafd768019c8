package measure

import (
	"math"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/pmc/internal/spin"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestFunc: a function's instructions, whichever events the machine has.
func TestFunc(t *testing.T) {
	testenv.Need(t, testenv.Root)
	spin.Quiet(t)
	m, err := Func(func() { spin.Loop(1e6) })
	if err != nil {
		t.Fatal(err)
	}
	v := m.Counts.Totals()
	if len(v) == 0 || v[0].Confidence != pmc.Exact || v[0].Count == 0 {
		t.Fatalf("%+v", v)
	}
	r := map[string]float64{}
	Report(reporter(r), 1e6, m.Counts)
	t.Log(r, m.GC)
	instructions := pmc.Instructions()
	instructions.Exclude.Kernel, instructions.Exclude.HV = true, true
	i, ok := m.Counts.Total(instructions)
	if !ok {
		return
	}
	e, _ := m.Empty.Total(instructions)
	if got := float64(i.Count-e.Count) / 1e6; math.Abs(got-spin.PerIteration) > 0.013 {
		t.Errorf("%.4f instructions an iteration", got)
	}
	if r["instructions/op"] < spin.PerIteration || r["IPC"] == 0 {
		t.Errorf("reported %v", r)
	}
}

type reporter map[string]float64

func (r reporter) ReportMetric(n float64, unit string) { r[unit] = n }
