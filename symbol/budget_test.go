package symbol

import (
	"container/list"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elffile"
)

// opens is a tree that counts how often what is opened, by what follows /proc/PID/.
type opens struct {
	fs.FS
	n map[string]int
}

func (o *opens) Open(name string) (fs.File, error) {
	kind := "file"
	if rest, ok := strings.CutPrefix(name, "proc/"); ok {
		_, kind, _ = strings.Cut(rest, "/")
	}
	f, err := o.FS.Open(name)
	if err == nil {
		o.n[kind]++
	}
	return f, err
}

// countedProcesses is testProcesses with a count of what is opened.
func countedProcesses(t *testing.T, tr tree, opts *Options) (*Processes, *time.Time, map[string]int) {
	t.Helper()
	ps, now := testProcesses(t, tr, opts)
	o := &opens{ps.root, make(map[string]int)}
	ps.root = o
	return ps, now, o.n
}

// manyFiles adds a process that maps files of its own, and returns an address in each.
func (tr tree) manyFiles(pid, n int, data []byte) (pcs []uint64) {
	var lines []string
	for i := range n {
		base := 0x7e0000000000 + uint64(i)<<16
		path := fmt.Sprintf("/lib/%d-%d.so", pid, i)
		lines = append(lines, fmt.Sprintf("%x-%x r-xp 00000000 08:01 %d %s", base, base+0x3000, pid<<20+i, path))
		tr.add(path[1:], data)
		pcs = append(pcs, base+0x1014)
	}
	tr.stat(pid, "many", uint64(pid))
	tr.maps(pid, lines...)
	return pcs
}

// checkAccounts compares all running totals and lists with what they stand for.
func checkAccounts(t *testing.T, ps *Processes) {
	t.Helper()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	refs := map[*image]int{}
	var procBytes, pooled int64
	procs := 0
	for _, l := range []*list.List{&ps.known, &ps.ended} {
		for e := l.Front(); e != nil; e = e.Next() {
			p := e.Value.(*Process)
			procs++
			if l == &ps.known && ps.byPID[p.pid] != p || l == &ps.ended && ps.gone[procKey{p.pid, p.start}] != p {
				t.Errorf("process %d is in the wrong list", p.pid)
			}
			size := listSize{200, 0}
			for _, maps := range append([]oldMaps{{maps: p.maps}}, p.old...) {
				size = size.plus(sizeOf(maps.maps))
				for i := range maps.maps {
					if img := maps.maps[i].img; img != nil {
						refs[img]++
					}
				}
			}
			if p.jit != nil {
				size = size.plus(listSize{p.jit.bytes(), p.jit.bytes()})
			}
			if size != p.size {
				t.Errorf("process %d: accounted %+v, has %+v", p.pid, p.size, size)
			}
			procBytes += size.bytes
			pooled += max(0, size.cost-smallProcess)
		}
	}
	if n := len(ps.byPID) + len(ps.gone); n != procs {
		t.Errorf("%d processes are listed of %d", procs, n)
	}
	elfs := map[*ELF]int{}
	var imageBytes, elfBytes, headers int64
	held, mapped := 0, 0
	for key, img := range ps.images {
		if img.key != key || img.refs != refs[img] || img.refs == 0 {
			t.Errorf("%s: %d references of %d", img.path, img.refs, refs[img])
		}
		imageBytes += img.size()
		if img.file != nil {
			held++
		}
		if (img.file != nil) != (img.held.all != nil) || (img.elf != nil) != (img.mapped.all != nil) {
			t.Errorf("%s is in the wrong lists", img.path)
		}
		if img.elf != nil {
			mapped++
			elfs[img.elf]++
		}
	}
	tables := 0
	for e, n := range elfs {
		if e.refs != n || (e.inTables != nil) != e.hasTables() {
			t.Errorf("%s: %d references of %d, listed %v", e.path, e.refs, n, e.inTables != nil)
		}
		if e.hasTables() {
			tables++
		}
		elfBytes += e.bytes()
		headers += elffile.Headers(e.f)
	}
	got := fmt.Sprint(len(refs), ps.held.Len(), ps.mapped.Len(), ps.tables.Len(), procBytes, ps.imageBytes, ps.elfBytes, ps.headers)
	want := fmt.Sprint(len(ps.images), held, mapped, tables, ps.procBytes, imageBytes, elfBytes, headers)
	if got != want {
		t.Errorf("images, held, mapped, tables, bytes of processes, images, ELFs, headers:\n got %s\nwant %s", got, want)
	}
	var taken int64
	for _, p := range ps.memory.Keys() {
		taken += max(0, p.size.cost-smallProcess)
	}
	if taken != pooled {
		t.Errorf("%d bytes are taken, by those that are kept %d", taken, pooled)
	}
}

