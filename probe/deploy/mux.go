package deploy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
)

// MaxUsers is the maximum number of users of a Mux at a time: the kernel limits the number of
// tail calls.
const MaxUsers = kernel.ChainSlots

// Mux is one set of attachments that several users in a process share. Each user has a
// collection of programs of its own, with maps and a budget of its own, which can be added and
// removed without attaching anything again and without disturbing the others.
//
// The kernel sees one small program at each site, which passes its context to the users'
// programs one after the other by tail calls. That needs Linux 5.10, on arm64 6.0 for
// programs with functions of their own.
//
// A Mux is safe for concurrent use.
type Mux struct {
	plan *probe.Plan
	link *probe.Link

	mu     sync.Mutex
	slots  []*ebpf.Map     // guarded by mu: a prog array for each program of the plan
	users  [MaxUsers]*User // guarded by mu
	closed bool            // guarded by mu
}

// Share attaches a plan for several users; no user's program runs yet. The caller closes the
// Mux, after its users or together with them.
//
// Programs whose return value matters, or that may sleep, can't be shared: iterators, LSM and
// fmod_ret programs, socket filters, sessions, begin and end.
func Share(plan *probe.Plan, o *probe.AttachOptions) (*Mux, error) {
	if plan == nil {
		return nil, errors.New("share: no plan")
	}
	s := &Mux{plan: plan}
	progs, err := s.dispatchers(MaxUsers)
	defer closePrograms(progs)
	if err == nil {
		s.link, err = plan.Attach(progs, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("share: %w", err), s.Close())
	}
	return s, nil
}

// dispatchers returns, for each program of the plan, a program that calls those in the first
// n slots of a prog array.
func (s *Mux) dispatchers(n int) (map[string]*ebpf.Program, error) {
	specs := map[string]*ebpf.ProgramSpec{}
	for i := range s.plan.Programs {
		g := &s.plan.Programs[i]
		if err := shareable(g); err != nil {
			return nil, err
		}
		m, err := ebpf.NewMap(&ebpf.MapSpec{
			Name: "slots", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(n),
		})
		if err != nil {
			return nil, fmt.Errorf("%s: make the array of its users: %w", g.Place(), err)
		}
		s.slots = append(s.slots, m)
		spec := s.plan.ProgramSpec(i)
		spec.License = "Dual MIT/GPL"
		spec.Instructions = kernel.Dispatcher(m.FD(), n, kernel.Idle(g.Type))
		specs[g.Name] = spec
	}
	coll, err := probe.LoadCollection(&ebpf.CollectionSpec{Programs: specs},
		cached(s.plan, ebpf.CollectionOptions{}))
	if err != nil {
		return nil, fmt.Errorf("load the dispatchers: %w", err)
	}
	return coll.Programs, nil
}

// cached returns o with the plan's cache of types, unless o has one.
func cached(plan *probe.Plan, o ebpf.CollectionOptions) ebpf.CollectionOptions {
	if o.Cache == nil {
		o.Cache = plan.Cache
	}
	return o
}

func closePrograms(progs map[string]*ebpf.Program) {
	for _, p := range progs {
		p.Close()
	}
}

