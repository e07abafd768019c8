package usdt_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/usdt"
	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/provider"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestModulesRecorded(t *testing.T) {
	app := program(elf.EM_X86_64, note{textAddr, baseAddr, semAddr, "app", "one", "8@%rdi"}).Bytes()
	none := program(elf.EM_X86_64).Bytes()
	root := fstest.MapFS{
		"proc/7/maps": {Data: []byte(
			"55550000-55551000 r--p 00000000 08:01 11 /usr/bin/app\n" +
				"55551000-55552000 r-xp 00001000 08:01 11 /usr/bin/app\n" +
				"55552000-55553000 r-xp 00001000 08:01 11 /usr/bin/app\n" +
				"66660000-66661000 r-xp 00000000 08:01 12 /usr/lib/none.so\n" +
				"77770000-77771000 r-xp 00000000 08:01 13 /usr/lib/gone.so (deleted)\n" +
				"7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]\n")},
		"usr/bin/app":     {Data: app},
		"usr/lib/none.so": {Data: none},
	}
	modules, err := usdt.Modules(7, &usdt.Options{Root: root})
	if err != nil || len(modules) != 2 {
		t.Fatalf("%+v, %v", modules, err)
	}
	m := modules[0]
	// The text's address 0x1100 is at 0x1000+0x100 of the mapping at 0x55551000.
	if m.Path != "/usr/bin/app" || len(m.Sites) != 1 || m.Err != nil || m.Sites[0].PC+m.Bias != 0x55551100 {
		t.Errorf("%+v", m)
	}
	if gone := modules[1]; gone.Path != "/usr/lib/gone.so" || !errors.Is(gone.Err, os.ErrNotExist) {
		t.Errorf("%+v", gone)
	}
	if _, err := usdt.Modules(8, &usdt.Options{Root: root}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no process: %v", err)
	}
}

// TestModulesOfThisProcess finds a provider's anonymous file.
func TestModulesOfThisProcess(t *testing.T) {
	p, err := provider.New("self")
	if err != nil {
		t.Fatal(err)
	}
	p.Probe("one", arg.Int64)
	var unsupported *provider.UnsupportedError
	if err := p.Load(); errors.As(err, &unsupported) {
		testenv.Need(t, testenv.Missing("provider", err.Error()))
	} else if err != nil {
		t.Fatal(err)
	}
	defer p.Unload()
	modules, err := usdt.Modules(os.Getpid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if len(m.Sites) == 1 && m.Sites[0].Provider == "self" {
			if m.Attach != p.Path() || !strings.HasPrefix(m.Path, "/memfd:") {
				t.Errorf("%+v, want %s", m, p.Path())
			}
			return
		}
	}
	t.Errorf("provider not found in %+v", modules)
}

// TestModulesDeleted copies a program with probes, runs and removes it.
func TestModulesDeleted(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("cc"))
	dir := t.TempDir()
	exe := dir + "/prog"
	src := "#include <sys/sdt.h>\n#include <unistd.h>\nint main(void) { DTRACE_PROBE1(gone, probe, 5); write(1, \"x\", 1); pause(); }\n"
	if err := os.WriteFile(dir+"/prog.c", []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "cc", "-o", exe, dir+"/prog.c").CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got("cc with sys/sdt.h", fmt.Errorf("%w: %s", err, out), testenv.NoSDT...))
	}
	cmd := testenv.Command(t, exe)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	check := func(attach string) {
		t.Helper()
		modules, err := usdt.Modules(cmd.Process.Pid, nil)
		if err != nil || len(modules) == 0 {
			t.Fatalf("%+v, %v", modules, err)
		}
		m := modules[0]
		if m.Path != exe || !strings.HasPrefix(m.Attach, fmt.Sprintf(attach, cmd.Process.Pid)) || len(m.Sites) != 1 || m.Err != nil {
			t.Errorf("%+v", m)
		}
		// The nop is where the bias says.
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		b := make([]byte, 1)
		if _, err := mem.ReadAt(b, int64(m.Sites[0].PC+m.Bias)); err != nil || runtime.GOARCH == "amd64" && b[0] != 0x90 {
			t.Errorf("at the site: %x, %v", b, err)
		}
	}
	check("/proc/%d/root/")
	if err := os.Remove(exe); err != nil {
		t.Fatal(err)
	}
	check("/proc/%d/map_files/")
}
