// Package options completes structs of options whose members are optional.
package options

import (
	"fmt"
	"reflect"
)

// Default sets *p to v when it is zero.
func Default[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// NoneNegative is an error that names the first whole number among the exported fields
// of the struct options, times included, that is negative.
func NoneNegative(options any) error {
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && v.Field(i).CanInt() && v.Field(i).Int() < 0 {
			return fmt.Errorf("%s is negative; 0 stands for its default", f.Name)
		}
	}
	return nil
}
