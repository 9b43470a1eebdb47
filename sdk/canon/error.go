package canon

// At says where err occurred: its text is "where: err", and it unwraps to err. It
// is what fmt.Errorf does, without package fmt, which is a third of a small module
// built with the Go toolchain.
func At(where string, err error) error { return &atError{where, err} }

type atError struct {
	where string
	err   error
}

func (e *atError) Error() string { return e.where + ": " + e.err.Error() }

func (e *atError) Unwrap() error { return e.err }
