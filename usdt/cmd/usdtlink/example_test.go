package main

import (
	"context"
	"fmt"
	"os"

	"github.com/borescope/borescope/probe/tool/cli"
)

func Example() {
	// go build -o myapp . && go run github.com/borescope/borescope/usdt/cmd/usdtlink myapp
	err := run(context.Background(), []string{"/nonexistent/myapp"}, cli.NewOutput(os.Stdout))
	fmt.Println(err)
	// Output: open /nonexistent/myapp: no such file or directory
}
