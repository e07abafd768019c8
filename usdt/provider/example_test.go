package provider_test

import (
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
	}
	defer p.Unload()

	if request.Enabled() { // a tracer is attached
		_ = request.Fire(7, "/index.html")
	}
	fmt.Println(request.Name(), request.Enabled())
	// Output: request false
}
