package output_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/script/types"
)

// names has names of some numbers.
type names struct{}

func (names) Kernel(pc uint64) []output.Function {
	switch pc {
	case 0x10:
		return []output.Function{{Name: "inner", Offset: 2, Inlined: true, File: "/a.c", Line: 3}, {Name: "outer", Offset: 6, File: "/b.c", Line: 12}}
	case 0x20:
		return []output.Function{{Name: "called", Offset: 4, Module: "/bin/x\x1b"}}
	}
	return nil
}

func (n names) User(p output.Process, pc uint64) []output.Function {
	if p.PID() == 5 {
		return n.Kernel(pc)
	}
	return nil
}

func (names) FilePlace(p output.Process, pc uint64) (buildID string, offset uint64) {
	if p.PID() == 5 && pc == 0x20 {
		return "0a1b", 9
	}
	return "", 0
}

func (names) Username(uid uint64) string { return map[uint64]string{7: "seven"}[uid] }

func (names) Comm(id int) string { return map[int]string{1: "init"}[id] }

func (names) Cgroup(id uint64) string { return map[uint64]string{7: "unified:/a"}[id] }

// state is an enum.
var state = &btf.Enum{Name: "state", Size: 4, Values: []btf.EnumValue{{Name: "RUN", Value: 2}}}

var (
	int32Type  = types.Type{Kind: types.Integer, Size: 4, Signed: true}
	uint64Type = types.Type{Kind: types.Integer, Size: 8}
)

// TestDecode: the values that programs store, as text and as JSON.
func TestDecode(t *testing.T) {
	pair := ir.TupleType(ir.Field{Type: ir.IntType(4, true)}, ir.Field{Type: ir.StringType(4)})
	for _, c := range []struct {
		typ        types.Type
		ir         ir.Type
		raw        string
		text, json string
	}{
		{int32Type, ir.IntType(4, true), "\xfe\xff\xff\xff", "-2", "-2"},
		{uint64Type, ir.Uint64Type(), "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615", `"18446744073709551615"`},
		{types.Type{Kind: types.Bool, Size: 1}, ir.BoolType(), "\x01", "true", "true"},
		{types.Type{Kind: types.Pointer, Size: 8}, ir.PtrType(nil, false), "\x10\x20\x00\x00\x00\x00\x00\x00", "0x2010", "8208"},
		{types.Type{Kind: types.String, Size: 8}, ir.StringType(8), "a\"b\x1b\x00..", `a"b?`, `"a\"b?"`},
		{types.Type{Kind: types.String, Size: 4}, ir.StringType(4), "abcd", "abcd..", `"abcd.."`},
		{types.Type{Kind: types.Integer, Size: 4, Name: "state", BTF: state}, ir.IntType(4, false), "\x02\x00\x00\x00", "RUN", "2"},
		{types.Type{Kind: types.Integer, Size: 4, Name: "state", BTF: state}, ir.IntType(4, false), "\x07\x00\x00\x00", "7", "7"},
		{
			types.Type{Kind: types.Tuple, Fields: []types.Field{{Type: int32Type}, {Type: types.Type{Kind: types.String, Size: 4}}}},
			pair, "\x05\x00\x00\x00ab\x00\x00", "(5, ab)", `[5,"ab"]`,
		},
		{
			types.Type{Kind: types.Record, Fields: []types.Field{{Name: "n", Type: int32Type}, {Name: "s", Type: types.Type{Kind: types.String, Size: 4}}}},
			pair, "\x05\x00\x00\x00ab\x00\x00", "{ .n = 5, .s = ab }", `{"n": 5, "s": "ab"}`,
		},
	} {
		v := output.Decode(c.typ, bpf.Value{Type: c.ir, Raw: c.raw}, nil)
		for inJSON, want := range map[bool]string{false: c.text + "\n", true: `{"type": "value", "data": ` + c.json + "}\n"} {
			var b bytes.Buffer
			if err := output.New(&b, &output.Options{JSON: inJSON}).Value(v); err != nil || b.String() != want {
				t.Errorf("%v %q: %q, %v; want %q", c.typ, c.raw, &b, err, want)
			}
		}
	}
}

