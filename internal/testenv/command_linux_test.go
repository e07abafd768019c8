package testenv_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// TestChildrenEnd: what a test starts ends with it, even if it is killed, and
// doesn't end with the thread that another goroutine took for itself.
func TestChildrenEnd(t *testing.T) {
	if role() == "parent" {
		cmd := testenv.Command(t, "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("child %d\n", cmd.Process.Pid)
		time.Sleep(time.Minute) // select {} alone is a deadlock to the runtime, which would end this
	}
	testenv.Need(t, testenv.Tool("sleep"))
	parent := testenv.Command(t, os.Args[0], "-test.run=^TestChildrenEnd$")
	parent.Env = append(os.Environ(), "TESTENV_ROLE=parent")
	_, out := testenv.Piped(t, parent)
	pid := 0
	for sc := bufio.NewScanner(out); pid == 0 && sc.Scan(); {
		fmt.Sscanf(sc.Text(), "child %d", &pid)
	}
	if !runs(pid) {
		t.Fatalf("no child (%d)", pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as it says
	waitEnd(t, pid)

	// And with a test that passes and forgets it.
	t.Run("forgotten", func(t *testing.T) {
		var kept *exec.Cmd
		t.Run("start", func(t *testing.T) {
			cmd := testenv.Command(t, "sleep", "1000")
			kept = cmd.Cmd
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		})
		waitEnd(t, kept.Process.Pid)
		_ = kept.Wait() // killed, as it says
	})

	// A thread that ends takes with it what it started, if that asked for it.
	cmd := testenv.Command(t, "sleep", "1000")
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		done <- cmd.Start()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if !runs(cmd.Process.Pid) {
		t.Error("a child ended with the goroutine that started it")
	}
	cmd.Process.Kill()
	_ = cmd.Wait()
}

// runs tells whether there is such a process, and it has not ended.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && pid != 0 && !strings.HasPrefix(after, "Z") && syscall.Kill(pid, 0) == nil
}

func waitEnd(t *testing.T, pid int) {
	t.Helper()
	for range 200 {
		if !runs(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d is there still", pid)
	syscall.Kill(pid, syscall.SIGKILL)
}
