package check

import "github.com/borescope/borescope/probe/ir"

// AggSize is the size of an aggregation's value.
func AggSize(m *ir.Map) int {
	a := m.Agg
	if a == ir.AggSeries {
		a = m.Inner
	}
	switch a {
	case ir.AggMin, ir.AggMax:
		return 16
	case ir.AggAvg:
		return 24
	case ir.AggStats:
		return 40
	}
	return 8
}
