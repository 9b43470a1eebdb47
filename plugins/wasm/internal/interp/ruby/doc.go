// Package ruby runs Ruby programs in the WebAssembly build of CRuby that
// https://github.com/ruby/ruby.wasm makes for WASI, with its standard library
// inside.
//
// The build is a reactor: a host initialises it and evaluates text in it. It is
// booted once, with lib/runner.rb loaded, and runs start from an image of that. The
// runner does what the command line does; the build's own command line is only used
// for the boot.
//
// The build switches stacks by unwinding them (Asyncify), also for Ruby's
// exceptions, and drives that in its exports. Calling anything else than those would
// break at the first exception.
package ruby
