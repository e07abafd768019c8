// Command prog has static probes for the tests of usdtlink.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/static"
)

var (
	request = static.New("prog", "request", arg.Int64, arg.String)
	reply   = static.New("prog", "reply", arg.Int32)
)

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	fired := 0
	for i := range count {
		if request.Enabled() {
			if err := request.Fire(i, "path-"+strconv.Itoa(i)); err != nil {
				fmt.Println(err)
			}
			fired++
		}
		_ = reply.Fire(-i)
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("fired", fired)
}
