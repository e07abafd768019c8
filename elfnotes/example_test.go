package elfnotes_test

import (
	"encoding/binary"
	"fmt"

	"github.com/borescope/borescope/elfnotes"
)

func Example() {
	// What /sys/kernel/notes holds on a kernel of Debian 12.
	kernel := elfnotes.Append(nil, elfnotes.Note{Owner: "GNU", Type: 3, Desc: []byte("\x5d\xe3\xf7\x08\x64\x21\x48\xa6\x9e\x11\x1d\xe5\x72\x3c\x76\xd0\x3f\x55\x20\x49")}, 4)
	kernel = elfnotes.Append(kernel, elfnotes.Note{Owner: "Linux", Type: 0x100, Desc: []byte("6.1.0-18-cloud-amd64\x00")}, 4)

	notes, errOf := elfnotes.All(kernel, binary.LittleEndian, 4)
	for n := range notes {
		v, _ := n.Decode()
		fmt.Println(n.Owner, n.Kind(), v)
	}
	fmt.Println(errOf())
	// Output:
	// GNU build-id 5de3f708642148a69e111de5723c76d03f552049
	// Linux build-salt 6.1.0-18-cloud-amd64
	// <nil>
}

func ExampleBuildID() {
	id, err := elfnotes.BuildID(elfnotes.Bytes("#!/bin/sh\n"))
	fmt.Println(id, err)
	// Output: read ELF header: not an ELF file
}
