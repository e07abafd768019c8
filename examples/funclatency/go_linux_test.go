package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// By hand: go test ./examples/funclatency -run TestLiveGo -serve 30s
var serve = flag.Duration("serve", 0, "how long the service of TestLiveGo works (0: one round)")

// service is a running, stripped Go program with 100 goroutines whose stacks grow
// and shrink, and which counts its calls.
type service struct {
	t   testing.TB
	cmd *testenv.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startService(t testing.TB) *service {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Go)
	path := filepath.Join(t.TempDir(), "service")
	build := testenv.Command(t, "go", "build", "-ldflags=-s -w", "-o", path, "../../probe/testdata/gotarget/main.go")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, b)
	}
	s := &service{t: t, cmd: testenv.Command(t, path)}
	in, out := testenv.Piped(t, s.cmd)
	s.in = in
	s.out = bufio.NewScanner(out)
	t.Cleanup(func() {
		s.in.Close()
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("the service ended badly: %v", err)
		}
	})
	return s
}

// round has each goroutine do so much, and returns how often main.Work and
// main.grow were called.
func (s *service) round(each int) (work, grow int) {
	s.t.Helper()
	fmt.Fprintln(s.in, each)
	if !s.out.Scan() {
		s.t.Fatal("the service died")
	}
	if _, err := fmt.Sscan(s.out.Text(), &work, &grow); err != nil {
		s.t.Fatal(err)
	}
	return work, grow
}

// TestLiveGo: the latencies of a function of a Go service, entry and return, are as
// many as the service counted calls, however its stacks move.
func TestLiveGo(t *testing.T) {
	s := startService(t)
	want, began := 0, time.Now()
	out := tooltest.Live(t, run, []string{"-json", fmt.Sprintf("uprobe:/proc/%d/exe:main.Work", s.cmd.Process.Pid)}, func() {
		for want == 0 || time.Since(began) < *serve {
			work, _ := s.round(50)
			want += work
		}
	})
	got := 0
	for _, h := range tooltest.Objects[struct{ Buckets []struct{ Count int } }](t, out) {
		for _, b := range h.Buckets {
			got += b.Count
		}
	}
	if got != want {
		t.Errorf("%d latencies, the service counted %d calls:\n%s", got, want, out)
	}
	t.Logf("%d calls in %v", want, time.Since(began))
}

// BenchmarkLiveGo is the time of one call of main.Work, with the stack that grows
// for it, without and with both probes on it.
func BenchmarkLiveGo(b *testing.B) {
	for _, probed := range []bool{false, true} {
		b.Run("probed="+strconv.FormatBool(probed), func(b *testing.B) {
			s := startService(b)
			calls := 0
			work := func() {
				for b.Loop() {
					n, _ := s.round(100)
					calls += n
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(calls), "ns/call")
			}
			if !probed {
				work()
				return
			}
			ctx, cancel := context.WithCancel(b.Context())
			target := fmt.Sprintf("uprobe:/proc/%d/exe:main.Work", s.cmd.Process.Pid)
			if err := run(tool.OnStart(ctx, func() { work(); cancel() }), []string{target}, tool.NewOutput(io.Discard)); err != nil {
				b.Fatal(err)
			}
		})
	}
}
