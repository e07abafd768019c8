package stack

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/internal/testenv"
)

// buildGo builds a small program for amd64, with DWARF.
func buildGo(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Go)
	dir := t.TempDir()
	src := filepath.Join(dir, "main.go")
	if err := os.WriteFile(src, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(len(fmt.Sprint(1))) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "prog")
	cmd := exec.Command("go", "build", "-o", out, src)
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=", "GOPROXY=off", "GOARCH=amd64")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	return out
}

// The rows made of a Go program's function table find the same callers as those
// that the linker writes to .debug_frame.
func TestGoTableMatchesDebugFrame(t *testing.T) {
	f, err := elffile.Open(buildGo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := newCFIBuilder(elf.EM_X86_64, lowestAddress(f))
	if err := b.goTable(f); err != nil {
		t.Fatal(err)
	}
	got := b.table()
	b = newCFIBuilder(elf.EM_X86_64, lowestAddress(f))
	for _, s := range cfiSections(f) {
		data, err := s.read(f)
		if err != nil {
			t.Fatal(err)
		}
		b.section(data, s.addr, s.debug)
	}
	compareGoTable(t, f, got, b.table())
}

func compareGoTable(t *testing.T, f *elffile.File, got, want *CFITable) {
	if s := got.Stats(); s.Bad != 0 || s.Compact != s.Rows-s.Gaps {
		t.Errorf("%+v", s)
	}
	ra := uint8(returnReg(got.machine))
	names, err := pclntab.New(f)
	if err != nil {
		t.Fatal(err)
	}
	compared, switches := 0, 0
	for pc := range want.rows.all() {
		addr := want.base + uint64(pc)
		g, w := got.lookup(addr), want.lookup(addr)
		fn, ok := names.Find(addr)
		if w.cfa.kind == cfaNone || !ok {
			continue
		}
		if kind := goKindOf(string(fn.Name())); kind != goOrdinary {
			if g.cfa.kind == cfaSwitch {
				switches++
			}
			continue
		}
		compared++
		name := regName(got.machine)
		if g.cfa != w.cfa || g.text(ra, got.machine) != w.text(ra, got.machine) {
			t.Errorf("%s: %#x: CFA %s, return address %s; .debug_frame has %s, %s", fn.Name(), addr,
				g.cfa.text(name), g.text(ra, got.machine), w.cfa.text(name), w.text(ra, got.machine))
			if t.Failed() && compared > 100 {
				return
			}
		}
	}
	if compared < 1000 || switches == 0 {
		t.Errorf("%d rows compared, %d switch stacks", compared, switches)
	}
	t.Logf("%d rows the same", compared)
}
