package tooltest

import (
	"fmt"
	"net"
)

// Disk is the block device that ReadDisk reads, a virtual machine's.
const Disk = "/dev/vda"

// Connect makes this process connect to itself n times over TCP, on Port of the loopback
// device, accept, and close both ends. It panics on errors.
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

// Port is the port to which Connect connects.
const Port = 18423
