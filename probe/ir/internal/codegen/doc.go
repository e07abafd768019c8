// Package codegen makes instructions of what package check has typed.
package codegen
