package probe

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/pmc"
)

// mustEvent is an event by the name that perf has for it.
func mustEvent(name string) pmc.Event {
	e, err := pmc.ParseEvent(name, nil)
	if err != nil {
		panic(err)
	}
	return e
}

// parseCases are texts in their canonical spelling, which String gives back.
var parseCases = []struct {
	text string
	want Target
}{
	{"kprobe:vfs_read", Kprobe{Symbol: "vfs_read"}},
	{"kprobe:vfs_read+4", Kprobe{Symbol: "vfs_read", Offset: 4}},
	{"kprobe:ext4:ext4_sync_fs", Kprobe{Module: "ext4", Symbol: "ext4_sync_fs"}},
	{"kprobe:0xffffffff81234567", Kprobe{Address: 0xffffffff81234567}},
	{"kprobe:tcp_*", Kprobe{Symbol: "tcp_*"}},
	{"kprobe:foo.isra.0", Kprobe{Symbol: "foo.isra.0"}},
	{"kretprobe:vfs_read", Kretprobe{Symbol: "vfs_read"}},
	{"kretprobe:vfs_read maxactive=64", Kretprobe{Symbol: "vfs_read", MaxActive: 64}},
	{"fentry:vfs_read", Fentry{Symbol: "vfs_read"}},
	{"fentry:ext4:ext4_sync_fs", Fentry{Module: "ext4", Symbol: "ext4_sync_fs"}},
	{"fentry:bpf:123:name", Fentry{Symbol: "name", BPF: 123}},
	{"fexit:bpf:7:f", Fexit{Symbol: "f", BPF: 7}},
	{"fmod_ret:security_file_open", FmodRet{Symbol: "security_file_open"}},
	{"lsm:file_open", LSM{Hook: "file_open"}},
	{"tracepoint:sched:sched_switch", Tracepoint{Group: "sched", Name: "sched_switch"}},
	{"tracepoint:syscalls:sys_enter_* sleepable", Tracepoint{Group: "syscalls", Name: "sys_enter_*", Sleepable: true}},
	{"rawtracepoint:sched_switch", RawTracepoint{Name: "sched_switch"}},
	{"rawtracepoint:xfs:xfs_iomap_found", RawTracepoint{Module: "xfs", Name: "xfs_iomap_found"}},
	{"uprobe:/bin/bash:readline", Uprobe{Path: "/bin/bash", Symbol: "readline"}},
	{"uprobe:libc:malloc", Uprobe{Path: "libc", Symbol: "malloc"}},
	{"uprobe:libc:fopen@GLIBC_2.2.5", Uprobe{Path: "libc", Symbol: "fopen@GLIBC_2.2.5"}},
	{"uprobe:/bin/x:0x1234", Uprobe{Path: "/bin/x", Address: 0x1234}},
	{"uprobe:/bin/x:main+4", Uprobe{Path: "/bin/x", Symbol: "main", Offset: 4}},
	{"uprobe:/bin/x:cpp:ns::f(int)", Uprobe{Path: "/bin/x", Lang: "cpp", Symbol: "ns::f(int)"}},
	{`uprobe:/bin/x:cpp:"ns::f(int, char*)"`, Uprobe{Path: "/bin/x", Lang: "cpp", Symbol: "ns::f(int, char*)"}},
	{`uprobe:/bin/x:cpp:"ns::operator+(ns::T)"+8`, Uprobe{Path: "/bin/x", Lang: "cpp", Symbol: "ns::operator+(ns::T)", Offset: 8}},
	{"uprobe:/bin/x:main.c:42", Uprobe{Path: "/bin/x", File: "main.c", Line: 42}},
	{"uprobe:/bin/x:main.c:42:7", Uprobe{Path: "/bin/x", File: "main.c", Line: 42, Column: 7}},
	{`uprobe:/bin/x:"cpp":42:7 pid=3`, Uprobe{Path: "/bin/x", File: "cpp", Line: 42, Column: 7, PID: 3}},
	{`uprobe:/bin/x:"cpp":42`, Uprobe{Path: "/bin/x", File: "cpp", Line: 42}},
	{"uprobe:/bin/x:main.(*T).Do", Uprobe{Path: "/bin/x", Symbol: "main.(*T).Do"}},
	{"uprobe::main pid=12", Uprobe{Symbol: "main", PID: 12}},
	{`uprobe:"/tmp/a:b c":main`, Uprobe{Path: "/tmp/a:b c", Symbol: "main"}},
	{`uprobe:"/tmp/\xff":"0x12"`, Uprobe{Path: "/tmp/\xff", Symbol: "0x12"}},
	{"uretprobe:/bin/bash:readline pid=7", Uretprobe{Path: "/bin/bash", Symbol: "readline", PID: 7}},
	{"uretprobe:/bin/x:rust:core::f", Uretprobe{Path: "/bin/x", Lang: "rust", Symbol: "core::f"}},
	{"usdt:/usr/bin/postgres:postgresql:query__start", USDT{Path: "/usr/bin/postgres", Provider: "postgresql", Name: "query__start"}},
	{"usdt:/path:name", USDT{Path: "/path", Name: "name"}},
	{"usdt::p:n pid=3", USDT{Provider: "p", Name: "n", PID: 3}},
	{"profile:hz:99", Perf{Freq: 99}},
	{"profile:us:100", Perf{Event: pmc.CPUClock(), Period: 100000}},
	{"profile:hz:99 cpus=0,2-3", Perf{Freq: 99, CPUs: []int{0, 2, 3}}},
	{"profile:hz:99 cgroup=/system.slice pid=4", Perf{Freq: 99, Cgroup: "/system.slice", PID: 4}},
	{"interval:s:1", Perf{Every: time.Second}},
	{"interval:ms:1500", Perf{Every: 1500 * time.Millisecond}},
	{"interval:ns:1", Perf{Every: 1}},
	{"software:page-faults:100", Perf{Event: pmc.PageFaults(), Period: 100}},
	{"hardware:cache-misses:10000", Perf{Event: pmc.CacheMisses(), Period: 10000}},
	{"perf:cache-misses:hz:99", Perf{Event: pmc.CacheMisses(), Freq: 99}},
	{"perf:cpu-clock:hz:99", Perf{Event: pmc.CPUClock(), Freq: 99}},
	{"perf:LLC-load-misses:period:50", Perf{Event: mustEvent("LLC-load-misses"), Period: 50}},
	{"watchpoint:0x10000:8:rw", Watchpoint{Address: 0x10000, Length: 8, Mode: "rw"}},
	{"watchpoint:jiffies:8:w pid=2", Watchpoint{Symbol: "jiffies", Length: 8, Mode: "w", PID: 2}},
	{"iter:task", Iter{Name: "task"}},
	{"iter:task_file pid=1", Iter{Name: "task_file", PID: 1}},
	{"socket:lo", SocketFilter{Interface: "lo"}},
	{"begin", Begin{}},
	{"end", End{}},
	{"kprobe:a,kprobe:b", Set{Kprobe{Symbol: "a"}, Kprobe{Symbol: "b"}}},
	{"begin,kprobe:b,end", Set{Begin{}, Kprobe{Symbol: "b"}, End{}}},
	{"uprobe:/bin/x:cpp:f(int),kprobe:b", Set{Uprobe{Path: "/bin/x", Lang: "cpp", Symbol: "f(int)"}, Kprobe{Symbol: "b"}}},
}

