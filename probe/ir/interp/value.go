package interp

import (
	"bytes"

	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// indexOf returns the index of text in text, or -1.
func (r *run) indexOf(e *typed.Node) int {
	b := r.expr(e.Args[0]).b
	needle := []byte(e.Str)
	if len(e.Args) == 2 {
		n := r.expr(e.Args[1]).b
		needle = n[:eval.TextLen(n)]
	}
	return bytes.Index(b[:eval.TextLen(b)], needle)
}

// glob matches text against a constant pattern.
func (r *run) glob(e *typed.Node) bool {
	b := r.expr(e.Args[0]).b
	g, err := check.ParseGlob(e.Str)
	return err == nil && g.Match(b[:eval.TextLen(b)])
}

// index returns an element of a value, or zero beyond its end.
func (r *run) index(e *typed.Node) val {
	b, i := r.expr(e.Args[0]).b, r.expr(e.Args[1]).n
	size := uint64(e.Type.Size)
	if i >= uint64(len(b))/size {
		return val{}
	}
	return fromBytes(e.Type, b[i*size:(i+1)*size])
}

// mapCPU returns the value of one CPU. The machine is CPU 0; other CPUs have none.
func (r *run) mapCPU(e *typed.Node) val {
	var key *typed.Node
	if len(e.Args) == 2 {
		key = e.Args[0]
	}
	cpu := r.expr(e.Args[len(e.Args)-1]).n
	b := r.lookup(e.Map, key)
	if b == nil || cpu != 0 {
		return val{}
	}
	return fromBytes(e.Type, b[e.Int:e.Int+int64(e.Type.Size)])
}
