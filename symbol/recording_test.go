package symbol

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// TestRecording records what was resolved and gets the same frames back.
func TestRecording(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "app", 99)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKallsyms(strings.NewReader(kallsymsText))
	if err != nil {
		t.Fatal(err)
	}
	odd := unnamed(ReasonBadFile)
	var rec Recording
	user, kernel := []uint64{0x401014, 0x401040, 0x7f0000001504, 5}, []uint64{0xffffffff81000010, 1}
	wantUser := rec.RecordProcess(7, 99, p).Resolve(nil, user)
	wantKernel := rec.RecordKernel(k).Resolve(nil, kernel)
	rec.RecordProcess(8, 0, fixed{Name: "\xff\x00<&>", File: "a\nb", Inlined: true}).Resolve(nil, []uint64{1})
	rec.RecordProcess(9, 1<<63, odd).Resolve(nil, []uint64{1<<64 - 1})

	var one, two bytes.Buffer
	n, err := rec.WriteTo(&one)
	if err != nil || n != int64(one.Len()) {
		t.Fatalf("wrote %d of %d: %v", n, one.Len(), err)
	}
	back, err := ReadRecorded(bytes.NewReader(one.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got := back.Process(7, 99).Resolve(nil, user); !reflect.DeepEqual(got, wantUser) {
		t.Errorf("got  %+v\nwant %+v", got, wantUser)
	}
	if got := back.Process(7, 0).Resolve(nil, user); !reflect.DeepEqual(got, wantUser) {
		t.Errorf("without a start time: %+v", got)
	}
	if got := back.Kernel().Resolve(nil, kernel); !reflect.DeepEqual(got, wantKernel) {
		t.Errorf("kernel: got %+v\nwant %+v", got, wantKernel)
	}
	if got := back.Process(8, 0).Resolve(nil, []uint64{1}); got[0].Name != "\xff\x00<&>" || !got[0].Inlined {
		t.Errorf("got %+v", got)
	}
	if got := frameNames(back.Process(3, 0).Resolve(nil, []uint64{4})); got != "(no mapping)" {
		t.Errorf("not recorded: %s", got)
	}
	if _, err := back.WriteTo(&two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Errorf("written again it differs: %v\n%s\n%s", err, one.Bytes(), two.Bytes())
	}
	for _, bad := range []string{
		"x", "{}", `{"format":"borescope-symbols","version":3}`, `{"format":"borescope-symbols","version":1}` + "\n{",
		`{"format":"borescope-symbols","version":1}` + "\n" + `{"a":"zz","f":[{}]}`,
		`{"format":"borescope-symbols","version":1}` + "\n" + `{"a":"1","f":[]}`, "",
		`{"format":"borescope-symbols","version":2}` + "\n" + `{"p":1,"t":[5,4],"a":"1","f":[{}]}`,
	} {
		if _, err := ReadRecorded(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestRecordedStates: a recording has what an address was at the time, as the process had it, and what
// was recorded without times stays the same.
func TestRecordedStates(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	at := uint64(100)
	ps.monotonic = func() uint64 { return at }
	ps.Follow(true)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range []*Event{appEvent(200), libEvent(300)} {
		ps.Handle(ev)
	}
	at = 1000
	var rec Recording
	live := rec.RecordProcess(7, 0, p).(Timed)
	times := [][2]uint64{{50, 199}, {200, 299}, {250, 250}, {150, 350}, {300, 900}, {0, 0}}
	resolve := func(r Timed, at [2]uint64) ([]Frame, State) {
		names, st := r.During(99, at[0], at[1])
		return names.Resolve(nil, []uint64{inLib, inApp, 5}), st
	}
	var want [][]Frame
	states := map[State]bool{}
	for _, at := range times {
		frames, st := resolve(live, at)
		want = append(want, frames)
		states[st] = true
	}
	var b, again bytes.Buffer
	if _, err := rec.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	back, err := ReadRecorded(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	replayed := map[State]bool{}
	for i, at := range times {
		got, st := resolve(back.Process(7, 0).(Timed), at)
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%d: got  %+v\nwant %+v", at, got, want[i])
		}
		replayed[st] = true
	}
	if len(states) != 5 || len(replayed) != 5 {
		t.Errorf("%d states, %d of the replay; want 5", len(states), len(replayed))
	}
	if got := frameNames(resolved(back.Process(7, 0).(Timed), 98, inApp)); got != "innermost" {
		t.Errorf("a process that was recorded without times: %s", got)
	}
	if got := frameNames(resolved(back.Process(7, 0).(Timed), 99, 0x401040)); got != "(no mapping)" {
		t.Errorf("an address of no recorded state: %s", got)
	}
	if _, err := back.WriteTo(&again); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("written again it differs: %v\n%s\n%s", err, b.Bytes(), again.Bytes())
	}
}

// TestRecordUntimed: a resolver that knows no times is recorded without them, whatever it is.
func TestRecordUntimed(t *testing.T) {
	var rec Recording
	chain := Chain{fixed{Name: "f"}}
	names, st := rec.RecordProcess(7, 0, chain).(Timed).During(99, 50, 60)
	if got := frameNames(names.Resolve(nil, []uint64{1})); got != "f" || st != (State{}) {
		t.Errorf("%s, %v", got, st)
	}
	if got := frameNames(resolved(rec.Process(7, 0).(Timed), 99, 1)); got != "f" {
		t.Errorf("replayed: %s", got)
	}
}

// resolved is an address of a process that started at a time, in its first state.
func resolved(r Timed, start, pc uint64) []Frame {
	names, _ := r.During(start, 60, 70)
	return names.Resolve(nil, []uint64{pc})
}

// fixed gives one frame for every address.
type fixed Frame

func (f fixed) Resolve(dst []Frame, pcs []uint64) []Frame {
	for i := range pcs {
		fr := Frame(f)
		fr.Index = i
		dst = append(dst, fr)
	}
	return dst
}
