package script

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/interp"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/output"
)

// TestInterpreter: the interpreter emits the same records, and leaves the same maps, as the kernel.
func TestInterpreter(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	comm, err := os.ReadFile("/proc/thread-self/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Cases(t, "testdata/begin.txt") {
		t.Run(c.Name, func(t *testing.T) {
			p := MustCompile(t, c.Text, c.Options())
			s := p.newRun(nil)
			var records [][]byte
			var kernel map[string]map[string]string
			s.seen = func(b []byte) { records = append(records, bytes.Clone(b)) }
			s.last = func() { kernel = s.kernelMaps(t) }
			if err := s.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			m := &interp.Machine{Comm: strings.TrimSpace(string(comm))}
			for i := range p.plan.Programs {
				in, err := interp.New(p.low.IR, p.plan, i)
				if err == nil && p.low.IR.Failures != nil {
					in = in.Optimised() // whose reads are in the order of the generated code
				}
				if err == nil {
					err = in.Run(m)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s.agrees(t, m, os.Getpid(), records, kernel)
		})
	}
}

// agrees compares what a machine has after the run of a script's programs with the kernel's records
// and maps.
func (s *run) agrees(t *testing.T, m *interp.Machine, pid int, records [][]byte, kernel map[string]map[string]string) {
	t.Helper()
	got, emitted := s.unannounced(m.Events[s.low.Ring]), s.unannounced(records)
	same := func(a, b []byte) bool { return bytes.Equal(untimed(pid, a), untimed(pid, b)) }
	if !slices.EqualFunc(got, emitted, same) {
		t.Errorf("interpreted, it emits\n%x\nand in the kernel\n%x", got, emitted)
	}
	if some, want := len(got) < len(m.Events[s.low.Ring]), len(emitted) < len(records); some != want {
		t.Errorf("interpreted, it announces processes: %t; in the kernel: %t", some, want)
	}
	for _, sm := range s.low.Maps {
		if want, ok := kernel[sm.Name]; ok {
			key := func(k string) string { return string(untimed(pid, []byte(k))) }
			got, there := map[string]string{}, map[string]string{}
			for k, v := range m.Maps[sm.IR] {
				got[key(k)] = key(string(v))
			}
			for k, v := range want {
				there[key(k)] = key(v)
			}
			if !maps.Equal(got, there) {
				t.Errorf("%s: interpreted\n%x\nand in the kernel\n%x", sm.Name, got, there)
			}
		}
	}
}

// untimed returns values without the times of a process in them: the interpreter comes to see it later.
func untimed(pid int, value []byte) []byte {
	value = bytes.Clone(value)
	for rest := value; len(rest) >= 8; rest = rest[8:] {
		if p := output.Process(binary.LittleEndian.Uint64(rest)); p.PID() == pid {
			binary.LittleEndian.PutUint64(rest, uint64(pid))
		}
	}
	return value
}

// unannounced returns records without those that announce a process: how often that is done depends on the
// kernel's clock.
func (s *run) unannounced(records [][]byte) [][]byte {
	return slices.DeleteFunc(slices.Clone(records), func(b []byte) bool {
		n := binary.LittleEndian.Uint64(b)
		return n < uint64(len(s.low.Sites)) && s.low.Sites[n].Kind == lower.Process
	})
}

// kernelMaps returns the entries of the maps, of aggregations what the CPU has that counted. Maps
// that the script clears are left out.
func (s *run) kernelMaps(t *testing.T) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, m := range s.low.Maps {
		em := s.loaded.EBPFMap(m.IR)
		if em.Type() == ebpf.ArrayOfMaps || s.changes(m) {
			continue
		}
		entries := map[string]string{}
		var key []byte
		it := em.Iterate()
		for {
			var value []byte
			var cpus [][]byte
			target := any(&value)
			if m.IR.Agg != ir.AggNone {
				target = &cpus
			}
			if !it.Next(&key, target) {
				break
			}
			counted := m.IR.Agg == ir.AggNone
			for _, v := range cpus {
				if some := slices.ContainsFunc(v, func(b byte) bool { return b != 0 }); value == nil || some {
					value, counted = v, counted || some
				}
			}
			if !counted && em.Type() == ebpf.PerCPUArray {
				continue // each element is there from the beginning
			}
			entries[string(key)] = string(value)
		}
		if err := it.Err(); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", m.Name, err))
		}
		all[m.Name] = entries
	}
	return all
}

// changes reports whether a map is changed by whoever reads the records.
func (s *run) changes(m *lower.Map) bool {
	return slices.ContainsFunc(s.low.Sites, func(at lower.Site) bool {
		return at.Map == m && (at.Kind == lower.Clear || at.Kind == lower.Zero || at.Clear)
	})
}
