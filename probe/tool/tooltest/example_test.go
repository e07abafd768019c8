package tooltest_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

// The test of a tool calls the tool's run function.
func Example() {
	var run tooltest.Run = func(ctx context.Context, args []string, stdout io.Writer) error {
		_, err := fmt.Fprintln(stdout, "what the tool prints")
		return err
	}
	testReplay := func(t *testing.T) {
		tooltest.Replay(t, run, "testdata/opens", "-T") // against testdata/opens.golden
	}
	fmt.Println(testReplay != nil)
	// Output: true
}
