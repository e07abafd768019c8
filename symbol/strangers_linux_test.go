package symbol

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
	"github.com/borescope/borescope/internal/testenv"
)

// TestStrangersFiles: of each stranger's large files one is read, and others' are read
// all the same.
func TestStrangersFiles(t *testing.T) {
	testenv.Need(t, testenv.Root)
	testenv.LimitMemory(t, 512<<20)
	write := func(uid, symbols int) string {
		return writeFor(t, uid, elfbuild.Program(elfbuild.SymbolTable{N: symbols, Step: 16, Size: 16, Names: 4}.Sections()...).Bytes())
	}
	const large = 200_000
	for _, chosen := range []bool{false, true} {
		t.Run(fmt.Sprintf("chosen %v", chosen), func(t *testing.T) {
			now := time.Unix(1, 0)
			ps := NewProcesses(&Options{Chosen: chosen})
			defer ps.Close()
			ps.now = func() time.Time { return now }
			for _, f := range []struct {
				name  string
				path  string
				after time.Duration
				want  Reason
			}{
				{"first", write(65534, large), 0, ReasonNone},
				{"second", write(65534, large+1), 0, ReasonBudget},
				{"anybody", write(65533, large+2), 0, ReasonNone},
				{"root", write(0, large+3), 0, ReasonNone},
				{"small", write(65534, 10), 0, ReasonBudget},
				{"later", write(65534, 10), 20 * time.Second, ReasonNone},
			} {
				now = time.Unix(1, 0).Add(f.after)
				if chosen {
					f.want = ReasonNone
				}
				if got := reasonOf(loaded(t, ps, f.path)); got != f.want {
					t.Errorf("%s: %v, want %v", f.name, got, f.want)
				}
			}
		})
	}
}

// TestStrangersEqualFile: a stranger's copy of a file, of the same build-id, doesn't
// make the file a stranger's.
func TestStrangersEqualFile(t *testing.T) {
	testenv.Need(t, testenv.Root)
	build := func(names int) []byte {
		s := append(elfbuild.SymbolTable{N: 10, Step: 16, Size: 16, Names: names}.Sections(), elfbuild.Section{
			Name: ".note.gnu.build-id", Type: elf.SHT_NOTE, Flags: elf.SHF_ALLOC, Align: 4,
			Data: elfnotes.Append(nil, elfnotes.Note{Owner: "GNU", Type: 3, Desc: make([]byte, 20)}, 4),
		})
		return elfbuild.Program(s...).Bytes()
	}
	image := build(4)
	ps := NewProcesses(nil)
	defer ps.Close()
	resolve := func(uid int, image []byte, want Reason) *ELF {
		t.Helper()
		e := loaded(t, ps, writeFor(t, uid, image))
		if e == nil || e.BuildID() == "" {
			t.Fatal("no ELF, or no build-id")
		}
		t.Cleanup(func() { e.Close() })
		if got := e.Resolve(nil, []uint64{elfbuild.ProgramText})[0].Reason; got != want {
			t.Errorf("of user %d: %v, want %v", uid, got, want)
		}
		return e
	}
	now := time.Unix(1, 0)
	ps.now = func() time.Time { return now }
	st, err := os.Stat(writeFor(t, 65534, image))
	if err != nil {
		t.Fatal(err)
	}
	// All that one of them may have.
	ps.work.Take(ps.work.Owner(os.Getpid(), st), stranger.Party{}, 60<<20, stranger.Bytes(tableWork), now)
	theirs := resolve(65534, image, ReasonBudget)
	if resolve(0, build(5), ReasonNone); theirs.owner == (stranger.Owner{}) {
		t.Error("another file of its build-id makes a stranger's a trusted one")
	}
	other := resolve(65533, image, ReasonNone)
	if other == theirs {
		t.Error("two strangers share what one of them has used up")
	}
	ours := resolve(0, image, ReasonNone)
	if again := resolve(65534, image, ReasonNone); again != ours {
		t.Error("an equal file is read again that could be shared")
	}
}

// writeFor writes a program that belongs to a user.
func writeFor(t *testing.T, uid int, image []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	writeHostile(t, path, image, 0)
	if err := os.Chown(path, uid, -1); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStrippedGoIsCharged: a Go program without sections is searched for its function
// table, which took nobody's time.
func TestStrippedGoIsCharged(t *testing.T) {
	testenv.Need(t, testenv.Root)
	build := func(steps int) string {
		p := elfbuild.Program(elfbuild.GoTable{Functions: 1000, Steps: steps}.Section())
		p.NoSections = true
		return writeFor(t, 65534, p.Bytes())
	}
	ps := NewProcesses(nil)
	defer ps.Close()
	for i, want := range []Reason{ReasonNone, ReasonBudget} { // the first takes the stranger's share
		e := loaded(t, ps, build(6<<20+i))
		if e == nil {
			t.Fatal("no ELF")
		}
		defer e.Close()
		if got := e.Resolve(nil, []uint64{elfbuild.ProgramText})[0].Reason; got != want {
			t.Errorf("file %d: %v, want %v", i, got, want)
		}
	}
}

// TestStrangersDebugFiles: what a file names as its debug file is opened with the rights of
// whom the file belongs to, unless it is in a directory for debug files. A link of nobody's
// beside a program was followed to root's files, and so was a path through "..".
func TestStrangersDebugFiles(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	global := filepath.Join(dir, "global")
	if err := os.Mkdir(global, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"secret": 0o600, "open": 0o644, "global/secret": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	nobody := procfs.User{UID: 65534, GID: 65534}
	for _, c := range []struct {
		u    procfs.User
		name string
		want bool
	}{
		{nobody, dir + "/open", true},
		{nobody, dir + "/secret", false},
		{nobody, dir + "/link", false},
		{nobody, global + "/secret", true},
		{nobody, global + "/../secret", false},
		{procfs.Anybody, dir + "/open", true},
		{procfs.Anybody, dir + "/secret", false},
		{procfs.User{}, dir + "/link", true},
	} {
		f, err := elffile.OpenDebug(c.u, []string{global}, c.name, os.Getpid())
		if (err == nil) != c.want {
			t.Errorf("%s by %d: %v", c.name, c.u.UID, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