// TestAccounts: the totals that are kept are those of what is there, whatever happens. They
// were added up over all files and all processes whenever there was more.
func TestAccounts(t *testing.T) {
	tr := newTree(t)
	for pid := 1; pid <= 8; pid++ {
		tr.stat(pid, "p", uint64(pid))
		tr.maps(pid, binMap, libMap, jitMap)
		tr.add(fmt.Sprintf("tmp/perf-%d.map", pid), []byte("7f1000000000 100 jitted\n"))
	}
	many := tr.manyFiles(9, 300, buildELF(t, testFile{syms: testSyms, buildID: []byte("same")}))
	ps, now := testProcesses(t, tr, &Options{Budget: 1 << 20, MaxFiles: 20, MaxProcesses: 6})
	for round := range 60 {
		*now = now.Add(time.Second)
		pid := 1 + round%9
		switch round % 7 {
		case 1:
			tr.maps(pid%8+1, binMap)
		case 2:
			tr.maps(pid%8+1, libMap, jitMap)
		case 3:
			tr.stat(pid%8+1, "again", uint64(100+round))
		case 4:
			ps.Handle(&Event{Kind: EventFork, PID: 100 + round, Parent: pid})
			ps.Handle(&Event{Kind: EventExec, PID: pid, Comm: "x"})
		case 5:
			ps.Handle(&Event{Kind: EventMmap, PID: pid, Addr: 0x7f0000001000, Len: 0x1000, Dev: 8<<32 | 1, Inode: uint64(50 + round), Path: "/bin/app"})
			ps.Handle(&Event{Kind: EventMmap, PID: 200 + round, Addr: 0x400000, Len: 0x1000, Path: "/bin/app"})
		case 6:
			ps.Handle(&Event{Kind: EventExit, PID: pid})
			ps.Handle(&Event{Kind: EventExec, PID: 200 + round - 1})
		}
		p, err := ps.Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		p.Resolve(nil, []uint64{0x401014, 0x7f0000001014, 0x7f1000000010})
		if pid == 9 {
			p.Resolve(nil, many)
		}
		checkAccounts(t, ps)
		if s := ps.Stats(); s.Open > 20 || s.Processes > 6 {
			t.Errorf("%+v", s)
		}
	}
	ps.Close()
	if n := ps.held.Len() + ps.mapped.Len() + ps.tables.Len(); n != 0 || ps.elfBytes != 0 || ps.headers != 0 {
		t.Errorf("after Close: %d listed, %d bytes of ELFs", n, ps.elfBytes)
	}
}

// TestFilesGo: files that no process maps any more are not kept. All that were ever mapped were.
func TestFilesGo(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "p", 1)
	ps, now := testProcesses(t, tr, nil)
	for i := range 100 {
		tr.maps(7, fmt.Sprintf("00400000-00403000 r-xp 00000000 08:01 %d /bin/app", 100+i))
		*now = now.Add(time.Minute)
		p, err := ps.Process(7)
		if err != nil {
			t.Fatal(err)
		}
		if got := frameNames(p.Resolve(nil, []uint64{0x401014})); got != "innermost" {
			t.Fatal(got)
		}
	}
	if s := ps.Stats(); s.Files != 1+maxOld || s.Open != 1+maxOld || s.Mapped != 1+maxOld {
		t.Errorf("%+v", s)
	}
	checkAccounts(t, ps)
}

