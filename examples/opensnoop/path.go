package main

import (
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
)

// depth is the number of directories and mounts of a relative path that are followed.
const depth = 32

// directories makes an action call emit with the name of the directory that a relative path
// begins at, the working directory or a descriptor, and with those of the directories above
// it, up to the root of the machine's mounts. A descriptor that is not an open file has none.
func directories(c *action.Ctx, descriptor action.Int, emit func(name action.Str)) {
	none := c.Const(0).As(ir.Uint64Type())
	mnt, dentry := c.NewVar(none), c.NewVar(none)
	begin := func(at action.Ptr, path string) {
		mnt.Set(at.Member(path + ".mnt").As(ir.Uint64Type()))
		dentry.Set(at.Member(path + ".dentry").As(ir.Uint64Type()))
	}
	task := c.CurTask()
	c.If(descriptor.Eq(workingDir), func() { begin(task, "fs->pwd") }, func() {
		table := task.Member("files->fdt").Ptr()
		c.If(descriptor.Ge(0).And(descriptor.Lt(table.Member("max_fds"))), func() {
			file := table.Member("fd").Ptr().Index(descriptor).Ptr()
			c.If(file.Ne(0), func() { begin(file, "f_path") })
		})
	})
	c.Loop(depth, depth, func(action.Int) {
		c.If(dentry.Int().Eq(0), func() { c.Break() })
		vfs, d := mnt.Int().PtrTo("struct vfsmount", false), dentry.Int().PtrTo("struct dentry", false)
		c.If(d.Eq(vfs.Member("mnt_root")), func() {
			mount := vfs.Container("struct mount", "mnt")
			up := mount.Member("mnt_parent").Ptr()
			c.If(up.Eq(mount.Int()), func() { c.Break() }) // the root of all mounts
			dentry.Set(mount.Member("mnt_mountpoint"))
			mnt.Set(up.Addr("mnt").Int())
		}, func() {
			emit(d.Member("d_name.name").Str(256))
			dentry.Set(d.Member("d_parent"))
		})
	})
}
