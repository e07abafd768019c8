package profile_test

import (
	"fmt"
	"os"

	"github.com/borescope/borescope/stack/profile"
)

func ExampleFolded() {
	var f profile.Folded
	f.Add([]string{"sh", "main", "read"}, 3)
	f.Add([]string{"sh", "main", "write"}, 1)
	f.Add([]string{"sh", "main", "read"}, 2)
	f.WriteTo(os.Stdout)
	fmt.Println("total", f.Total())
	// Output:
	// sh;main;read 5
	// sh;main;write 1
	// total 6
}

func ExampleProfile_Top() {
	main := &profile.NamedFrame{Functions: []profile.Function{{Name: "main"}}}
	read := &profile.NamedFrame{Functions: []profile.Function{{Name: "read"}}}
	p := profile.Profile{Samples: []profile.Sample{
		{Comm: "cat", Frames: []*profile.NamedFrame{read, main}, Values: []int64{3}},
		{Comm: "cat", Frames: []*profile.NamedFrame{main}, Values: []int64{1}},
	}}
	for _, fn := range p.Top(nil).Functions {
		fmt.Println(fn.Name, fn.Self, fn.Total, fn.Callers)
	}
	// Output:
	// read 3 3 [main]
	// main 1 4 []
}
