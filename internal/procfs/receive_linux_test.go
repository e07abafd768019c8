package procfs

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestReceive: results are waited for as long as they come, however long it takes together, and
// two seconds when none comes; then the process is not asked until the late one is there.
func TestReceive(t *testing.T) {
	var got []int
	each := func(n int) { got = append(got, n) }
	slow := func(send func(int) bool) {
		for i := range 5 {
			time.Sleep(stall / 4)
			send(i)
		}
	}
	if err := Receive(os.Getpid(), slow, each); err != nil || len(got) != 5 || got[4] != 4 {
		t.Errorf("%v, %v", got, err)
	}
	answer, ended := make(chan struct{}), make(chan bool)
	stuck := func(send func(int) bool) {
		if !send(5) {
			t.Error("the first result is refused")
		}
		<-answer
		ended <- send(6)
	}
	var served *ServedError
	if err := Receive(os.Getpid(), stuck, each); !errors.As(err, &served) || len(got) != 6 {
		t.Errorf("%v, %v", got, err)
	}
	start := time.Now()
	if err := Receive(os.Getpid(), slow, each); !errors.As(err, &served) || time.Since(start) > stall/2 {
		t.Errorf("while it is awaited: %v after %v", err, time.Since(start))
	}
	if err := Receive(os.Getpid()+1, func(func(int) bool) {}, each); err != nil {
		t.Errorf("another process: %v", err)
	}
	close(answer)
	if <-ended {
		t.Error("a result is taken that nobody waits for")
	}
	for err := error(served); err != nil; time.Sleep(time.Millisecond) {
		if err = Receive(os.Getpid(), func(func(int) bool) {}, each); time.Since(start) > 10*time.Second {
			t.Fatal(err)
		}
	}
	if len(got) != 6 {
		t.Error(got)
	}
}
