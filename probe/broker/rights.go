package broker

// rights are the ids by which a client is judged. Of its capabilities the broker
// knows nothing, so it has none.
type rights struct {
	uid, gid uint32
	groups   []uint32
}
