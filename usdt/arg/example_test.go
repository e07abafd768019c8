package arg_test

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/provider"
)

func Example() {
	p, err := provider.New("myapp")
	if err != nil {
		fmt.Println(err)
		return
	}
	request := p.Probe("request", arg.Int64, arg.String)
	if err := p.Load(); err != nil {
		fmt.Println("no probes here:", err)
		return
	}
	defer p.Unload()
	fmt.Println(request.Fire(7, "/index.html"))
	err = request.Fire("/index.html", 7)
	fmt.Println(errors.Is(err, arg.ErrMismatch), err)
	// Output:
	// <nil>
	// true fire myapp:request: argument 0: want an integer
}
