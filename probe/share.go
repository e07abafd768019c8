package probe

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
)

// MaxShares is how many users a Shared has room for at a time: the kernel
// follows a bounded number of tail calls.
const MaxShares = kernel.ChainSlots

// Shared is one set of attachments that several users in a process have in
// common: what each of them wants to do there is a collection of programs of
// its own, with maps and a budget of its own, that comes and goes without
// attaching anything anew and without disturbing the others.
//
// The kernel sees one small program at each site, which hands its context to
// the users' programs one after the other by tail calls. That needs Linux 5.10,
// on arm64 6.0 for programs with functions of their own.
//
// A Shared is safe for concurrent use.
type Shared struct {
	plan *Plan
	link *Link

	mu     sync.Mutex
	slots  []*ebpf.Map       // guarded by mu: a prog array for each program of the plan
	users  [MaxShares]*Share // guarded by mu
	closed bool              // guarded by mu
}

// Share attaches a plan for several users; nobody's program runs yet. The
// caller closes the Shared, after the shares in it or with them.
//
// Programs whose return value means something, or that may sleep, can't be
// shared: iterators, LSM and fmod_ret programs, socket filters, sessions, begin
// and end.
func (p *Plan) Share(o *AttachOptions) (*Shared, error) {
	s := &Shared{plan: p}
	progs, err := s.dispatchers(MaxShares)
	defer closePrograms(progs)
	if err == nil {
		s.link, err = p.Attach(progs, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("share: %w", err), s.Close())
	}
	return s, nil
}

// dispatchers makes, for each program of the plan, a prog array and the program
// that calls what is in its first n slots.
func (s *Shared) dispatchers(n int) (map[string]*ebpf.Program, error) {
	specs := map[string]*ebpf.ProgramSpec{}
	for i := range s.plan.Programs {
		g := &s.plan.Programs[i]
		if err := g.shareable(); err != nil {
			return nil, err
		}
		m, err := ebpf.NewMap(&ebpf.MapSpec{
			Name: "slots", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(n),
		})
		if err != nil {
			return nil, fmt.Errorf("%s: make the array of its users: %w", g.first(), err)
		}
		s.slots = append(s.slots, m)
		spec := s.plan.ProgramSpec(i)
		spec.License = "Dual MIT/GPL"
		spec.Instructions = kernel.Dispatcher(m.FD(), n, kernel.Idle(g.Type))
		specs[g.Name] = spec
	}
	progs, err := s.plan.load(specs)
	if err != nil {
		return nil, fmt.Errorf("load the dispatchers: %w", err)
	}
	return progs, nil
}

func closePrograms(progs map[string]*ebpf.Program) {
	for _, p := range progs {
		p.Close()
	}
}

