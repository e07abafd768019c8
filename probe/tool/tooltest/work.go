package tooltest

import (
	"fmt"
	"net"
)

// Disk is the block device that ReadDisk reads: that of a virtual machine.
const Disk = "/dev/vda"

// Connect has this process connect to itself n times over TCP, on Port of the
// loopback device, accept, and close both ends.
func Connect(n int) {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", Port))
	if err != nil {
		panic(err)
	}
	defer l.Close()
	for range n {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			panic(err)
		}
		a, err := l.Accept()
		if err != nil {
			panic(err)
		}
		a.Close()
		c.Close()
	}
}

// Port is what Connect connects to.
const Port = 18423
