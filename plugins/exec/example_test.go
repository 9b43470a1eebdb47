package exec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/caisson-run/caisson/plugins/exec"
)

// functions is a subsystem of the embedding program: customers store code, and
// others invoke it. It has its own routes, its own tenants and its own price, and
// composes the interpreter for the rest.
type functions struct {
	interpreter *exec.Interpreter
	stored      map[string]string
	charge      func(org string) // an invocation costs what functions say it costs
}

func (f *functions) invoke(ctx context.Context, org, name string, input any) (string, error) {
	arg, err := json.Marshal(input)
	if err != nil {
		return "", err
	}
	res, err := f.interpreter.Run(ctx, org, &exec.CodeRun{
		Lang: "bash", Code: f.stored[name], Args: []string{string(arg)}, Timeout: 5000,
	})
	if err != nil {
		return "", fmt.Errorf("invoke %s: %w", name, err) // it never ran: nothing to charge
	}
	f.charge(org)
	// An invocation is over when it answers: its session is not left to its clocks,
	// not even when the caller is gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := f.interpreter.End(ctx, org, res.SessionID); err != nil {
		return "", fmt.Errorf("invoke %s: %w", name, err)
	}
	if res.Code == nil || *res.Code != 0 {
		return "", fmt.Errorf("invoke %s: the function failed: %s", name, res.Stderr)
	}
	return res.Stdout, nil
}

func ExampleInterpreter_Run() {
	interpreter, live, done := exec.OpenForExample() // exec.New(host, exec.Options{}) in a program
	defer done()

	f := &functions{
		interpreter: interpreter,
		stored:      map[string]string{"greet": `echo "hello, $1"; echo scratch > file`},
		charge:      func(org string) { fmt.Println("charged", org, "for one invocation") },
	}
	out, err := f.invoke(context.Background(), "acme", "greet", map[string]string{"name": "ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(out)
	fmt.Println("sandboxes left:", live())
	// Output:
	// charged acme for one invocation
	// hello, {"name":"ada"}
	// sandboxes left: 0
}
