package funcs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/internal/funcs"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestTable: the rows are sorted, each name is once there, and no row contradicts itself.
func TestTable(t *testing.T) {
	rows := funcs.All()
	for i, r := range rows {
		if i > 0 && rows[i-1].Name >= r.Name {
			t.Errorf("%s is behind %s", r.Name, rows[i-1].Name)
		}
		if got := funcs.Of(r.Name); got != &rows[i] || funcs.Of("__builtin_"+r.Name) != got {
			t.Errorf("%s is not found", r.Name)
		}
		if !regexp.MustCompile(`^0\.([89]|1\d|2[0-6])(\.[1-9])?$`).MatchString(r.Since) {
			t.Errorf("%s is in bpftrace since %q", r.Name, r.Since)
		}
		switch {
		case r.Least > r.Most || len(r.Args) > r.Most,
			r.Macro && !r.Library,
			r.Own && r.Probes == "",
			r.Value.Kind != "" && !r.Bare,
			r.Format && (len(r.Args) == 0 || r.Args[0] != funcs.Arg{Kind: funcs.String, Literal: true}):
			t.Errorf("the row contradicts itself: %+v", r)
		}
	}
	if funcs.Of("nosuch") != nil || funcs.Of("") != nil {
		t.Error("a name is found that is not there")
	}
}

// TestSince: the versions that bpftrace's changelog has for some names.
func TestSince(t *testing.T) {
	for name, want := range map[string]string{
		"kstack": "0.9", "strncmp": "0.9.4", "sizeof": "0.11", "buf": "0.11", "macaddr": "0.12",
		"strftime": "0.12", "bswap": "0.15", "pton": "0.16", "offsetof": "0.18", "jiffies": "0.20",
		"tseries": "0.24", "probetype": "0.25", "printf": "0.8",
	} {
		if got := funcs.Of(name).Since; got != want {
			t.Errorf("%s is in bpftrace since %s, want %s", name, got, want)
		}
	}
}

// TestIn: a name may be used in the probes of its row, and without them in all.
func TestIn(t *testing.T) {
	if r := funcs.Of("uaddr"); !r.In("uprobe") || r.In("kprobe") || r.In("probe") || r.In("") {
		t.Errorf("uaddr is in %q", r.Probes)
	}
	if !funcs.Of("pid").In("begin") || !funcs.Of("nosuch").In("begin") {
		t.Error("what is not restricted is refused")
	}
	for _, r := range funcs.All() {
		if list := strings.Split(r.Probes, " "); r.Probes != "" && slices.Contains(list, "") {
			t.Errorf("%s: probes are %q", r.Name, r.Probes)
		}
	}
}