// TestManyFiles: each of very many files is opened once, whatever else the process is asked, and
// one process gets no more opened than its part; others are named all the same. All files of a
// process were opened again for each look at its mappings, and nothing bounded them.
func TestManyFiles(t *testing.T) {
	const files = 6000
	file := buildELF(t, testFile{syms: testSyms})
	for _, chosen := range []bool{false, true} {
		tr := newTree(t)
		pcs := tr.manyFiles(9, files, file)
		tr.stat(7, "p", 1)
		tr.maps(7, binMap, libMap)
		ps, now, opened := countedProcesses(t, tr, &Options{MaxFiles: 100, Chosen: chosen})
		most := int(filesLimit.Base / 8)
		if chosen {
			most = files
		}
		p, err := ps.Process(9)
		if err != nil {
			t.Fatal(err)
		}
		count := map[Reason]int{}
		for _, f := range p.Resolve(nil, pcs) {
			count[f.Reason]++
		}
		if count[ReasonNone] != most || count[ReasonNone]+count[ReasonBudget] != files {
			t.Errorf("chosen %v: %v, want %d named", chosen, count, most)
		}
		for range 10 {
			*now = now.Add(time.Hour)
			if _, err := ps.Process(9); err != nil {
				t.Fatal(err)
			}
		}
		if n := opened["file"]; n != most {
			t.Errorf("chosen %v: %d files were opened, want %d", chosen, n, most)
		}
		p, err = ps.Process(7)
		if err != nil {
			t.Fatal(err)
		}
		if got := frameNames(p.Resolve(nil, []uint64{0x401014, 0x7f0000001014})); got != "innermost innermost" {
			t.Errorf("chosen %v: another process: %s", chosen, got)
		}
		checkAccounts(t, ps)
	}
}

// TestHonestGiants: a process of 1,500 files, and twenty of 300 others each, are within
// the budget.
func TestHonestGiants(t *testing.T) {
	file := buildELF(t, testFile{syms: testSyms})
	for _, c := range []struct{ procs, files int }{{1, 1500}, {20, 300}} {
		tr := tree{}
		ps, _ := testProcesses(t, tr, nil)
		for pid := 1; pid <= c.procs; pid++ {
			pcs := tr.manyFiles(pid, c.files, file)
			p, err := ps.Process(pid)
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range p.Resolve(nil, pcs) {
				if f.Name != "innermost" {
					t.Fatalf("process %d, file %d: %v", pid, i, f.Reason)
				}
			}
		}
	}
}

// TestOneTryABatch: a file that cannot be opened is tried once for all addresses in it, not for
// each.
func TestOneTryABatch(t *testing.T) {
	tr := newTree(t)
	delete(tr, "lib/libx.so")
	tr.stat(7, "p", 1)
	tr.maps(7, libMap)
	ps, _ := testProcesses(t, tr, nil)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	var pcs []uint64
	for i := range uint64(1000) {
		pcs = append(pcs, 0x7f0000001000+i)
	}
	for _, f := range p.Resolve(nil, pcs) {
		if f.Reason != ReasonNoFile {
			t.Fatal(f.Reason)
		}
	}
	left := 0
	for p.startFile() == nil {
		left++
	}
	if n := int(filesLimit.Base/8) - left; n != 1 {
		t.Errorf("%d tries", n)
	}
}

// TestUnmappedAgain: a file that others took the place of is read again for the next address, in
// the same batch too: it had neither a name nor a reason.
func TestUnmappedAgain(t *testing.T) {
	file := buildELF(t, testFile{syms: testSyms})
	ef, err := elffile.NewBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	tr := tree{}
	pcs := tr.manyFiles(9, int(1<<19/elffile.Headers(ef))+10, file)
	ps, _ := testProcesses(t, tr, &Options{Budget: 1 << 20})
	p, err := ps.Process(9)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range p.Resolve(nil, append(pcs, pcs...)) {
		if f.Name != "innermost" {
			t.Fatalf("address %d: %q, %v", i, f.Name, f.Reason)
		}
	}
	checkAccounts(t, ps)
}

// TestDescriptorsAreShared: a process with very many files closes its own for the next one, not
// those of others, which may have ended and can't be opened again.
func TestDescriptorsAreShared(t *testing.T) {
	tr := newTree(t)
	pcs := tr.manyFiles(9, 100, buildELF(t, testFile{syms: testSyms}))
	tr.stat(7, "p", 1)
	tr.maps(7, binMap, libMap)
	ps, _, opened := countedProcesses(t, tr, &Options{MaxFiles: 16})
	honest, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	want := "innermost innermost"
	name := func() string { return frameNames(honest.Resolve(nil, []uint64{0x401014, 0x7f0000001014})) }
	if got := name(); got != want {
		t.Fatal(got)
	}
	many, err := ps.Process(9)
	if err != nil {
		t.Fatal(err)
	}
	many.Resolve(nil, pcs)
	before := opened["file"]
	if got := name(); got != want || opened["file"] != before {
		t.Errorf("%s, with %d more files opened", got, opened["file"]-before)
	}
}

