// Package region keeps the memory that guests run in.
//
// A [Region] is address space for one linear memory. Reserving and first touching
// it is dear, up to 25 µs for each page on a virtual machine, so regions are used
// again by later guests. Nothing of a guest may survive that: before a region is
// used again, [Region.Clean] has made every byte zero except those that the image,
// with which it will be filled, overwrites. To know which pages were touched at all
// it asks the kernel; where that does not answer, all of them count.
//
// An [Image] is the memory of an interpreter that was booted once. [Region.Load]
// gives it to a region in one of two ways: by copying, or by mapping it copy-on-write,
// so that the kernel copies what the guest writes to. Which is faster depends on
// what a page fault costs, and is measured ([Measure]).
//
// The package knows nothing of instances and runs.
package region
