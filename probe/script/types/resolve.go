package types

import (
	"slices"
	"strconv"

	"github.com/borescope/borescope/probe/script/syntax"
)

// rule determines the type of one item from the types of others. Items are nodes, scoped
// variables, and the keys and values of maps.
type rule struct {
	output   int32
	from, to int32                // its inputs, in solver.inputs
	result   func(in []Type) Type // None: no change
}

// use is the use of an input by a rule. before is the index of the previous use of the input.
type use struct{ rule, before int32 }

// table has the types of items. It numbers the items: a map of the numbers is much smaller, and
// most of the work is done with these.
type table struct {
	ids   map[any]int32
	items []any
	types []Type
}

// id returns the number of an item.
func (t *table) id(item any) int32 {
	i, ok := t.ids[item]
	if !ok {
		i = int32(len(t.items))
		t.ids[item] = i
		t.items = append(t.items, item)
		t.types = append(t.types, Type{})
	}
	return i
}

// at returns the type of an item.
func (t *table) at(item any) Type {
	if t == nil {
		return Type{} // before the first round
	}
	if i, ok := t.ids[item]; ok {
		return t.types[i]
	}
	return Type{}
}

// solver finds the types that satisfy all rules. It terminates because types only grow. There
// is a rule for almost every node, so rules and their inputs are stored in a few slices.
type solver struct {
	c       *checker
	types   *table
	seeds   []int32
	rules   []rule
	inputs  []int32
	uses    []use   // index 0 is not used
	last    []int32 // by item, index of its last use as an input
	queue   []int32
	waiting []bool
}

func newSolver(c *checker) *solver {
	n := 0
	syntax.Walk(c.file, func(syntax.Node) bool { n++; return true })
	n += n / 2 // maps and variables have types, too, and casts come later
	return &solver{
		c: c, uses: make([]use, 1, n+1), rules: make([]rule, 0, n), inputs: make([]int32, 0, n),
		types: &table{
			ids: make(map[any]int32, n), items: make([]any, 0, n), types: make([]Type, 0, n),
		},
	}
}

// reset prepares the solver for another round, in the memory of the last one.
func (s *solver) reset() {
	clear(s.types.types) // the items are mostly the same
	clear(s.last)
	clear(s.rules) // their functions
	s.seeds, s.rules, s.inputs, s.uses = s.seeds[:0], s.rules[:0], s.inputs[:0], s.uses[:1]
}

// set sets the type of an item before any rule is applied.
func (s *solver) set(n any, t Type) {
	if t.Kind != None {
		i := s.types.id(n)
		s.types.types[i] = t
		s.seeds = append(s.seeds, i)
	}
}

func (s *solver) add(output any, result func([]Type) Type, inputs ...any) {
	from := int32(len(s.inputs))
	for _, in := range inputs {
		i := s.types.id(in)
		if n := int(i) + 1 - len(s.last); n > 0 {
			s.last = append(s.last, make([]int32, n)...)
		}
		s.uses = append(s.uses, use{int32(len(s.rules)), s.last[i]})
		s.last[i] = int32(len(s.uses) - 1)
		s.inputs = append(s.inputs, i)
	}
	s.rules = append(s.rules, rule{s.types.id(output), from, int32(len(s.inputs)), result})
}

// same adds a rule that an item has the type of another.
func (s *solver) same(output, input any) {
	s.add(output, func(in []Type) Type { return in[0] }, input)
}

// changed queues the rules that have an item as an input, in the order in which they were
// added.
func (s *solver) changed(n int32) {
	if int(n) >= len(s.last) {
		return // no rule uses it
	}
	from := len(s.queue)
	for u := s.last[n]; u != 0; u = s.uses[u].before {
		if i := s.uses[u].rule; !s.waiting[i] {
			s.waiting[i] = true
			s.queue = append(s.queue, i)
		}
	}
	slices.Reverse(s.queue[from:])
}

// solve applies rules until nothing changes. A map that is only incremented gets the type of a
// 0.
func (s *solver) solve(values []valueOf) {
	s.waiting = slices.Grow(s.waiting[:0], len(s.rules))[:len(s.rules)]
	clear(s.waiting)
	for {
		for _, n := range s.seeds {
			s.changed(n)
		}
		s.run()
		open := false
		for _, v := range values {
			if s.types.at(v).Kind == None {
				s.set(v, integer(1, true))
				open = true
			}
		}
		if !open {
			return
		}
	}
}