// TestNamed: what numbers that stand for names print as.
func TestNamed(t *testing.T) {
	u64 := func(list ...uint64) (s string) {
		for _, n := range list {
			s += string(binary.LittleEndian.AppendUint64(nil, n))
		}
		return s
	}
	stack := func(k types.Kind, mode string) types.Type { return types.Type{Kind: k, Mode: mode, Limit: 3} }
	pcs := ir.BytesType(24).WithFormat(ir.FormatKstack)
	upcs := ir.TupleType(ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: ir.BytesType(24).WithFormat(ir.FormatUstack)})
	usym := ir.TupleType(ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: ir.IntType(4, false)}, ir.Field{Type: ir.IntType(4, false)})
	addr := ir.TupleType(ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: ir.BytesType(16)})
	buf := ir.TupleType(ir.Field{Type: ir.IntType(4, false)}, ir.Field{Type: ir.BytesType(4)})
	for _, c := range []struct {
		typ       types.Type
		ir        ir.Type
		raw, want string
	}{
		{types.Type{Kind: types.Ksym}, ir.Uint64Type(), u64(0x10), "outer"},
		{types.Type{Kind: types.Ksym}, ir.Uint64Type(), u64(0x99), "0x99"},
		{types.Type{Kind: types.Usym}, usym, u64(0x20, 5), "called"},
		{types.Type{Kind: types.Usym}, usym, u64(0x20, 6), "0x20"},
		{stack(types.Kstack, "bpftrace"), pcs, u64(0x20, 0x10, 0x99), "\n        called+4\n        [inlined] inner@/a.c:3\n        outer+6@/b.c:12\n        0x99\n"},
		{stack(types.Kstack, "perf"), pcs, u64(0x20, 0x10, 0), "\n\t20 called+4\n\t10 inner (inlined)\n\t10 outer+6\n"},
		{stack(types.Ustack, "perf"), upcs, u64(5, 0x20, 0x99, 0), "\n\t20 called+4 (/bin/x?)\n\t99 0x99 ([unknown])\n"},
		{stack(types.Ustack, "build_id"), upcs, u64(5, 0x20, 0x99, 0), "\n0a1b 0x09\n99\n"},
		{stack(types.Ustack, "raw"), upcs, u64(5, 0x20, 0x99, 0), "\n20\n99\n"},
		{types.Type{Kind: types.Inet}, addr, u64(2, 0x0100007f, 0), "127.0.0.1"},
		{types.Type{Kind: types.Inet}, addr, u64(10, 0, 1<<56), "::1"},
		{types.Type{Kind: types.Inet}, addr, u64(1, 0, 0), ""},
		{types.Type{Kind: types.MAC}, ir.BytesType(6), "\x00\xff\x10\x02\x03\xab", "00:FF:10:02:03:AB"},
		{types.Type{Kind: types.Username}, ir.Uint64Type(), u64(7), "seven"},
		{types.Type{Kind: types.CgroupPath}, ir.Uint64Type(), u64(7), "unified:/a"},
		{types.Type{Kind: types.Buffer, Size: 8}, buf, "\x03\x00\x00\x00a\x01b?", `a\x01b`},
		{types.Type{Kind: types.Buffer, Size: 8}, buf, "\xff\x00\x00\x00abcd", "abcd"},
	} {
		var b bytes.Buffer
		v := output.Decode(c.typ, bpf.Value{Type: c.ir, Raw: c.raw}, &output.Options{Names: names{}})
		if err := output.New(&b, nil).Value(v); err != nil || b.String() != c.want+"\n" {
			t.Errorf("%v %x: %q, %v; want %q", c.typ, c.raw, &b, err, c.want)
		}
	}
}

