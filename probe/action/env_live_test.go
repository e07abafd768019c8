//go:build linux

package action_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// machine is this machine's files. It counts how often each is opened.
type machine struct {
	fs.FS
	mu sync.Mutex
	n  map[string]int // guarded by mu
}

func (m *machine) Open(name string) (fs.File, error) {
	m.mu.Lock()
	m.n[name]++
	m.mu.Unlock()
	return m.FS.Open(name)
}

// TestEnvOfAttaching: attaching asked this machine, whatever Options.Env was.
func TestEnvOfAttaching(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := &machine{FS: os.DirFS("/"), n: map[string]int{}}
	seen := action.NewCounter[uint32]("seen", 1)
	p := action.NewProgram("env")
	p.On(probe.Uprobe{Path: self, Symbol: "main.main"}, func(c *action.Ctx) { seen.Inc(c, 0) })
	s := attachOrSkip(t, p, &action.Options{
		Env: probe.NewEnv(&probe.EnvOptions{Root: files}), Resolve: &probe.Options{NoMulti: true},
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	const online = "sys/devices/system/cpu/online"
	if files.n[online] != 1 {
		t.Errorf("%s was read %d times from the environment, want once: %v", online, files.n[online], files.n)
	}
}

// TestRecordWhileReading: Record may be called while others open tables; the
// race detector saw that it took no lock.
func TestRecordWhileReading(t *testing.T) {
	testenv.Need(t, testenv.Root)
	seen := action.NewCounter[uint32]("seen", 1)
	p := action.NewProgram("record")
	p.On(probe.Begin{}, func(c *action.Ctx) { seen.Inc(c, 0) })
	s := attachOrSkip(t, p, nil)
	rec, err := recording.Create(filepath.Join(t.TempDir(), "rec"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		s.Record(rec)
	}()
	if _, err := seen.Table(s); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
