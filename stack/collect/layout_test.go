package collect

import (
	"testing"
	"unsafe"
)

// The program writes these structs by offset.
func TestLayout(t *testing.T) {
	var k taskKey
	var s segment
	var w waitKey
	var count counted
	var sum summed
	var ended endedWait
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"Key.Kernel", unsafe.Offsetof(k.Kernel), keyKernel},
		{"Key.User", unsafe.Offsetof(k.User), keyUser},
		{"Key.PID", unsafe.Offsetof(k.PID), keyPID},
		{"Key.TID", unsafe.Offsetof(k.TID), keyTID},
		{"Key.Comm", unsafe.Offsetof(k.Comm), keyComm},
		{"Key.Start", unsafe.Offsetof(k.Start), keyStart},
		{"Key.Exec", unsafe.Offsetof(k.Exec), keyExec},
		{"Key.Epoch", unsafe.Offsetof(k.Epoch), keyEpoch},
		{"Key.Program", unsafe.Offsetof(k.Program), keyProgram},
		{"Key.UserEnd", unsafe.Offsetof(k.UserEnd), keyUserEnd},
		{"Key", unsafe.Sizeof(k), keySize},
		{"waitKey.Waker", unsafe.Offsetof(w.Waker), waitWaker - waitTask},
		{"waitKey", unsafe.Sizeof(w), waitCopy - waitTask},
		{"counted.First", unsafe.Offsetof(count.First), 8 * countWords},
		{"counted.Last", unsafe.Offsetof(count.Last), 8*countWords + 8},
		{"counted", unsafe.Sizeof(count), 8*countWords + timesSize},
		{"summed.Sum", unsafe.Offsetof(sum.Sum), 8},
		{"summed.First", unsafe.Offsetof(sum.First), 8 * totalWords},
		{"summed.Last", unsafe.Offsetof(sum.Last), 8*totalWords + 8},
		{"summed", unsafe.Sizeof(sum), 8*totalWords + timesSize},
		{"segment", unsafe.Sizeof(s), segmentSize},
		{"endedWait.Start", unsafe.Offsetof(ended.Start), endedStart},
		{"endedWait.Last", unsafe.Offsetof(ended.Last), endedLast},
		{"endedWait.Value", unsafe.Offsetof(ended.Value), endedValue},
		{"endedWait.Thread", unsafe.Offsetof(ended.Thread), endedThread},
		{"endedWait.Window", unsafe.Offsetof(ended.Window), endedWindow},
		{"endedWait", unsafe.Sizeof(ended), endedSize},
	} {
		if c.got != c.want {
			t.Errorf("%s is at or of %d, the program uses %d", c.name, c.got, c.want)
		}
	}
	if segmentSize > 512 {
		t.Errorf("a segment of %d bytes is no key: MAX_BPF_STACK is 512", segmentSize)
	}
}
