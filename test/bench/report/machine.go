package report

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is where and with what was measured.
type Machine struct {
	Cores       int    `json:"cores"`
	Processor   string `json:"processor"`
	MemoryBytes int64  `json:"memoryBytes"`
	Kernel      string `json:"kernel"`
	Go          string `json:"go"`
	Kubernetes  string `json:"kubernetes,omitempty"`
	// Load is the number of processes that wanted a processor in the minute before.
	Load float64 `json:"load"`
}

// ThisMachine reads what Linux says of the machine.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Kernel: firstField("/proc/sys/kernel/osrelease", "")}
	m.Processor = afterKey("/proc/cpuinfo", "model name")
	kibibytes, _ := strconv.ParseInt(strings.TrimSuffix(afterKey("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	m.MemoryBytes = kibibytes << 10
	m.Load, _ = strconv.ParseFloat(firstField("/proc/loadavg", "0"), 64)
	return m
}

// afterKey is what a line of a file has after its key, "" if there is none.
func afterKey(file, key string) string {
	content, _ := os.ReadFile(file)
	for line := range strings.Lines(string(content)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstField(file, otherwise string) string {
	content, _ := os.ReadFile(file)
	if fields := strings.Fields(string(content)); len(fields) > 0 {
		return fields[0]
	}
	return otherwise
}

// Text is a sentence.
func (m *Machine) Text() string {
	kubernetes := ""
	if m.Kubernetes != "" {
		kubernetes = ", Kubernetes " + m.Kubernetes
	}
	return fmt.Sprintf("Measured on %d cores of %s and %d GiB, Linux %s, Go %s%s. The load was %.1f in the minute before.",
		m.Cores, m.Processor, (m.MemoryBytes+1<<29)>>30, m.Kernel, strings.TrimPrefix(m.Go, "go"), kubernetes, m.Load)
}
