package main

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/borescope/borescope/symbol"
)

// best returns the least CPU time of the runs: that of the whole process with its garbage
// collector, without the time in which other processes had the CPU.
func best(runs int, f func() error) (time.Duration, error) {
	b := time.Duration(1 << 62)
	for range runs {
		start := cpuTime()
		if err := f(); err != nil {
			return 0, err
		}
		b = min(b, cpuTime()-start)
	}
	return b, nil
}

// cpuTime returns the user and system time that this process has used.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// measure prints times and their ratios. The two of a pair are measured in turn, in this run.
func measure(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	defer w.Flush()
	fmt.Fprintln(w, "what\tborescope\tthe other\tratio\t")
	row := func(what string, unit time.Duration, name string, ours, other time.Duration) {
		fmt.Fprintf(w, "%s\t%.4g %s\t%.4g %s\t%.2f\t\n", what, float64(ours)/float64(unit), name,
			float64(other)/float64(unit), name, float64(other)/float64(ours))
	}
	for _, path := range existing("/usr/bin/node", "/usr/lib/*-linux-gnu/libLLVM-14.so.1",
		"/usr/local/go/bin/go") {
		if err := measureELF(path, row); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := measureGo(row); err != nil {
		return err
	}
	return measureKernel(row)
}

type rowFunc func(what string, unit time.Duration, name string, ours, other time.Duration)

// measureELF compares loading and warm lookups with debug/elf and sort.Search.
func measureELF(path string, row rowFunc) error {
	c, err := openCase(path, 65536, 1)
	if err != nil {
		return err
	}
	ours, err := best(25, func() error {
		e, err := symbol.OpenELF(path, &symbol.ELFOptions{DebugDirs: []string{}})
		if err != nil {
			return err
		}
		e.Resolve(nil, c.pcs[1:2])
		return e.Close()
	})
	if err != nil {
		return err
	}
	var funcs []elf.Symbol
	theirs, err := best(9, func() error {
		f, err := elf.Open(path)
		if err != nil {
			return err
		}
		syms, _ := f.Symbols()
		dyn, _ := f.DynamicSymbols()
		funcs = append(syms, dyn...)
		sort.Slice(funcs, func(i, j int) bool { return funcs[i].Value < funcs[j].Value })
		return f.Close()
	})
	if err != nil {
		return err
	}
	row(path+": load (debug/elf)", time.Millisecond, "ms", ours, theirs)
	e, err := symbol.OpenELF(path, &symbol.ELFOptions{DebugDirs: []string{}, NameCache: 256 << 20})
	if err != nil {
		return err
	}
	defer e.Close()
	var dst []symbol.Frame
	pass := func() error {
		for i := range c.pcs {
			dst = e.Resolve(dst[:0], c.pcs[i:i+1])
		}
		return nil
	}
	_, _ = best(2, pass)
	ours, _ = best(9, pass)
	var name string
	theirs, _ = best(9, func() error {
		for _, pc := range c.pcs {
			if k := sort.Search(len(funcs), func(k int) bool { return funcs[k].Value > pc }); k > 0 {
				name = funcs[k-1].Name
			}
		}
		return nil
	})
	runtime.KeepAlive(name)
	n := time.Duration(len(c.pcs))
	row(path+": warm lookup (sort.Search)", 1, "ns", ours/n, theirs/n)
	return nil
}

// measureGo compares lookups of function, file and line in this program with debug/gosym,
// which has no inlined calls.
func measureGo(row rowFunc) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := elf.Open(exe)
	if err != nil {
		return err
	}
	defer f.Close()
	text := f.Section(".text")
	data, err := f.Section(".gopclntab").Data()
	if err != nil {
		return err
	}
	tab, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pcs := make([]uint64, 65536)
	for i := range pcs {
		fn := &tab.Funcs[rng.IntN(len(tab.Funcs))]
		pcs[i] = fn.Entry + rng.Uint64N(max(fn.End-fn.Entry, 1))
	}
	n := time.Duration(len(pcs))
	theirs, _ := best(9, func() error {
		for _, pc := range pcs {
			tab.PCToLine(pc)
		}
		return nil
	})
	for _, c := range []struct {
		what     string
		noInline bool
		cache    int64 // for all names and few frames, or for all of both
	}{
		{"Go: function, file, line (debug/gosym)", true, 8 << 20},
		{"Go: the same, asked again", true, 256 << 20},
		{"Go: and inlined calls (debug/gosym)", false, 8 << 20},
		{"Go: the same, asked again", false, 256 << 20},
	} {
		e, err := symbol.OpenELF(exe, &symbol.ELFOptions{NoInline: c.noInline, NameCache: c.cache})
		if err != nil {
			return err
		}
		var dst []symbol.Frame
		pass := func() error {
			for i := range pcs {
				dst = e.Resolve(dst[:0], pcs[i:i+1])
			}
			return nil
		}
		_, _ = best(2, pass)
		ours, _ := best(9, pass)
		row(c.what, 1, "ns", ours/n, theirs/n)
		e.Close()
	}
	return nil
}

// measureKernel compares reading /proc/kallsyms into a table with only reading it.
func measureKernel(row rowFunc) error {
	var text []byte
	var ours, theirs, oursWall, theirsWall time.Duration = 1 << 62, 1 << 62, 1 << 62, 1 << 62
	for range 15 {
		start := time.Now()
		raw, err := best(1, func() error {
			f, err := os.Open("/proc/kallsyms")
			if err != nil {
				return err
			}
			defer f.Close()
			buf := make([]byte, 1<<20)
			text = text[:0]
			for {
				n, err := f.Read(buf)
				text = append(text, buf[:n]...)
				if err != nil {
					return nil
				}
			}
		})
		if err != nil {
			return nil // not Linux
		}
		theirsWall = min(theirsWall, time.Since(start))
		start = time.Now()
		full, err := best(1, func() error {
			k, err := symbol.OpenKernel(nil)
			if err == nil {
				err = k.Err()
			}
			return err
		})
		if err != nil {
			return nil // addresses are hidden
		}
		oursWall = min(oursWall, time.Since(start))
		ours, theirs = min(ours, full), min(theirs, raw)
	}
	row("kallsyms (raw read)", time.Millisecond, "ms", ours, theirs)
	row("kallsyms, wall time (raw read)", time.Millisecond, "ms", oursWall, theirsWall)
	parse, err := best(7, func() error {
		_, err := symbol.ParseKallsyms(bytes.NewReader(text))
		return err
	})
	if err != nil {
		return err
	}
	row("kallsyms from memory (raw read)", time.Millisecond, "ms", parse, theirs)
	dir, err := os.MkdirTemp("", "symscore")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cached, err := best(15, func() error {
		k, err := symbol.OpenKernel(&symbol.KernelOptions{Cache: filepath.Join(dir, "cache")})
		if err != nil {
			return err
		}
		return errors.Join(k.Err(), k.CacheErr())
	})
	row("kallsyms from the cache (raw read)", time.Millisecond, "ms", cached, theirs)
	return err
}
