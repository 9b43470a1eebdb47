// Command embed is a platform that has a code interpreter: all it takes.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/admission"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/plugins/exec"
)

func main() {
	ctx := context.Background()
	mux := http.NewServeMux()                                                                // the platform's router
	door := must(admission.New(admission.Config{Keys: admission.KeysFromEnv(os.LookupEnv)})) // and its admission
	h := must(host.Open(ctx, host.Options{
		Platform:   host.Platform{Router: mux, Admission: door, Billing: host.Free},
		Config:     host.Config{Backends: []host.BackendConfig{{Plugin: "wasm"}}, Languages: []string{"languages"}},
		PluginDirs: []string{os.Getenv("PLUGINS")}, DataDir: os.Getenv("DATA"),
		Keys: must(identity.NewKeys([]byte(os.Getenv("CAISSON_SECRET")))),
	}))
	defer h.Close(ctx)
	interpreter := must(exec.New(h, exec.Options{}))
	must(0, h.Mount(ctx, interpreter.Entry()))
	log.Println(http.ListenAndServe(os.Getenv("ADDR"), mux))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
