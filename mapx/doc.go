// Package mapx reads the data of BPF programs as Go values: maps (Map, PerCPU, Flip), and event
// streams with the exact number of lost events (Ring, PerfBuffer). It makes no maps and changes
// no program: cilium/ebpf does that.
//
// A program's tables and streams implement two small interfaces, Table and Source. So do those
// of a recording (package mapx/recording), which needs no kernel:
//
//	counts, err := mapx.NewPerCPU[Key, uint64](m) // checks Key against m's BTF
//	if err != nil {
//		return err
//	}
//	s, err := mapx.Sum(counts).Snapshot()
//	for _, e := range s.Entries {
//		fmt.Println(e.Key.PID, e.Value)
//	}
package mapx
