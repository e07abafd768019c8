package syntax

import "reflect"

// Clone returns a copy of a tree.
func Clone[N Node](n N) N { return clone(n, nil).(N) }

// clone copies a tree. If from is not nil, the nodes are marked as expanded from that use of a
// macro.
func clone(n Node, from *Loc) Node {
	var each func(Node) Node // one for all nodes
	each = func(n Node) Node {
		c := shallow(n)
		if from != nil {
			c.At().From = from
		}
		c.children(each)
		return c
	}
	return each(n)
}

// shallow returns a copy of a node with the same children and lists of its own.
func shallow(n Node) Node {
	c := reflect.New(reflect.TypeOf(n).Elem())
	fields := c.Elem()
	fields.Set(reflect.ValueOf(n).Elem())
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() == reflect.Slice && f.CanSet() {
			f.Set(reflect.AppendSlice(reflect.Zero(f.Type()), f))
		}
	}
	return c.Interface().(Node)
}
