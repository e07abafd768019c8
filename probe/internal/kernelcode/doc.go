// Package kernelcode finds the functions of a kernel and the instructions in them.
package kernelcode
