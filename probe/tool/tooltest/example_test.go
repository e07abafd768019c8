package tooltest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// The test of a tool calls the tool's run function.
func Example() {
	var run tooltest.Run = func(ctx context.Context, args []string, stdout *tool.Output) error {
		return stdout.Println("what the tool prints")
	}
	testReplay := func(t *testing.T) {
		tooltest.Replay(t, run, "testdata/opens", "-T") // against testdata/opens.golden
	}
	fmt.Println(testReplay != nil)
	// Output: true
}