// TestMemory: C values, by their types.
func TestMemory(t *testing.T) {
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	short := &btf.Int{Name: "short", Size: 2, Encoding: btf.Signed}
	in := &btf.Struct{Name: "in", Size: 4, Members: []btf.Member{{Name: "s", Type: &btf.Array{Type: short, Nelems: 2}}}}
	s := &btf.Struct{Name: "s", Size: 24, Members: []btf.Member{
		{Name: "name", Type: &btf.Array{Type: char, Nelems: 4}},
		{Name: "in", Type: in, Offset: 32},
		{Name: "p", Type: &btf.Pointer{Target: in}, Offset: 64},
		{Name: "low", Type: &btf.Int{Name: "unsigned int", Size: 4}, Offset: 128, BitfieldSize: 3},
		{Name: "high", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Offset: 131, BitfieldSize: 5},
		{Name: "state", Type: &btf.Enum{Name: "state", Size: 1, Values: []btf.EnumValue{{Name: "RUN", Value: 2}}}, Offset: 136},
		{Name: "share", Type: &btf.Float{Name: "float", Size: 4}, Offset: 160},
	}}
	raw := "ab\x00\x00\xff\xff\x02\x00\x10\x20\x00\x00\x00\x00\x00\x00\xfd\x02\x00\x00\x05\x00\x00\x00"
	of := ir.BytesType(24)
	of.Elem = s
	const want = "{ .name = ab, .in = { .s = [-1,2] }, .p = 0x2010, .low = 5, .high = -1, .state = RUN, .share = null }\n"
	for n := range len(raw) + 1 {
		var b bytes.Buffer
		v := output.Decode(types.Type{Kind: types.C, BTF: s}, bpf.Value{Type: of, Raw: raw[:n]}, nil)
		if err := output.New(&b, nil).Value(v); err != nil || n == len(raw) && b.String() != want {
			t.Errorf("%d bytes: %q, %v; want %q", n, &b, err, want)
		}
	}
}

// TestMaps: the order and the layout of maps, as text and as JSON.
func TestMaps(t *testing.T) {
	h, err := hist.NewLog2(0)
	if err != nil {
		t.Fatal(err)
	}
	h.Add(5)
	tuple := func(parts ...any) any { return output.Tuple(parts) }
	for _, c := range []struct {
		entries    []output.Entry
		o          output.MapOptions
		text, json string
	}{
		{nil, output.MapOptions{}, "", ""},
		{
			[]output.Entry{{Key: "b", Value: uint64(9)}, {Key: "a", Value: uint64(200)}, {Key: "c", Value: uint64(30)}},
			output.MapOptions{Top: 2, Div: 10},
			"@[c]: 3\n@[a]: 20\n", `{"type": "map", "data": {"@": {"c": 3, "a": 20}}}` + "\n",
		},
		{
			[]output.Entry{{Key: tuple(int64(2), "x y"), Value: "two"}, {Key: tuple(int64(-1), "z"), Value: "one"}},
			output.MapOptions{},
			"@[-1, z]: one\n@[2, x y]: two\n",
			`{"type": "map", "data": {"@": {"-1,z": "one", "2,x y": "two"}}}` + "\n",
		},
		{[]output.Entry{{Value: int64(7)}}, output.MapOptions{Scalar: true}, "@: 7\n", `{"type": "map", "data": {"@": 7}}` + "\n"},
		{
			[]output.Entry{{Key: int64(1), Value: mapx.Totals{Total: 30, Count: 4}}},
			output.MapOptions{},
			"@[1]: { .count = 4, .average = 7, .total = 30 }\n",
			`{"type": "stats", "data": {"@": {"1": {"count": 4, "average": 7, "total": 30}}}}` + "\n",
		},
		{
			[]output.Entry{{Value: h}},
			output.MapOptions{Scalar: true},
			"@:\n[4, 8)                 1 |" + strings.Repeat("@", 52) + "|\n\n",
			`{"type": "hist", "data": {"@": [{"min": 4, "max": 7, "count": 1}]}}` + "\n",
		},
	} {
		for inJSON, want := range map[bool]string{false: c.text, true: c.json} {
			var b bytes.Buffer
			p := output.New(&b, &output.Options{JSON: inJSON})
			if err := p.Map("@", c.entries, &c.o); err != nil || b.String() != want {
				t.Errorf("%+v:\n%s%v; want\n%s", c.entries, &b, err, want)
			}
		}
	}
}

