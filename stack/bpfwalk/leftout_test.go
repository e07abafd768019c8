package bpfwalk

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// shareFiles are those of the package documentation's table: programs and libraries of
// compilers, languages, cryptography and media that machines have.
var shareFiles = []string{
	"/lib/*/libc.so.6", "/lib/*/ld-linux*.so.?", "/lib/*/libm.so.6", "/usr/bin/bash",
	"/usr/bin/python3", "/usr/bin/perl", "/usr/bin/gdb", "/usr/bin/git", "/usr/bin/node",
	"/usr/bin/gcc", "/usr/bin/openssl", "/usr/bin/qemu-system-x86_64",
	"/usr/lib/*/libcrypto.so.3", "/usr/lib/*/libgcrypt.so.20", "/usr/lib/*/libgnutls.so.30",
	"/usr/lib/*/libgmp.so.10", "/usr/lib/*/libstdc++.so.6", "/usr/lib/*/libLLVM-*.so.1",
	"/usr/lib/*/libz.so.1", "/usr/lib/*/libsqlite3.so.0",
}

// share is what a file's table leaves out, in rows of the walker in Go.
type share struct {
	rows     int // of the walker in Go
	hard     int // with rules that end a stack
	many     int // that restore more registers than a rule has room for
	others   int // that restore registers which a function need not keep
	bare     int // rows in BPF that keep no register
	kept     int // rows in BPF
	keptRegs uint64
}

func shareOf(t *rules.Table) (s share) {
	e := newEncoder(t)
	bare := &encoder{m: e.m, w: e.w}
	s.keptRegs = e.keep
	all := &encoder{m: e.m, w: e.w}
	for _, reg := range e.w.saved {
		all.keep |= 1 << reg
	}
	projected := func(e *encoder) int {
		ids, known := make([]uint16, len(t.Rules)), make(map[[bpfRuleSize]byte]uint16)
		for i := range t.Rules {
			r := e.rule(&t.Rules[i])
			if _, ok := known[r]; !ok {
				known[r] = uint16(len(known))
			}
			ids[i] = known[r]
		}
		pcs, _ := projectRows(t, ids)
		return len(pcs)
	}
	s.bare, s.kept = projected(bare), projected(e)
	for _, i := range t.Rows.All() {
		r := &t.Rules[i]
		s.rows++
		if b := e.rule(r); b[ruleCFA] == bpfCFAHard {
			s.hard++
			continue
		}
		wanted, others := 0, 0
		for _, v := range r.Saved {
			w, _ := wordOf(e.m, v.Num)
			switch {
			case v.Kind == rules.RegUndef:
			case w == e.w.ra, w == e.w.fp, w == e.w.sp, slices.Contains(e.w.saved, v.Num):
				wanted++
			default:
				others++
			}
		}
		if slots, _, _ := all.slots(r); len(slots) < wanted {
			s.many++
		}
		if others > 0 {
			s.others++
		}
	}
	return s
}

// TestLeftOut prints the table of the package's documentation (with -v), and finds that
// little is left out of any file. All registers but two were left out once.
func TestLeftOut(t *testing.T) {
	var sum share
	var out strings.Builder
	for _, pattern := range shareFiles {
		files, _ := filepath.Glob(pattern)
		if len(files) == 0 {
			continue
		}
		c, err := stack.OpenCFI(files[0])
		if err != nil {
			t.Fatal(err)
		}
		s := shareOf(c.Rules())
		fmt.Fprintf(&out, "%-24s %s\n", filepath.Base(files[0]), s)
		sum.rows += s.rows
		sum.hard += s.hard
		sum.many += s.many
		sum.others += s.others
		sum.bare += s.bare
		sum.kept += s.kept
		if 1000*(s.hard+s.many) > s.rows {
			t.Errorf("%s: %s", files[0], s)
		}
		if 50*s.kept > 51*s.bare+50 {
			t.Errorf("%s: %d rows, %d with no register but the frame pointer", files[0], s.kept, s.bare)
		}
	}
	t.Logf("\n%s%-24s %s", out.String(), "all", sum)
}

func (s share) String() string {
	pct := func(n int) string { return fmt.Sprintf("%d (%.4f%%)", n, 100*float64(n)/float64(s.rows)) }
	return fmt.Sprintf("%7d rows, %7d in BPF (%.4fx of %d), left out %s, many %s, others %s, kept %#x",
		s.rows, s.kept, float64(s.kept)/float64(s.bare), s.bare, pct(s.hard), pct(s.many), pct(s.others), s.keptRegs)
}
