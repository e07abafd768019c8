package script_test

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script"
)

const modesText = `begin { printf("begun\n"); @n = 5; }
test:one { print("quiet"); }
test:two { print("shown"); @n++; return 1; }
test:three { errorf("bad %d", 3); }
test:four { exit(2); }
test:five { exit(); }
bench:count { @ = count(); }
bench:print { print(@n); }
bench:skip { return 2; }
bench:bad { errorf("bad"); }
end { printf("ended %d\n", @n); }
`

// TestModes: tests pass and fail by what they return, print and give exit(), benches are measured, and the
// other probes of a script do not run, nor do these without their mode.
func TestModes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	for _, c := range []struct {
		mode         script.Mode
		json         bool
		want, warned string
		status       int
	}{
		{script.ModeRun, false, "begun\nended 5\n\n\n@n: 5\n", "Attached 2 probes\n", 0},
		{script.ModeTest, false, `begun
[==========] Running 5 tests.
[ RUN      ] one
[       OK ] one (T)
[ RUN      ] two
shown
[  FAILED  ] two (T)
[ RUN      ] three
stdin:4:14-33: ERROR: bad 3
[  FAILED  ] three (T)
[ RUN      ] four
[  FAILED  ] four (T)
[ RUN      ] five
[       OK ] five (T)
[==========] 5 tests ran.
[  PASSED  ] 2 tests.
[  FAILED  ] 3 tests, listed below:
[  FAILED  ] two
[  FAILED  ] three
[  FAILED  ] four
ended 6


`, "", 1},
		{script.ModeBench, false, `begun
Benchmark                                Time(ns)       Iterations
------------------------------------------------------------------
count                                    N N
print                                    N N
ended 5


`, "ERROR: Benchmark 'bad' failed.\n", 1},
		{script.ModeBench, true, `{"type": "printf", "data": "begun\n"}
{"type": "benchmark_result", "data": {"count": {"average": N, "iters": N}}}
{"type": "benchmark_result", "data": {"print": {"average": N, "iters": N}}}
{"type": "printf", "data": "ended 5\n"}
`, "ERROR: Benchmark 'bad' failed.\n", 1},
	} {
		p := script.MustCompile(t, modesText, &script.Options{Mode: c.mode})
		var out, said bytes.Buffer
		status, err := p.Run(t.Context(), &script.RunOptions{Stdout: &out, Stderr: &said, JSON: c.json})
		if err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(`\([0-9.]+.?s\)`).ReplaceAllString(out.String(), "(T)")
		if c.mode == script.ModeBench {
			got = regexp.MustCompile(`[1-9]\d* +10*\n`).ReplaceAllString(got, "N N\n")
			got = regexp.MustCompile(`[1-9]\d*, "iters": 10*}`).ReplaceAllString(got, `N, "iters": N}`)
		}
		if got != c.want || said.String() != c.warned || status != c.status {
			t.Errorf("mode %d: status %d, it printed\n%sand said\n%s\nwant %d\n%s\n%s", c.mode, status, got, &said,
				c.status, c.want, c.warned)
		}
	}
	for text, want := range map[string]string{
		"test:x { }":  "No probes attached; use --test to run test probes.",
		"bench:x { }": "No probes attached; use --bench to run bench probes.",
	} {
		if _, err := script.Compile("stdin", text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestSignals: probes of a signal run each time that it comes, beside others and alone, whether they print or
// not.
func TestSignals(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	for text, want := range map[string]string{
		`self:signal:SIGUSR1 { printf("first "); } self:signal:SIGUSR1 { print(++@n); if (@n == 3) { exit(); } } end { clear(@n); }`: "first 1\nfirst 2\nfirst 3\n\n\n",
		`interval:s:1000 { } self:signal:SIGUSR1 { if (++@n == 3) { exit(); } }`:                                                     "\n\n@n: 3\n",
		`self:signal:SIGUSR1 { @n = count(); }`: "\n\n@n: 3\n",
	} {
		p := script.MustCompile(t, text, nil)
		if !p.Signalled() || !strings.Contains(strings.Join(p.Probes(), " "), "self:signal:SIGUSR1") {
			t.Errorf("%s has probes %v", text, p.Probes())
		}
		signals := make(chan os.Signal)
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		sent := make(chan bool)
		_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Signals: signals, Attached: func() error {
			go func() {
				defer close(sent)
				defer cancel() // when the third was taken: its probes run first
				for range 3 {
					signals <- unix.SIGUSR1
				}
			}()
			return nil
		}})
		<-sent
		if err != nil || out.String() != want {
			t.Errorf("%s printed %q, %v; want %q", text, &out, err, want)
		}
	}
}
