// Package codegen generates instructions from what package check has typed.
package codegen
