// Package caps reports the capabilities of this process.
package caps
