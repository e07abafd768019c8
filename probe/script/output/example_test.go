package output_test

import (
	"os"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/script/types"
)

// A map's entries are printed in bpftrace's order: ascending by value.
func Example() {
	number := types.Type{Kind: types.Integer, Size: 4}
	key := func(n byte) any {
		raw := bpf.Value{Type: ir.IntType(4, false), Raw: string([]byte{n, 0, 0, 0})}
		return output.Decode(number, raw, nil)
	}
	entries := []output.Entry{{Key: key(7), Value: uint64(30)}, {Key: key(2), Value: uint64(4)}}
	for _, o := range []*output.Options{nil, {JSON: true}} {
		if err := output.New(os.Stdout, o).Map("@calls", entries, &output.MapOptions{}); err != nil {
			panic(err)
		}
	}
	// Output:
	// @calls[2]: 4
	// @calls[7]: 30
	// {"type": "map", "data": {"@calls": {"2": 4, "7": 30}}}
}
