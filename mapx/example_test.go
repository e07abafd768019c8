package mapx_test

import (
	"fmt"
	"os"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
)

// Key is what the recorded tool counted by.
type Key struct {
	PID  uint32
	Comm [16]byte
}

// A recording replays on any machine, without privileges. The same code reads a
// live per-CPU map from NewPerCPU.
func Example() {
	rec, err := recording.Open(os.DirFS("recording/testdata/recording-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Close()
	counts, err := recording.ReplayTable[Key, []uint64](rec, "counts")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := mapx.Sum(counts).Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range s.Entries {
		fmt.Printf("%d %.4s %d\n", e.Key.PID, e.Key.Comm[:], e.Value)
	}
	// Output:
	// 1 init 30
	// 42 bash 300
}

// Print prints a snapshot as bpftrace prints a map.
func ExamplePrint() {
	type key struct {
		Comm [16]byte
		CPU  uint32
	}
	comm := func(s string) (b [16]byte) {
		copy(b[:], s)
		return b
	}
	s := mapx.Snapshot[key, uint64]{Entries: []mapx.Entry[key, uint64]{
		{Key: key{comm("bash"), 1}, Value: 12},
		{Key: key{comm("init"), 0}, Value: 3},
		{Key: key{comm("sshd"), 1}, Value: 7},
	}}
	if err := mapx.Print(os.Stdout, "@calls", s, &mapx.PrintOptions[key]{Top: 2}); err != nil {
		fmt.Println(err)
	}
	if err := mapx.PrintJSON(os.Stdout, "@calls", s, nil); err != nil {
		fmt.Println(err)
	}
	// Output:
	// @calls[sshd, 1]: 7
	// @calls[bash, 1]: 12
	// {"type": "map", "data": {"@calls": {"init,0": 3, "sshd,1": 7, "bash,1": 12}}}
}
