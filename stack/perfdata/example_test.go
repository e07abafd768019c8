package perfdata_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/perfdata"
)

// Write writes a sample as perf does, and New reads it.
func Example() {
	sample := &perfdata.Sample{
		PID: 7, TID: 7, Comm: "sh", Time: 10, Period: 1, IP: 0x1010, Chain: []uint64{0x1010, 0x1020},
		Modules: stack.NewModules(stack.Module{Start: 0x1000, End: 0x2000, Name: "/bin/none"}),
	}
	var file bytes.Buffer
	if err := perfdata.Write(&file, slices.Values([]*perfdata.Sample{sample}), nil); err != nil {
		fmt.Println(err)
		return
	}
	f, err := perfdata.New(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		fmt.Println(err)
		return
	}
	samples, _ := f.Samples()
	for s := range samples {
		fmt.Printf("%s %d: %#x in %s\n", s.Comm, s.PID, s.Chain, s.Modules.Find(s.IP).Name)
	}
	// Output: sh 7: [0x1010 0x1020] in /bin/none
}
