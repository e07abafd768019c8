package main

import (
	"context"
	"fmt"
	"os"
)

func Example() {
	// go build -o myapp . && go run github.com/borescope/borescope/usdt/cmd/usdtlink myapp
	err := run(context.Background(), []string{"/nonexistent/myapp"}, os.Stdout)
	fmt.Println(err)
	// Output: open /nonexistent/myapp: no such file or directory
}
