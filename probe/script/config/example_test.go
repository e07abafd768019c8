package config_test

import (
	"fmt"

	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/syntax"
)

func Example() {
	f, err := syntax.Parse("stdin", []byte(`config = { stack_mode = perf } begin { @ = tseries(1, 1s, 5); }`), nil)
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	c, warnings, err := config.Read(f, nil)
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	fmt.Println(c.StackMode, c.MaxStrlen)
	fmt.Print(warnings.String())
	// Output:
	// perf 1024
	// WARNING: Script is using an unstable feature: tseries. To prevent this warning you must explicitly enable it in the config e.g. unstable_tseries=enable
}
