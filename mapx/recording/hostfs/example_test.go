package hostfs_test

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
)

// What a tool read of the machine while it recorded is there where it is replayed.
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
