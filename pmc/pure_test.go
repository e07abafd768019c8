package pmc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/borescope/borescope/internal/perfring"
)

// TestAttrLayout: the bytes are those of struct perf_event_attr.
func TestAttrLayout(t *testing.T) {
	e := Breakpoint(0x1122334455667788, 4, BPWrite)
	e.Exclude = Exclude{Kernel: true, HV: true}
	e.Precise = 2
	e.Config3 = 7
	a := e.Attr()
	b, err := a.AppendBinary(nil)
	if err != nil || len(b) != perfring.AttrSize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	u32 := func(off int) uint64 { return uint64(binary.NativeEndian.Uint32(b[off:])) }
	u64 := func(off int) uint64 { return binary.NativeEndian.Uint64(b[off:]) }
	// Offsets from pahole perf_event_attr; flag bits: exclude_kernel 5,
	// exclude_hv 6, precise_ip 15-16, exclude_guest 20.
	for name, pair := range map[string][2]uint64{
		"type": {u32(0), 5}, "size": {u32(4), 136}, "flags": {u64(40), 1<<5 | 1<<6 | 2<<15 | 1<<20},
		"bp_type": {u32(52), 2}, "bp_addr": {u64(56), 0x1122334455667788}, "bp_len": {u64(64), 4}, "config3": {u64(128), 7},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %#x, want %#x", name, pair[0], pair[1])
		}
	}
	if f := perfring.AttrInheritThread; f != 1<<35 || perfring.AttrSigtrap != 1<<37 || perfring.AttrBuildID != 1<<34 || perfring.AttrCgroup != 1<<32 {
		t.Errorf("late flags are misplaced: inherit_thread %#x", f)
	}
}

// TestHosts: every fixture's PMUs are read whole, and say where they are from.
func TestHosts(t *testing.T) {
	cores := map[string]int{"doc-intel-adl": 2, "vm-amd64-nopmu": 0}
	for name, root := range hosts(t) {
		all, err := PMUs(&Options{Root: root})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		core := 0
		for _, p := range all {
			if p.Core {
				core++
			}
			for _, f := range p.Formats {
				if back, err := parseFormat(f.Name, f.String()); err != nil || back != f {
					t.Errorf("%s: %s/%s: %s reads back as %+v (%v)", name, p.Name, f.Name, f, back, err)
				}
			}
			for _, e := range p.Events {
				ev, err := ParseEvent(p.Name+"/"+e.Name+"/", &Options{Root: root})
				if err != nil || ev.Type != p.Type || (e.Unit != "") != (ev.Unit != "") {
					t.Errorf("%s: %s/%s/: %+v, %v", name, p.Name, e.Name, ev, err)
				}
			}
		}
		want, special := cores[name]
		if !special {
			want = 1
		}
		if core != want {
			t.Errorf("%s: %d PMUs of the CPUs, want %d", name, core, want)
		}
		text, err := os.ReadFile("testdata/hosts/" + name + ".txtar")
		recorded, written := strings.HasPrefix(string(text), "Recorded"), strings.HasPrefix(string(text), "Written from documents")
		if err != nil || recorded == written || written != strings.HasPrefix(name, "doc-") {
			t.Errorf("%s: does not say where it is from (%v)", name, err)
		}
	}
	adl := host(t, "doc-intel-adl")
	if list, shared := pmuCPUs(adl, "cpu_atom"); shared || !slices.Equal(list, []int{16, 17, 18, 19, 20, 21, 22, 23}) {
		t.Errorf("cpu_atom: %v, %v", list, shared)
	}
	if list, shared := pmuCPUs(host(t, "doc-intel-spr"), "uncore_imc_0"); !shared || !slices.Equal(list, []int{0, 56}) {
		t.Errorf("uncore_imc_0: %v, %v", list, shared)
	}
}