// shareable returns an error if a dispatcher can't take a program's place.
func shareable(p *probe.ProgramPlan) error {
	why := ""
	switch {
	case p.Sleepable():
		why = "the kernel has no tail calls for programs that may sleep"
	case p.AttachTarget != 0:
		why = "it is attached to one BPF program, which only a program loaded for that can be"
	case p.EntryReturn(), p.AttachType == ebpf.AttachModifyReturn, p.Type == ebpf.LSM:
		why = "what its programs return has a meaning, and there is one value for all"
	case p.Method == probe.MethodIter, p.Method == probe.MethodSocket, p.Method == probe.MethodRun,
		p.Method == probe.MethodNone:
		why = "it is of a kind that has one user"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s: it can't be shared: %s: %w", p.Place(), why, errors.ErrUnsupported)
}

// UserOptions are the options of Join. The zero value and nil are the defaults.
type UserOptions struct {
	// EventsPerSecond is the budget of each of the user's programs. Events beyond it are
	// dropped for this user only, and counted. 0 is no limit. It may be exceeded by a few
	// events if several CPUs begin a second at the same time.
	EventsPerSecond uint64
	// Collection are the options for loading the user's programs and maps.
	Collection ebpf.CollectionOptions
}

// User is one user's part of a Mux. It is safe for concurrent use.
type User struct {
	of   *Mux
	slot int
	coll *ebpf.Collection

	mu     sync.Mutex
	state  []*ebpf.Map // guarded by mu: one kernel.ChainState for each program
	joined bool        // guarded by mu
	closed bool        // guarded by mu
}

// UserStats counts the events of a user's programs. It is plain data.
type UserStats struct {
	// Events is the number of events for which the user's programs ran, Dropped the number
	// of those beyond its budget.
	Events, Dropped uint64
}

// Join loads a user's programs, by their names in the plan, and runs them from now on. Each
// program must consist of one main function; spec is not changed. The caller closes the User,
// which unloads its programs and maps.
func (s *Mux) Join(spec *ebpf.CollectionSpec, o *UserOptions) (*User, error) {
	if spec == nil {
		return nil, errors.New("join: no collection")
	}
	if o == nil {
		o = &UserOptions{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed("join")
	}
	slot := slices.Index(s.users[:], nil)
	if slot < 0 {
		return nil, fmt.Errorf(
			"join: %d users share the attachment already, which is all that there is room for", MaxUsers)
	}
	u := &User{of: s, slot: slot}
	if err := u.load(spec, o); err != nil {
		return nil, errors.Join(fmt.Errorf("join: %w", err), u.release())
	}
	for i := range s.plan.Programs {
		if err := s.slots[i].Put(uint32(slot), u.coll.Programs[s.plan.Programs[i].Name]); err != nil {
			return nil, errors.Join(fmt.Errorf("join %s: %w", s.plan.Programs[i].Place(), err),
				s.clear(slot), u.release())
		}
	}
	s.users[slot], u.joined = u, true
	return u, nil
}

// load loads the user's programs as parts of the chain.
func (u *User) load(spec *ebpf.CollectionSpec, o *UserOptions) error {
	mine := spec.Copy()
	for i := range u.of.plan.Programs {
		g := &u.of.plan.Programs[i]
		prog := mine.Programs[g.Name]
		if prog == nil {
			return fmt.Errorf("%s: the plan's program %s is not among those given", g.Place(), g.Name)
		}
		state, err := ebpf.NewMap(&ebpf.MapSpec{
			Name: "share", Type: ebpf.Array, KeySize: 4,
			ValueSize: 32, MaxEntries: 1,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", g.Place(), err)
		}
		u.state = append(u.state, state)
		prog.Instructions, err = kernel.Chain(prog.Instructions, u.of.slots[i].FD(), u.slot, state.FD(),
			o.EventsPerSecond, kernel.Idle(g.Type))
		if err != nil {
			return fmt.Errorf("%s: %w", g.Place(), err)
		}
	}
	var err error
	u.coll, err = probe.LoadCollection(mine, cached(u.of.plan, o.Collection))
	return err
}

// clear removes a user's programs from the chain.
func (s *Mux) clear(slot int) error {
	var errs []error
	for _, m := range s.slots {
		if err := m.Delete(uint32(slot)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Map returns a map of the user by its name, nil if there is none. The User owns it.
func (u *User) Map(name string) *ebpf.Map { return u.coll.Maps[name] }

// Stats returns the events of the user's programs up to now. It fails with os.ErrClosed after
// Close.
func (u *User) Stats() (UserStats, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out UserStats
	if u.closed {
		return out, errClosed("stats")
	}
	for _, m := range u.state {
		var v kernel.ChainState
		if err := m.Lookup(uint32(0), &v); err != nil {
			return out, fmt.Errorf("stats: %w", err)
		}
		out.Events += v.Runs
		out.Dropped += v.Dropped
	}
	return out, nil
}

// Leave stops the user's programs, and keeps its maps. Programs that are running at that
// moment finish; after that the maps no longer change.
func (u *User) Leave() error {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	return u.leave()
}

// leave is Leave for callers that hold the Mux's lock.
func (u *User) leave() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.joined {
		return nil
	}
	u.joined = false
	u.of.users[u.slot] = nil
	return u.of.clear(u.slot)
}

// Close leaves, and unloads the user's programs and maps. The other users are not affected. It
// may be called again, and on a nil User.
func (u *User) Close() error {
	if u == nil {
		return nil
	}
	return errors.Join(u.Leave(), u.release())
}

func (u *User) release() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	var errs []error
	for _, m := range u.state {
		errs = append(errs, m.Close())
	}
	if u.coll != nil {
		u.coll.Close()
	}
	return errors.Join(errs...)
}

// Link returns the attachments that all users share. The Mux owns it.
func (s *Mux) Link() *probe.Link { return s.link }

// Close detaches, and makes all users leave; their maps can be read until their Users are
// closed. It may be called again, and on a nil Mux.
func (s *Mux) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	errs := []error{s.link.Close()}
	for _, u := range s.users {
		if u != nil {
			errs = append(errs, u.leave())
		}
	}
	for _, m := range s.slots {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// errClosed returns the error of methods after Close.
func errClosed(op string) error { return fmt.Errorf("%s: %w", op, os.ErrClosed) }