// shareable says why a program's place can't be left to a dispatcher.
func (p *Program) shareable() error {
	why := ""
	switch {
	case p.Flags&flagSleepable != 0:
		why = "the kernel has no tail calls for programs that may sleep"
	case p.AttachTarget != 0:
		why = "it is attached to one BPF program, which only a program loaded for that can be"
	case isSessionType(p.AttachType), p.AttachType == ebpf.AttachModifyReturn, p.Type == ebpf.LSM:
		why = "what its programs return has a meaning, and there is one value for all"
	case p.Method == MethodIter, p.Method == MethodSocket, p.Method == MethodRun, p.Method == MethodNone:
		why = "it is of a kind that has one user"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s: it can't be shared: %s: %w", p.first(), why, errors.ErrUnsupported)
}

// ShareOptions say how a user joins. The zero value, and nil, is the default.
type ShareOptions struct {
	// EventsPerSecond is the budget of each of the user's programs; events
	// beyond it are dropped for this user alone, and counted. 0 is no limit.
	// Where CPUs begin a second at the same time it may be exceeded by a few.
	EventsPerSecond uint64
	// Collection is how the user's programs and maps are loaded.
	Collection ebpf.CollectionOptions
}

// Share is one user's part of a Shared. It is safe for concurrent use.
type Share struct {
	of   *Shared
	slot int
	coll *ebpf.Collection

	mu     sync.Mutex
	state  []*ebpf.Map // guarded by mu: one kernel.ChainState for each program
	joined bool        // guarded by mu
	closed bool        // guarded by mu
}

// ShareStats is what a user's programs have seen: plain data.
type ShareStats struct {
	// Events are the events that the user's programs ran for, Dropped those
	// that went beyond its budget.
	Events, Dropped uint64
}

// Join loads a user's programs, by their names in the plan, and has them run
// from now on. Programs must hold one main function; spec is not changed. The
// caller closes the Share, which unloads its programs and maps.
func (s *Shared) Join(spec *ebpf.CollectionSpec, o *ShareOptions) (*Share, error) {
	if spec == nil {
		return nil, errors.New("join: no collection")
	}
	if o == nil {
		o = &ShareOptions{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, s.link.errClosed("join")
	}
	slot := slices.Index(s.users[:], nil)
	if slot < 0 {
		return nil, fmt.Errorf("join: %d users share the attachment already, which is all that there is room for", MaxShares)
	}
	u := &Share{of: s, slot: slot}
	if err := u.load(spec, o); err != nil {
		return nil, errors.Join(fmt.Errorf("join: %w", err), u.release())
	}
	for i := range s.plan.Programs {
		if err := s.slots[i].Put(uint32(slot), u.coll.Programs[s.plan.Programs[i].Name]); err != nil {
			return nil, errors.Join(fmt.Errorf("join %s: %w", s.plan.Programs[i].first(), err), s.clear(slot), u.release())
		}
	}
	s.users[slot], u.joined = u, true
	return u, nil
}

// load loads the user's programs as parts of the chain.
func (u *Share) load(spec *ebpf.CollectionSpec, o *ShareOptions) error {
	mine := spec.Copy()
	for i := range u.of.plan.Programs {
		g := &u.of.plan.Programs[i]
		prog := mine.Programs[g.Name]
		if prog == nil {
			return fmt.Errorf("%s: the plan's program %s is not among those given", g.first(), g.Name)
		}
		state, err := ebpf.NewMap(&ebpf.MapSpec{Name: "share", Type: ebpf.Array, KeySize: 4, ValueSize: 32, MaxEntries: 1})
		if err != nil {
			return fmt.Errorf("%s: %w", g.first(), err)
		}
		u.state = append(u.state, state)
		prog.Instructions, err = kernel.Chain(prog.Instructions, u.of.slots[i].FD(), u.slot, state.FD(), o.EventsPerSecond, kernel.Idle(g.Type))
		if err != nil {
			return fmt.Errorf("%s: %w", g.first(), err)
		}
	}
	var err error
	u.coll, err = LoadCollection(mine, u.of.plan.cached(o.Collection))
	return err
}

// clear takes a user's programs out of the chain.
func (s *Shared) clear(slot int) error {
	var errs []error
	for _, m := range s.slots {
		if err := m.Delete(uint32(slot)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Map returns a map of the user's by its name, nil if there is none. It is
// owned by the Share.
func (u *Share) Map(name string) *ebpf.Map { return u.coll.Maps[name] }

// Stats reads what the user's programs have seen so far. It fails with
// os.ErrClosed after Close.
func (u *Share) Stats() (ShareStats, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out ShareStats
	if u.closed {
		return out, u.of.link.errClosed("stats")
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

// Leave has the user's programs run no more, and keeps its maps to be read at
// rest. Programs that are running at that moment end by themselves.
func (u *Share) Leave() error {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	return u.leave()
}

// leave is Leave for who holds the Shared's lock.
func (u *Share) leave() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.joined {
		return nil
	}
	u.joined = false
	u.of.users[u.slot] = nil
	return u.of.clear(u.slot)
}

// Close leaves, and unloads the user's programs and maps. The others go on. It
// may be called again, and on a nil Share.
func (u *Share) Close() error {
	if u == nil {
		return nil
	}
	return errors.Join(u.Leave(), u.release())
}

func (u *Share) release() error {
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

// Link is what all the users are attached by. It is owned by the Shared.
func (s *Shared) Link() *Link { return s.link }

// Close detaches, and has all users leave; their maps can be read until their
// Shares are closed. It may be called again, and on a nil Shared.
func (s *Shared) Close() error {
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
