package cli_test

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

// A mistake on the command line prints one line and gives status 2.
func Example() {
	run := func(args []string) error {
		fs := flag.NewFlagSet("lines", flag.ContinueOnError)
		n := fs.Int("n", 0, "number of `lines`")
		if err := cli.Parse(fs, args, cli.NewOutput(os.Stdout)); err != nil {
			return err
		}
		if *n == 0 {
			return cli.Usage("lines", errors.New("-n is missing"))
		}
		return nil
	}
	fmt.Println(cli.Status("lines", run([]string{"-n", "3"}), os.Stdout))
	fmt.Println(cli.Status("lines", run(nil), os.Stdout))
	// Output:
	// 0
	// lines: -n is missing (lines -h lists the flags)
	// 2
}