// TestManyMappings: of a process that takes more memory for its mappings than is for one, those
// that fit are kept, and addresses in the rest say why; earlier states of it go. Others have
// theirs.
func TestManyMappings(t *testing.T) {
	tr := newTree(t)
	lines := func(n int, at uint64) (out []string) {
		for i := range uint64(n) {
			out = append(out, fmt.Sprintf("%x-%x r-xp 00000000 08:01 %d /lib/%0200d", at+i<<12, at+i<<12+0x1000, i+1000, i))
		}
		return out
	}
	const n = 20_000
	tr.stat(9, "many", 1)
	tr.stat(7, "p", 1)
	tr.maps(7, binMap, libMap)
	ps, now := testProcesses(t, tr, &Options{Budget: 1 << 20})
	for round := range uint64(5) {
		at := 0x7e0000000000 + round<<32
		tr.maps(9, lines(n, at)...)
		*now = now.Add(time.Hour)
		p, err := ps.Process(9)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Resolve(nil, []uint64{at, at + (n-1)<<12, 0x10}); got[0].Reason != ReasonNoFile || got[1].Reason != ReasonBudget || got[2].Reason != ReasonBudget {
			t.Errorf("%v, %v and %v", got[0].Reason, got[1].Reason, got[2].Reason)
		}
		if s := ps.Stats(); s.Bytes > 3<<20 || len(p.old) != 0 {
			t.Errorf("%+v, %d earlier states", s, len(p.old))
		}
	}
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	if got := frameNames(p.Resolve(nil, []uint64{0x401014, 0x7f0000001014})); got != "innermost innermost" {
		t.Errorf("another process: %s", got)
	}
	checkAccounts(t, ps)
}

// TestEndedGiantsGo: what ended processes with very many mappings take is there for the next
// ones. They had it for as long as there were no 16,384 others.
func TestEndedGiantsGo(t *testing.T) {
	tr := newTree(t)
	ps, _ := testProcesses(t, tr, &Options{Budget: 1 << 20})
	for pid := 1; pid <= 20; pid++ {
		pcs := tr.manyFiles(pid, 2000, nil)
		p, err := ps.Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(p.maps); got != len(pcs) {
			t.Errorf("process %d: %d mappings", pid, got)
		}
		delete(tr, procPath(pid, "stat"))
		ps.Handle(&Event{Kind: EventExit, PID: pid})
	}
	checkAccounts(t, ps)
}

// TestMapsAreReadRarely: the more there is to read of a process's mappings, the rarer it is read.
// It took all of the time to read those of a process with very many, again every 50 ms.
func TestMapsAreReadRarely(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "p", 1)
	tr.maps(7, binMap)
	tr.stat(9, "many", 1)
	tr.maps(9, strings.Repeat("7e0000000000-7e0000001000 rw-p 00000000 08:01 1 /"+strings.Repeat("x", 1000)+"\n", 10_000)+libMap)
	ps, now, opened := countedProcesses(t, tr, nil)
	for _, c := range []struct{ pid, reads int }{{7, 21}, {9, 2}} {
		p, err := ps.Process(c.pid)
		if err != nil {
			t.Fatal(err)
		}
		before := opened["maps"] - 1
		for range 20 {
			*now = now.Add(missGap)
			p.Resolve(nil, []uint64{0x10})
		}
		if n := opened["maps"] - before; n != c.reads {
			t.Errorf("process %d: read %d times, want %d", c.pid, n, c.reads)
		}
	}
}

