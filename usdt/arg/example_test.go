package arg_test

import (
	"fmt"

	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/static"
)

var request = static.New("myapp", "request", arg.Int64, arg.String)

func Example() {
	if request.Enabled() { // a tracer is attached
		_ = request.Fire(7, "/index.html")
	}
	fmt.Println(arg.Int64, arg.String)
	// Output: Int64 String
}
