package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
)

// markerName is the function of this program that is probed.
var markerName = strings.TrimPrefix(markerTarget, "uprobe::")

// numberFrom is a number from the environment.
func numberFrom(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attack is a request.
type attack struct {
	offer   string
	self    bool
	joined  bool // all targets are in one text
	targets []*wanted
}

func (a *attack) texts() []string {
	var out []string
	for _, w := range a.targets {
		out = append(out, w.String())
	}
	if a.joined {
		return []string{strings.Join(out, ",")}
	}
	return out
}

// files tells whether all targets are in files.
func (a *attack) files() bool {
	return !slices.ContainsFunc(a.targets, func(w *wanted) bool { return w.fixed != nil })
}

// hold is an attachment that a client has kept.
type hold struct {
	c    *person
	id   uint64
	rule int
}

// TestAttackRandom: random requests of several clients under random policies, each
// carried out or refused as an independent reading of the policy says; messages that
// are none, each answered with that; and nothing is left of any of them. What is to be
// granted may be refused for what the kernel has not, by a *probe.UnsupportedError and
// where a test of that feature says so; how often a user asks, and how hot places are, do
// not come into it.
// BROKER_ATTACKS is the number of requests, BROKER_SEED the seed of an attack that is
// to be seen again. What takes more than a few seconds is for guests:
//
//	go run ./internal/vmtest -kernel 7.2 -threads single -timeout 8m -env BROKER_ATTACKS=10000 -flags -test.v -run '^TestAttackRandom$' ./probe/broker
func TestAttackRandom(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Ringbuf)
	attacks := int(numberFrom(t, "BROKER_ATTACKS", 350))
	if attacks > 1000 {
		testenv.Need(t, testenv.Guest)
	}
	seed := numberFrom(t, "BROKER_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed %d", seed)
	f := newField(t, seed)
	const each = 50 // requests under one policy
	made, few := 0, true
	// A few policies may grant next to nothing: a few more say something then.
	for !t.Failed() && (made < attacks || few && made < 4*attacks) {
		n := each
		if made < attacks {
			n = min(each, attacks-made)
		}
		t.Run(strconv.Itoa(made/each), func(t *testing.T) { f.policy(t, n) })
		made += n
		covered, granted := f.coverage()
		few = attacks >= 5*len(f.kinds) && (granted < attacks/50 || covered < len(f.kinds))
	}
	shapes := make([]string, 0, len(f.seen))
	total := [3]int{}
	for shape, n := range f.seen {
		shapes = append(shapes, fmt.Sprintf("%s: %d granted, %d refused, %d either", shape, n[must], n[mustNot], n[may]))
		for i := range n {
			total[i] += n[i]
		}
	}
	slices.Sort(shapes)
	t.Logf("%d were to be granted, %d to be refused, %d either; not here: %v\n%s",
		total[must], total[mustNot], total[may], f.none, strings.Join(shapes, "\n"))
	if t.Failed() {
		t.Fatalf("BROKER_SEED=%d BROKER_ATTACKS=%d", seed, attacks)
	}
	if few {
		covered, granted := f.coverage()
		t.Errorf("%d of %d shapes, %d to be granted: too few to say anything", covered, len(f.kinds), granted)
	}
}

// coverage is how many shapes of requests were made, and how many requests were to
// be granted.
func (f *field) coverage() (shapes, granted int) {
	for shape, n := range f.seen {
		if !strings.HasPrefix(shape, "message: ") {
			shapes++
		}
		granted += n[must]
	}
	return shapes, granted
}

