// Package cdecl reads C declarations.
package cdecl
