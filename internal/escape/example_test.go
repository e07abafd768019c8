package escape_test

import (
	"fmt"
	"os"

	"github.com/borescope/borescope/internal/escape"
)

// The name of a thread may contain any bytes, such as those that clear a terminal.
func Example() {
	comm := "evil\x1b[2J\n"
	escape.Fprintf(os.Stdout, "%-16s %d\n", comm, 4711)
	fmt.Println(escape.Folded(comm, "a;b"))
	fmt.Println("threads{comm=" + escape.Label(`say "hi"`) + "} 1")
	// Output:
	// evil?[2J?        4711
	// evil [2J;a:b
	// threads{comm="say \"hi\""} 1
}
