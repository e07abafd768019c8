// Package typejson encodes the types of a plan's arguments as JSON, and decodes them.
package typejson
