package hostfs_test

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
)

// The files that a tool read from the machine while it recorded are available at replay.
func Example() {
	rec, err := recording.Open(os.DirFS("../testdata/recording-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Close()
	host, err := hostfs.Open(rec, "host")
	if err != nil {
		fmt.Println(err)
		return
	}
	version, err := fs.ReadFile(host, "proc/version")
	fmt.Printf("%s%v\n", version, err)
	// Output:
	// Linux
	// <nil>
}