func (s *solver) run() {
	var in []Type
	defer func() { s.queue = s.queue[:0] }()
	for next := 0; next < len(s.queue); next++ {
		i := s.queue[next]
		if next > 1024 && next > len(s.queue)/2 {
			s.queue = s.queue[:copy(s.queue, s.queue[next+1:])]
			next = -1
		}
		s.waiting[i] = false
		if s.c.steps++; s.c.steps > mostSteps {
			s.c.fail(s.c.file, "types did not settle in "+strconv.Itoa(mostSteps)+" steps")
			return
		}
		r := &s.rules[i]
		in = in[:0]
		for _, n := range s.inputs[r.from:r.to] {
			if t := s.types.types[n]; t.Kind != None {
				in = append(in, t)
			}
		}
		if len(in) < int(r.to-r.from) {
			continue
		}
		t := r.result(in)
		s.c.steps += int(t.weight) / 4
		if t.Kind == Record {
			s.c.steps += int(t.weight) / 2 // its fields are looked up by name
		}
		if t.weight > mostWeight {
			s.tooWide(s.types.items[r.output])
			return
		}
		if t.Kind == None || settled(s.types.types[r.output], t) {
			continue
		}
		s.types.types[r.output] = t
		s.changed(r.output)
	}
}

// tooWide refuses a type of more than mostWeight types, such as a tuple of tuples that grows
// without end.
func (s *solver) tooWide(output any) {
	n, ok := output.(syntax.Node)
	if !ok {
		n = s.c.file
	}
	s.c.fail(n, "the type has more than "+strconv.Itoa(mostWeight)+" elements: use fewer")
}

// settled reports whether an item can keep its old type.
func settled(old, t Type) bool {
	return old.Kind != None && old.Equal(t) && (old.Flexible == t.Flexible || t.Flexible) &&
		(old.Space == t.Space || old.Space != NoSpace) && old.Context == t.Context
}

// stepsOfNode is the work of adding the rules of a node, in steps.
const stepsOfNode = 4

// resolve determines all types, and then the literals that depend on them (sizeof, typeinfo,
// comptime), until none are left.
func (c *checker) resolve() {
	c.foldLiterals()
	var before []*syntax.Comptime
	for round := 0; !c.failed; round++ {
		if round >= mostRounds {
			c.fail(c.file, "Type resolution exceeded maximum iterations ("+
				strconv.Itoa(mostRounds)+"); possible infinite loop in comptime expressions")
			return
		}
		if round > 1 { // a script has two without comptime and the like
			c.steps += stepsOfNode * c.size
		}
		open := c.resolveOnce()
		if c.failed {
			return
		}
		changed := c.transform()
		c.foldLiterals()
		if c.failed || len(open) == 0 && !changed {
			return
		}
		if len(open) > 0 && !changed && slices.Equal(open, before) {
			for _, n := range open {
				c.fail(n, "Unable to resolve comptime expression")
			}
			return
		}
		before = open
	}
}

// resolveOnce determines the types of the current script, and returns the comptime expressions
// that are not evaluated yet.
func (c *checker) resolveOnce() []*syntax.Comptime {
	if c.solver == nil {
		c.solver = newSolver(c)
	}
	c.solver.reset()
	col := &collector{
		checker: c, s: c.solver, vars: map[string]syntax.Node{},
		sized: map[scoped]bool{}, introspected: map[any]bool{}, seen: map[valueOf]bool{},
		aggregated: map[string]Type{},
	}
	c.top(func(n syntax.Node) { col.visit(n) })
	col.s.solve(col.values)
	c.types = col.s.types
	for n := range col.introspected {
		if t := c.types.at(n); t.Kind != None {
			if _, ok := c.locked[n]; !ok {
				c.locked[n] = t
			}
		}
	}
	return col.comptimes
}

