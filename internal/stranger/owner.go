package stranger

// Owner is the user who controls a file that a process maps. The zero Owner is trusted: root,
// this process's user or the login user, in this process's mount namespace. Root in another
// mount namespace may be any user, as in a container.
//
// A stranger is a user who can make the process map any file. Users must not be able to act as
// many strangers: one user of a machine has files of 65,536 other uids in a user namespace
// (subuid(5)), and can create as many mount namespaces.
type Owner struct {
	stranger bool
	uid      uint32
	// namespace is a mount or user namespace that only a trusted user could create.
	namespace uint64
}
