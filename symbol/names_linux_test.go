package symbol_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/symbol"
)

// TestCompressedNames: an honest file whose names, compressed to a hundredth (-gz), are more
// than may be decompressed of others' files has its lines. It had none, and no reason.
func TestCompressedNames(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Tool("gcc"), testenv.Tool("nm"))
	for _, size := range []int{2000, 6000, 12_000} { // of the last one the texts are left out
		dir := t.TempDir()
		var b strings.Builder
		name := strings.Repeat("a", size)
		for i := range 3000 {
			fmt.Fprintf(&b, "struct %s%d { int x; } v%d;\n", name, i, i)
		}
		b.WriteString("int main(void) { return 0; }\n")
		if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := testenv.Command(t, "gcc", "-g", "-gz", "-O0", "-o", "a", "a.c")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		path := filepath.Join(dir, "a")
		e, err := symbol.OpenELF(path, &symbol.ELFOptions{Source: true})
		if err != nil {
			t.Fatal(err)
		}
		out, err := testenv.Command(t, "nm", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		var pc uint64
		for line := range strings.Lines(string(out)) {
			if strings.HasSuffix(line, " T main\n") {
				fmt.Sscanf(line, "%x", &pc)
			}
		}
		fr := e.Resolve(nil, []uint64{pc})[0]
		st, _ := os.Stat(path)
		t.Logf("a file of %d bytes: %+v", st.Size(), fr)
		if fr.Name != "main" || fr.Line != 3001 || fr.File != filepath.Join(dir, "a.c") {
			t.Errorf("names of %d bytes: %+v", size, fr)
		}
		e.Close()
	}
}
