package script

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/borescope/borescope/internal/pcap"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/internal/lower"
)

// packets are the streams of packets of a run, and the files to which they go. It is read when the ring is, and at
// the latest after pollPackets.
type packets struct {
	streams []stream
	files   map[string]*packetFile
	read    time.Time // when they were
	rec     mapx.Record
	head    []byte
}

// stream is the packets for one file without as many bytes.
type stream struct {
	bpf.Stream
	*lower.Packets
}

// packetFile is a file that is written.
type packetFile struct {
	*bufio.Writer
	file *os.File
}

// pollPackets is how often packets are read: a buffer has room for as many as come meanwhile.
const pollPackets = 10 * time.Millisecond

// openPackets opens the streams of the script's packets, and makes their files.
func (s *run) openPackets() error {
	s.packets.files = map[string]*packetFile{}
	for _, p := range s.low.Packets {
		in, err := bpf.OpenStream(s.reader, p.IR, time.Millisecond)
		if err != nil {
			return err
		}
		s.packets.streams = append(s.packets.streams, stream{in, p})
		if s.packets.files[p.File] != nil {
			continue
		}
		f, err := os.OpenFile(p.File, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return fmt.Errorf("skboutput: %w", err)
		}
		w := &packetFile{bufio.NewWriter(f), f}
		s.packets.files[p.File] = w
		if _, err := w.Write(pcap.AppendHeader(nil, pcap.IP)); err != nil {
			return fmt.Errorf("skboutput: %w", err)
		}
	}
	return nil
}

// close ends the streams and the files.
func (p *packets) close() error {
	var errs []error
	for _, in := range p.streams {
		errs = append(errs, in.Close())
	}
	for _, f := range p.files {
		errs = append(errs, f.Flush(), f.file.Close())
	}
	return errors.Join(errs...)
}

// duePackets writes the packets that are there, if it is time.
func (s *run) duePackets() error {
	if len(s.packets.streams) == 0 || time.Since(s.packets.read) < pollPackets {
		return nil
	}
	return s.drainPackets()
}

// lost returns how many packets found no room.
func (p *packets) lost() (n uint64, err error) {
	for _, in := range p.streams {
		st, err := in.Stats()
		if err != nil {
			return 0, err
		}
		n += st.Lost
	}
	return n, nil
}

// drainPackets writes the packets that are there.
func (s *run) drainPackets() error {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	p := &s.packets
	p.read = time.Now()
	for i := range p.streams {
		for {
			err := p.streams[i].ReadInto(done, &p.rec)
			if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = s.packet(p.streams[i].Packets)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// packet writes a packet.
func (s *run) packet(to *lower.Packets) error {
	p := &s.packets
	le, b := binary.LittleEndian, p.rec.Data
	const head = 16 // of ir.PacketHead
	if len(b) < head || uint64(le.Uint32(b[12:])) > uint64(len(b)-head) {
		return fmt.Errorf("a packet's record of %d bytes", len(b))
	}
	t, length, data := le.Uint64(b), int(le.Uint32(b[8:])), b[head:][:le.Uint32(b[12:])]
	data, length = data[min(to.Skip, len(data)):], max(length-to.Skip, 0)
	p.head = pcap.AppendRecord(p.head[:0], uint64(s.started.UnixNano())+t, len(data), length)
	w := p.files[to.File]
	for _, b := range [][]byte{p.head, data} {
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("skboutput: %w", err)
		}
	}
	return nil
}
