package tool

import (
	"fmt"
	"strings"

	"github.com/borescope/borescope/symbol"
)

// leftOut are the reasons for which a run leaves addresses without a name although it could
// try: so that what other users own neither stops it nor uses it up. They have what helps.
var leftOut = [...]struct {
	reason symbol.Reason
	advice string
}{
	{symbol.ReasonServed, "-unsafe reads it"},
	{symbol.ReasonBudget, "-p PID gives one process more"},
}

// unnamed counts the different addresses that were left out, in leftOut's order.
type unnamed [len(leftOut)]struct {
	Reason    string `json:"reason"`
	Addresses int    `json:"addresses"`
	Module    string `json:"module,omitempty"` // of the first; "" for memory that is no file's
}

// counted is a resolver whose unnamed addresses are counted.
type counted struct {
	symbol.Resolver
	to *unnamed
}

// Resolve implements symbol.Resolver.
func (c counted) Resolve(dst []symbol.Frame, pcs []uint64) []symbol.Frame {
	n := len(dst)
	dst = c.Resolver.Resolve(dst, pcs)
	for i := n; i < len(dst); i++ {
		c.to.add(&dst[i])
	}
	return dst
}

// During implements symbol.Timed.
func (c counted) During(start, first, last uint64) (symbol.Resolver, symbol.State) {
	r, state := symbol.During(c.Resolver, start, first, last)
	c.Resolver = r
	return c, state
}

func (u *unnamed) add(f *symbol.Frame) {
	for i := range leftOut {
		if f.Name != "" || f.Reason != leftOut[i].reason {
			continue
		}
		if u[i].Addresses++; u[i].Addresses == 1 {
			u[i].Reason, u[i].Module = f.Reason.String(), f.Module
		}
	}
}

// print writes the line that says what was left out, nothing if nothing was.
func (u *unnamed) print(r *Run) {
	var parts []string
	for i := range u {
		n := &u[i]
		if n.Addresses == 0 {
			continue
		}
		r.JSON(map[string]any{"unnamed": n})
		part := fmt.Sprintf("%d addresses: %s", n.Addresses, n.Reason)
		if n.Module != "" {
			part += ", as " + n.Module
		}
		parts = append(parts, part+" ("+leftOut[i].advice+")")
	}
	if parts != nil {
		r.Note("Not named: %s\n", strings.Join(parts, "; "))
	}
}
