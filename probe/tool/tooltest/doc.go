// Package tooltest tests tools that are made with package tool: against a recording, on any
// machine and without root, and live, against a known workload.
//
//	func TestMain(m *testing.M) { tooltest.Main(m, map[string]func(){"open": open23}) }
//
//	func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "opensnoop", run) }
//
//	func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/opens", "-T") }
//
//	func TestLive(t *testing.T) {
//		child := tooltest.Start(t, "open")
//		out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
//		if n := strings.Count(out, "/nowhere/23"); n != 23 {
//			t.Errorf("%d events of 23:\n%s", n, out)
//		}
//	}
//
// Live makes a recording if the test has the flag -record DIR, on this machine or in a guest:
//
//	go test ./examples/opensnoop -run TestLive -record testdata/opens
//	go test ./examples/opensnoop -run TestReplay -update
package tooltest
