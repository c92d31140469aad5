// Go runtime. Usage: go WORKLOAD WORKERS [FIBERS or PORT]
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var suffix string // the number of workers, as the workload's name ends

func report(workload string, value float64, unit string) {
	fmt.Printf("go %s %.3f %s\n", workload, value, unit)
}

func nsSince(t time.Time) float64 { return float64(time.Since(t).Nanoseconds()) }

func yield() {
	const fibers, yields = 1000, 1000
	var done sync.WaitGroup
	done.Add(fibers)
	start := time.Now()
	for i := 0; i < fibers; i++ {
		go func() {
			for j := 0; j < yields; j++ {
				runtime.Gosched()
			}
			done.Done()
		}()
	}
	done.Wait()
	report("yield"+suffix, nsSince(start)/(fibers*yields), "ns/yield")
}

func spawn(workload string, batches, batch int) {
	var done sync.WaitGroup
	start := time.Now()
	for i := 0; i < batches; i++ {
		done.Add(batch)
		for j := 0; j < batch; j++ {
			go done.Done()
		}
		done.Wait()
	}
	report(workload+suffix, nsSince(start)/float64(batches*batch), "ns/spawn")
}

func pingpong() {
	const rounds = 1000000
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v
		}
	}()
	start := time.Now()
	for i := 0; i < rounds; i++ {
		ping <- i
		<-pong
	}
	report("pingpong"+suffix, nsSince(start)/rounds, "ns/roundtrip")
}

func mpsc() {
	const producers, each = 4, 1000000
	channel := make(chan int, 1024)
	start := time.Now()
	for i := 0; i < producers; i++ {
		go func() {
			for j := 1; j <= each; j++ {
				channel <- j
			}
		}()
	}
	sum := 0
	for i := 0; i < producers*each; i++ {
		sum += <-channel
	}
	took := nsSince(start)
	if sum != producers*each*(each+1)/2 {
		panic(sum)
	}
	report("mpsc"+suffix, producers*each*1e3/took, "Mmsg/s")
}

func select4() {
	const each = 500000
	var channels [4]chan int
	for i := range channels {
		channels[i] = make(chan int)
	}
	start := time.Now()
	for i := range channels {
		go func(channel chan int) {
			for j := 1; j <= each; j++ {
				channel <- j
			}
		}(channels[i])
	}
	sum := 0
	for i := 0; i < 4*each; i++ {
		select {
		case v := <-channels[0]:
			sum += v
		case v := <-channels[1]:
			sum += v
		case v := <-channels[2]:
			sum += v
		case v := <-channels[3]:
			sum += v
		}
	}
	took := nsSince(start)
	if sum != 4*each*(each+1)/2 {
		panic(sum)
	}
	report("select4", took/(4*each), "ns/select")
}

func sky(up chan int, first, leaves int) {
	if leaves == 1 {
		up <- first
		return
	}
	down := make(chan int)
	for i := 0; i < 10; i++ {
		go sky(down, first+i*(leaves/10), leaves/10)
	}
	sum := 0
	for i := 0; i < 10; i++ {
		sum += <-down
	}
	up <- sum
}

func skynet() {
	root := make(chan int)
	start := time.Now()
	go sky(root, 0, 1000000)
	if sum := <-root; sum != 499999500000 {
		panic(sum)
	}
	report("skynet"+suffix, nsSince(start)/1e6, "ms")
}

// A goroutine on a thread of its own starts the goroutines that the other worker runs.
func crosspost() {
	const posts = 1000000
	var ran int64
	all := make(chan struct{})
	start := time.Now()
	go func() {
		runtime.LockOSThread()
		for i := 0; i < posts; i++ {
			go func() {
				if atomic.AddInt64(&ran, 1) == posts {
					close(all)
				}
			}()
		}
	}()
	<-all
	report("crosspost1", posts/nsSince(start)*1e3, "Mtask/s")
}

// A thread of its own sleeps, then sends to a goroutine that waits in a channel.
func wake() {
	const wakes = 2000
	bell, took := make(chan time.Time), make(chan time.Duration, 1)
	go func() {
		for rung := range bell {
			took <- time.Since(rung)
		}
	}()
	runtime.LockOSThread()
	var latency []time.Duration
	for i := 0; i < wakes; i++ {
		time.Sleep(500 * time.Microsecond)
		bell <- time.Now()
		latency = append(latency, <-took)
	}
	sort.Slice(latency, func(i, j int) bool { return latency[i] < latency[j] })
	report("wake", float64(latency[wakes/2].Nanoseconds())/1e3, "us")
	report("wake_p99", float64(latency[wakes*99/100].Nanoseconds())/1e3, "us")
}

