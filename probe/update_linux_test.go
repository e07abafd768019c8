package probe

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestUpdate: which links take another program: iterators. The error of the
// others says what to do.
func TestUpdate(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	for _, c := range []struct {
		target string
		needs  []testenv.Requirement
	}{
		{"iter:bpf_map", []testenv.Requirement{testenv.Feature(feature.Iter)}},
		{"uprobe:" + probetest.TargetPath() + ":add", []testenv.Requirement{testenv.Uprobes}},
		{"uprobe:" + probetest.TargetPath() + ":helper_*", []testenv.Requirement{testenv.Uprobes}},
		{"tracepoint:syscalls:sys_enter_write", nil},
		{"rawtracepoint:sys_enter", nil},
		{"profile:hz:49", []testenv.Requirement{testenv.Perf}},
		{"kprobe:ksys_write", []testenv.Requirement{testenv.Kprobes}},
		{"kprobe:ksys_write,kprobe:ksys_read", []testenv.Requirement{testenv.KprobeMulti}},
		{"fentry:ksys_write", []testenv.Requirement{testenv.Fentry}},
	} {
		t.Run(strings.ReplaceAll(c.target, "/", "_"), func(t *testing.T) {
			testenv.Need(t, c.needs...)
			plan := mustResolve(t, nil, c.target)
			count := probetest.Counting{Value: -1}
			iter := plan.Programs[0].Method == MethodIter
			_, l := attachCounter(t, plan, count)
			count.Key = 1
			next := loadCounter(t, plan, count)
			err := l.Update(next.progs)
			if !iter {
				if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "attach the new program") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := l.OpenIter()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := r.Read(make([]byte, 8)); err != nil && !strings.Contains(err.Error(), "EOF") {
				t.Fatal(err)
			}
			if next.read(t, 1).Count == 0 {
				t.Error("the new program has not run")
			}
			if err := l.Update(map[string]*ebpf.Program{"nosuch": nil}); err == nil {
				t.Error("a program that the link does not have")
			}
			l.Close()
			if err := l.Update(next.progs); !errors.Is(err, os.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}
