// Package userfile finds and reads the files of user programs, in the root of the
// process that they are a target's of: paths, libraries by name, archives, symbols, and
// which file a plan was made from.
package userfile
