package mapx

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// ErrFull says that a UserRing has no room for the record now.
var ErrFull = errors.New("ring is full")

// UserRing writes a BPF user ring buffer (Linux 6.1): records from this program
// to a BPF program, which takes them with bpf_user_ringbuf_drain.
//
// It is safe for concurrent use by the goroutines of one process; a user ring
// has one writing process. Nothing is ever dropped: a write waits or fails.
type UserRing struct {
	userRing
}

// OpenUserRing opens a writer on a user ring buffer. m is borrowed for the call
// only. The caller closes the UserRing. Elsewhere than on Linux it returns
// *UnsupportedError.
func OpenUserRing(m *ebpf.Map) (*UserRing, error) {
	if m == nil {
		return nil, fmt.Errorf("open user ring: %w", errNoMap)
	}
	u := new(UserRing)
	if err := u.open(m); err != nil {
		return nil, err
	}
	return u, nil
}

// TryWrite writes one record, or returns ErrFull. It allocates nothing. A record
// that is larger than the ring, less 8 bytes, never fits and is another error.
func (u *UserRing) TryWrite(data []byte) error { return u.tryWrite(data) }

// Write writes one record, waiting for room until ctx ends. The kernel wakes
// writers after a drain, unless the program forbids it by BPF_RB_NO_WAKEUP.
func (u *UserRing) Write(ctx context.Context, data []byte) error { return u.write(ctx, data) }

// Unread returns the number of bytes that the program has not taken yet, headers
// included.
func (u *UserRing) Unread() int { return u.unread() }

// Close releases the ring; what is in it stays for the program. A Write that
// waits returns os.ErrClosed. It is idempotent, and does nothing on a nil
// UserRing.
func (u *UserRing) Close() error {
	if u == nil {
		return nil
	}
	return u.close()
}
