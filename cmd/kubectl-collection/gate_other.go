//go:build !unix

package main

func asInit() {}

func asGate() {}
