package deploy_test

import (
	"errors"
	"fmt"
	"testing/fstest"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/deploy"
)

// Two users share one attachment. One of them receives at most a thousand events a second.
func ExampleShare() {
	share := func(plan *probe.Plan, all, some *ebpf.CollectionSpec) error {
		mux, err := deploy.Share(plan, nil)
		if err != nil {
			return err
		}
		defer mux.Close()
		a, err := mux.Join(all, nil)
		if err != nil {
			return err
		}
		defer a.Close()
		b, err := mux.Join(some, &deploy.UserOptions{EventsPerSecond: 1000})
		if err != nil {
			return err
		}
		defer b.Close()
		stats, err := b.Stats()
		if err != nil {
			return err
		}
		fmt.Println(stats.Events, "events,", stats.Dropped, "beyond the budget")
		return nil
	}
	env := probe.NewEnv(&probe.EnvOptions{Arch: "amd64", Release: "6.12.0", Root: fstest.MapFS{}})
	plan, err := probe.Resolve(env, []probe.Target{probe.SocketFilter{Interface: "lo"}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = share(plan, nil, nil)
	fmt.Println(errors.Is(err, errors.ErrUnsupported), err)
	// Output:
	// true share: socket:lo: it can't be shared: it is of a kind that has one user: unsupported operation
}