func residentBytes() float64 {
	statm, _ := os.ReadFile("/proc/self/statm")
	pages, _ := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	return pages * float64(os.Getpagesize())
}

func memory(fibers int) {
	never := make(chan int)
	runtime.GC()
	debug.FreeOSMemory()
	before := residentBytes()
	for i := 0; i < fibers; i++ {
		go func() { <-never }()
	}
	time.Sleep(300 * time.Millisecond)
	report(fmt.Sprintf("memory_%dk", fibers/1000), (residentBytes()-before)/float64(fibers), "B/fiber")
}

// The longest wait is looked for in every 16th lock, as in Weft's program.
func mutex() {
	const fibers, each = 8, 500000
	var mutex sync.Mutex
	var shared [4]int
	var done sync.WaitGroup
	longest := make([]time.Duration, fibers)
	done.Add(fibers)
	start := time.Now()
	for i := 0; i < fibers; i++ {
		go func(worst *time.Duration) {
			for j := 0; j < each; j++ {
				if j%16 == 0 {
					from := time.Now()
					mutex.Lock()
					if waited := time.Since(from); waited > *worst {
						*worst = waited
					}
				} else {
					mutex.Lock()
				}
				for k := range shared {
					shared[k]++
				}
				mutex.Unlock()
			}
			done.Done()
		}(&longest[i])
	}
	done.Wait()
	ns := nsSince(start)
	sort.Slice(longest, func(i, j int) bool { return longest[i] > longest[j] })
	report("mutex8", ns/(fibers*each), "ns/lock")
	report("mutex8_worst", float64(longest[0].Nanoseconds())/1e3, "us")
}

func rwlock() {
	const fibers, each = 8, 500000
	var lock sync.RWMutex
	var shared [4]int
	var done sync.WaitGroup
	done.Add(fibers)
	start := time.Now()
	for i := 0; i < fibers; i++ {
		go func(j int) {
			for end := j + each; j < end; j++ {
				if j%20 == 0 {
					lock.Lock()
					for k := range shared {
						shared[k]++
					}
					lock.Unlock()
				} else {
					lock.RLock()
					if shared[0] != shared[3] {
						panic("torn")
					}
					lock.RUnlock()
				}
			}
			done.Done()
		}(i)
	}
	done.Wait()
	report("rwlock8", nsSince(start)/(fibers*each), "ns/lock")
}

// Actors: a goroutine that receives from a channel of its own.
func actorPingpong() {
	const balls = 1000000
	ping, pong := make(chan int, 1), make(chan int, 1)
	go func() {
		for ball := range ping {
			pong <- ball
		}
	}()
	start := time.Now()
	for ball := 0; ball < balls; {
		ping <- ball + 1
		ball = <-pong
	}
	report("actor_pingpong"+suffix, 2*balls*1e3/nsSince(start), "Mmsg/s")
}

// A call: a request with the way back for its answer.
func actorCall() {
	const calls = 1000000
	ask := make(chan chan int, 1)
	go func() {
		for back := range ask {
			back <- 1
		}
	}()
	start := time.Now()
	for i := 0; i < calls; i++ {
		back := make(chan int, 1)
		ask <- back
		<-back
	}
	report("actor_call", nsSince(start)/calls, "ns/call")
}

func actorRing() {
	const members, laps = 100000, 20
	first := make(chan int, 1)
	last := first
	for i := 1; i < members; i++ {
		next := make(chan int, 1)
		go func(from, to chan int) {
			for left := range from {
				to <- left - 1
			}
		}(last, next)
		last = next
	}
	start := time.Now()
	first <- members*laps - 1
	for left := <-last; left > 0; left = <-last {
		first <- left - 1
	}
	report("actor_ring", members*laps*1e3/nsSince(start), "Mmsg/s")
}

func actorFanin() {
	const senders, letters = 1000, 1000
	mailbox := make(chan int, 1024)
	start := time.Now()
	for i := 0; i < senders; i++ {
		go func() {
			for j := 1; j <= letters; j++ {
				mailbox <- j
			}
		}()
	}
	sum := 0
	for i := 0; i < senders*letters; i++ {
		sum += <-mailbox
	}
	took := nsSince(start)
	if sum != senders*letters*(letters+1)/2 {
		panic(sum)
	}
	report("actor_fanin", senders*letters*1e3/took, "Mmsg/s")
}

