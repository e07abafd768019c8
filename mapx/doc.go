// Package mapx reads the data of BPF programs as Go values: maps (Map, PerCPU, Flip), and
// event streams with the exact number of lost events (Ring, PerfBuffer). It makes no maps
// and changes no program: cilium/ebpf does that.
//
// A program's tables and streams are behind two small interfaces, Table and
// Source; a recording (package mapx/recording) gives the same ones back, without a
// kernel:
//
//	counts, err := mapx.NewPerCPU[Key, uint64](m) // checks Key against m's BTF
//	if err != nil {
//		return err
//	}
//	s, err := mapx.Sum(counts).Snapshot()
//	for _, e := range s.Entries {
//		fmt.Println(e.Key.PID, e.Value)
//	}
//
// # Lifetime
//
// Map, PerCPU and Flip borrow *ebpf.Map values and hold nothing. Ring and
// PerfBuffer hold file descriptors and mapped memory until Close. The package starts
// no goroutine.
//
// # Privileges and kernels
//
// Reading needs only the map's file descriptor; making maps needs CAP_BPF. Linux 5.10 is
// the oldest kernel: batches (5.6) are used where a map type has them (per-CPU arrays since
// 5.13) and single lookups elsewhere, with the same results. On other systems, functions
// for live maps and streams return *UnsupportedError.
//
// # Overhead
//
// Reading a hash of 100,000 entries takes as long as the kernel's batch lookups
// plus a copy; a ring record about 20 ns, without allocation. Numbers and
// comparison: go -C internal/bench run ./mapx.
package mapx
