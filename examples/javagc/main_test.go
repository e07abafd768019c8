package main

import (
	"bufio"
	"io"
	"strconv"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) { tooltest.Main(m, nil) }

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "javagc", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/collections") }

// java is a Java process that waits to collect 23 times.
type java struct {
	t   *testing.T
	pid int
	in  io.Writer
	out *bufio.Reader
}

func startJava(t *testing.T) *java {
	testenv.Need(t, testenv.Root, testenv.Tool("java"))
	cmd := testenv.Command(t, "java", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx64m", "Collect.java")
	in, out := testenv.Piped(t, cmd)
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	j := &java{t, cmd.Process.Pid, in, bufio.NewReader(out)}
	j.expect("ready\n")
	return j
}

func (j *java) expect(want string) {
	if line, err := j.out.ReadString('\n'); err != nil || line != want {
		j.t.Fatalf("java said %q, %v; want %q", line, err, want)
	}
}

func (j *java) collect() {
	j.in.Write([]byte("\n"))
	j.expect("done\n")
}

// A Java process that collects 23 times is 23 full collections, and each has some
// effect on some pool.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tool("java"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, "/usr/lib/jvm/*/lib/server/libjvm.so")
	j := startJava(t)
	out := tooltest.Live(t, run, []string{"-json", strconv.Itoa(j.pid)}, j.collect)
	collections, pools := 0, 0
	for _, r := range tooltest.Objects[struct {
		Description string
		Us          float64 `json:"time_us"`
	}](t, out) {
		switch {
		case r.Us <= 0:
			t.Errorf("%+v", r)
		case r.Description == "full collection":
			collections++
		default:
			pools++
		}
	}
	if collections != 23 || pools < 23 {
		t.Errorf("%d collections of 23, in %d pools:\n%s", collections, pools, out)
	}
}
