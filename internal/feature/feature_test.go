package feature_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
)

// TestUnsupportedErrorIdentity pins that the error matches both sentinels. The
// package recognises cilium's by its text, so as not to import it: should the
// text change there, this fails.
func TestUnsupportedErrorIdentity(t *testing.T) {
	err := fmt.Errorf("attach: %w", &feature.UnsupportedError{Feature: "kprobe"})
	if !errors.Is(err, ebpf.ErrNotSupported) {
		t.Error("does not match ebpf.ErrNotSupported")
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error("does not match errors.ErrUnsupported")
	}
	if errors.Is(err, os.ErrPermission) || errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Error("matches what it should not")
	}
	unknown := &feature.UnknownError{Feature: "kprobe", Err: os.ErrPermission}
	if errors.Is(unknown, errors.ErrUnsupported) || !errors.Is(unknown, os.ErrPermission) {
		t.Error("an unknown outcome must match its cause and nothing else")
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range feature.All() {
		if f.String() == "" || seen[f.String()] {
			t.Errorf("feature %d: name %q is empty or taken", uint8(f), f)
		}
		seen[f.String()] = true
		back, err := feature.Parse(f.String())
		if back != f || err != nil {
			t.Errorf("Parse(%q) = %v, %v", f, back, err)
		}
	}
	if _, err := feature.Parse("kprobes"); err == nil {
		t.Error("Parse accepts an unknown name")
	}
	if err := feature.Test(0); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Test of no feature: %v", err)
	}
}

// TestOutcomes runs every probe. Whatever the machine, an answer is one of the
// three, a no has a cause, and what was conclusive is said again.
func TestOutcomes(t *testing.T) {
	for _, f := range feature.All() {
		err := feature.Test(f)
		var no *feature.UnsupportedError
		var dunno *feature.UnknownError
		switch {
		case err == nil:
			t.Logf("%-20s yes", f)
		case errors.As(err, &no):
			t.Logf("%-20s no: %s: %v", f, no.Hint, no.Err)
			if no.Hint == "" {
				t.Errorf("%v: no cause given", err)
			}
		case errors.As(err, &dunno):
			t.Logf("%-20s unknown: %s: %v", f, dunno.Hint, dunno.Err)
			if os.Geteuid() == 0 {
				t.Errorf("root could not tell: %v", err)
			}
		default:
			t.Errorf("%v: fourth outcome: %v", f, err)
		}
		if again := feature.Test(f); !same(err, again) {
			t.Errorf("%v: first %v, then %v", f, err, again)
		}
	}
}

func same(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Error() == b.Error()
}

func TestExplain(t *testing.T) {
	cause := errors.New("the system's answer")
	if feature.Explain(feature.Ringbuf, nil) != nil {
		t.Error("explains success")
	}
	for _, f := range feature.All() {
		err := feature.Explain(f, cause)
		if !errors.Is(err, cause) {
			t.Errorf("%v: the system's answer is lost: %v", f, err)
		}
		if (feature.Test(f) == nil) != (err == cause) {
			t.Errorf("%v: explained as %v", f, err)
		}
	}
}

func TestSetRoundTrip(t *testing.T) {
	s := feature.Set{
		"kprobe":       {feature.Yes, ""},
		"kprobe-multi": {feature.No, "CONFIG_FPROBE is not set"},
		"fentry":       {feature.Unknown, "needs CAP_BPF"},
		"from-a-later": {feature.Yes, ""},
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back feature.Set
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(s, back) {
		t.Errorf("%s came back as %v", b, back)
	}
	const table = `fentry                 unknown needs CAP_BPF
from-a-later           yes
kprobe                 yes
kprobe-multi           no      CONFIG_FPROBE is not set
`
	if s.String() != table {
		t.Errorf("printed as\n%swant\n%s", s, table)
	}
	for _, bad := range []string{`[]`, `{"kprobe":{"state":"maybe"}}`, `{"kprobe":{}}`, `{"kprobe":1}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestSetAnswers(t *testing.T) {
	s := feature.Set{
		"kprobe":       {feature.Yes, ""},
		"kprobe-multi": {feature.No, "CONFIG_FPROBE is not set"},
	}
	if err := s.Test(feature.Kprobe); err != nil || !s.Has(feature.Kprobe) {
		t.Error(err)
	}
	var no *feature.UnsupportedError
	if err := s.Test(feature.KprobeMulti); !errors.As(err, &no) ||
		no.Hint != "CONFIG_FPROBE is not set" || no.Since != "5.18" {
		t.Errorf("%#v", err)
	}
	var dunno *feature.UnknownError
	if err := s.Test(feature.Fentry); !errors.As(err, &dunno) {
		t.Errorf("a feature that was not recorded is %v", err)
	}
	var live feature.Set
	if !same(live.Test(feature.BTF), feature.Test(feature.BTF)) {
		t.Error("the nil set does not ask this machine")
	}
	if runtime.GOOS == "linux" {
		r := feature.Record(feature.BTF, feature.Uprobe)
		if len(r) != 2 || !same(r.Test(feature.BTF), nil) != (feature.Test(feature.BTF) != nil) {
			t.Errorf("recorded %v", r)
		}
	}
}
