package stranger

// Owner is who decides what a file contains that a process maps. The zero Owner is
// nobody to beware of: root, this process's user or who has logged in, in this
// process's mount namespace. Root of another may be anybody, as in a container.
type Owner struct {
	stranger bool
	uid      uint32
	mounts   uint64 // the mount namespace, of users who are trusted in this one
}