func actorSpawn() {
	const lives = 1000000
	var done sync.WaitGroup
	done.Add(lives)
	start := time.Now()
	for i := 0; i < lives; i++ {
		mailbox := make(chan int, 1)
		go func() {
			<-mailbox
			done.Done()
		}()
		mailbox <- 1
	}
	done.Wait()
	report("actor_spawn", lives*1e3/nsSince(start), "Mactor/s")
}

func actorMemory() {
	const lives = 1000000
	debug.FreeOSMemory()
	before := residentBytes()
	mailboxes := make([]chan int, lives)
	for i := range mailboxes {
		mailboxes[i] = make(chan int, 1)
		go func(mailbox chan int) { <-mailbox }(mailboxes[i])
	}
	time.Sleep(300 * time.Millisecond)
	report("actor_memory", (residentBytes()-before)/lives, "B/actor")
	runtime.KeepAlive(mailboxes)
}

type random uint64

func (r *random) next() uint64 {
	*r = *r*6364136223846793005 + 1442695040888963407
	return uint64(*r >> 33)
}

func timerBulk() {
	const timers = 1000000
	seed := random(1)
	delays, all := make([]time.Duration, timers), make([]*time.Timer, timers)
	for i := range delays {
		delays[i] = time.Second + time.Duration(seed.next()%59000)*time.Millisecond
	}
	start := time.Now()
	for i := range all {
		all[i] = time.AfterFunc(delays[i], func() {})
	}
	for i := range all {
		all[i].Stop()
	}
	report("timer_bulk", nsSince(start)/timers, "ns")
}

func timerOnce() {
	const pairs = 2000000
	timer := time.AfterFunc(time.Hour, func() {})
	timer.Stop()
	start := time.Now()
	for i := 0; i < pairs; i++ {
		timer.Reset(10*time.Second + time.Duration(i))
		timer.Stop()
	}
	report("timer_once", nsSince(start)/pairs, "ns")
}

func cpuMs() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}

func sleepRound() float64 {
	const fibers = 100000
	seed := random(1)
	var done sync.WaitGroup
	done.Add(fibers)
	before := cpuMs()
	for i := 0; i < fibers; i++ {
		delay := time.Duration(seed.next()%1000) * time.Millisecond
		go func() {
			time.Sleep(delay)
			done.Done()
		}()
	}
	done.Wait()
	return cpuMs() - before
}

func sleep() {
	first := sleepRound()
	report("sleep100k", sleepRound(), "ms")
	report("sleep100k_first", first, "ms")
}

func echo(port string) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	for {
		connection, err := listener.Accept() // no delay by default
		if err != nil {
			panic(err)
		}
		go func() {
			defer connection.Close()
			buffer := make([]byte, 4096)
			for {
				n, err := connection.Read(buffer)
				if err != nil {
					return
				}
				if _, err = connection.Write(buffer[:n]); err != nil {
					return
				}
			}
		}()
	}
}

func main() {
	suffix = os.Args[2]
	workers, _ := strconv.Atoi(suffix)
	runtime.GOMAXPROCS(workers)
	switch os.Args[1] {
	case "yield":
		yield()
	case "spawn":
		spawn("spawn", 1, 1000000)
	case "spawnb":
		spawn("spawnb", 1000, 1000)
	case "pingpong":
		pingpong()
	case "mpsc":
		mpsc()
	case "select4":
		select4()
	case "skynet":
		skynet()
	case "crosspost":
		crosspost()
	case "wake":
		wake()
	case "mutex":
		mutex()
	case "rwlock":
		rwlock()
	case "timer_bulk":
		timerBulk()
	case "timer_once":
		timerOnce()
	case "sleep":
		sleep()
	case "actor_pingpong":
		actorPingpong()
	case "actor_call":
		actorCall()
	case "actor_ring":
		actorRing()
	case "actor_fanin":
		actorFanin()
	case "actor_spawn":
		actorSpawn()
	case "actor_memory":
		actorMemory()
	case "echo":
		echo(os.Args[3])
	case "memory":
		fibers, _ := strconv.Atoi(os.Args[3])
		memory(fibers)
	}
}