// TestMmapEvents: mappings of events replace each other, and are not added one by one to very
// many: then all are read again, once. Each of them copied all the others.
func TestMmapEvents(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "p", 1)
	tr.maps(7, binMap)
	ps, _, opened := countedProcesses(t, tr, nil)
	if err := ps.Observe(7); err != nil {
		t.Fatal(err)
	}
	event := func(pid int, addr, size uint64) {
		ps.Handle(&Event{Kind: EventMmap, PID: pid, Addr: addr, Len: size, Dev: 8<<32 | 1, Inode: addr >> 12, Path: fmt.Sprintf("/lib/%x", addr)})
	}
	p := ps.byPID[7]
	for _, c := range []struct {
		addr, size uint64
		want       string
	}{
		{0x1000, 0x3000, "1000-4000 400000-403000"},
		{0x2000, 0x1000, "1000-2000 2000-3000 3000-4000 400000-403000"},
		{0x2000, 0x1000, "1000-2000 2000-3000 3000-4000 400000-403000"},
		{0x0800, 0x2000, "800-2800 2800-3000 3000-4000 400000-403000"},
		{0x0000, 0x500000, "0-500000"},
		{0x600000, 0x1000, "0-500000 600000-601000"},
	} {
		event(7, c.addr, c.size)
		var got []string
		for _, m := range p.maps {
			got = append(got, fmt.Sprintf("%x-%x", m.start, m.end))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%#x: %s, want %s", c.addr, s, c.want)
		}
		checkAccounts(t, ps)
	}
	for i := range uint64(20_000) {
		event(7, 0x7f0000000000-i<<12, 0x1000)
		event(8, 0x7f0000000000-i<<12, 0x1000) // which was never seen
	}
	if n := len(p.maps); n != maxEventMaps {
		t.Errorf("%d mappings of events", n)
	}
	checkAccounts(t, ps)
	before := opened["maps"]
	if got := frameNames(p.Resolve(nil, []uint64{0x900000, 0x401014})); got != "(no mapping) innermost" || opened["maps"] != before+1 {
		t.Errorf("%s, after reading the mappings %d times", got, opened["maps"]-before)
	}
	if got := ps.byPID[8].Resolve(nil, []uint64{0x10})[0].Reason; got != ReasonBudget {
		t.Errorf("what was not kept: %v", got)
	}
}

// TestForkedMappings: a child of events has its parent's mappings, and its own from then on.
func TestForkedMappings(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "p", 1)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	if err := ps.Observe(7); err != nil {
		t.Fatal(err)
	}
	ps.Handle(&Event{Kind: EventFork, PID: 8, Parent: 7})
	ps.Handle(&Event{Kind: EventMmap, PID: 8, Addr: 0x400000, Len: 0x3000, Dev: 8<<32 | 1, Inode: 99, Path: "/lib/none.so"})
	got := frameNames(ps.byPID[7].Resolve(nil, []uint64{0x401014})) + " " + frameNames(ps.byPID[8].Resolve(nil, []uint64{0x401014, 0x7f0000001014}))
	if got != "innermost (the file is gone or cannot be read) innermost" {
		t.Error(got)
	}
	checkAccounts(t, ps)
}

// TestDroppedProcess: a process that is not kept any more is kept again when it is asked.
func TestDroppedProcess(t *testing.T) {
	tr := newTree(t)
	for pid := 1; pid <= 3; pid++ {
		tr.stat(pid, "p", uint64(pid))
		tr.maps(pid, binMap)
	}
	ps, now := testProcesses(t, tr, &Options{MaxProcesses: 2})
	var all []*Process
	for pid := 1; pid <= 3; pid++ {
		p, err := ps.Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	*now = now.Add(time.Second)
	for round := range 3 {
		for _, p := range all {
			*now = now.Add(time.Second)
			if got := frameNames(p.Resolve(nil, []uint64{0x401014})); got != "innermost" {
				t.Errorf("round %d, process %d: %s", round, p.pid, got)
			}
			checkAccounts(t, ps)
		}
	}
	if n := ps.Stats().Processes; n != 2 {
		t.Errorf("%d processes", n)
	}
	ps.Close()
	if got := all[0].Resolve(nil, []uint64{0x401014})[0]; got.Name != "" || ps.held.Len() != 0 {
		t.Errorf("after Close: %+v", got)
	}
}

// TestHeaders: the headers of files, which stay with them, are within half of the budget: those
// of 1,024 files of 8 MiB each were kept.
func TestHeaders(t *testing.T) {
	file := buildELF(t, testFile{syms: testSyms})
	ef, err := elffile.NewBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	size := elffile.Headers(ef)
	files := int(1<<20/size) + 1
	tr := tree{}
	pcs := tr.manyFiles(9, files, file)
	ps, _ := testProcesses(t, tr, &Options{Budget: 1 << 20})
	p, err := ps.Process(9)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pcs {
		if got := frameNames(p.Resolve(nil, pcs[i:i+1])); got != "innermost" {
			t.Fatalf("file %d: %s", i, got)
		}
		if ps.headers > 1<<19 {
			t.Fatalf("%d files have %d bytes of headers", i+1, ps.headers)
		}
	}
	checkAccounts(t, ps)
}
