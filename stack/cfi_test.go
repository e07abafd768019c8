package stack

import (
	"bufio"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/rules"
)

var (
	readelfDirs = flag.String("readelf-dirs", "", "compare every ELF file in these `directories` (comma-separated) with readelf")
	amd64Names  = []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"}
	i386Names   = []string{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip"}
)

func regName(m elf.Machine) func(uint8) string {
	return func(n uint8) string {
		switch {
		case m == elf.EM_X86_64 && int(n) < len(amd64Names):
			return amd64Names[n]
		case m == elf.EM_386 && int(n) < len(i386Names):
			return i386Names[n]
		case m == elf.EM_AARCH64 && n == ARM64SP:
			return "sp"
		case m == elf.EM_AARCH64:
			return "x" + strconv.Itoa(int(n))
		}
		return "r" + strconv.Itoa(int(n))
	}
}

// cfaText is the CFA as readelf prints it: "rsp+8", "exp".
func cfaText(c rules.CFA, reg func(uint8) string) string {
	switch c.Kind {
	case rules.CFAReg:
		return fmt.Sprintf("%s%+d", reg(c.Reg), c.Off)
	case rules.CFANone:
		return "-"
	}
	return "exp"
}

// regText is the rule as readelf prints it: "c-16", "u", "s", "exp".
func regText(r rules.RegRule, reg func(uint8) string) string {
	switch r.Kind {
	case rules.RegUndef:
		return "u"
	case rules.RegAtCFA:
		return fmt.Sprintf("c%+d", r.Off)
	case rules.RegCFA:
		return fmt.Sprintf("v%+d", r.Off)
	case rules.RegReg:
		return reg(r.Reg)
	case rules.RegAtReg, rules.RegAtExpr:
		return "exp"
	case rules.RegValExpr:
		return "vexp"
	}
	return "s"
}

// text is what readelf prints in a register's column.
func text(r *rules.Rule, n uint8, m elf.Machine) string {
	for _, s := range r.Saved {
		if s.Num == n {
			return regText(s.RegRule, regName(m))
		}
	}
	return "s"
}

var fdeLine = regexp.MustCompile(`FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)`)

// compareReadelf checks every row that readelf prints: at its first address and
// at the last before the next row. It returns the number of rows.
func compareReadelf(t *testing.T, path string, table *CFITable) int {
	t.Helper()
	cmd := testenv.Command(t, "readelf", "--debug-dump=frames-interp", "--wide", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := readelfCompare{t: t, path: path, table: table}
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		c.line(sc.Text())
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // readelf complains about some files and goes on
	if c.bad > 10 {
		t.Errorf("%s: %d rows differ of %d", path, c.bad, c.rows)
	}
	return c.rows
}

type readelfCompare struct {
	t     *testing.T
	path  string
	table *CFITable
	cols  []string
	end   uint64
	inFDE bool
	prev  []string
	prevA uint64
	rows  int
	bad   int
}

// registerName is how readelf prints a register that holds another's value: it
// would count as two columns.
var registerName = regexp.MustCompile(`\br\d+ \((\w+)\)`)

func (c *readelfCompare) line(s string) {
	f := strings.Fields(registerName.ReplaceAllString(s, "$1"))
	switch {
	case len(f) > 3 && f[3] == "CIE" || strings.HasPrefix(s, "Contents of"):
		c.flush(c.end)
		c.inFDE = false
	case strings.Contains(s, " FDE "):
		c.flush(c.end)
		m := fdeLine.FindStringSubmatch(s)
		if m == nil {
			return
		}
		c.end, _ = strconv.ParseUint(m[2], 16, 64)
		c.inFDE = true
		c.cols = nil
	case len(f) > 1 && f[0] == "LOC":
		c.cols = f[2:]
	case c.inFDE && len(f) > 1 && len(f) == len(c.cols)+2:
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return
		}
		c.flush(addr)
		c.prev, c.prevA = f[1:], addr
	}
}

// flush checks the row that holds up to an address.
func (c *readelfCompare) flush(to uint64) {
	if c.prev == nil {
		return
	}
	if to > c.prevA {
		c.rows++
		c.check(c.prevA)
		c.check(to - 1)
	}
	c.prev = nil
}

func (c *readelfCompare) check(addr uint64) {
	rule := c.table.rules.Lookup(addr)
	m := c.table.rules.Machine
	diff := ""
	if rule.CFA.Kind != rules.CFASignal {
		if got := cfaText(rule.CFA, regName(m)); got != c.prev[0] {
			diff = fmt.Sprintf("CFA %s, readelf has %s", got, c.prev[0])
		}
		for i, col := range c.cols {
			want := c.prev[i+1]
			got := text(rule, regNumber(col, m), m)
			if regNumber(col, m) >= numRegs {
				continue
			}
			// readelf prints u for registers that nothing was said about, and
			// for those that are undefined.
			if got != want && !(want == "u" && got == "s") {
				diff += fmt.Sprintf(" %s %s, readelf has %s", col, got, want)
			}
		}
	} else if c.prev[0] != "exp" && m == elf.EM_X86_64 {
		diff = "signal frame, readelf has " + c.prev[0]
	}
	if diff == "" {
		return
	}
	if c.bad++; c.bad <= 10 {
		c.t.Errorf("%s: %#x: %s", c.path, addr, diff)
	}
}

func regNumber(name string, m elf.Machine) uint8 {
	if name == "ra" {
		return uint8(rules.ReturnReg(m))
	}
	for n := range uint8(numRegs) {
		if regName(m)(n) == name {
			return n
		}
	}
	return 255
}

// elfFiles lists ELF files of a directory.
func elfFiles(dir string, max int) []string {
	var out []string
	seen := make(map[string]bool)
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || len(out) >= max {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		var magic [5]byte
		if _, err := f.Read(magic[:]); err == nil && string(magic[:4]) == elf.ELFMAG && !seen[path] {
			seen[path] = true
			out = append(out, path)
		}
		return nil
	})
	return out
}

