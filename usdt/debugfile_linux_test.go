package usdt

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestDebugFile strips a program whose argument is a static variable: its place
// is then in the debug file alone, and is that of the program before.
func TestDebugFile(t *testing.T) {
	testenv.Need(t, testenv.Tool("cc"), testenv.Tool("objcopy"))
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "x.c"), filepath.Join(dir, "x")
	const src = "#include <sys/sdt.h>\nstatic volatile int counter = 7;\nint main(void) { counter++; DTRACE_PROBE1(app, p, counter); return 0; }\n"
	if err := os.WriteFile(source, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := func(args ...string) error {
		if out, err := testenv.Command(t, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
		return nil
	}
	testenv.Need(t, testenv.Got("cc with sys/sdt.h", tool("cc", "-O2", "-Wl,--build-id", "-DSTAP_SDT_ARG_CONSTRAINT=m", "-o", exe, source), testenv.NoSDT...))
	argument := func(debugDir string) Arg {
		f, err := Open(exe)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.debugDir = debugDir
		sites, err := f.Sites()
		if err != nil || len(sites) != 1 || len(sites[0].Args) != 1 {
			t.Fatalf("%+v, %v", sites, err)
		}
		return sites[0].Args[0]
	}
	want := argument("")
	if want.Addr.Symbol != "counter" || want.Reason != ReasonNone {
		t.Fatalf("not stripped: %+v", want)
	}
	f, err := Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	id := f.f.BuildID()
	f.Close()
	place := filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"objcopy", "--only-keep-debug", exe, place}, {"objcopy", "--strip-all", exe}} {
		if err := tool(args...); err != nil {
			t.Fatal(err)
		}
	}
	if got := argument(""); got.Reason != ReasonSymbol {
		t.Errorf("stripped: %+v", got)
	}
	if got := argument(dir); got != want {
		t.Errorf("with the debug file: %+v, want %+v", got, want)
	}
	// Another program's debug file is not believed.
	other := filepath.Join(dir, "other")
	if err := tool("cc", "-O0", "-Wl,--build-id", "-o", other, source); err != nil {
		t.Fatal(err)
	}
	if err := tool("objcopy", "--only-keep-debug", other, place); err != nil {
		t.Fatal(err)
	}
	if got := argument(dir); got.Reason != ReasonSymbol {
		t.Errorf("with another program's debug file: %+v", got)
	}
}
