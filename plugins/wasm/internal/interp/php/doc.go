// Package php runs PHP programs in the WebAssembly build of php-cgi.
//
// Each run is a new instance that starts from nothing, which takes some 10 ms.
// The build is for web servers; it is made to behave like the command line:
// options turn off headers and the like, the name of the interface (PHP_SAPI) is
// changed in its data, lib/prepend.php adds constants and variables, errors go to
// standard error, and what the build does instead of a long jump when a program
// dies of a fatal error is continued by calling its own shutdown.
package php
