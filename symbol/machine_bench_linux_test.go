package symbol

import (
	"testing"

	"github.com/borescope/borescope/internal/procfs"
)

// BenchmarkMachine names some addresses in each file that the processes of this machine map, of
// all processes, from nothing: "observe" looks at the processes, "name" includes that.
func BenchmarkMachine(b *testing.B) {
	pids, err := procfs.PIDs(procfs.Root(nil))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []bool{false, true} {
		b.Run(map[bool]string{false: "observe", true: "name"}[name], func(b *testing.B) {
			var frames []Frame
			var pcs []uint64
			for b.Loop() {
				ps := NewProcesses(nil)
				for _, pid := range pids {
					_ = ps.Observe(pid)
				}
				for _, pid := range pids {
					p, err := ps.Process(pid)
					if err != nil || !name {
						continue
					}
					pcs = pcs[:0]
					for i := range p.maps {
						m := &p.maps[i]
						for k := range uint64(20) {
							pcs = append(pcs, m.start+k*(m.end-m.start)/20)
						}
					}
					frames = p.Resolve(frames[:0], pcs)
				}
				ps.Close()
			}
		})
	}
}