// policy makes requests under one policy.
func (f *field) policy(t *testing.T, n int) {
	before := newState(t)
	online, err := cpus.Online(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &oracle{open: map[[2]uint32]int{}, cpus: len(online), told: f.told}
	for range 1 + f.rnd.IntN(3) {
		o.rules = append(o.rules, f.randomRule())
	}
	b := start(t, o.rules...)
	for _, p := range f.people {
		p.at(t)
	}
	for _, c := range f.clients {
		if a := c.answers(t, "dial %s", b.path); a.Err != "" {
			t.Fatal(a.Err)
		}
	}
	var holds []hold
	for i := 0; i < n && !t.Failed(); i++ {
		c := one(f, f.clients...)
		switch f.rnd.IntN(10) {
		case 0:
			f.malformed(t, b, o, c)
		case 1:
			f.others(t, b, o, c, holds)
		default:
			holds = f.attack(t, b, o, c, holds)
		}
	}
	if t.Failed() {
		rules, _ := json.Marshal(o.rules)
		t.Logf("%s", rules)
	}
	for _, c := range f.clients {
		if a := c.answers(t, "dial"); a.Err != "" {
			t.Errorf("%s hangs up: %s", c.name, a.Err)
		}
	}
	before.expect(t, b)
}

// at has failures of a person be those of a part of the test.
func (p *person) at(t *testing.T) { p.target.t = t }

// offers are mostly those that rules know.
func (f *field) offers() string {
	return one(f, "count", "count", "count", "count", "count", "count", "count", "secret", "sessions", "nosuch")
}

// request makes one up. next has its first target be of the next shape.
func (f *field) request(c *person, next bool) *attack {
	a := &attack{offer: f.offers(), self: f.rnd.IntN(6) == 0, joined: f.rnd.IntN(2) == 0, targets: []*wanted{f.want(c, next)}}
	for f.rnd.IntN(6) == 0 {
		a.targets = append(a.targets, one(f, f.want(c, false), a.targets[0]))
	}
	return a
}

// near finds a request that is to be granted, and changes one thing about it: what is
// nearly right goes wrong more often than what is wrong altogether. It is mostly the
// given one where that changes nothing: detaching is what takes the time.
func (f *field) near(o *oracle, given *person, otherwise *attack) (*person, *attack) {
	for range 20 {
		c := one(f, f.clients...)
		a := f.request(c, false)
		if v, _, _ := o.judge(c, a); v == must {
			c, a = f.changed(c, a)
			if v, _, _ = o.judge(c, a); v != must || f.rnd.IntN(4) == 0 {
				return c, a
			}
			break
		}
	}
	return given, otherwise
}

// changed changes one thing about a request.
func (f *field) changed(c *person, a *attack) (*person, *attack) {
	w := *a.targets[0]
	a.targets[0] = &w
	other := one(f, f.clients...)
	switch f.rnd.IntN(8) {
	case 0: // as it is
	case 1: // another asks for the same
		c = other
	case 2: // another asks for its own
		for i := range a.targets {
			if w := *a.targets[i]; w.p == c {
				w.p = other
				a.targets[i] = &w
			}
		}
		c = other
	case 3:
		w.p = one(f, append(slices.Clone(f.people), nil, nil)...)
		a.self = false
	case 4: // another file, or function, of the same kind; or the same by another way
		kind, p := w.shape, w.p
		for range 1000 {
			if w = *f.want(c, false); w.shape == kind {
				break
			}
		}
		w.p = p
	case 5: // another kind
		p := w.p
		w = *f.want(c, false)
		w.p = p
	case 6:
		a.offer = f.offers()
	case 7:
		a.targets = append(a.targets, f.want(c, false))
	}
	return c, a
}

// attack makes a request, and compares what comes of it.
func (f *field) attack(t *testing.T, b *testBroker, o *oracle, c *person, holds []hold) []hold {
	a := f.request(c, true)
	if f.rnd.IntN(5) == 0 {
		c, a = f.near(o, c, a)
	}
	v, why, sites := o.judge(c, a)
	rule := o.rule(c, a.offer)
	b.pardon(c.uid)
	if !o.knows(c) {
		c.answers(t, "dial %s", b.path) // it was dropped
	}
	got := c.asks(t, request{Op: opAttach, Offer: a.offer, Targets: a.texts(), Self: a.self})
	said := b.lastDecision(t, c)
	ok := said == nil // the client may be unable to use what it was granted
	for _, w := range a.targets {
		n := f.seen[w.shape]
		n[v]++
		f.seen[w.shape] = n
	}
	says := fmt.Sprintf("%s asks for %s at %q, self %v, under rule %d: %v, want it %v (%s)", c.name, a.offer, a.texts(), a.self, rule, said, v, why)
	switch {
	case v == mustNot && ok:
		t.Errorf("%s", says)
	case v == must && !ok:
		f.lacks(t, o, a, rule, said, says)
	}
	if !ok && rule >= 0 && !strings.Contains(said.Error(), fmt.Sprintf("rule %d: ", rule)) && !strings.Contains(said.Error(), "no offer is called") {
		t.Errorf("%s: it names no rule", says)
	}
	if !ok {
		if got.Err != "broker: "+said.Error() && len(got.Err) < maxText {
			t.Errorf("%s: the client is told %q", says, got.Err)
		}
		return holds
	}
	if got.Err != "" {
		if feature.KernelAtLeast("5.19") || !strings.Contains(got.Err, "unprivileged_bpf_disabled") {
			t.Errorf("%s: the client can't use it: %s", says, got.Err)
		}
		return holds // it has given it back
	}
	if v == must && (got.Sites < sites || got.Sites > sites && a.files()) { // samples have one for each thread
		t.Errorf("%s: %d places, want %d", says, got.Sites, sites)
	}
	keep := !o.rules[rule].HandOver && f.rnd.IntN(4) == 0 && !slices.ContainsFunc(a.targets, func(w *wanted) bool {
		return w.fixed != nil && w.fixed.needs == feature.Watchpoint // there are four for each process
	})
	held := 0
	for _, h := range holds {
		if h.c == c {
			held++
		}
	}
	if keep && held < 8 {
		o.open[[2]uint32{uint32(rule), c.uid}]++
		return append(holds, hold{c, got.ID, rule})
	}
	if a := c.asks(t, request{Op: opDetach, Attachment: got.ID}); a.Err != "" {
		t.Errorf("%s: detach: %s", says, a.Err)
	}
	return holds
}

// lacks tells what this kernel has not from what is wrong.
func (f *field) lacks(t *testing.T, o *oracle, a *attack, rule int, said error, says string) {
	if errors.Is(said, errors.ErrUnsupported) {
		if a.offer == "sessions" || o.rules[rule].HandOver && feature.Test(feature.PerfLink) != nil {
			f.none[a.offer]++
			return
		}
		var lacks *probe.UnsupportedError
		for _, w := range a.targets {
			if w.fixed != nil && errors.As(said, &lacks) && feature.Test(w.fixed.needs) != nil {
				f.none[w.shape]++
				return
			}
		}
	}
	t.Errorf("%s", says)
}

// others are requests about attachments: those that a client has, and others'.
func (f *field) others(t *testing.T, b *testBroker, o *oracle, c *person, holds []hold) {
	id := f.rnd.Uint64N(40)
	if len(holds) > 0 && f.rnd.IntN(2) == 0 {
		id = one(f, holds...).id
	}
	has := slices.ContainsFunc(holds, func(h hold) bool { return h.c == c && h.id == id })
	if !o.knows(c) {
		c.answers(t, "dial %s", b.path)
	}
	op := one(f, opStats, opDetach)
	if has {
		op = opStats
	}
	a := c.asks(t, request{Op: op, Attachment: id})
	said := b.lastDecision(t, c)
	if (said == nil) != has {
		t.Errorf("%s: %s of %d: %v, has it: %v", c.name, op, id, said, has)
	}
	if said != nil && !errors.Is(said, fs.ErrNotExist) && !errors.Is(said, fs.ErrPermission) {
		t.Errorf("%s: %s of %d: %v, %s", c.name, op, id, said, a.Err)
	}
}

// pardon forgets how often a user has asked: TestAttackRate looks at that.
func (b *testBroker) pardon(uid uint32) {
	b.server.users.mu.Lock()
	defer b.server.users.mu.Unlock()
	if u := b.server.users.of[uid]; u != nil {
		u.rate = bucket{}
	}
}

// lastDecision is what the broker has decided last about a client's requests. What it
// says of others may come at any time, as of those that it has refused a connection.
func (b *testBroker) lastDecision(t *testing.T, c *person) error {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	of := func(d Decision) bool { return d.Peer.PID == c.pid }
	for _, d := range slices.Backward(b.seen) {
		if !of(d) {
			continue
		}
		b.seen = slices.DeleteFunc(b.seen, of)
		if d.Op == "end" {
			t.Errorf("an attachment has ended: %v", d.Err)
		}
		return d.Err
	}
	t.Fatalf("nothing was decided about %s", c.name)
	return nil
}
