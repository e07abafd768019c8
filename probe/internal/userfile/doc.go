// Package userfile finds and reads the files of user programs, in the root of the process that
// a target names: paths, libraries by name, archives and symbols. It records the identities of
// the files that a plan was made from.
package userfile
