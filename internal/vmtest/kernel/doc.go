// Package kernel downloads Debian's own kernels for test guests. It uses apt with the mirror
// in this machine's apt sources, and a separate apt state for every suite and architecture,
// and keeps the kernels in a cache outside the source tree. The error for a kernel that is not
// available is an *UnavailableError, which is not a failure of the tested code.
package kernel
