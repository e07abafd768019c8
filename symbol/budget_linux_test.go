package symbol

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// TestManyFilesChild is the process of TestLiveManyFiles: it maps the files in a directory,
// executable, and stays.
func TestManyFilesChild(t *testing.T) {
	dir := os.Getenv("MANY_FILES")
	if dir == "" {
		return
	}
	n, _ := strconv.Atoi(os.Getenv("MANY_FILES_N"))
	for i := range n {
		fd, err := unix.Open(filepath.Join(dir, strconv.Itoa(i)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	fmt.Println("mapped")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// TestLiveManyFiles: a process that maps 20,000 files takes its part of the files that are
// opened and of the descriptors, and no more. Others have their names.
func TestLiveManyFiles(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Native)
	const files = 20_000
	dir := t.TempDir()
	image := elfbuild.Program(elfbuild.SymbolTable{N: 4, Step: 16, Size: 16, Names: 4}.Sections()...).Bytes()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), image, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestManyFilesChild$")
	cmd.Env = append(os.Environ(), "MANY_FILES="+dir, fmt.Sprint("MANY_FILES_N=", files))
	in, out := testenv.Piped(t, cmd)
	defer func() { in.Close(); _ = cmd.Wait() }()
	for line := bufio.NewScanner(out); line.Scan() && line.Text() != "mapped"; {
	}
	for _, chosen := range []bool{false, true} {
		ps := NewProcesses(&Options{Chosen: chosen})
		defer ps.Close()
		if err := ps.Observe(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if s := ps.Stats(); s.Files < files || s.Open > ps.partOf(ps.opts.MaxFiles) {
			t.Errorf("observed: %+v", s)
		}
		p, err := ps.Process(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		var pcs []uint64
		for i := range p.maps {
			if filepath.Dir(p.maps[i].path) == dir {
				pcs = append(pcs, p.maps[i].start+8)
			}
		}
		if len(pcs) != files {
			t.Fatalf("%d mappings", len(pcs))
		}
		beyond := 0
		for _, f := range p.Resolve(nil, pcs) {
			if f.Reason == ReasonBudget {
				beyond++
			}
		}
		least, most := filesLimit.Base/8-1000, filesLimit.Base/8
		if chosen {
			least, most = filesLimit.Base/2-1000, filesLimit.Base/2
		}
		// While the files are read, some come back.
		if n := int64(files - beyond); n < least || n > most+20*filesLimit.Second {
			t.Errorf("chosen %v: %d files were read", chosen, n)
		}
		if s := ps.Stats(); s.Open > ps.opts.MaxFiles || s.Mapped > maxMapped {
			t.Errorf("chosen %v: %+v", chosen, s)
		}
		own, err := ps.Process(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if f := own.Resolve(nil, []uint64{uint64(reflect.ValueOf(spin).Pointer())})[0]; f.Kind != KindGo || f.Name == "" {
			t.Errorf("chosen %v: another process: %+v", chosen, f)
		}
		checkAccounts(t, ps)
	}
}

// TestMaxFiles: most of what the process may open is left to the program. Half of it was taken.
func TestMaxFiles(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		limit uint64
		want  int
	}{{1024, 256}, {4096, 1024}, {40, 16}, {was.Cur, min(int(was.Cur/4), 1024)}} {
		if c.limit > was.Max {
			continue
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: c.limit, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		ps := NewProcesses(nil)
		if ps.opts.MaxFiles != c.want {
			t.Errorf("of %d: %d, want %d", c.limit, ps.opts.MaxFiles, c.want)
		}
		ps.Close()
	}
}