// TestHybridNeedsAKind: one event of a generic name would count on one kind of
// CPU only.
func TestHybridNeedsAKind(t *testing.T) {
	opts := &Options{Root: host(t, "doc-intel-adl")}
	_, err := ParseEvent("cycles", opts)
	if err == nil || !strings.Contains(err.Error(), "cpu_core/cycles/") || !strings.Contains(err.Error(), "cpu_atom/cycles/") {
		t.Error(err)
	}
	for s, typ := range map[string]uint64{"cpu_core/cycles/": 4, "cpu_atom/cycles/u": 10} {
		e, err := ParseEvent(s, opts)
		if err != nil || e.Type != perfring.EventHardware || e.Config != typ<<32 || e.String() != s {
			t.Errorf("%s: %s %+v, %v", s, e, e, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	spr := &Options{Root: host(t, "doc-intel-spr")}
	for s, want := range map[string]string{
		"":                             "column 1: no event here: want",
		"cycles,":                      "column 8: no event here",
		"{cycles":                      "no closing }",
		"{cycles}:z":                   "bad group modifiers \":z\": want }:LETTERS",
		"cycles:pppp":                  "p may stand three times at most",
		"cpu/event=0x3c":               "no closing /",
		"cpu/event=0x1ff/":             "too big for config:0-7, whose maximum is 0xff",
		"cpu/evnt=0x3c/":               `did you mean "event"?`,
		"cpu/event=zz/":                "bad number",
		"cpu/,/":                       "empty term",
		"cpu/event=/":                  "bad term",
		"cpu/call-graph=fp/":           "belongs to perf record",
		"gpu/event=1/":                 "there are breakpoint, cpu,",
		"mem:zz:w":                     "bad address",
		"5:0":                          "want mem:ADDRESS",
		"mem:0x1000/16:w":              "bad length",
		"mem:0x1000:ww":                "repeats w",
		"cpu/cach-misses/":             `did you mean "cache-misses"`,
		"inst_retired.any":             `column 1: no event is called "inst_retired.any"`,
		"../type/event=1/":             "no PMU",
		"uncore_imc/cas_count_read/":   "means 4 events here",
		strings.Repeat("cycles,", 2e4): "longer than",
	} {
		_, err := ParseEvent(s, spr)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want … %s …", s, err, want)
		}
	}
	var syntax *SyntaxError
	if _, err := ParseList("cycles,{instructions,wrong}:u", noHost); !errors.As(err, &syntax) || syntax.Offset != 21 {
		t.Errorf("offset of the wrong name: %+v", syntax)
	}
}

// TestParameters: a named event's "?" is what the user gives.
func TestParameters(t *testing.T) {
	root := fstest.MapFS{
		pmuDir + "/hv/type":             {Data: []byte("30\n")},
		pmuDir + "/hv/format/core":      {Data: []byte("config:16-31\n")},
		pmuDir + "/hv/format/event":     {Data: []byte("config:0-15\n")},
		pmuDir + "/hv/events/cyc":       {Data: []byte("event=0x10,core=?\n")},
		pmuDir + "/hv/events/cyc.scale": {Data: []byte("2.5\n")},
		pmuDir + "/hv/events/cyc.unit":  {Data: []byte("MB\n")},
	}
	e, err := ParseEvent("hv/cyc,core=3/", &Options{Root: root})
	if err != nil || e.Config != 3<<16|0x10 || e.Scale != 2.5 || e.Unit != "MB" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := ParseEvent("hv/cyc/", &Options{Root: root}); err == nil || !strings.Contains(err.Error(), "needs core=VALUE") {
		t.Error(err)
	}
}

const perfmonJSON = `{"Header": {}, "Events": [
 {"EventName":"LONGEST_LAT_CACHE.MISS","EventCode":"0x2E","UMask":"0x41","CounterMask":"0","Invert":"0","EdgeDetect":"0","MSRIndex":"0","MSRValue":"0x00","BriefDescription":"LLC misses"},
 {"EventName":"INST_RETIRED.ANY","EventCode":"0x00","UMask":"0x01"},
 {"EventName":"MEM_TRANS_RETIRED.LOAD_LATENCY_GT_16","EventCode":"0xcd","UMask":"0x01","MSRIndex":"0x3F6","MSRValue":"0x10"},
 {"EventName":"OCR.READS","EventCode":"0x2A,0x2B","UMask":"0x01","MSRIndex":"0x1a6,0x1a7","MSRValue":"0x10001"},
 {"EventName":"INT_MISC.CLEARS","EventCode":"0xad","UMask":"0x01","CounterMask":"1","EdgeDetect":"1"},
 {"EventName":"UNC_CHA_X","EventCode":"0x35","Unit":"CHA"},
 {"MetricName":"tma_x"}]}`

// TestVendorEvents: names of a perfmon tree, chosen by the CPU, encode like the
// terms that perf's own tables have for them.
func TestVendorEvents(t *testing.T) {
	events := fstest.MapFS{
		"mapfile.csv": {Data: []byte("Family-model,Version,Filename,EventType,Core Type,Native Model ID,Core Role Name\n" +
			"GenuineIntel-6-8F,V1,/SPR/events/spr_core.json,core,,,\nGenuineIntel-6-8F,V1,/SPR/events/spr_uncore.json,uncore,,,\n" +
			"GenuineIntel-6-55-[01234],V1,/SKX/events/skx_core.json,core,,,\n")},
		"SPR/events/spr_core.json": {Data: []byte(perfmonJSON)},
	}
	opts := &Options{Root: host(t, "doc-intel-spr"), Events: events}
	for name, want := range map[string]string{
		"LONGEST_LAT_CACHE.MISS":               "cpu/event=0x2e,umask=0x41/",
		"longest_lat_cache.miss":               "cpu/event=0x2e,umask=0x41/",
		"INST_RETIRED.ANY":                     "cpu/event=0xc0/",
		"MEM_TRANS_RETIRED.LOAD_LATENCY_GT_16": "cpu/event=0xcd,umask=0x1,ldlat=0x10/",
		"OCR.READS":                            "cpu/event=0x2a,umask=0x1,offcore_rsp=0x10001/",
		"INT_MISC.CLEARS":                      "cpu/event=0xad,umask=0x1,cmask=1,edge=1/",
	} {
		got, err1 := ParseEvent(name+":u", opts)
		terms, err2 := ParseEvent(want+"u", opts)
		if err := errors.Join(err1, err2); err != nil || got.Attr() != terms.Attr() {
			t.Errorf("%s: %+v, want as %s (%v)", name, got.Attr(), want, err)
		}
		if back, err := ParseEvent(got.String(), opts); err != nil || back != got {
			t.Errorf("%s prints %s: %v", name, got, err)
		}
	}
	if _, err := ParseEvent("LONGEST_LAT_CACHE.MIS", opts); err == nil || !strings.Contains(err.Error(), `did you mean "LONGEST_LAT_CACHE.MISS"?`) {
		t.Error(err)
	}
	if _, err := VendorEvents(&Options{Root: host(t, "doc-amd-zen4"), Events: events}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another vendor's CPU: %v", err)
	}
	flat := fstest.MapFS{"core.json": {Data: []byte(`[{"EventName":"L1D_CACHE_REFILL","EventCode":"0x03"}]`)}}
	e, err := ParseEvent("L1D_CACHE_REFILL", &Options{Root: host(t, "doc-ampere-altra"), Events: flat})
	if err != nil || e.Type != 10 || e.Config != 3 || e.PMU != "armv8_pmuv3_0" {
		t.Errorf("arm64: %+v, %v", e, err)
	}
	if _, err := ParseVendorEvents([]byte(`{"Events": 3}`), "cpu"); err == nil {
		t.Error("bad JSON accepted")
	}
}

// FuzzVendorEvents: the events of any list have a name, a PMU and terms that a
// PMU either refuses or reads, prints and reads again as the same; a list that
// is written anew has the same events.
func FuzzVendorEvents(f *testing.F) {
	f.Add([]byte(perfmonJSON))
	f.Add([]byte(`[{"EventName":"L1D_CACHE_REFILL","EventCode":"0x03","Unit":"cpu_atom"}]`))
	f.Add([]byte(`{"Events":[{"EventName":"X","EventCode":"0x1/,name=y","UMask":"0x1,0x2"}]}`))
	spr := host(f, "doc-intel-spr")
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := ParseVendorEvents(data, "cpu")
		if err != nil {
			return
		}
		opts := &Options{Root: spr, Events: fstest.MapFS{"core.json": {Data: data}}}
		for _, e := range events {
			if e.Name == "" || e.PMU == "" || !strings.HasPrefix(e.Terms, "event=") {
				t.Fatalf("%+v", e)
			}
			got, err := ParseEvent(e.Name, opts)
			if err != nil {
				continue
			}
			if back, err := ParseEvent(got.String(), opts); err != nil || back != got {
				t.Fatalf("%+v is %+v, prints %q and reads as %+v (%v)", e, got, got.String(), back, err)
			}
		}
	})
}

