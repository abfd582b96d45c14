package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

type node struct {
	next  *node
	value int64
}

// Go aligns no globals; the ones that matter have a line of their own within.
var sharedCounters [48]int64
var paddedCounters [64]int64
var buffer [64]int64
var lockWord [48]int64
var sink int64

//go:noinline
func say(role, function, outer string, address unsafe.Pointer, datum string) {
	pc := make([]uintptr, 1)
	runtime.Callers(2, pc)
	_, _, line, _ := runtime.Caller(1)
	fmt.Printf("at\t%s\t%s\t%s\ttruth.go\t%d\t%#x\t0x0\t%p\t%s\n", role, function, outer, line, pc[0]-1, address, datum)
}

// The first word of an array that begins a pair of cache lines.
func line(array []int64) int {
	at := uintptr(unsafe.Pointer(&array[0]))
	return int((128 - at%128) % 128 / 8)
}

func named(name string, array []int64, at int) string {
	if at == 0 {
		return name
	}
	return fmt.Sprintf("%s+%#x", name, at*8)
}

//go:noinline
func chase(from *node) {
	say("chase", "main.chase", "main.chase", unsafe.Pointer(&from.next), "-"); sink += from.next.value
}

type reader interface{ read(at int) }
type counting struct{ name string }

//go:noinline
func (c *counting) read(at int) {
	say("false-read", "main.(*counting).read", "main.(*counting).read", unsafe.Pointer(&sharedCounters[at]), named("main.sharedCounters", sharedCounters[:], at)); sink += sharedCounters[at]
}

//go:noinline
func write(at int) {
	say("false-write", "main.write", "main.write", unsafe.Pointer(&sharedCounters[at]), named("main.sharedCounters", sharedCounters[:], at)); sharedCounters[at]++
}

//go:noinline
func sum[T int64 | float64](from []T) (all T) {
	say("stream", "main.sum", "main.sum", unsafe.Pointer(&from[2]), "main.buffer+0x10"); return from[2]
}

func main() {
	chase(&node{&node{nil, 1}, 2})
	sink += sum(buffer[:])
	at := line(sharedCounters[:])
	var r reader = &counting{"c"}
	r.read(at)
	write(at + 1)
	func() {
		at := line(paddedCounters[:])
		say("padded-read", "main.main.func1", "main.main.func1", unsafe.Pointer(&paddedCounters[at]), named("main.paddedCounters", paddedCounters[:], at)); sink += paddedCounters[at]
		say("padded-write", "main.main.func1", "main.main.func1", unsafe.Pointer(&paddedCounters[at+16]), named("main.paddedCounters", paddedCounters[:], at+16)); paddedCounters[at+16]++
	}()
	done := make(chan bool)
	go func() {
		at := line(lockWord[:])
		say("lock", "main.main.func2", "main.main.func2", unsafe.Pointer(&lockWord[at]), named("main.lockWord", lockWord[:], at)); lockWord[at]++
		done <- true
	}()
	<-done
	fmt.Printf("pid\t%d\n", os.Getpid())
	maps, _ := os.Open("/proc/self/maps")
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fmt.Printf("map\t%s\n", lines.Text())
	}
}
