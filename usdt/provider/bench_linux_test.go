//go:build amd64 || arm64

package provider

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/usdt"
)

// batch is how many fires are measured at a time: less than a millisecond, so
// that many batches see the machine undisturbed.
const batch = 1000

// startC starts the same probe in a C program built with <sys/sdt.h>, with the
// same BPF program attached. The function that it returns measures one batch.
func startC(b *testing.B) func() time.Duration {
	exe := b.TempDir() + "/fire"
	if out, err := testenv.Command(b, "cc", "-O2", "-o", exe, "testdata/fire.c").CombinedOutput(); err != nil {
		testenv.Need(b, testenv.Got("cc with sys/sdt.h", fmt.Errorf("%w: %s", err, out), testenv.NoSDT...))
	}
	f, err := usdt.Open(exe)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	sites, err := f.Sites()
	if err != nil || len(sites) != 1 {
		b.Fatal(sites, err)
	}
	site := sites[0]
	for i := range site.Args {
		site.Args[i].Reg.Num = int16(i) // which registers is of no matter here
	}
	attach(b, exe, site, nil)
	cmd := testenv.Command(b, exe, strconv.Itoa(batch))
	stdin, stdout := testenv.Piped(b, cmd)
	b.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	return func() time.Duration {
		if _, err := io.WriteString(stdin, "x"); err != nil || !lines.Scan() {
			b.Fatal(err, lines.Err())
		}
		ns, err := strconv.Atoi(lines.Text())
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(ns)
	}
}

// BenchmarkFireTraced compares a traced probe of a Go program with one of a C
// program in batches that alternate. It reports the fastest tenth of each, and
// their ratio, because the machine may be shared.
func BenchmarkFireTraced(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Uprobes, testenv.Tool("cc"))
	p, probes := all(b)
	if err := p.Load(); err != nil {
		b.Fatal(err)
	}
	defer p.Unload()
	req := probes[1]
	tr := attach(b, p.Path(), siteOf(b, p, "signed"), nil)
	measureC := startC(b)
	var inGo, inC []time.Duration
	for b.Loop() {
		inC = append(inC, measureC())
		begin := time.Now()
		for i := range batch {
			if req.Enabled() {
				_ = req.Fire(i, i, i, i)
			}
		}
		inGo = append(inGo, time.Since(begin))
	}
	if got := tr.read(b).Count; got != uint64(len(inGo))*batch {
		b.Errorf("counted %d of %d", got, len(inGo)*batch)
	}
	tenth := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/10].Nanoseconds()) / batch
	}
	g, c := tenth(inGo), tenth(inC)
	b.ReportMetric(g, "ns/fire-go")
	b.ReportMetric(c, "ns/fire-c")
	b.ReportMetric(g/c, "go/c")
}
