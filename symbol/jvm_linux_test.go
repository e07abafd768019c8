package symbol

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// TestJVM has a Java virtual machine write its perf map and names a method of it.
func TestJVM(t *testing.T) {
	testenv.Need(t, testenv.Tool("java"), testenv.Long)
	if os.Geteuid() == 0 {
		// A machine that is killed leaves /tmp/.java_pidN there.
		testenv.Need(t, testenv.Mounts)
		if !testenv.OwnMounts(t) {
			return
		}
		testenv.OwnTmp(t)
	}
	src := filepath.Join(t.TempDir(), "Spin.java")
	code := `public class Spin {
	static long hotMethod(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * 31 % 7; return s; }
	public static void main(String[] a) {
		long s = 0;
		for (int i = 0; i < 1000; i++) s += hotMethod(100000);
		System.out.println("compiled");
		while (s != 42) s += hotMethod(100000);
	}
}`
	if err := os.WriteFile(src, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	// With -Xbatch a method that is to be compiled runs on when it has been.
	cmd := testenv.Command(t, "java", "-Xmx64m", "-Xbatch", "-XX:-UsePerfData", src)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM) // it removes its socket
		end := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		end.Stop()
		os.Remove("/tmp/perf-" + strconv.Itoa(pid) + ".map")
	}()
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatalf("java did not start: %v", err)
	}
	ps := NewProcesses(nil)
	defer ps.Close()
	p, err := ps.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.WritePerfMap(ctx); err != nil {
		if strings.Contains(err.Error(), "answered") {
			testenv.Need(t, testenv.Got("perf maps of JDK 17", err, "answered"))
		}
		t.Fatal(err)
	}
	f, err := os.Open("/tmp/perf-" + strconv.Itoa(pid) + ".map")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := ParsePerfMap(f)
	if err != nil || m.Bad != 0 {
		t.Fatalf("%v, %d bad lines", err, m.Bad)
	}
	found := 0
	for i := range m.ents {
		e := &m.ents[i]
		if !strings.Contains(m.arena[e.name:e.name+e.len], "Spin.hotMethod") {
			continue
		}
		fr := p.Resolve(nil, []uint64{e.start + e.size/2})[0]
		if fr.Kind == KindJIT && fr.Name != "" {
			found++
		}
	}
	if found == 0 {
		t.Errorf("hotMethod is not named; %d entries", len(m.ents))
	}
}

// TestJVMRefused does not send a signal to a process that is no Java machine.
func TestJVMRefused(t *testing.T) {
	p, err := OpenProcess(os.Getpid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.WritePerfMap(context.Background()); err == nil || !strings.Contains(err.Error(), "not a HotSpot") {
		t.Errorf("got %v", err)
	}
}
