package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPlansRunInTheFullImage carries the plans out where every toolchain is: it
// sends this program into a container of the image and has it run TestPlansRun, as
// a user that the image does not know, without capabilities and without a network.
func TestPlansRunInTheFullImage(t *testing.T) {
	image := os.Getenv("CAISSON_TEST_DOCKER_FULL_IMAGE")
	if image == "" {
		t.Skip("CAISSON_TEST_DOCKER_FULL_IMAGE is not set: make test-full runs this")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	cmd := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--interactive", "--init", "--pull", "never",
		"--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "20001:1000", image,
		"sh", "-c", "cat >/tmp/languages.test && chmod +x /tmp/languages.test && cd /tmp && exec ./languages.test -test.v -test.run '^TestPlansRun$'")
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+os.Getenv("CAISSON_TEST_DOCKER_HOST"))
	cmd.Stdin = program
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, l := range table().Languages {
		if !bytes.Contains(out, []byte("--- PASS: TestPlansRun/"+l.ID+"_by_")) {
			t.Errorf("no toolchain of the image runs %s", l.ID)
		}
	}
	t.Log(strings.TrimSpace(string(out)))
}
