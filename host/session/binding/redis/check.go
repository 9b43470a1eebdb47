package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caisson-run/caisson/host/session/binding"
)

// oldest is the first version that the scripts and access rights work with.
var oldest = [2]int{6, 2}

// Check implements binding.Engine. It asks every server that holds keys; one that is
// too old is an error.
func (e *Engine) Check(ctx context.Context) (binding.Report, error) {
	r := binding.Report{Kind: "redis", Shared: true, Durable: true}
	nodes, err := e.nodes(ctx)
	if err != nil {
		return r, err
	}
	for _, node := range nodes {
		if err := check(ctx, node, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func check(ctx context.Context, node goredis.Cmdable, r *binding.Report) error {
	text, err := node.Info(ctx).Result()
	if err != nil {
		return classify(err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	version := info["redis_version"]
	if !recent(version) {
		return fmt.Errorf("redis is version %.20q; %d.%d or later is needed", version, oldest[0], oldest[1])
	}
	r.Server = "redis " + version
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if role := info["role"]; role != "" && role != "master" {
		warn("the server is a %s, which takes no writes: name the master, or the sentinels and its name", role)
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		warn("maxmemory-policy is %s: bindings and locks may be evicted while they count; set it to noeviction", policy)
	}
	if info["aof_enabled"] != "1" {
		r.Durable = false
		warn("appendonly is off: when the server restarts, traffic tokens that a provider issues only once are lost")
	}
	if info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err" {
		r.Durable = false
		warn("the append-only file cannot be written: look at the server's disk")
	}
	return nil
}

// recent compares a version like 7.0.15 with the oldest that works.
func recent(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(minor)
	return err == nil && (a > oldest[0] || (a == oldest[0] && b >= oldest[1]))
}
