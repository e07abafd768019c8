// Package typejson writes the types of a plan's arguments as JSON, and reads them.
package typejson
