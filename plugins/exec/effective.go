package exec

// Options returns the options in force, defaults filled in.
func (i *Interpreter) Options() Options { return i.o }
