package pcap_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/action/pcap"
)

func Example() {
	var file bytes.Buffer
	w, err := pcap.NewWriter(&file, pcap.IP, time.Unix(0, 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	// One of an action.EventReader[action.Packet].
	p := action.Packet{Time: 1_500_000_000, Len: 60, Data: make([]byte, 20)}
	if err := w.Write(&p); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(file.Len(), "bytes: a header of 24, one of 16, and the packet's 20")
	// Output: 60 bytes: a header of 24, one of 16, and the packet's 20
}
