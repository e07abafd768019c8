package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script"
)

// tenScripts is a service of ten scripts, each with a counter of 100 keys and a histogram.
func tenScripts(b *testing.B) *service {
	testenv.Need(b, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	dir := b.TempDir()
	for i := range 10 {
		text := fmt.Sprintf(`// metric @n name=n%d_total labels=i: A counter.
// metric @h name=h%d: A histogram.
begin { for ($i : 0..100) { @n[$i] = count(); @h = hist($i); } }
tracepoint:syscalls:sys_enter_getppid { @n[1] = count(); }`, i, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%d.bt", i)), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s, err := newService(dir, ir.Budget{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.close(); err != nil {
			b.Error(err)
		}
	})
	if err := s.reload(true); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkScrape is a scrape of ten scripts, 1,000 counters and ten histograms.
func BenchmarkScrape(b *testing.B) {
	s := tenScripts(b)
	h := s.handler()
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size), "bytes")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
}

// BenchmarkReadByHand reads the same maps and statistics, and does nothing with them.
func BenchmarkReadByHand(b *testing.B) {
	s := tenScripts(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, u := range s.units {
			for _, e := range u.running.exports {
				if _, err := u.running.session.Entries(e.name); err != nil {
					b.Fatal(err)
				}
			}
			if _, _, err := u.running.session.Stats(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkReload is the time until a changed script counts.
func BenchmarkReload(b *testing.B) {
	s := tenScripts(b)
	for i := 0; b.Loop(); i++ {
		text := fmt.Sprintf("tracepoint:syscalls:sys_enter_getppid { @n[pid] = count(); } // %d", i)
		if err := os.WriteFile(filepath.Join(s.dir, "s0.bt"), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		if err := s.reload(false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvent is a system call: untraced, counted by a script that is attached for itself, and counted by
// one that a later version can take over from, as the exporter's are.
func BenchmarkEvent(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	run := func(b *testing.B) {
		for b.Loop() {
			_, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
		}
	}
	b.Run("untraced", run)
	p, err := script.Compile("calls.bt", "tracepoint:syscalls:sys_enter_getppid { @n = count(); }", &script.Options{IncludeSelf: true})
	if err != nil {
		b.Fatal(err)
	}
	versions, err := bpf.NewHandover()
	if err != nil {
		b.Fatal(err)
	}
	defer versions.Close()
	for name, h := range map[string]*bpf.Handover{"script": nil, "version": versions} {
		s, err := script.Attach(b.Context(), p, &script.AttachOptions{Handover: h})
		if err != nil {
			b.Fatal(err)
		}
		if h != nil {
			if err := s.TakeOver(); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, run)
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}
}
