// Package kernel gets Debian's own kernels for test guests: by apt, from the
// mirror that this machine's apt sources name, with an apt state of its own for
// every suite and architecture, into a cache outside the tree. A kernel that
// can't be had is an *UnavailableError, which is not a failure of what is
// tested.
package kernel
