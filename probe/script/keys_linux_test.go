package script_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
)

// TestSmallKeys: before Linux 6.1, whose keys are small, stacks in keys are shorter and that is said,
// unless the script gives their length.
func TestSmallKeys(t *testing.T) {
	testenv.Need(t, testenv.File("/sys/kernel/btf/vmlinux"))
	for _, c := range []struct{ release, key, warning, err string }{
		{"6.1.0", "kstack, ustack, comm", "", ""},
		{"5.10.0", "kstack, comm", "at most 60 frames", ""},
		{"5.10.0", "kstack, ustack, comm", "at most 29 frames", ""},
		{"5.10.0", "kstack(20), ustack(20)", "", ""},
		{"5.10.0", "kstack(127), comm", "", "key of"},
	} {
		env := probe.NewEnv(&probe.EnvOptions{Release: c.release})
		p, err := script.Compile("stdin", "profile:hz:99 { @["+c.key+"] = count(); }", &script.Options{Env: env})
		if err != nil || c.err != "" {
			if c.err == "" || err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s on %s: error %v, want %q", c.key, c.release, err, c.err)
			}
			continue
		}
		if said := p.Warnings.String(); said != "" != (c.warning != "") || !strings.Contains(said, c.warning) {
			t.Errorf("%s on %s: it said %q, want %q", c.key, c.release, said, c.warning)
		}
	}
}
