package pcap_test

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/action/pcap"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestWriter compares a file with one by hand, by the format's description
// (draft-ietf-opsawg-pcap).
func TestWriter(t *testing.T) {
	var b bytes.Buffer
	f, err := pcap.NewWriter(&b, pcap.IP, time.Unix(1000, 5))
	if err != nil {
		t.Fatal(err)
	}
	p := &action.Packet{Time: 2_999_999_999, Len: 60, Data: []byte("ethernetETHERNETX-ip")}
	p.Skip(16)
	if err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	want := "4d3cb2a1" + "02000400" + "00000000" + "00000000" + "00000400" + "65000000" + // header
		"eb030000" + "04000000" + "04000000" + "2c000000" + hex.EncodeToString([]byte("X-ip"))
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("file is %s, want %s", got, want)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = f.Write(p) }); n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
}