// TestLines: the other lines.
func TestLines(t *testing.T) {
	for inJSON, want := range map[bool]string{
		false: "n is 5\n12:00\n\n\n",
		true: `{"type": "printf", "data": "n is 5\n"}` + "\n" + `{"type": "time", "data": "12:00\n"}` + "\n" +
			`{"type": "attached_probes", "count": 1, "data": {"probes": 1}}` + "\n" +
			`{"type": "warnf", "msg": "no", "filename": "a.bt", "line": 2, "col": 3}` + "\n" +
			`{"type": "lost_events", "count": 3, "data": {"events": 3}}` + "\n",
	} {
		var b bytes.Buffer
		p := output.New(&b, &output.Options{JSON: inJSON})
		if err := p.Printf("n is %d\n", []any{int64(5)}); err != nil {
			t.Error(err)
		}
		if err := p.Time("12:00\n"); err != nil {
			t.Error(err)
		}
		attached, err := p.Attached(1)
		if err != nil || (attached == "Attached 1 probe\n") == inJSON {
			t.Errorf("%q, %v", attached, err)
		}
		printed, err := p.Message("warnf", "no", "a.bt", 2, 3)
		if err != nil || printed != inJSON {
			t.Errorf("%t, %v", printed, err)
		}
		if err := p.End(); err != nil {
			t.Error(err)
		}
		lost, err := p.Lost(3)
		if err != nil || (lost == "Lost 3 events\n") == inJSON {
			t.Errorf("%q, %v", lost, err)
		}
		if b.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", &b, want)
		}
	}
}

// TestStrftime: as date(1) formats times, but for bpftrace's own conversions.
func TestStrftime(t *testing.T) {
	testenv.Need(t, testenv.Tool("date"))
	const format = "%a %A %b %B %c %C %d %D %e %F %g %G %h %H %I %j %m %M %n %p %P %r %R %s %S %t %T %u %U %V %w %W %x %X %y %Y %z %Z %% %Ey %Od"
	for _, text := range []string{"2026-11-28T21:05:09Z", "2024-12-30T00:00:00Z", "2021-01-03T12:30:00Z", "2000-02-29T23:59:59Z"} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		cmd := testenv.Command(t, "date", "-u", "-d", text, "+"+format)
		cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := output.Strftime(format, at) + "\n"; got != string(out) {
			t.Errorf("%s:\n%q, want\n%q", text, got, out)
		}
	}
	at := time.Date(2026, 11, 28, 21, 5, 9, 12_345_678, time.UTC)
	if got := output.Strftime("%k %f %l %q %", at); got != "012345678 012345 012 %q %" {
		t.Errorf("%q", got)
	}
}

func FuzzStrftime(f *testing.F) {
	f.Add("%Y-%m-%d %H:%M:%S", int64(0))
	f.Add("%E%O%%", int64(-1))
	f.Fuzz(func(t *testing.T, format string, at int64) {
		got := output.Strftime(format, time.Unix(at, 0).UTC())
		if !strings.Contains(format, "%") && got != format {
			t.Errorf("%q of no conversion is %q", format, got)
		}
		if len(got) > 32*len(format)+32 {
			t.Errorf("%d bytes of %d", len(got), len(format))
		}
	})
}

// TestProcess: the number of a process, and since when it ran its program, though that repeats.
func TestProcess(t *testing.T) {
	const turn = 1 << 51 // ns
	at := func(ns uint64) output.Process { return output.Process((ns>>10+1)<<23 | 1234) }
	for _, c := range []struct {
		p          output.Process
		now, since uint64
		pid        int
	}{
		{1234, 5000, 0, 1234},
		{at(4096), 10_000, 5 << 10, 1234},
		{at(4096), 4096, 5 << 10, 1234}, // it was a moment ago
		{at(4096), 3*turn + 10_000, 3*turn + 5<<10, 1234},
		{at(3*turn - 2048), 3*turn + 10_000, 3*turn - 1024, 1234},
		{at(4096) | 1<<22, 10_000, 5 << 10, 1<<31 + 1234},
	} {
		if c.p.PID() != c.pid || c.p.Since(c.now) != c.since {
			t.Errorf("%#x at %d: process %d since %d, want %d since %d", uint64(c.p), c.now, c.p.PID(), c.p.Since(c.now), c.pid, c.since)
		}
	}
}
