package stranger

// Owner is who decides what a file contains that a process maps. The zero Owner is
// nobody to beware of: root, this process's user or who has logged in, in this
// process's mount namespace. Root of another may be anybody, as in a container.
//
// A stranger is who can make the process map what it likes, so that nobody is many:
// one user of a machine has files of 65,536 others in a user namespace (subuid(5)), and
// as many mount namespaces as they like.
type Owner struct {
	stranger bool
	uid      uint32
	// namespace is one that only a trusted user could make: of mounts, or of users.
	namespace uint64
}
