// Package caps says which capabilities this process has.
package caps