func TestList(t *testing.T) {
	all := List(&Options{Root: host(t, "doc-intel-spr")})
	kinds := map[string]int{}
	for _, d := range all {
		kinds[d.Kind]++
		if d.Kind == "raw" || d.Kind == "breakpoint" {
			continue
		}
		if _, err := ParseList(d.Event, &Options{Root: host(t, "doc-intel-spr")}); err != nil {
			t.Errorf("%s: %v", d.Event, err)
		}
	}
	if kinds["hardware"] != 10 || kinds["software"] != 12 || kinds["cache"] != 42 || kinds["PMU cpu"] < 20 {
		t.Errorf("%v", kinds)
	}
}

// TestRecordedCPUID decodes the leaves of machines.
func TestRecordedCPUID(t *testing.T) {
	b, err := os.ReadFile("testdata/cpuid.txt")
	if err != nil {
		t.Fatal(err)
	}
	name, answers, machines := "", leaves{}, 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if want, ok := strings.CutPrefix(line, "want "); ok {
			if got := decodeCPUID(answers); inOneLine(got) != want {
				t.Errorf("%s: %s\nwant %s", name, inOneLine(got), want)
			}
			machines++
			continue
		}
		if first, _, ok := strings.Cut(line, "\t"); ok {
			name, answers = first, leaves{}
			continue
		}
		var n uint32
		var l leaf
		if _, err := fmt.Sscanf(line, "0x%x: %x %x %x %x", &n, &l.EAX, &l.EBX, &l.ECX, &l.EDX); err == nil {
			answers[n] = l
		} else if line != "" && line[0] != '#' {
			t.Errorf("%q: %v", line, err)
		}
	}
	if machines < 8 {
		t.Errorf("%d machines", machines)
	}
	if here := recordCPUID(); here != nil {
		t.Logf("this machine: %x: %s", here, inOneLine(decodeCPUID(here)))
	}
}

