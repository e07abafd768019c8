// Mapx measures the reading of maps and rings with package mapx next to cilium/ebpf's
// Iterate, its raw batch lookups and its ring reader, on this machine in one run.
//
//	go -C internal/bench run ./mapx [-rounds 9]      (as root)
//
// Rounds are interleaved and the best of each counts, so that other load on the machine has
// little effect.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/borescope/borescope/mapx"
)

func main() {
	rounds := flag.Int("rounds", 9, "interleaved rounds")
	flag.Parse()
	for _, bench := range []func(int) error{benchHash, benchPerCPU, benchRing} {
		if err := bench(*rounds); err != nil {
			fmt.Fprintln(os.Stderr, "bench mapx:", err)
			os.Exit(1)
		}
	}
}

// contender is one way to read the items. run reads all n of them once.
type contender struct {
	name string
	// setup runs before each round and is not timed.
	setup func() error
	run   func() error

	best   time.Duration
	allocs uint64
}

// compare runs the contenders in turn and prints nanoseconds per item.
func compare(title string, n, rounds int, cs []*contender) error {
	for range rounds {
		for _, c := range cs {
			if c.setup != nil {
				if err := c.setup(); err != nil {
					return err
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			if err := c.run(); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if c.best == 0 || took < c.best {
				c.best, c.allocs = took, after.Mallocs-before.Mallocs
			}
		}
	}
	fmt.Printf("%s\n%-34s %10s %8s %18s\n", title, "", "ns/item", "times", "allocs/1000 items")
	for _, c := range cs {
		fmt.Printf("%-34s %10.1f %8.2f %18.2f\n", c.name, float64(c.best)/float64(n),
			float64(c.best)/float64(cs[0].best), 1000*float64(c.allocs)/float64(n))
	}
	fmt.Println()
	return nil
}

type key struct {
	PID, TGID uint32
}

type value struct {
	Count, Bytes uint64
}

func benchHash(rounds int) error {
	const n = 100000
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: n})
	if err != nil {
		return err
	}
	defer m.Close()
	table, err := mapx.New[key, value](m)
	if err != nil {
		return err
	}
	for i := range uint32(n) {
		if err := table.Put(key{i, i}, value{uint64(i), 1}); err != nil {
			return err
		}
	}
	var entries []mapx.Entry[key, value]
	return compare("hash, 100,000 entries", n, rounds, []*contender{
		{name: "mapx Append, memory reused", run: func() (err error) {
			entries, err = table.Append(entries[:0])
			return expect(len(entries), n, err)
		}},
		{name: "mapx Snapshot", run: func() error {
			s, err := table.Snapshot()
			return expect(len(s.Entries), n, err)
		}},
		{name: "cilium BatchLookup, one call's size", run: func() error { return batchAll(m, n, 8192) }},
		{name: "cilium Iterate", run: func() error {
			var k key
			var v value
			count := 0
			it := m.Iterate()
			for it.Next(&k, &v) {
				count++
			}
			return expect(count, n, it.Err())
		}},
	})
}

func expect(got, want int, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("%d items, not %d", got, want)
	}
	return err
}

// batchAll is the loop that a user of raw batches writes.
func batchAll(m *ebpf.Map, n, batch int) error {
	keys, values := make([]key, batch), make([]value, batch)
	all := make([]mapx.Entry[key, value], 0, n)
	var cursor ebpf.MapBatchCursor
	for {
		got, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range got {
			all = append(all, mapx.Entry[key, value]{Key: keys[i], Value: values[i]})
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return expect(len(all), n, nil)
		}
		if err != nil {
			return err
		}
	}
}

func benchPerCPU(rounds int) error {
	const n = 10000
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.PerCPUHash, KeySize: 8, ValueSize: 16,
		MaxEntries: n,
	})
	if err != nil {
		return err
	}
	defer m.Close()
	table, err := mapx.NewPerCPU[key, value](m)
	if err != nil {
		return err
	}
	for i := range uint32(n) {
		if err := table.Put(key{i, i}, []value{{uint64(i), 1}, {uint64(i), 2}}); err != nil {
			return err
		}
	}
	cpus := table.CPUs()
	return compare(fmt.Sprintf("per-CPU hash, 10,000 entries, %d CPUs", cpus), n, rounds, []*contender{
		{name: "mapx Snapshot", run: func() error {
			s, err := table.Snapshot()
			return expect(len(s.Entries), n, err)
		}},
		{name: "mapx SumOf(…).Snapshot", run: func() error {
			s, err := mapx.SumOf(table, func(sum, v *value) {
				sum.Count += v.Count
				sum.Bytes += v.Bytes
			}).Snapshot()
			return expect(len(s.Entries), n, err)
		}},
		{name: "cilium BatchLookup", run: func() error {
			keys, values := make([]key, 4096), make([]value, 4096*cpus)
			all := make([]mapx.Entry[key, []value], 0, n)
			var cursor ebpf.MapBatchCursor
			for {
				got, err := m.BatchLookup(&cursor, keys, values, nil)
				vs := append([]value(nil), values[:got*cpus]...)
				for i := range got {
					all = append(all, mapx.Entry[key, []value]{Key: keys[i], Value: vs[i*cpus : (i+1)*cpus]})
				}
				if errors.Is(err, ebpf.ErrKeyNotExist) {
					return expect(len(all), n, nil)
				}
				if err != nil {
					return err
				}
			}
		}},
		{name: "cilium Iterate", run: func() error {
			var k key
			var v []value
			count := 0
			it := m.Iterate()
			for it.Next(&k, &v) {
				count++
			}
			return expect(count, n, it.Err())
		}},
	})
}

func benchRing(rounds int) error {
	const n = 1 << 18
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 24})
	if err != nil {
		return err
	}
	defer m.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SocketFilter, License: "Dual MIT/GPL", Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, 7),
			asm.StoreMem(asm.RFP, -32, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, -24, asm.R1, asm.DWord),
			asm.StoreMem(asm.RFP, -16, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -32),
			asm.Mov.Imm(asm.R3, 32), asm.Mov.Imm(asm.R4, 0),
			asm.FnRingbufOutput.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
		},
	})
	if err != nil {
		return err
	}
	defer prog.Close()
	fill := func() error {
		for range n >> 16 {
			if _, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 1 << 16}); err != nil {
				return err
			}
		}
		return nil
	}
	r, err := mapx.OpenRing(m, nil)
	if err != nil {
		return err
	}
	peer, err := ringbuf.NewReader(m)
	if err != nil {
		r.Close()
		return err
	}
	defer peer.Close()
	into := func() error {
		var rec mapx.Record
		for range n {
			if err := r.ReadInto(context.Background(), &rec); err != nil {
				return err
			}
		}
		return nil
	}
	drain := func() error {
		got, _, err := r.Drain(0, func(*mapx.Record) error { return nil })
		return expect(got, n, err)
	}
	// The readers share the ring's position, of which each keeps a copy. So mapx is opened
	// anew after cilium's reader.
	reopen := func() (err error) {
		r.Close()
		if r, err = mapx.OpenRing(m, nil); err != nil {
			return err
		}
		return fill()
	}
	defer func() { r.Close() }()
	return compare("ring, records of 32 bytes, drained", n, rounds, []*contender{
		{name: "mapx ReadInto", setup: reopen, run: into},
		{name: "mapx Drain, in place", setup: reopen, run: drain},
		{name: "cilium ReadInto", setup: fill, run: func() error {
			var rec ringbuf.Record
			for range n {
				if err := peer.ReadInto(&rec); err != nil {
					return err
				}
			}
			return nil
		}},
	})
}
