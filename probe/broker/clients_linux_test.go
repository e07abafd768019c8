package broker

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// answer is what a target that asks a broker says of the broker's answer.
type answer struct {
	ID     uint64
	Sites  int
	Offers []string
	Err    string // why it was refused; "" if not
	Kind   string // which error of errorKinds that is
	// Dropped is whether the broker has hung up after a message that was sent as it is.
	Dropped bool
}

// asks is the half of a target that asks a broker: a true peer, with a process of
// its own.
type asks struct {
	path string
	c    *Client
	held map[uint64]*Attachment
}

// do carries one line out and returns the answer; "" if it is no line of these.
func (s *asks) do(what, arg string) string {
	var a answer
	var err error
	switch what {
	case "dial": // whatever there was before is gone
		err = s.hangUp()
		if err == nil && arg != "" {
			s.path = arg
			s.c, err = Dial(arg)
		}
	case "ask":
		var r request
		if err = json.Unmarshal([]byte(arg), &r); err == nil {
			a, err = s.ask(&r)
		}
	case "send":
		a, err = s.send(arg)
	default:
		return ""
	}
	if err != nil {
		a.Err, a.Kind = err.Error(), errorReply(err).Kind
	}
	b, _ := json.Marshal(a)
	return string(b)
}

func (s *asks) hangUp() error {
	err := s.c.Close()
	for _, a := range s.held {
		err = errors.Join(err, a.Close())
	}
	s.c, s.held = nil, map[uint64]*Attachment{}
	return err
}

func (s *asks) ask(r *request) (answer, error) {
	a := s.held[r.Attachment]
	switch {
	case r.Op == opAttach:
		a, err := s.c.Attach(Request{Offer: r.Offer, Targets: r.Targets, Self: r.Self})
		if err != nil {
			return answer{}, err
		}
		s.held[a.id] = a
		return answer{ID: a.id, Sites: a.Sites}, nil
	case r.Op == opDetach && a != nil:
		delete(s.held, r.Attachment)
		return answer{}, a.Close()
	}
	var out answer
	err := s.c.do(r, func(r *reply, _ []int) error {
		out.Offers = r.Offers
		return nil
	})
	return out, err
}

// send sends a message as it is, on a connection of its own.
func (s *asks) send(arg string) (a answer, err error) {
	message, err := base64.StdEncoding.DecodeString(arg)
	if err != nil {
		return a, err
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.path, Net: "unixpacket"})
	if err != nil {
		return a, err
	}
	defer conn.Close()
	if err := writeMessage(conn, message, nil); err != nil && !gone(err) {
		return a, err
	} // who has hung up may have said why
	buf := make([]byte, maxMessage+1)
	n, files, err := readMessage(conn, buf, maxFiles)
	if gone(err) {
		n, files, err = readMessage(conn, buf, maxFiles) // the reset comes before the broker's last word
	}
	if gone(err) {
		a.Dropped = true
		return a, nil
	}
	if err != nil {
		return a, err
	}
	err = closeFiles(files)
	r, rerr := decodeReply(buf[:n], len(files))
	if rerr != nil {
		return a, errors.Join(err, rerr)
	}
	a.ID, a.Sites = r.Attachment, r.Sites
	if !errors.Is(r.err(), errMessage) {
		return a, errors.Join(err, r.err()) // it may go on
	}
	_, _, gerr := readMessage(conn, buf, 0)
	a.Dropped = gone(gerr)
	return a, errors.Join(err, r.err())
}

// mapLibrary maps a file as a program's loader does.
func mapLibrary(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	return err
}

// answers has the process do something, and reads the answer that it got.
func (p *target) answers(t *testing.T, format string, args ...any) answer {
	t.Helper()
	var a answer
	line := p.tell(format, args...)
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("the target says %q: %v", line, err)
	}
	return a
}

// asks has the process ask its broker.
func (p *target) asks(t *testing.T, r request) answer {
	t.Helper()
	r.Version = wireVersion
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return p.answers(t, "ask %s", b)
}

// startBare starts a process of root's that has no capabilities, and can get none.
func startBare(t *testing.T) *target {
	t.Helper()
	up, end := make(chan *target), make(chan struct{})
	var failed error
	var in func()
	in = func() {
		runtime.LockOSThread() // for ever: what is dropped stays dropped
		if unix.Gettid() == unix.Getpid() {
			go in()
			<-end
			runtime.UnlockOSThread()
			return
		}
		for c := range uintptr(unix.CAP_LAST_CAP + 1) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
				failed = fmt.Errorf("drop capability %d: %w", c, err)
				close(up)
				return
			}
		}
		up <- startTarget(t, 0, false, func(cmd *testenv.Cmd) { cmd.Here() })
		<-end
	}
	go in()
	p := <-up
	t.Cleanup(func() { close(end) })
	if failed != nil {
		t.Fatal(failed)
	}
	return p
}