// collector adds the rules of a script to a solver.
type collector struct {
	*checker
	s            *solver
	vars         map[string]syntax.Node // the scopes of the variables that are visible
	sized        map[scoped]bool        // variables that are declared with a type that has a size
	scopes       []scope
	probe        *syntax.Probe
	call         string // the function whose arguments are visited
	inspecting   int    // depth of sizeof, typeinfo and the like
	introspected map[any]bool
	comptimes    []*syntax.Comptime
	values       []valueOf
	seen         map[valueOf]bool
	aggregated   map[string]Type // the type of the arguments of sum, avg and the like, by map
}

// scope is a node that contains variables, of which each has another name than those of the
// scopes around it.
type scope struct {
	node  syntax.Node
	names []string
}

// scopeOf returns the node that is the scope of a variable, or nil.
func (c *collector) scopeOf(name string) syntax.Node { return c.vars[name] }

// here returns the innermost scope.
func (c *collector) here() *scope { return &c.scopes[len(c.scopes)-1] }

func (c *collector) push(n syntax.Node) { c.scopes = append(c.scopes, scope{node: n}) }

func (c *collector) pop() {
	for _, name := range c.here().names {
		delete(c.vars, name)
	}
	c.scopes = c.scopes[:len(c.scopes)-1]
}

// assignable reports whether a value can be stored. An aggregation can only be stored as its
// number, and in a map only if the map already has numbers.
func assignable(t, old Type, toMap bool) bool {
	switch {
	case t.Kind == Void || t.aggregation() && !t.castable():
		return false
	case old.Kind != Integer && t.castable():
		return !toMap && old.Kind == None
	}
	return true
}

// lock checks a new type against one that sizeof or the like has used, which can no longer
// change. It returns that type, and whether there is one.
func (c *collector) lock(key any, t Type, n syntax.Node, name string) (Type, bool) {
	old, ok := c.locked[key]
	if !ok {
		return Type{}, false
	}
	if p, ok := promote(old, t); !ok || !p.Equal(old) {
		c.fail(n, "Type mismatch for "+name+": this type has been locked because it was used in "+
			"another part of the type graph that was already resolved (e.g. `sizeof`, `typeinfo`, "+
			"etc.). The new type '"+t.String()+"' doesn't fit into the locked type '"+old.String()+"'")
	}
	return old, true
}

func mismatch(name string, t Type, holder string, old Type) string {
	return "Type mismatch for " + name + ": trying to assign value of type '" + t.String() +
		"' when " + holder + " already has a type '" + old.String() + "'"
}

func (c *collector) varType(v scoped, t Type, n syntax.Node) Type {
	if old, ok := c.lock(v, t, n, v.name); ok {
		return old
	}
	p, ok := promote(c.s.types.at(v), t)
	if !ok {
		c.fail(n, mismatch(v.name, t, "variable", c.s.types.at(v)))
		return Type{}
	}
	return p
}

func (c *collector) valueType(m string, t Type, n syntax.Node) Type {
	if old, ok := c.lock(valueOf(m), t, n, m); ok {
		return old
	}
	old := c.s.types.at(valueOf(m))
	p, ok := promote(old, t)
	if !ok || old.castable() {
		c.fail(n, mismatch(m, t, "map", old))
		return Type{}
	}
	p.Internal = p.Internal || p.Kind == C || p.Kind == Array
	return p
}

func (c *collector) aggregateType(m string, t Type, n syntax.Node) Type {
	if old, ok := c.lock(valueOf(m), t, n, m); ok {
		return old
	}
	old := c.s.types.at(valueOf(m))
	if old.Kind == None {
		return t
	}
	if p, ok := promote(old, t); ok && old.Kind == t.Kind {
		return p
	}
	c.fail(n, mismatch(m, t, "map", old))
	return Type{}
}

func (c *collector) keyType(m string, t Type, n syntax.Node) Type {
	if c.scalar[m] {
		return integer(8, true)
	}
	if old, ok := c.lock(keyOf(m), t, n, m); ok {
		return old
	}
	old := c.s.types.at(keyOf(m))
	p, ok := promote(old, t)
	if !ok {
		c.fail(n, "Argument mismatch for "+m+": trying to access with arguments: '"+t.String()+
			"' when map expects arguments: '"+old.String()+"'")
	}
	return p
}
