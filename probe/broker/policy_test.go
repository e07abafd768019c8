package broker

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
)

func TestPolicyValidate(t *testing.T) {
	ok := Rule{Anyone: true, Offers: []string{"*"}, Targets: []Allow{{Kind: "*"}}}
	for want, change := range map[string]func(*Rule){
		"":                       func(*Rule) {},
		"for nobody":             func(r *Rule) { r.Anyone = false },
		"anyone, and uids":       func(r *Rule) { r.UIDs = []uint32{1} },
		"no offer":               func(r *Rule) { r.Offers = nil },
		"no target":              func(r *Rule) { r.Targets = nil },
		"limit is negative":      func(r *Rule) { r.MaxMapBytes = -1 },
		"rate can't be enforced": func(r *Rule) { r.HandOver, r.EventsPerSecond = true, 1 },
		"takes all_processes":    func(r *Rule) { r.HandOver = true },
		"it is included":         func(r *Rule) { r.Kernel, r.AllProcesses = true, true },
		"there are *, begin":     func(r *Rule) { r.Targets = []Allow{{Kind: "u*"}} },
		"function is missing":    func(r *Rule) { r.Targets = []Allow{{Kind: "uprobe", File: "*"}} },
		"have no group":          func(r *Rule) { r.Targets = []Allow{{Kind: "uprobe", Function: "*", Group: "x"}} },
		"have no offsets":        func(r *Rule) { r.Targets = []Allow{{Kind: "uretprobe", Function: "*", Also: []string{"offsets"}}} },
		"also has no":            func(r *Rule) { r.Targets = []Allow{{Kind: "uprobe", Function: "*", Also: []string{"offset"}}} },
		"name no function":       func(r *Rule) { r.Targets = []Allow{{Kind: "uprobe", Function: "f*", Also: []string{"lines"}}} },
		"nosuch":                 func(r *Rule) { r.Targets = []Allow{{Kind: "sample", Event: "nosuch"}} },
	} {
		r := ok
		change(&r)
		_, err := NewServer(Policy{Rules: []Rule{ok, r}}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "rule 1: ") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := NewServer(Policy{}, map[string]Offer{"x": {}}); err == nil || !strings.Contains(err.Error(), "offer x") {
		t.Errorf("an offer of nothing: %v", err)
	}
	lax := Offer{Compile: func(*probe.Plan, Limits) (*ebpf.CollectionSpec, error) { return nil, nil }, Resolve: &probe.Options{Missing: probe.MissingWarn}}
	if _, err := NewServer(Policy{}, map[string]Offer{"x": lax}); err == nil {
		t.Error("an offer that leaves out what is missing")
	}
	lax.Resolve = &probe.Options{Unsafe: true}
	if _, err := NewServer(Policy{}, map[string]Offer{"x": lax}); err == nil {
		t.Error("an offer that puts breakpoints anywhere")
	}
}

// TestPolicyJSON: a policy is plain data.
func TestPolicyJSON(t *testing.T) {
	want := Policy{Rules: []Rule{{
		UIDs: []uint32{1000}, Offers: []string{"malloc"}, Targets: []Allow{{Kind: "uprobe", File: "libc", Function: "malloc"}}, MaxSites: 3,
		EventsPerSecond: 100, MaxMapBytes: 1 << 20, MaxAttachments: 2,
	}}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Policy
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPolicyOld: a policy of texts, whose targets could be spelled so that they matched what
// nobody meant, is refused with what to write instead.
func TestPolicyOld(t *testing.T) {
	for old, want := range map[string]string{
		"uprobe:/usr/bin/*:*":       `write {"kind":"uprobe","file":"/usr/bin/*","function":"*"} instead`,
		"uprobe::*":                 `write {"kind":"uprobe","function":"*"} instead`,
		"uprobe:/a:f+4":             `{"kind":"uprobe","file":"/a","function":"f","also":["offsets"]}`,
		"uprobe:/a:a.c:4":           `{"kind":"uprobe","file":"/a","function":"*","also":["lines"]}`,
		"usdt:/a:n":                 `{"kind":"usdt","file":"/a","provider":"*","name":"n"}`,
		"profile:hz:99":             `{"kind":"sample","event":"clock"}`,
		"software:page-faults:1":    `{"kind":"sample","event":"page-faults"}`,
		"kprobe:vfs_*,begin":        `{"kind":"kprobe","function":"vfs_*"}, {"kind":"begin"}`,
		"tracepoint:sched:*":        `{"kind":"tracepoint","group":"sched","name":"*"}`,
		"watchpoint:0x1000:8:rw":    `{"kind":"watchpoint"}`,
		"*":                         `{"kind":"*"}`,
		"u*:*":                      "one object for each kind",
		"rawtracepoint:sched_*":     `{"kind":"rawtracepoint","name":"sched_*"}`,
		"fentry:vfs_read":           `{"kind":"fentry","function":"vfs_read"}`,
		"uretprobe:/a:cpp:ns::f":    `{"kind":"uretprobe","file":"/a","function":"ns::f","also":["languages"]}`,
		"kprobe:0xffffffff81000000": `write {"kind":"*"}, which allows everything (it is an address) instead`,
	} {
		b, _ := json.Marshal(map[string]any{"rules": []any{map[string]any{"targets": []string{old}}}})
		var p Policy
		err := json.Unmarshal(b, &p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", old, err, want)
			continue
		}
		if _, text, ok := strings.Cut(err.Error(), "write {"); ok && !strings.Contains(text, "everything") { // and it can be read
			b := `{"rules":[{"anyone":true,"offers":["*"],"targets":[{` + strings.TrimSuffix(text, " instead") + `]}]}`
			if err := json.Unmarshal([]byte(b), &p); err != nil {
				t.Errorf("%s: %v", b, err)
			} else if err := p.Validate(); err != nil {
				t.Errorf("%s: %v", b, err)
			}
		}
	}
	if err := json.Unmarshal([]byte(`{"kind":"uprobe","functions":"*"}`), &Allow{}); err == nil {
		t.Error("a field that there is not")
	}
}

func TestPolicyRule(t *testing.T) {
	p := Policy{Rules: []Rule{
		{UIDs: []uint32{1000}, Offers: []string{"a"}, Targets: []Allow{{Kind: "*"}}},
		{GIDs: []uint32{50}, Offers: []string{"b*"}, Targets: []Allow{{Kind: "*"}}},
		{Anyone: true, Offers: []string{"c"}, Targets: []Allow{{Kind: "*"}}},
	}}
	for _, c := range []struct {
		peer  Peer
		offer string
		want  int
	}{
		{Peer{UID: 1000, GID: 1000}, "a", 0},
		{Peer{UID: 1000, GID: 50}, "bcd", 1},
		{Peer{UID: 7, GID: 50}, "a", -1},
		{Peer{UID: 7, GID: 7}, "c", 2},
		{Peer{UID: 0, GID: 0}, "a", -1}, // root is a user like others
	} {
		i, _, err := p.rule(c.peer, c.offer)
		if (err == nil) != (c.want >= 0) || err == nil && i != c.want || err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%+v %s: rule %d, %v", c.peer, c.offer, i, err)
		}
	}
	if _, _, err := (&Policy{Rules: p.Rules[:1]}).rule(Peer{UID: 1}, "a"); err == nil || !strings.Contains(err.Error(), "no rule is for user 1") {
		t.Errorf("%v", err)
	}
}

// TestPolicyTargets: what a rule lets pass and what it does not.
func TestPolicyTargets(t *testing.T) {
	own := Rule{Targets: []Allow{
		{Kind: "uprobe", File: "/usr/*", Function: "*"},
		{Kind: "uprobe", Function: "*"},
		{Kind: "uprobe", File: "libc", Function: "malloc"},
		{Kind: "sample", Event: "clock"},
		{Kind: "usdt", File: "/usr/bin/a", Provider: "p", Name: "n"},
	}}
	every := Rule{Targets: []Allow{{Kind: "*"}}}
	kernels := Rule{Targets: []Allow{{Kind: "sample", Event: "software"}}, Kernel: true}
	all := Rule{Targets: []Allow{{Kind: "kprobe", Function: "vfs_*"}, {Kind: "tracepoint", Group: "syscalls", Name: "sys_enter_?"}, {Kind: "begin"}}, AllProcesses: true}
	public := Rule{Targets: []Allow{{Kind: "uprobe", File: "/app", Function: "foo*"}, {Kind: "uprobe", File: "/go", Function: "g*"}}, AllProcesses: true}
	wide := Rule{Targets: []Allow{{Kind: "uprobe", File: "/app", Function: "*", Also: []string{"offsets", "lines", "languages"}}}, AllProcesses: true}
	slow := Rule{Targets: []Allow{{Kind: "*"}}, EventsPerSecond: 100}
	for _, c := range []struct {
		rule *Rule
		text string
		self int
		want string
	}{
		{&own, "uprobe:/usr/bin/a:main", 5, ""},
		{&own, "uprobe:/usr/bin/a:main pid=7", 0, ""},
		{&own, "uprobe::main", 5, ""},
		{&own, "uprobe:libc:malloc", 5, ""},
		{&own, "usdt:/usr/bin/a:p:n", 5, ""},
		{&own, "profile:hz:99", 5, ""},
		{&own, "uprobe:/usr/bin/a:main", 0, "fires in every process"},
		{&own, "uprobe:libc:free", 5, "not among the targets allowed"},
		{&own, "uprobe:/bin/a:main", 5, "not among the targets allowed"},
		{&own, "uprobe:/usr/../etc/a:main", 5, "without . or .."},
		{&own, "uprobe:/usr/bin/a:main,kprobe:vfs_read", 5, "can't be restricted to one process"},
		{&every, "software:page-faults:100", 5, ""},
		{&every, "perf:cpu-clock:hz:99", 5, ""},
		{&every, "perf:r1a8:period:1000000", 5, ""},
		{&every, "perf:mem:0xffffffff81000000/8:rw:period:1", 5, "does not sample"},
		{&every, "perf:mem:0x10000:w:period:1", 5, "does not sample"},
		{&every, "perf:9:0x0:period:1", 5, "does not sample"},
		{&own, "software:cpu-clock:1000000", 5, "not among the targets allowed"},
		{&own, "profile:hz:99 cgroup=/a", 5, "not among the targets allowed"},
		{&own, "kprobe:vfs_read", 0, "not among the targets allowed"},
		{&own, "what:ever", 5, "what"},
		{&all, "kprobe:vfs_read", 0, ""},
		{&all, "kprobe:vfs_*", 0, ""},
		{&all, "begin,kprobe:vfs_read", 0, ""},
		{&all, "kprobe:*", 0, "not among the targets allowed"},
		{&all, "kprobe:vfs_read", 5, "can't be restricted"},
		{&all, "kretprobe:vfs_read", 0, "not among the targets allowed"},
		{&all, "kprobe:vfs_read+4", 0, "does not allow offsets"},
		{&all, "kprobe:0xffffffff81000000", 0, "not among the targets allowed"},
		// A text of each of these matched foo* or g* of a file, with what follows the colon.
		{&public, "uprobe:/app:foo_public", 0, ""},
		{&public, "uprobe:/app:foo.c:4", 0, "not among the targets allowed"},
		{&public, "uprobe:/app:foo.c:4:2", 0, "not among the targets allowed"},
		{&public, "uprobe:/app:foo_public+4", 0, "does not allow offsets"},
		{&public, "uprobe:/go:go:any", 0, "does not allow languages"},
		{&public, "uprobe:/app:cpp:foo::secret", 0, "does not allow languages"},
		{&public, `uprobe:"/app:foo":secret`, 0, "not among the targets allowed"},
		{&wide, "uprobe:/app:foo.c:4", 0, ""},
		{&wide, "uprobe:/app:foo+4", 0, ""},
		{&wide, "uprobe:/app:0x1000", 0, "it is an address"},
		{&Rule{Targets: []Allow{{Kind: "*"}}, AllProcesses: true}, "uprobe:/app:0x1000", 0, ""},
		{&wide, "uprobe:/app:cpp:foo::secret", 0, ""},
		{&wide, "uretprobe:/app:foo", 0, "not among the targets allowed"},
		// What happens in the kernel, of one's own.
		{&every, "software:context-switches:100", 5, "happens in the kernel"},
		{&kernels, "software:context-switches:100", 5, ""},
		// What comes too often.
		{&slow, "software:cpu-clock:10001", 5, "comes 99990 times a second, of 100"},
		{&slow, "perf:task-clock:hz:101", 5, "comes 101 times a second"},
		{&slow, "hardware:instructions:1000000", 5, "comes 1000 times a second"},
		{&slow, "profile:us:10000", 5, ""},
		{&slow, "profile:hz:99", 5, ""},
		{&slow, "profile:hz:51,profile:hz:50", 5, "of 100 that are allowed 49 are left"},
		{&slow, "software:page-faults:1", 5, ""},
	} {
		targets, err := c.rule.targets([]string{c.text}, c.self)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		case c.want == "" && c.self != 0 && pidOf(targets[0]) != c.self:
			t.Errorf("%s: not restricted to the own process: %v", c.text, targets)
		}
	}
}

func TestMapBytes(t *testing.T) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		testenv.Need(t, testenv.Got("possible CPUs", err))
	}
	spec := &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{
		"ring":   {Type: ebpf.RingBuf, MaxEntries: 4096},
		"array":  {Type: ebpf.Array, KeySize: 4, ValueSize: 5, MaxEntries: 10},
		"hash":   {Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 10},
		"percpu": {Type: ebpf.PerCPUHash, KeySize: 8, ValueSize: 8, MaxEntries: 2},
	}}
	got, err := mapBytes(spec)
	const head = 512
	want := int64(4096 + 16 + 3*4096 + head + // data, two addresses of a page, and who is where
		80 + head +
		16*16 + (10+cpus)*(48+8+8) + head + // buckets, and an entry to spare for each CPU
		2*16 + 2*(48+8+8+8*cpus) + head)
	if err != nil || got != want {
		t.Errorf("%d, %v, want %d", got, err, want)
	}
	spec.Maps["odd"] = &ebpf.MapSpec{Type: ebpf.XSKMap, MaxEntries: 1}
	if _, err := mapBytes(spec); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a map of a type that is not known: %v", err)
	}
}
