package main

import "github.com/borescope/borescope/probe/action"

// depth is how many directories and mounts of a relative path are followed.
const depth = 32

// directories has an action do what emit records with the name of the directory
// that a relative path begins at, the working directory or a descriptor, and of
// those above it, up to the root of the machine's mounts.
func directories(c *action.Ctx, descriptor action.Int, emit func(name action.Str)) {
	task := c.CurTask()
	mnt := c.NewVar(task.Member("fs->pwd.mnt").As(action.Uint64Type()))
	dentry := c.NewVar(task.Member("fs->pwd.dentry").As(action.Uint64Type()))
	c.If(descriptor.Ne(workingDir), func() {
		table := task.MemberPtr("files->fdt")
		c.If(descriptor.Lt(0).Or(descriptor.Ge(table.Member("max_fds"))), func() { c.Return() })
		file := table.MemberPtr("fd").Index(descriptor).Ptr()
		c.If(file.Eq(0), func() { c.Return() }) // not an open file
		mnt.Set(file.Member("f_path.mnt"))
		dentry.Set(file.Member("f_path.dentry"))
	})
	c.Loop(depth, depth, func(action.Int) {
		vfs, d := mnt.Int().PtrTo("struct vfsmount", false), dentry.Int().PtrTo("struct dentry", false)
		c.If(d.Eq(vfs.Member("mnt_root")), func() {
			mount := vfs.Container("struct mount", "mnt")
			up := mount.MemberPtr("mnt_parent")
			c.If(up.Eq(mount.Int()), func() { c.Break() }) // the root of all
			dentry.Set(mount.Member("mnt_mountpoint"))
			mnt.Set(up.Addr("mnt").Int())
		}, func() {
			emit(d.Member("d_name.name").Str(256))
			dentry.Set(d.Member("d_parent"))
		})
	})
}
