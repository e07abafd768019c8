package pmc

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite testdata/encodings.txt with what perf says (root, perf, unshare)")

// encoding is one line of encodings.txt: what perf makes of an event string on
// a host, one attribute for each event that the string stands for. "-" is
// perf's refusal.
type encoding struct{ host, event, attrs string }

func readTable(t *testing.T, name string, columns int) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out [][]string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if line := sc.Text(); line != "" && !strings.HasPrefix(line, "#") {
			row := strings.Split(line, "\t")
			if len(row) != columns {
				t.Fatalf("%s: %q: %d columns, want %d", name, line, len(row), columns)
			}
			out = append(out, row)
		}
	}
	return out
}

// TestEncodings: every string encodes as perf encodes it. encodings.txt was
// made by perf 6.1 itself, with each host's PMUs mounted over this machine's.
func TestEncodings(t *testing.T) {
	if *update {
		updateEncodings(t)
	}
	agreed := 0
	for _, row := range readTable(t, "encodings.txt", 3) {
		e := encoding{row[0], row[1], row[2]}
		groups, err := ParseList(e.event, &Options{Root: host(t, e.host)})
		if e.attrs == "-" {
			if err == nil {
				t.Errorf("%s: %s: perf refuses it, we read %v", e.host, e.event, groups)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %s: %v; perf: %s", e.host, e.event, err, e.attrs)
			continue
		}
		var got []string
		for _, ev := range slices.Concat(groups...) {
			got = append(got, formatAttr(ev.Attr()))
		}
		slices.Sort(got) // perf's order is the directory's
		if s := strings.Join(got, "; "); s != e.attrs {
			t.Errorf("%s: %s:\n got %s\nperf %s", e.host, e.event, s, e.attrs)
			continue
		}
		agreed++
	}
	if agreed < 200 {
		t.Errorf("%d event strings agree with perf, want at least 200", agreed)
	}
}

// TestStringInverse: what an event prints is read back as the same event.
func TestStringInverse(t *testing.T) {
	for _, row := range readTable(t, "events.txt", 2) {
		opts := &Options{Root: host(t, row[0])}
		groups, err := ParseList(row[1], opts)
		if err != nil {
			continue // TestEncodings says whether that is right
		}
		for _, e := range slices.Concat(groups...) {
			back, err := ParseEvent(e.String(), opts)
			if err != nil || back != e {
				t.Errorf("%s: %s prints %s, which reads as %+v (%v), want %+v", row[0], row[1], e, back, err, e)
			}
		}
	}
}

// formatAttr prints the fields that an event string decides, in perf's words.
func formatAttr(a perfring.Attr) string {
	var parts []string
	add := func(name string, v uint64) {
		if v != 0 {
			parts = append(parts, fmt.Sprintf("%s=%#x", name, v))
		}
	}
	add("type", uint64(a.Type))
	add("config", a.Config)
	for i, f := range []struct {
		name string
		flag perfring.AttrFlags
	}{
		{"pinned", perfring.AttrPinned},
		{"exclusive", perfring.AttrExclusive},
		{"exclude_user", perfring.AttrExcludeUser},
		{"exclude_kernel", perfring.AttrExcludeKernel},
		{"exclude_hv", perfring.AttrExcludeHV},
		{"exclude_idle", perfring.AttrExcludeIdle},
		{"precise_ip", 0},
		{"exclude_host", perfring.AttrExcludeHost},
		{"exclude_guest", perfring.AttrExcludeGuest},
	} {
		if i == 6 {
			add("precise_ip", uint64(a.Flags.Precise()))
		} else if a.Flags&f.flag != 0 {
			add(f.name, 1)
		}
	}
	add("bp_type", uint64(a.BPType))
	add("config1", a.Config1)
	add("config2", a.Config2)
	return strings.Join(parts, " ")
}

// updateEncodings asks perf, in a mount namespace in which the fixture's PMUs
// lie over this machine's.
func updateEncodings(t *testing.T) {
	var b strings.Builder
	b.WriteString("# HOST TAB EVENT TAB what perf 6.1 encodes it as; made from events.txt by\n" +
		"# go test -run TestEncodings -update. - where perf refuses the string.\n")
	dirs := map[string]string{}
	for name, root := range hosts(t) {
		dirs[name] = t.TempDir()
		unpack(t, root, dirs[name])
	}
	for _, row := range readTable(t, "events.txt", 2) {
		cmd := testenv.Command(t, "unshare", "-m", "sh", "-c",
			`mount --bind "$1" /sys/bus/event_source/devices && exec perf stat -vv -e "$2" true`, "sh", dirs[row[0]], row[1])
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		out, _ := cmd.CombinedOutput()
		fmt.Fprintf(&b, "%s\t%s\t%s\n", row[0], row[1], perfAttrs(string(out)))
	}
	if err := os.WriteFile("testdata/encodings.txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// perfAttrs collects the attributes that perf stat -vv prints. An attribute
// that perf tries again with less (after a refusal) is left out.
func perfAttrs(out string) string {
	var attrs []string
	var a perfring.Attr
	refused := false
	number := func(fields []string) (v uint64) {
		fmt.Sscan(fields[len(fields)-1], &v)
		return v
	}
	flags := map[string]perfring.AttrFlags{
		"pinned": perfring.AttrPinned, "exclusive": perfring.AttrExclusive, "exclude_user": perfring.AttrExcludeUser,
		"exclude_kernel": perfring.AttrExcludeKernel, "exclude_hv": perfring.AttrExcludeHV, "exclude_idle": perfring.AttrExcludeIdle,
		"exclude_host": perfring.AttrExcludeHost, "exclude_guest": perfring.AttrExcludeGuest,
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "perf_event_attr:":
			a = perfring.Attr{}
		case "type":
			a.Type = uint32(number(f))
		case "config":
			a.Config = number(f)
		case "bp_type":
			a.BPType = uint32(number(f))
		case "precise_ip":
			a.Flags = a.Flags.WithPrecise(int(number(f)))
		case "switching":
			refused = true
		case "{":
			switch f[2] {
			case "config1":
				a.Config1 = number(f)
			case "config2":
				a.Config2 = number(f)
			}
		case "sys_perf_event_open:":
			if f[1] == "pid" && !refused {
				attrs = append(attrs, formatAttr(a))
			}
			refused = false
		default:
			if len(f) == 2 {
				a.Flags |= flags[f[0]]
			}
		}
	}
	if len(attrs) == 0 {
		return "-"
	}
	slices.Sort(attrs)
	return strings.Join(attrs, "; ")
}
