package broker_test

import (
	"encoding/json"
	"fmt"
	"net"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/broker"
)

// The helper has a policy, a list of offers, and a loop that serves clients.
func ExampleServer() {
	policy := broker.Policy{Rules: []broker.Rule{{
		UIDs:   []uint32{65534},
		Offers: []string{"count"},
		Targets: []broker.Allow{
			{Kind: "uprobe", File: "/usr/bin/*", Function: "*"},
			{Kind: "uprobe", Function: "serve*"}, // of the process's own program
			{Kind: "sample", Event: "clock"},
		},
		EventsPerSecond: 1000,
		MaxMapBytes:     64 << 10,
	}}}
	compile := func(plan *probe.Plan, l broker.Limits) (*ebpf.CollectionSpec, error) {
		return ebpf.LoadCollectionSpec("/usr/lib/example/count.o") // or bpf.Compile(program, plan)
	}
	server, err := broker.NewServer(policy, map[string]broker.Offer{"count": {Compile: compile}})
	if err != nil {
		fmt.Println(err)
		return
	}
	serve := func(l *net.UnixListener) error { // of net.ListenUnix("unixpacket", …)
		return server.Serve(l)
	}
	_ = serve
	b, _ := json.Marshal(policy.Rules[0])
	fmt.Println(string(b))

	policy.Rules[0].Targets = nil
	_, err = broker.NewServer(policy, nil)
	fmt.Println(err)

	// The targets of earlier versions were texts.
	err = json.Unmarshal([]byte(`{"rules": [{"targets": ["uprobe:libc:malloc"]}]}`), &policy)
	fmt.Println(err)
	// Output:
	// {"uids":[65534],"offers":["count"],"targets":[{"kind":"uprobe","file":"/usr/bin/*","function":"*"},{"kind":"uprobe","function":"serve*"},{"kind":"sample","event":"clock"}],"max_map_bytes":65536,"events_per_second":1000}
	// broker: policy: rule 0: it allows no target
	// policy: target "uprobe:libc:malloc" is a text, which can be read in several ways: write {"kind":"uprobe","file":"libc","function":"malloc"} instead
}
