package broker

import (
	"context"
	"sync"
	"time"
)

// Limits of one user over all of its connections, whatever the rules.
const (
	// maxConnections is the number of a user's connections at a time.
	maxConnections = 32
	// maxPending is the number of a user's requests that are carried out at a time, and
	// allPending that of all users. A request that waits for a file stays pending though
	// its client has been answered.
	maxPending = 4
	allPending = 256
	// attachBurst and attachRate are the attach requests that a user may make at once and
	// for each second: others have to wait.
	attachBurst, attachRate = 64, 8
	// attachTimeout is how long a request may take until it is attached.
	attachTimeout = 30 * time.Second
	// idleTimeout is how long a connection without attachments may be idle.
	idleTimeout = 5 * time.Minute
	// checkEvery is how often attachments are checked.
	checkEvery = time.Second
)

// users are the users with connections or pending requests.
type users struct {
	mu  sync.Mutex
	of  map[uint32]*user // guarded by mu
	all chan struct{}    // a place for each request that is pending
}

type user struct {
	uid     uint32
	conns   int           // guarded by users.mu
	refs    int           // guarded by users.mu: conns, and requests
	pending chan struct{} // a place for each request that is pending
	rate    bucket        // guarded by users.mu
}

func newUsers() *users {
	return &users{of: map[uint32]*user{}, all: make(chan struct{}, allPending)}
}

// connect counts a user's connection.
func (s *users) connect(uid uint32) (*user, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.of[uid]
	if u == nil {
		u = &user{uid: uid, pending: make(chan struct{}, maxPending)}
		s.of[uid] = u
	}
	if u.conns >= maxConnections {
		return nil, refuse("user %d has %d connections already", uid, u.conns)
	}
	u.conns++
	u.refs++
	return u, nil
}

func (s *users) disconnect(u *user) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.conns--
	s.unref(u)
}

// unref forgets a user that has nothing left. s.mu is held.
func (s *users) unref(u *user) {
	if u.refs--; u.refs == 0 {
		delete(s.of, u.uid)
	}
}

// begin waits until a request may be carried out. end releases its place.
func (s *users) begin(ctx context.Context, u *user) (end func(), err error) {
	s.mu.Lock()
	wait := u.rate.take(time.Now())
	u.refs++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unref(u)
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			leave()
			return nil, refuse("user %d asks too often", u.uid)
		}
	}
	for _, places := range []chan struct{}{u.pending, s.all} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			if places == s.all {
				<-u.pending
			}
			leave()
			return nil, refuse("user %d has %d requests pending, %d are in all", u.uid, len(u.pending),
				len(s.all))
		}
	}
	return func() {
		<-s.all
		<-u.pending
		leave()
	}, nil
}

// bucket slows down a user that asks too often. The zero value is full.
type bucket struct {
	used float64
	at   time.Time
}

// take returns how long to wait for one more request.
func (b *bucket) take(now time.Time) time.Duration {
	b.used = max(0, b.used-now.Sub(b.at).Seconds()*attachRate) + 1
	b.at = now
	if over := b.used - attachBurst; over > 0 {
		return time.Duration(over / attachRate * float64(time.Second))
	}
	return 0
}
