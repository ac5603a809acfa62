package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// bootID returns an identifier of the current boot of the machine.
func bootID() string {
	content, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(content))
}

// processStart returns the start time of a process in clock ticks since boot, or false if it does not exist or is a zombie.
func processStart(pid int) (string, bool) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	return parseStat(string(content))
}

// parseStat parses state and start time (fields 3 and 22 of proc(5)). The second field is the program's name in parentheses
// and may contain anything.
func parseStat(stat string) (start string, running bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", false
	}
	return fields[19], true
}

// onOverlay reports whether a folder is on overlayfs, on which containerd cannot stack another overlay.
func onOverlay(dir string) bool {
	const overlayMagic = 0x794c7630
	var stat syscall.Statfs_t
	return syscall.Statfs(dir, &stat) == nil && stat.Type == overlayMagic
}

// unmountBelow unmounts all mounts at or below the folders, in reverse order.
func unmountBelow(dirs ...string) error {
	points, err := mountPoints()
	if err != nil {
		return err
	}
	var failed error
	for i := len(points) - 1; i >= 0; i-- {
		if !within(points[i], dirs) {
			continue
		}
		if err := syscall.Unmount(points[i], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", points[i], err))
		}
	}
	return failed
}

func within(path string, dirs []string) bool {
	for _, dir := range dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return true
		}
	}
	return false
}

// mountPoints lists this mount namespace's mount points in order of mounting.
func mountPoints() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if fields := strings.Fields(scanner.Text()); len(fields) > 4 {
			points = append(points, unescape.Replace(fields[4]))
		}
	}
	return points, scanner.Err()
}

// processes lists the IDs of all processes, ascending.
func processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	sort.Ints(pids)
	return pids
}
