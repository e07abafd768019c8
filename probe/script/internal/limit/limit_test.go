package limit_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/internal/limit"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// count counts a script's attach points; all tracepoints generate programs.
func count(t *testing.T, script string) (*limit.Counter, *syntax.Error) {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte(script), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	c, _, err := config.Read(f, nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	n := limit.New(c)
	return n, n.File(f, func(a *syntax.AttachPoint) bool { return a.Provider == "tracepoint" })
}

// TestLimits: what counts as a probe and what as a program, and what is said at the limit.
func TestLimits(t *testing.T) {
	const probes = "Can't attach to 3 probes because it exceeds the current limit of 2 probes."
	const programs = "Your program is trying to generate more than 2 BPF programs, which exceeds the " +
		"current limit of 2"
	for _, test := range []struct{ name, script, want string }{
		{"few", `config = { max_probes = 2 } begin { } kprobe:f { }`, ""},
		{"many", `config = { max_probes = 2 } begin { } kprobe:f, kprobe:g { }`, probes},
		{"wildcard", `config = { max_probes = 1 } kprobe:* { }`, ""},
		{"written", `config = { max_bpf_progs = 2 } kprobe:f, kprobe:g, kprobe:h { }`, ""},
		{"generated", `config = { max_bpf_progs = 2 } tracepoint:a:b { } tracepoint:a:c, tracepoint:a:d { }`, programs},
		{"probe", `config = { max_bpf_progs = 2 } kprobe:f, kprobe:g, kprobe:h { print(probe); }`, programs},
		{"macro", `config = { max_bpf_progs = 2 } kprobe:f, kprobe:g, kprobe:h { print(__builtin_probe); }`, programs},
		{"predicate", `config = { max_bpf_progs = 2 } kprobe:f, kprobe:g, kprobe:h /probe == "a"/ { }`, programs},
		{"default", strings.Repeat("kprobe:f, ", 1024) + `kprobe:f { }`, "current limit of 1024 probes."},
		{"never", `config = { max_probes = 0xffffffffffffffff } ` + strings.Repeat("k:f, ", 24_999) + `k:f { }`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, e := count(t, test.script)
			if e == nil || test.want == "" {
				if e != nil || test.want != "" {
					t.Fatalf("error is %v, want %q", e, test.want)
				}
				return
			}
			if !strings.HasSuffix(e.Msg, test.want) {
				t.Errorf("error is %q, want %q", e.Msg, test.want)
			}
			hints := strings.Join(e.Hints, "\n")
			for _, want := range []string{" were found so far", "BPFTRACE_MAX_", "config = { max_"} {
				if !strings.Contains(hints, want) {
					t.Errorf("hints are\n%s\nwithout %q", hints, want)
				}
			}
		})
	}
}

// TestMost: no configuration allows more probes than can be held.
func TestMost(t *testing.T) {
	n, e := count(t, `config = { max_probes = 1000000; max_bpf_progs = 1000000 } kprobe:f { }`)
	if e != nil {
		t.Fatal(e)
	}
	if n.Left() != 24_999 {
		t.Errorf("%d are left of 25,000", n.Left())
	}
	for range 24_999 {
		if e := n.Add(&syntax.AttachPoint{}, true); e != nil {
			t.Fatal(e)
		}
	}
	if e := n.Add(&syntax.AttachPoint{}, true); e == nil || n.Left() != 0 {
		t.Errorf("error is %v, %d are left", e, n.Left())
	}
}
