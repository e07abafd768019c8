package broker

// rights are the ids that a client's access is checked with. The broker does not know its
// capabilities, so it counts as having none.
type rights struct {
	uid, gid uint32
	groups   []uint32
}
