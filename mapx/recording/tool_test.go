package recording

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/sourcetest"
)

// slowOp is a record of 48 bytes as a tool emits it: when, who, how long, where.
type slowOp struct {
	Nsecs  uint64
	PID    uint32
	CPU    uint32
	Comm   [16]byte
	Device uint32
	Type   uint32
	Delta  uint64
}

// slowOps draws records as a disk's latencies come: a few processes, devices and
// kinds, times that only grow, durations spread over three decades.
type slowOps struct {
	r    *rand.Rand
	left int
	now  uint64
}

func (s *slowOps) ReadInto(_ context.Context, rec *mapx.Record) error {
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	who := s.r.IntN(12)
	s.now += uint64(s.r.ExpFloat64() * 20000)
	op := slowOp{
		Nsecs: s.now, PID: 1000 + uint32(who*37), CPU: uint32(s.r.IntN(4)),
		Device: 0x800000 + uint32(s.r.IntN(2)), Type: uint32(s.r.IntN(2)),
		Delta: uint64(50000 * (1 + s.r.ExpFloat64()*s.r.ExpFloat64()*10)),
	}
	copy(op.Comm[:], fmt.Sprintf("worker-%d", who%5))
	b, err := binary.Append(rec.Data[:0], binary.NativeEndian, &op)
	rec.Data, rec.CPU, rec.Lost, rec.Remaining = b, -1, 0, s.left%64
	return err
}

// summarize is a tool: what it writes depends on every record.
func summarize(ctx context.Context, src mapx.Source, w io.Writer) error {
	events, err := mapx.NewEvents[slowOp](src)
	if err != nil {
		return err
	}
	hists := map[[16]byte]*hist.Log2{}
	sum := uint64(14695981039346656037)
	all, errf := events.All(ctx)
	for op := range all {
		h := hists[op.Comm]
		if h == nil {
			if h, err = hist.NewLog2(2); err != nil {
				return err
			}
			hists[op.Comm] = h
		}
		h.Add(int64(op.Delta / 1000))
		sum = (sum ^ op.Nsecs ^ uint64(op.PID)<<32 ^ op.Delta) * 1099511628211
	}
	if err := errf(); err != nil {
		return err
	}
	var s mapx.Snapshot[[16]byte, *hist.Log2]
	for comm, h := range hists {
		s.Entries = append(s.Entries, mapx.Entry[[16]byte, *hist.Log2]{Key: comm, Value: h})
	}
	fmt.Fprintf(w, "%x\n", sum)
	return mapx.Print(w, "@usecs", s, nil)
}

// TestMillionEvents: a recording replays to the tool's own output, byte for byte,
// in less than 20 bytes per event. The pace is measured: 44 times as fast as it
// happened on an idle machine.
func TestMillionEvents(t *testing.T) {
	n := 1000000
	if testing.Short() || testenv.InGuest() {
		n = 50000
	}
	dir := t.TempDir()
	rec, err := Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	src := &slowOps{r: rand.New(rand.NewPCG(1, 2)), left: n, now: 1e15}
	var live, replayed bytes.Buffer
	if err := summarize(t.Context(), rec.Stream("ops", src), &live); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := r.Stream("ops", nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := summarize(t.Context(), p, &replayed); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	if live.String() != replayed.String() || live.Len() < 500 {
		t.Errorf("the replay says\n%s\nand the live run\n%s", replayed.String(), live.String())
	}
	info, err := os.Stat(dir + "/ops.stream")
	if err != nil {
		t.Fatal(err)
	}
	size := float64(info.Size()) / float64(n)
	happened := time.Duration(src.now - 1e15)
	t.Logf("%.1f bytes per event, replayed %.0f times as fast as it happened", size, float64(happened)/float64(took))
	if size > 20 {
		t.Errorf("%.1f bytes per event", size)
	}
}

// TestKilledRecorder: whoever is killed loses what was read since the last chunk
// and nothing else, and the recording says that it was not closed.
func TestKilledRecorder(t *testing.T) {
	dir := t.TempDir()
	rec, err := Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	records := sampleRecords(5000)
	src := rec.Stream("s", &sourcetest.List{Records: records})
	table := RecordTable(rec, "t", mapx.Table[stackKey, uint64](&staticTable[stackKey, uint64]{stackSnapshot(100)}))
	var r mapx.Record
	for i := range 4000 {
		if err := src.ReadInto(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		if i == 2999 {
			if err := rec.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := table.Snapshot(); err != nil {
		t.Fatal(err)
	}
	// Killed here: nothing is closed.
	got, err := Open(os.DirFS(dir))
	if err != nil || got.Complete() {
		t.Fatal(err)
	}
	p, err := got.Stream("s", nil)
	if err != nil {
		t.Fatal(err)
	}
	back, err := sourcetest.ReadAll(t, p)
	if err != io.EOF {
		t.Fatal(err)
	}
	checkRecords(t, back, records[:3000])
	rt, err := ReplayTable[stackKey, uint64](got, "t")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := rt.Snapshot(); err != nil || len(s.Entries) != 100 {
		t.Fatal(len(s.Entries), err)
	}
	if err := errors.Join(got.Close(), rec.Close()); err != nil {
		t.Fatal(err)
	}
}
