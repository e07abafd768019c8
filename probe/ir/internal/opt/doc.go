// Package opt makes typed programs smaller before code is generated from them.
package opt
