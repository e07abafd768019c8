package tool

import (
	"io"
	"strings"
	"testing"
)

func TestFilterFlags(t *testing.T) {
	for args, uid := range map[string]int{"": -1, "-u 7": 7, "-u0": 0, "--uid root": 0} {
		tl := New("demo", "Show nothing.")
		got, versions, re := tl.UID("u,uid"), tl.IPVersions(), tl.Regexp("n,name", "RE", "")
		if err := tl.Parse(strings.Fields(args), NewOutput(io.Discard)); err != nil || *got != uid {
			t.Errorf("%q: user %d, %v", args, *got, err)
		}
		if !versions.v4() || !versions.v6() || !re.MatchString("anything") {
			t.Errorf("%q: something is filtered", args)
		}
	}
	for args, want := range map[string][2]bool{"-4": {true, false}, "--ipv6": {false, true}, "-46": {true, true}} {
		tl := New("demo", "Show nothing.")
		versions, re := tl.IPVersions(), tl.Regexp("n", "RE", "")
		if err := tl.Parse([]string{args, "-n", "^a+$"}, NewOutput(io.Discard)); err != nil {
			t.Error(err)
		}
		if versions.v4() != want[0] || versions.v6() != want[1] || !re.MatchString("aa") || re.MatchString("ab") {
			t.Errorf("%s: IPv4 %v, IPv6 %v, %v", args, versions.v4(), versions.v6(), re)
		}
	}
	for _, args := range [][]string{{"-u", "no such user"}, {"-n", "("}, {"-u", "-1"}} {
		tl := New("demo", "Show nothing.")
		tl.UID("u")
		tl.Regexp("n", "RE", "")
		if tl.Parse(args, NewOutput(io.Discard)) == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestCSV(t *testing.T) {
	got := print(false, func(r *Run) {
		tab := r.Table("PID %-6d", "COMM %-8s", "MS %.2f", "HIDDEN %d").Show("HIDDEN", false).CSV(true)
		tab.Header()
		tab.Row(7, `a,"b"`, 1.25, 0)
	})
	if want := "PID,COMM,MS\n" + `7,"a,""b""",1.25` + "\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestRows(t *testing.T) {
	type key struct {
		Name  string
		Which uint32
	}
	rows := Rows(map[key]int64{{"a", 0}: 1, {"a", 1}: 2, {"b", 1}: 9, {"c", 0}: 3}, 2, func(k *key) *uint32 { return &k.Which })
	var names []string
	for _, k := range Largest(rows, func(n []int64) int64 { return n[0] + n[1] }) {
		names = append(names, k.Name)
	}
	if got := strings.Join(names, ""); got != "bac" || rows[key{"a", 0}][1] != 2 {
		t.Errorf("%s: %v", got, rows)
	}
}

// A run for a process that does not exist is an error, not an empty result.
func TestNoSuchProcess(t *testing.T) {
	for _, flag := range []string{"-p", "-t"} {
		tl := New("demo", "Count.")
		tl.PID()
		tl.TID("t")
		if err := tl.Parse([]string{flag, "4194305"}, NewOutput(io.Discard)); err != nil { // one more than PID_MAX_LIMIT
			t.Fatal(err)
		}
		err := tl.Run(t.Context(), NewOutput(io.Discard), "Counting", func(*Run) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "4194305") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
