// Package guest runs jobs, most of them the project's own test binaries, in a
// QEMU guest (TCG, no KVM) on a kernel that internal/vmtest/kernel got. The
// guest's user space is an initramfs with one Go program as init; what the
// guest prints is streamed, counted, and searched for kernel trouble.
package guest