// TestCFIMatchesReadelf compares the rows of some fifty files of this machine;
// with -readelf-dirs=/usr/bin,/usr/lib of all files there.
func TestCFIMatchesReadelf(t *testing.T) {
	testenv.Need(t, testenv.Tool("readelf"))
	var files []string
	if *readelfDirs != "" {
		for _, dir := range strings.Split(*readelfDirs, ",") {
			files = append(files, elfFiles(dir, 1<<30)...)
		}
	} else {
		var size int64
		for _, f := range append(elfFiles("/usr/bin", 1000), elfFiles("/usr/lib/x86_64-linux-gnu", 100)...) {
			st, err := os.Stat(f)
			if err != nil || st.Size() > 200_000 {
				continue
			}
			if size += st.Size(); size > 4<<20 || len(files) == 50 {
				break
			}
			files = append(files, f)
		}
	}
	var err error
	if len(files) == 0 {
		err = fs.ErrNotExist
	}
	if *readelfDirs == "" {
		for _, f := range []string{"ld-linux.so.2", "libm.so.6"} { // of 32 bits, if they are there
			if _, err := os.Stat("/usr/lib32/" + f); err == nil {
				files = append(files, "/usr/lib32/"+f)
			}
		}
	}
	testenv.Need(t, testenv.Got("ELF files of this architecture in /usr/bin and /usr/lib", err))
	start := time.Now()
	rows, compiled := 0, 0
	var sum CFIStats
	for _, path := range files {
		table, err := OpenCFI(path)
		if errors.Is(err, ErrNoTable) || errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		compiled++
		s := table.Stats()
		if s.Bad != 0 {
			t.Errorf("%s: %d bad FDEs", path, s.Bad)
		}
		sum.FDEs += s.FDEs
		sum.Rows += s.Rows
		sum.Gaps += s.Gaps
		sum.Compact += s.Compact
		sum.Size += s.Size
		rows += compareReadelf(t, path, table)
	}
	if compiled == 0 {
		t.Fatal("no file compiled")
	}
	t.Logf("%d files, %d readelf rows compared in %v; %d FDEs, %d rows, %d gaps, %.4f%% compact, %.2f bytes a row",
		compiled, rows, time.Since(start).Round(time.Millisecond), sum.FDEs, sum.Rows, sum.Gaps,
		100*float64(sum.Compact)/float64(sum.Rows-sum.Gaps), float64(sum.Size)/float64(sum.Rows))
}

func BenchmarkCompileCFI(b *testing.B) {
	const path = "/usr/bin/gdb"
	if _, err := os.Stat(path); err != nil {
		b.Skip(err)
	}
	rows := 0
	for b.Loop() {
		t, err := OpenCFI(path)
		if err != nil {
			b.Fatal(err)
		}
		rows += t.stats.Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkCFILookup(b *testing.B) {
	t, err := OpenCFI("/usr/bin/gdb")
	if err != nil {
		b.Skip(err)
	}
	addr := uint64(0)
	pcs, _ := unpack(&t.rules.Rows)
	last := pcs[len(pcs)-1]
	for b.Loop() {
		t.rules.Lookup(t.rules.Base + addr)
		addr = (addr + 7919) % uint64(last)
	}
}