// inOneLine is the line of testdata/cpuid.txt.
func inOneLine(c CPUCounters) string {
	names := []string{"cycles", "instructions", "ref-cycles", "llc-refs", "llc-misses", "branches", "branch-misses"}
	var there []string
	for i, e := range c.Events {
		if e.Available {
			there = append(there, names[i])
		}
	}
	if there == nil {
		there = []string{"-"}
	}
	return fmt.Sprintf("%s %v %d %d/%d %d/%d %d %s", c.Vendor, c.Hypervisor, c.Version, c.Counters, c.Width,
		c.Fixed, c.FixedWidth, c.Northbridge, strings.Join(there, ","))
}

// TestCPUID decodes leaves that are made from the manuals' tables, for what no
// recorded machine has.
func TestCPUID(t *testing.T) {
	intel := leaf{EAX: 0x1f, EBX: 0x756e6547, EDX: 0x49656e69, ECX: 0x6c65746e}
	amd := leaf{EAX: 0x10, EBX: 0x68747541, EDX: 0x69746e65, ECX: 0x444d4163}
	vm := leaf{ECX: 1 << 31}
	// Version 5, 8 counters of 48 bits, 8 events said, all there; 4 fixed of 48.
	spr := decodeCPUID(leaves{0: intel, 1: {}, 0xa: {EAX: 0x08300805, EBX: 0, EDX: 0x8604}})
	if spr.Version != 5 || spr.Counters != 8 || spr.Width != 48 || spr.Fixed != 4 || spr.FixedWidth != 48 || len(spr.Events) != 7 {
		t.Errorf("%+v", spr)
	}
	want := []uint64{0x003c, 0x00c0, 0x013c, 0x4f2e, 0x412e, 0x00c4, 0x00c5}
	for i, e := range spr.Events {
		if e.Config != want[i] || !e.Available {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	// A fourth fixed counter that is only in version 5's bitmap.
	if c := decodeCPUID(leaves{0: intel, 1: {}, 0xa: {EAX: 0x07300605, ECX: 1 << 3, EDX: 0x8603}}); c.Fixed != 4 {
		t.Errorf("%+v", c)
	}
	// A hypervisor that hides the LLC events (bits 3 and 4) and says 6 of 7.
	sub := decodeCPUID(leaves{0: intel, 1: vm, 0xa: {EAX: 0x06300402, EBX: 0b0011000, EDX: 0x603}})
	var there []bool
	for _, e := range sub.Events {
		there = append(there, e.Available)
	}
	if !sub.Hypervisor || !slices.Equal(there, []bool{true, true, true, false, false, true, false}) {
		t.Errorf("%+v", sub)
	}
	if none := decodeCPUID(leaves{0: intel, 1: vm, 0xa: {}}); none.Version != 0 || none.Counters != 0 || none.Events != nil {
		t.Errorf("%+v", none)
	}
	zen4 := decodeCPUID(leaves{
		0: amd, 1: {}, 0x80000000: {EAX: 0x80000028}, 0x80000001: {ECX: 1 << 23},
		0x80000022: {EAX: 7, EBX: 6 | 16<<4 | 16<<10},
	})
	if zen4.Version != 2 || zen4.Counters != 6 || zen4.Northbridge != 16 || zen4.Vendor != "AuthenticAMD" {
		t.Errorf("%+v", zen4)
	}
	if old := decodeCPUID(leaves{0: amd, 1: {}}); old.Counters != 4 || old.Version != 1 {
		t.Errorf("%+v", old)
	}
	if hidden := decodeCPUID(leaves{0: amd, 1: vm, 0x80000000: {EAX: 0x80000028}}); hidden.Counters != 0 {
		t.Errorf("%+v", hidden)
	}
	if empty := decodeCPUID(nil); empty.Vendor != "" || empty.Counters != 0 {
		t.Errorf("%+v", empty)
	}
}

func TestScaling(t *testing.T) {
	ms := time.Millisecond
	for _, tt := range []struct {
		row  Row
		want uint64
	}{
		{Row{Raw: 100, Enabled: 10, Running: 10}, 100},
		{Row{Raw: 100, Enabled: 10, Running: 5}, 200},
		{Row{Raw: 100, Enabled: 3, Running: 2}, 150},
		{Row{Raw: 7, Enabled: 10, Running: 0}, 7},
		{Row{Raw: 1 << 60, Enabled: time.Duration(3), Running: 2}, 3 << 59},
		{Row{Raw: math.MaxUint64, Enabled: 2, Running: 1}, math.MaxUint64},
		{Row{Raw: math.MaxUint64 / 2, Enabled: 1 << 40, Running: 1<<40 - 1}, math.MaxUint64/2 + 1<<23},
	} {
		if got := tt.row.Scaled(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.row, got, tt.want)
		}
	}
	c := Counts{
		Events: []Event{Cycles(), Instructions(), Branches(), PageFaults(), BranchMisses()},
		Errors: []string{"", "", "", "", "none here"},
		Rows: []Row{
			{Event: 0, CPU: 0, TID: -1, Raw: 100, Enabled: 100 * ms, Running: 50 * ms},
			{Event: 0, CPU: 1, TID: -1, Raw: 10, Enabled: 100 * ms, Running: 100 * ms},
			{Event: 1, CPU: 0, TID: -1, Raw: 9, Enabled: 100 * ms, Running: 2 * ms},
			{Event: 1, CPU: 1, TID: -1, Raw: 9, Enabled: 100 * ms, Running: 0},
			{Event: 2, CPU: 0, TID: -1, Enabled: 100 * ms},
			{Event: 3, CPU: 0, TID: -1, Raw: 5, Enabled: ms, Running: ms},
		},
	}
	v := c.Totals()
	got := []Confidence{v[0].Confidence, v[1].Confidence, v[2].Confidence, v[3].Confidence, v[4].Confidence}
	if !reflect.DeepEqual(got, []Confidence{High, Low, NotCounted, Exact, NotSupported}) {
		t.Errorf("%v", got)
	}
	if v[0].Raw != 110 || v[0].Count != 210 || v[0].Coverage != 0.75 || v[4].Error != "none here" {
		t.Errorf("%+v", v[0])
	}
	if low, high := v[0].Bounds(2); low != 160 || high != 310 {
		t.Errorf("bounds %v %v", low, high)
	}
	if low, high := v[0].Bounds(0.5); low != 160 || high != 310 {
		t.Errorf("bounds of the inverse factor: %v %v", low, high)
	}
	views := c.PerCPU()
	if len(views) != 2 || views[1].ID != 1 || views[1].Values[0].Count != 10 || len(c.PerThread()) != 0 {
		t.Errorf("%+v", views)
	}
	b, err := json.Marshal(v[0])
	if err != nil || !strings.Contains(string(b), `"Confidence":"high"`) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestSub(t *testing.T) {
	row := func(raw uint64, enabled time.Duration) []Row {
		return []Row{{Event: 0, TID: 5, CPU: -1, Raw: raw, Enabled: enabled, Running: enabled}}
	}
	ev := []Event{Cycles()}
	a, b := Counts{Time: 1, Events: ev, Rows: row(100, 10)}, Counts{Time: 4, Events: ev, Rows: row(150, 30)}
	if d := b.Sub(a); d.Time != 3 || d.Rows[0].Raw != 50 || d.Rows[0].Enabled != 20 {
		t.Errorf("%+v", d)
	}
	if b.Rows[0].Raw != 150 {
		t.Error("Sub changed its operand")
	}
	if d := (Counts{Events: ev, Rows: row(3, 40)}).Sub(b); d.Rows[0].Raw != 3 {
		t.Errorf("after a reset: %+v", d)
	}
}

func TestMetrics(t *testing.T) {
	names := "task-clock,cycles,instructions,branches,branch-misses,LLC-loads,LLC-load-misses,cpu/topdown-retiring/,cpu/topdown-bad-spec/,cpu/topdown-fe-bound/,cpu/topdown-be-bound/,uncore_imc/cas_count_read/,cycles:u"
	groups, err := ParseList(names, &Options{Root: host(t, "doc-intel-spr")})
	if err != nil {
		t.Fatal(err)
	}
	raw := []uint64{2e9, 4e9, 6e9, 1e9, 5e7, 1000, 250, 50, 10, 20, 20, 1 << 14, 1 << 14, 1 << 14, 1 << 14, 7}
	c := Counts{Time: time.Second, Events: slices.Concat(groups...)}
	for i := range c.Events {
		c.Rows = append(c.Rows, Row{Event: i, Raw: raw[i], Enabled: time.Second, Running: time.Second})
	}
	got := map[string]float64{}
	for _, m := range c.Metrics() {
		got[m.Name] = math.Round(m.Value*1000) / 1000
		if m.Formula == "" || m.Confidence != Exact {
			t.Errorf("%+v", m)
		}
	}
	want := map[string]float64{
		"CPUs utilized": 2, "IPC": 1.5, "CPI": 0.667, "frequency": 2, "branch miss rate": 5, "LLC hit ratio": 75,
		"retiring": 50, "bad speculation": 10, "frontend bound": 20, "backend bound": 20, "memory read": 4,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if m := (Counts{Events: []Event{Instructions(), Cycles()}}).Metrics(); len(m) != 0 {
		t.Errorf("of nothing counted: %+v", m)
	}
}

// FuzzParseEvent: what is read prints as something that is read as the same.
func FuzzParseEvent(f *testing.F) {
	b, err := os.ReadFile("testdata/events.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if _, event, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			f.Add(event)
		}
	}
	opts := &Options{Root: host(f, "doc-intel-spr")}
	f.Fuzz(func(t *testing.T, s string) {
		groups, err := ParseList(s, opts)
		if err != nil {
			return
		}
		for _, e := range slices.Concat(groups...) {
			back, err := ParseEvent(e.String(), opts)
			if err != nil || back != e {
				t.Fatalf("%q gives %+v, which prints %q and reads as %+v (%v)", s, e, e.String(), back, err)
			}
			if a := e.Attr(); a.Size != perfring.AttrSize || a.Type != e.Type {
				t.Fatalf("%q: %+v", s, a)
			}
		}
	})
}

// FuzzParseFormat: a format prints as one that reads the same, and has as many
// values as bits.
func FuzzParseFormat(f *testing.F) {
	for _, s := range []string{"config:0-7,32-35", "config1:0-63", "config", "config2:5", "config3:0,2,4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		format, err := parseFormat("x", s)
		if err != nil {
			return
		}
		back, err := parseFormat("x", format.String())
		if err != nil || back != format {
			t.Fatalf("%q is %+v, prints %q, reads as %+v (%v)", s, format, format, back, err)
		}
		var e Event
		if err := format.put(&e, format.max()); err != nil || *e.word(format.Word) != format.Bits {
			t.Fatalf("%q: the largest value sets %#x of %#x (%v)", s, *e.word(format.Word), format.Bits, err)
		}
	})
}
