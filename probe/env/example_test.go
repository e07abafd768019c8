package env_test

import (
	"fmt"
	"testing/fstest"

	"github.com/borescope/borescope/probe/env"
)

// Supports returns nil for a feature that a recorded machine has, and otherwise the reason.
func ExampleEnv_Supports() {
	e := env.New(&env.Options{
		Root:    fstest.MapFS{},
		Release: "6.1.0-50-cloud-amd64",
		Features: env.FeatureSet{ // or RecordFeatures, on that machine
			"uprobe":       {State: "yes"},
			"kprobe-multi": {State: "no", Reason: "CONFIG_FPROBE is not set"},
		},
	})
	for _, name := range []string{"uprobe", "kprobe-multi", "uprobe-multi"} {
		f, err := env.ParseFeature(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s since %s: %v\n", f, f.Since(), e.Supports(f))
	}
	// Output:
	// uprobe since 4.17: <nil>
	// kprobe-multi since 5.18: kprobe-multi: not supported: CONFIG_FPROBE is not set (since Linux 5.18)
	// uprobe-multi since 6.6: uprobe-multi: could not tell: not in the recording
}
