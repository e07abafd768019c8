package procfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// A remote file system's answers come from a process or from another machine. They may be
// late, or never come, and the kernel waits for them where nothing can be interrupted. So each
// question to one is asked in a goroutine of its own, which is left behind when it was waited
// for long enough.
const (
	// patience is how long one server is waited for, in all. It grows again by a quarter of
	// the time that passes. A server that owes an answer is not asked at all.
	patience = 8 * time.Second
	// maxAsked bounds the questions to one server that have no answer yet. Each of them holds
	// a thread.
	maxAsked = 4
	// maxServers bounds the servers that were waited for.
	maxServers = 64
)

// server is a remote file system, by its device.
type server struct{ major, minor uint32 }

// account has how long a server was waited for.
type account struct {
	waited time.Duration
	at     time.Time     // when waited was right
	owed   int           // answers that nobody waits for any more
	asked  chan struct{} // has an element for each question without an answer
}

var accounts struct {
	sync.Mutex
	of map[server]*account
}

// settle lets the time pass.
func (a *account) settle(now time.Time) {
	a.waited = max(0, a.waited-now.Sub(a.at)/4)
	a.at = now
}

// account returns the server's account and for how long it may be waited for now.
func (s server) account(now time.Time) (a *account, most time.Duration) {
	accounts.Lock()
	defer accounts.Unlock()
	if a = accounts.of[s]; a != nil {
		if a.settle(now); a.owed > 0 {
			return a, 0
		}
		return a, patience - a.waited
	}
	for other, a := range accounts.of {
		if a.settle(now); a.waited == 0 && len(a.asked) == 0 {
			delete(accounts.of, other)
		}
	}
	if len(accounts.of) >= maxServers {
		return nil, 0
	}
	if accounts.of == nil {
		accounts.of = make(map[server]*account)
	}
	a = &account{at: now, asked: make(chan struct{}, maxAsked)}
	accounts.of[s] = a
	return a, patience
}

func (a *account) spend(d time.Duration) {
	accounts.Lock()
	defer accounts.Unlock()
	a.waited += d
}

// owe notes that an answer is owed, or came.
func (a *account) owe(n int) {
	accounts.Lock()
	a.owed += n
	accounts.Unlock()
	questions.late(n)
}

// errLate is the error for a file whose server does not answer.
var errLate = &ServedError{"", "remote, and its server does not answer in time"}

// ask returns the answer of a server to a question. If that is late, ask returns errLate, and
// discard gets the answer when it comes.
func ask[T any](s server, question func() (T, error), discard func(T)) (T, error) {
	var none T
	start := time.Now()
	a, most := s.account(start)
	if most <= 0 {
		return none, errLate
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	defer func() { a.spend(time.Since(start)) }()
	select {
	case a.asked <- struct{}{}:
	case <-timer.C:
		return none, errLate
	}
	answered, late := make(chan struct{}), make(chan struct{})
	var got T
	var gotErr error
	go func() {
		questions.begin()
		got, gotErr = question()
		questions.end()
		<-a.asked
		select {
		case answered <- struct{}{}:
		case <-late:
			a.owe(-1)
			if gotErr == nil {
				discard(got)
			}
		}
	}()
	select {
	case <-answered:
		return got, gotErr
	case <-timer.C:
		a.owe(1)
		close(late)
		return none, errLate
	}
}

// gate counts the questions that have no answer yet, and can hold new ones back.
type gate struct {
	mu      sync.Mutex
	changed sync.Cond // of the fields below
	running int       // guarded by mu
	owed    int       // guarded by mu: answers that nobody waits for any more
	shut    int       // guarded by mu: how many calls of Quiet hold questions back
}

var questions = newGate()

func newGate() *gate {
	g := new(gate)
	g.changed.L = &g.mu
	return g
}

func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut > 0 {
		g.changed.Wait()
	}
	g.running++
}

func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.changed.Broadcast()
}

func (g *gate) late(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owed += n
	g.changed.Broadcast()
}

// Quiet calls f while no thread waits for a remote file system, for what every thread has to
// take part in (syscall.AllThreadsSyscall): it would wait for theirs. If one does not answer,
// Quiet returns a *ServedError instead, after a few seconds, or at once if that is known.
func Quiet(f func() error) error {
	g := questions
	g.mu.Lock()
	g.shut++
	late := false
	timer := time.AfterFunc(patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		late = true
		g.changed.Broadcast()
	})
	defer timer.Stop()
	for g.running > 0 && g.owed == 0 && !late {
		g.changed.Wait()
	}
	quiet := g.running == 0
	g.mu.Unlock()
	err := error(errLate)
	if quiet {
		err = f()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut--
	g.changed.Broadcast()
	return err
}

// remoteFile is an open file of a server's. No method of it waits longer than patience.
type remoteFile struct {
	f      *os.File
	server server
	offset int64 // of Read
}

func (r *remoteFile) Fd() uintptr  { return r.f.Fd() }
func (r *remoteFile) Name() string { return r.f.Name() }

func (r *remoteFile) Stat() (fs.FileInfo, error) {
	return ask(r.server, func() (fs.FileInfo, error) { return statFile(r.f) }, func(fs.FileInfo) {})
}

// ReadAt reads into memory of its own: a late answer must not change what the caller has.
func (r *remoteFile) ReadAt(p []byte, off int64) (int, error) {
	type read struct {
		b   []byte
		err error
	}
	got, err := ask(r.server, func() (read, error) {
		b := make([]byte, len(p))
		n, err := readAt(r.f, b, off)
		return read{b[:n], err}, nil
	}, func(read) {})
	if err != nil {
		return 0, err
	}
	return copy(p, got.b), got.err
}

func (r *remoteFile) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.offset)
	r.offset += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Close does not wait: a server is told of it (FUSE_FLUSH) and may be late with its answer.
func (r *remoteFile) Close() error {
	a, _ := r.server.account(time.Now())
	go func() {
		if a != nil {
			a.asked <- struct{}{}
			defer func() { <-a.asked }()
		}
		questions.begin()
		defer questions.end()
		r.f.Close()
	}()
	return nil
}