func TestParseTarget(t *testing.T) {
	for _, c := range parseCases {
		got, err := ParseTarget(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.text, got, c.want)
		}
		if s := c.want.String(); s != c.text {
			t.Errorf("%s: prints as %s", c.text, s)
		}
	}
}

// TestParseAliases: bpftrace's other spellings.
func TestParseAliases(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"k:vfs_read", "kprobe:vfs_read"},
		{"kr:vfs_read", "kretprobe:vfs_read"},
		{"kfunc:vfs_read", "fentry:vfs_read"},
		{"kretfunc:vfs_read", "fexit:vfs_read"},
		{"t:sched:sched_switch", "tracepoint:sched:sched_switch"},
		{"rt:sched_switch", "rawtracepoint:sched_switch"},
		{"u:/bin/x:f", "uprobe:/bin/x:f"},
		{"ur:/bin/x:f", "uretprobe:/bin/x:f"},
		{"U:/bin/x:p:n", "usdt:/bin/x:p:n"},
		{"profile:99", "profile:hz:99"},
		{"p:ms:10", "profile:ms:10"},
		{"interval:2", "interval:s:2"},
		{"i:hz:10", "interval:ms:100"},
		{"software:faults:100", "software:page-faults:100"},
		{"s:cpu-clock:1000000", "profile:ms:1"},
		{"software:page-faults", "software:page-faults:100"},
		{"hardware:cache-misses:", "hardware:cache-misses:1000000"},
		{"perf:cycles:u:hz:99", `perf:"cycles:u":hz:99`},
		{"BEGIN", "begin"},
		{"END", "end"},
		{"  kprobe:a ,\n kprobe:b+0x10 ", "kprobe:a,kprobe:b+16"},
		{"uprobe:/bin/x:cpp:f(int, char)", `uprobe:/bin/x:cpp:"f(int, char)"`},
		{`uprobe:/bin/x:cpp:"f:"`, `uprobe:/bin/x:cpp:"f:"`},
		{"uprobe:/bin/x:4660", "uprobe:/bin/x:0x1234"},
	} {
		got, err := ParseTarget(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if got.String() != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		want   string
	}{
		{"", 0, "empty target: want KIND:…, such as kprobe:vfs_read"},
		{"software:page-fault:1", 9, `no event is called "page-fault"; did you mean "page-faults"?`},
		{"kprbe:vfs_read", 0, `unknown kind "kprbe"; did you mean "kprobe"?`},
		{"vfs_read", 0, `unknown kind "vfs_read": want KIND:…, such as kprobe:vfs_read; kinds are ` + strings.Join(kindNames(), ", ")},
		{"kprobe", 6, "something is missing: want kprobe:[MODULE:]FUNCTION[+OFFSET] or kprobe:0xADDRESS"},
		{"kprobe:", 7, "empty part: want kprobe:[MODULE:]FUNCTION[+OFFSET] or kprobe:0xADDRESS"},
		{"kprobe:vfs_read+x", 16, `bad offset "x": want a decimal number or one that begins with 0x`},
		{"kprobe:0xzz", 7, `bad number "0xzz": want a decimal number or one that begins with 0x`},
		{"kprobe:ext4:0xffff", 12, "a raw address takes no module: want kprobe:0xADDRESS"},
		{"kprobe:a:b:c", 10, "too many parts: want kprobe:[MODULE:]FUNCTION[+OFFSET] or kprobe:0xADDRESS; a part with a colon is written in quotes"},
		{"kretprobe:vfs_read+4", 18, "kretprobe takes no offset: it is at the function's entry or return; only kprobe and uprobe do"},
		{"fentry:bpf:0:f", 11, "BPF program ids begin at 1"},
		{"tracepoint:sched_switch", 23, "something is missing: want tracepoint:GROUP:NAME"},
		{"profile:hz:0", 11, "must be more than 0"},
		{"profile:min:5", 8, `unknown unit "min": want hz, s, ms, us or ns`},
		{"software:cycles:5", 9, "cycles is not a software event; perf:EVENT:period:N takes any"},
		{"perf:cycles:99", 14, "something is missing: want perf:EVENT:period:N or perf:EVENT:hz:N"},
		{"watchpoint:0x1000:3:w", 18, "a watchpoint is 1, 2, 4 or 8 bytes long"},
		{"watchpoint:0x1000:8:q", 20, `bad mode "q": want any of r, w, x, each once`},
		{"uprobe:/bin/x", 13, "something is missing: want " + uprobeForms},
		{"uprobe:/bin/x:f:g", 16, `"g" is not a line number, and "f" not a language (cpp, rust, go): want ` + uprobeForms},
		{`uprobe:"/bin/x:f`, 7, "the quote that opens here is not closed or holds a bad escape"},
		{"uretprobe:/bin/x:0x10", 17, "a return probe needs a function's name, not an address"},
		{"kprobe:a pid=5", 9, "pid does not go with kprobe"},
		{"uprobe:/b:f pid=x", 12, `bad pid "x": want a process id`},
		{"uprobe:/b:f pid=5 pid=6", 18, "pid is given twice"},
		{"kprobe:a,kprobe:", 16, "empty part: want kprobe:[MODULE:]FUNCTION[+OFFSET] or kprobe:0xADDRESS"},
		{"begin:x", 5, "begin takes nothing after it"},
	} {
		_, err := ParseTarget(c.text)
		var se *SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("%q: got %v, want a syntax error", c.text, err)
			continue
		}
		if se.Msg != c.want || se.Offset != c.offset {
			t.Errorf("%q: got %d %q, want %d %q", c.text, se.Offset, se.Msg, c.offset, c.want)
		}
	}
}

// FuzzParseTarget: what parses prints as something that parses to an equal
// target, and errors lie within the text.
func FuzzParseTarget(f *testing.F) {
	for _, c := range parseCases {
		f.Add(c.text)
	}
	f.Add("U:/x:y,k:z+0x1 pid=1")
	f.Add(`u::cpp:":"`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTarget(text)
		if err != nil {
			var se *SyntaxError
			if !errors.As(err, &se) || se.Offset < 0 || se.Offset > len(text) || se.Input != text {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		s := got.String()
		again, err := ParseTarget(s)
		if err != nil {
			t.Fatalf("%q prints as %q: %v", text, s, err)
		}
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("%q prints as %q: %#v, want %#v", text, s, again, got)
		}
	})
}

func isUnsupportedErr(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

func mustParse(t testing.TB, s string) Target {
	t.Helper()
	target, err := ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}
