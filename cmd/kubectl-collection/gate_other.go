//go:build !unix

package main

func asGate() {}
