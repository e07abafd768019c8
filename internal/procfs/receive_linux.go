package procfs

import "time"

// stall is how long reading a process's memory may go on without a result.
const stall = 2 * time.Second

// processMemory is the major number of the servers that are processes. No device has it.
const processMemory = 1<<32 - 1

// Receive calls read, which reads the memory of a process, in a goroutine of its own, and each
// with what it sends, in order, until read returns. A page of that memory may be one of a file
// that a process or another machine answers for. If no result comes for two seconds, Receive
// returns a *ServedError, and it does so at once for this process while that page is awaited.
// send returns false from then on, and read is to return.
func Receive[T any](pid int, read func(send func(T) bool), each func(T)) error {
	a, most := server{processMemory, uint32(pid)}.account(time.Now())
	if most <= 0 {
		return errLate
	}
	timer := time.NewTimer(stall)
	defer timer.Stop()
	select {
	case a.asked <- struct{}{}:
	case <-timer.C:
		return errLate
	}
	results, done, late := make(chan T), make(chan struct{}), make(chan struct{})
	go func() {
		questions.begin()
		read(func(v T) bool {
			select {
			case results <- v:
				return true
			case <-late:
				return false
			}
		})
		questions.end()
		<-a.asked
		select {
		case done <- struct{}{}:
		case <-late:
			a.owe(-1)
		}
	}()
	for {
		select {
		case v := <-results:
			each(v)
			timer.Reset(stall)
		case <-done:
			return nil
		case <-timer.C:
			a.owe(1)
			close(late)
			return errLate
		}
	}
}
