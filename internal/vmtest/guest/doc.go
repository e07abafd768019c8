// Package guest runs jobs, most of them the project's own test binaries, in a QEMU guest (TCG,
// no KVM) with a kernel from internal/vmtest/kernel. The guest's user space is an initramfs
// with one Go program as init. The package streams the guest's output, counts the tests in it,
// and searches it for kernel problems.
package guest
